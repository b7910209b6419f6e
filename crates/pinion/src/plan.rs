//! The plan of a server, made before anything is started: its settings, and its sites as they stand
//! on the disk.

use crate::config::{self, ConfigFault};
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::served_source::{self, FoundSource, ServedSource};
use crate::settings::{Serve, SiteSettings, content_flags, php_wish, without_effect};
use pinion_spawner::start_table::ProgramStart;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

/// A server with its sites.
#[derive(Debug)]
pub(crate) struct ServerPlan {
    /// The server.
    pub(crate) serve: Serve,
    /// Its sites; none for the dummy and for a server with only a store.
    pub(crate) sites: Vec<PlannedSite>,
    /// The programs that it keeps running.
    pub(crate) programs: Vec<ProgramStart>,
    /// Programs that this process lacks the privileges for.
    pub(crate) privilege_faults: Vec<ConfigFault>,
    /// Files of programs that are missing or cannot be executed now.
    pub(crate) program_file_faults: Vec<ConfigFault>,
    /// The configuration file, from which it can be read again.
    pub(crate) config: Option<ConfigFile>,
}

/// A site, as it is to be served.
#[derive(Debug)]
pub(crate) struct PlannedSite {
    /// The source of its content.
    pub(crate) source: ServedSource,
    /// The settings with which it is served.
    pub(crate) settings: SiteSettings,
}

/// A configuration file and the flags that stand above it.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    /// The text as written.
    pub(crate) path: PathBuf,
    /// The command line.
    pub(crate) flags: Low,
}

impl ConfigFile {
    /// Returns the plan that the file and the flags now ask for.
    ///
    /// # Errors
    /// [`Failure::ConfigFaults`] with everything that is wrong, [`Failure::Usage`] for a flag that
    /// has no effect.
    pub(crate) fn plan(&self) -> Result<ServerPlan, Failure> {
        let loaded = config::load(&self.path, &self.flags);
        let Some(serve) = loaded.serve.filter(|_| loaded.faults.is_empty()) else {
            return Err(Failure::ConfigFaults(loaded.faults));
        };
        let sites: Vec<PlannedSite> = loaded.sites.into_iter().map(|site| site.planned).collect();
        let is_useless = |flag: &&str| {
            let mut sources = sites.iter().map(|site| &site.source);
            self.flags.given(flag) && !sources.any(|source| source.takes_content_flag(flag))
        };
        if let Some(flag) = content_flags().find(is_useless) {
            return Err(Failure::usage(format!(
                "--{flag} has no effect: no site of {} is a folder, which would be built with it",
                self.path.display()
            )));
        }
        check_store(&serve, &sites)?;
        let config = Some(self.clone());
        Ok(ServerPlan {
            serve,
            sites,
            programs: loaded.programs,
            privilege_faults: loaded.privilege_faults,
            program_file_faults: loaded.program_file_faults,
            config,
        })
    }
}

impl ServerPlan {
    /// Makes the plan of a command line.
    ///
    /// # Errors
    /// A fault in it, or in the configuration file it names.
    pub(crate) fn make(serve: Serve) -> Result<Self, Failure> {
        if serve.dummy.is_some() {
            refuse_without_effect(&serve.low)?;
            return Ok(Self::without_file(serve, Vec::new()));
        }
        let upstream = ServedSource::of_proxy(&serve.low).filter(|_| serve.path.is_none());
        let found = match upstream {
            Some(upstream) => Ok(FoundSource::Site(upstream)),
            None => served_source::find(serve.path.as_deref()),
        };
        let source = match found {
            Ok(FoundSource::Configuration(path)) => {
                return ConfigFile { path, flags: serve.low }.plan();
            }
            Ok(FoundSource::Site(source)) => Ok(source),
            Err(failure) => Err(failure),
        };
        refuse_without_effect(&serve.low)?;
        let source = source?;
        if serve.low.given("watch") && serve.low.given("no-watch") {
            return Err(Failure::usage("--watch and --no-watch contradict each other; give one"));
        }
        let settings = SiteSettings::from_low(&serve.low)?;
        let settings = settings.watched_on(io::stderr().is_terminal());
        let wish = php_wish(&serve.low).map(|name| format!("--{name}"));
        let settings = settings.with_php(&source, wish.as_deref())?;
        if let Some(flag) = settings.useless_content_flag(&source) {
            let why = match source {
                ServedSource::Script(_) => "a script, which has no files",
                ServedSource::Upstream(_) => "another server; add the path of a folder",
                _ => "which is built already; give it to `pinion build`",
            };
            let shown = source.path().display();
            return Err(Failure::usage(format!("--{flag} has no effect on {shown}, {why}")));
        }
        let sites = vec![PlannedSite { source, settings }];
        check_store(&serve, &sites)?;
        Ok(Self::without_file(serve, sites))
    }

    /// Makes the plan of the command line of a server with only a store.
    ///
    /// # Errors
    /// A flag has no effect.
    pub(crate) fn store_only(serve: Serve) -> Result<Self, Failure> {
        refuse_without_effect(&serve.low)?;
        Ok(Self::without_file(serve, Vec::new()))
    }

    fn without_file(serve: Serve, sites: Vec<PlannedSite>) -> Self {
        Self {
            serve,
            sites,
            programs: Vec::new(),
            privilege_faults: Vec::new(),
            program_file_faults: Vec::new(),
            config: None,
        }
    }

    /// Checks that this process has the privileges that the programs need, which only a process
    /// needs that starts them.
    ///
    /// # Errors
    /// [`Failure::ConfigFaults`] with each program that lacks one.
    pub(crate) fn check_privileges(&self) -> Result<(), Failure> {
        if self.privilege_faults.is_empty() {
            Ok(())
        } else {
            Err(Failure::ConfigFaults(self.privilege_faults.clone()))
        }
    }
}

/// Checks that there is a store for sites that have pages of it.
///
/// # Errors
/// [`Failure::Usage`]: there is none.
fn check_store(serve: &Serve, sites: &[PlannedSite]) -> Result<(), Failure> {
    let need_store = sites.iter().any(|site| site.settings.mounts.need_store());
    if need_store && !serve.store.is_there() {
        return Err(Failure::usage(
            "a site has pages of the store, and there is no store; add --store 127.0.0.1:6379, \
             or [[listen]] with store",
        ));
    }
    Ok(())
}

/// Refuses a flag that would be accepted silently and have no effect.
fn refuse_without_effect(low: &Low) -> Result<(), Failure> {
    if let Some((name, why)) = without_effect(low, |name| format!("--{name}")) {
        return Err(Failure::usage(format!("--{name} {why}")));
    }
    if low.given("log-format") && !low.given("access-log") {
        Err(Failure::usage("--log-format has no effect without --access-log; give both"))
    } else {
        Ok(())
    }
}
