//! The PHP-FPM of each site with PHP. A site has one of its own: a reload that changes its settings
//! starts another one beside it, and the old one ends when it has no requests any more.

use super::fpm_config::{FpmConfig, is_plain};
use super::limits::{
    PROCESS_MEMORY_BYTES, PROCESSES_MIN, PROCESSES_PER_CORE, SOCKET_PATH_MAX_BYTES,
    STOP_MARGIN_SECONDS, STOP_SECONDS,
};
use super::php_fpm_discovery::PhpFpm;
use super::script_read_access;
use crate::failure::Failure;
use crate::plan::PlannedSite;
use crate::server::memory_limit::MemoryLimit;
use crate::server::mounts::Mount;
use crate::server::private_folder::{PrivateFolder, write_private};
use crate::settings::{PhpSettings, default_variables};
use anyhow::{Context as _, anyhow};
use pinion_spawner::accounts::Accounts;
use pinion_spawner::start_table::{Identity, ProgramKind, ProgramStart};
use rustix::process::{Signal, geteuid};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;

/// The PHP-FPM of all sites. A copy has the same folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhpPools {
    folder: Arc<OnceLock<PrivateFolder>>,
    pools: Vec<Arc<PhpPool>>,
    /// The number of pools so far: no two have the same name.
    count: u32,
}

/// A PHP-FPM, and the mount of the site that it is for.
#[derive(Debug)]
pub(crate) struct PhpPool {
    settings: PhpSettings,
    program: PhpFpm,
    user: PhpUser,
    processes: u32,
    start: ProgramStart,
    mount: Mount,
}

/// Who runs the scripts.
#[derive(Clone, Debug)]
enum PhpUser {
    /// The user of the server, by its number.
    Own(u32),
    /// Another user, as written, and its numbers.
    Other(String, Identity),
}

impl PhpPools {
    /// Returns the PHP-FPM for these sites: the running ones if their settings are the same, and
    /// new ones. The sites get their mounts. `programs` are programs whose names are taken.
    ///
    /// # Errors
    /// There is no PHP, or it cannot run as asked.
    pub(crate) fn next(
        &self,
        sites: &mut [PlannedSite],
        programs: &[ProgramStart],
    ) -> Result<Self, Failure> {
        let mut next = Self { pools: Vec::new(), ..self.clone() };
        for site in sites {
            let Some(settings) = &site.settings.php else { continue };
            PhpUser::of(settings)?.check_access(settings).map_err(Failure::usage)?;
            // Sites with equal settings share one, so that a site that is kept at a reload keeps
            // its pool, whichever other sites are removed.
            let is_match = |pool: &&Arc<PhpPool>| pool.settings == *settings;
            if let Some(pool) = next.pools.iter().find(is_match) {
                site.settings.mount_php(pool.mount.clone())?;
                continue;
            }
            let pool = match self.pools.iter().find(is_match) {
                Some(pool) => Arc::clone(pool),
                None => Arc::new(next.pool(settings, programs)?),
            };
            site.settings.mount_php(pool.mount.clone())?;
            next.pools.push(pool);
        }
        Ok(next)
    }

    /// Returns the programs to keep running: those of `[[program]]`, these, and other PHP-FPM.
    pub(crate) fn starts_with(
        &self,
        programs: &[ProgramStart],
        others: &[Arc<PhpPool>],
    ) -> Vec<ProgramStart> {
        let starts = self.pools.iter().chain(others).map(|pool| pool.start.clone());
        programs.iter().cloned().chain(starts).collect()
    }

    /// Returns the pools that `next` lacks.
    pub(crate) fn left_out_of(&self, next: &Self) -> Vec<Arc<PhpPool>> {
        let is_left = |pool: &&Arc<PhpPool>| !next.pools.iter().any(|one| Arc::ptr_eq(one, pool));
        self.pools.iter().filter(is_left).cloned().collect()
    }

    /// Returns whether a program is one of them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pools.iter().any(|pool| pool.start.name == name)
    }

    /// Returns a line about each for the start.
    pub(crate) fn in_words(&self) -> impl Iterator<Item = String> {
        self.pools.iter().map(|pool| pool.in_words())
    }

    /// Removes all files. Nothing of it is used any more.
    pub(crate) fn remove_files(&self) {
        if let Some(folder) = self.folder.get() {
            folder.remove();
        }
    }

    /// Makes a PHP-FPM that is not started yet.
    fn pool(
        &mut self,
        settings: &PhpSettings,
        programs: &[ProgramStart],
    ) -> Result<PhpPool, Failure> {
        let user = PhpUser::of(settings)?;
        let program = PhpFpm::find(settings.program.as_deref())?;
        if self.folder.get().is_none() {
            // This thread alone makes it.
            let _made = self.folder.set(PrivateFolder::new()?);
        }
        let folder = self.folder.get().context("there is no folder for PHP")?.path();
        let name = loop {
            self.count += 1;
            let name = match self.count {
                1 => "php-fpm".to_owned(),
                number => format!("php-fpm-{number}"),
            };
            if programs.iter().all(|program| program.name != name) {
                break name;
            }
        };
        let socket = folder.join(format!("{name}.sock"));
        let shown = socket.display();
        if !socket.to_str().is_some_and(is_plain)
            || socket.as_os_str().len() > SOCKET_PATH_MAX_BYTES
        {
            return Err(anyhow!(
                "PHP cannot listen on {shown}: the path has more than {SOCKET_PATH_MAX_BYTES} \
                 bytes or unusual characters; set TMPDIR or XDG_RUNTIME_DIR to another folder"
            )
            .into());
        }
        let processes = settings.processes.unwrap_or_else(default_processes);
        let config = folder.join(format!("{name}.conf"));
        let text = FpmConfig {
            socket: &socket,
            user: user.written(),
            processes,
            upload_max_bytes: settings.upload_max_bytes,
        };
        write_private(&config, &text.text())
            .with_context(|| format!("cannot write {}", config.display()))?;
        let start = start(&name, &program, &config);
        let (settings, mount) = (settings.clone(), settings.mount(&socket)?);
        Ok(PhpPool { settings, program, user, processes, start, mount })
    }
}

/// Checks the requirements of the PHP of a site on this machine: the program, the user, and that it
/// can read the scripts. Only root learns whether PHP can run as another user.
///
/// # Errors
/// The row of the setting, and the error.
pub(crate) fn check(settings: &PhpSettings) -> Result<(), (&'static str, String)> {
    let of_user = |why: String| ("php-user", why);
    if geteuid().is_root() {
        let wrong = |failure: Failure| {
            let why = failure.reason().unwrap_or_default();
            of_user(why.strip_prefix("--php-user: ").unwrap_or(&why).to_owned())
        };
        let user = PhpUser::of(settings).map_err(wrong)?;
        user.check_access(settings).map_err(of_user)?;
    } else if let Some(name) = &settings.user {
        let identity = Accounts::read().and_then(|accounts| accounts.identity(name, None));
        let identity = identity.map_err(|error| of_user(error.to_string()))?;
        script_read_access::check(&settings.root, name, &identity).map_err(of_user)?;
    }
    let found = PhpFpm::find(settings.program.as_deref());
    found.map(drop).map_err(|error| ("php-fpm", format!("{error:#}")))
}

impl PhpPool {
    /// Returns whether requests were sent to it that have not ended.
    pub(crate) fn is_used(&self) -> bool {
        let mut servers = self.mount.upstreams().into_iter().flat_map(|group| group.servers());
        servers.any(|server| server.requests > 0)
    }

    fn in_words(&self) -> String {
        let Self { program: PhpFpm { path, version }, processes, settings, .. } = self;
        let user = match &self.user {
            PhpUser::Own(uid) => format!("the user of the server ({uid})"),
            PhpUser::Other(name, _) => name.clone(),
        };
        format!(
            "PHP {version} ({}) for {}, at most {} as {user} (memory of PHP not counted)",
            path.display(),
            settings.root.display(),
            match processes {
                1 => "1 process".to_owned(),
                processes => format!("{processes} processes"),
            },
        )
    }
}

impl PhpUser {
    fn of(settings: &PhpSettings) -> Result<Self, Failure> {
        let own = geteuid();
        let Some(name) = &settings.user else {
            if own.is_root() {
                return Err(Failure::usage(format!(
                    "PHP does not run as root: name the user that runs the scripts of {}, such as \
                     --php-user www-data (in a file php-user = \"www-data\")",
                    settings.root.display()
                )));
            }
            return Ok(Self::Own(own.as_raw()));
        };
        let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("--php-user: {why}"));
        let accounts = Accounts::read().map_err(|error| wrong(&error))?;
        let identity = accounts.identity(name, None).map_err(|error| wrong(&error))?;
        if identity.uid == 0 {
            return Err(wrong(&"PHP does not run as root; name another user"));
        }
        if identity.uid == own.as_raw() {
            return Ok(Self::Own(identity.uid));
        }
        if !own.is_root() {
            return Err(wrong(&format_args!(
                "only root can run PHP as {name}; leave it out, and PHP runs as the user of the \
                 server ({})",
                own.as_raw()
            )));
        }
        if !is_plain(name) {
            return Err(wrong(&format_args!("{name:?} has unusual characters; give its number")));
        }
        Ok(Self::Other(name.clone(), identity))
    }

    /// Checks that the user can read the scripts.
    ///
    /// # Errors
    /// The folder or file that it cannot enter or read, and the advice.
    fn check_access(&self, settings: &PhpSettings) -> Result<(), String> {
        match self {
            // The server reads the folder as the same user.
            Self::Own(_) => Ok(()),
            Self::Other(name, identity) => {
                script_read_access::check(&settings.root, name, identity)
            }
        }
    }

    /// Returns its settings in the configuration.
    fn written(&self) -> Option<(&str, u32)> {
        match self {
            Self::Own(_) => None,
            Self::Other(name, identity) => Some((name, identity.gid)),
        }
    }
}

fn start(name: &str, program: &PhpFpm, config: &Path) -> ProgramStart {
    let mut arguments: Vec<OsString> = ["-F", "-O", "-y"].map(OsString::from).into();
    arguments.push(config.into());
    ProgramStart {
        kind: ProgramKind::Supervised,
        arguments,
        environment: default_variables(false),
        // Requests in flight end first.
        stop_signal: Signal::QUIT,
        grace_ms: (STOP_SECONDS + STOP_MARGIN_SECONDS) * 1000,
        ..ProgramStart::new(name, &program.path)
    }
}

/// Returns how many processes there are by default.
fn default_processes() -> u32 {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let memory_bytes = MemoryLimit::of_process().bytes;
    let processes = (cores * PROCESSES_PER_CORE).min(memory_bytes / PROCESS_MEMORY_BYTES);
    processes.max(PROCESSES_MIN) as u32
}
