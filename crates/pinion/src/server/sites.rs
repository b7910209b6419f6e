//! The sites of a running server, beside the workers: each is loaded, watched and swapped on its
//! own. A new configuration removes sites, adds others, and leaves the rest alone.

use super::mounts::{Mount, Mounts};
use super::program_table::ProgramTable;
use super::reload_report::Reports;
use super::site_generation::Generation;
use super::site_loader::Loader;
use super::site_reload::{ReloadRound, Reloader, not_served, report_failure};
use super::site_roster::{Published, PublishedEntry, SiteId};
use super::watch::{Cause, PreparedWatch, Watching};
use crate::access_log::OpenLogs;
use crate::failure::Failure;
use crate::plan::PlannedSite;
use crate::served_source::ServedSource;
use crate::settings::{LogTarget, SiteSettings};
use crate::terminal::counted;
use crate::warnings_and_notes;
use anyhow::Context as _;
use pinion_engine::release_memory;
use pinion_engine::server::Control;
use pinion_lua::site_program::SiteProgram;
use pinion_site::host_selection::HostPattern;
use std::path::Path;
use std::sync::Arc;

/// A site that is loaded and not served yet.
pub(crate) struct LoadedSite {
    /// The generation of the first load.
    pub(crate) first: Generation,
    settings: SiteSettings,
    /// The loader for every further one.
    loader: Loader,
    /// Asks for further ones, when that was asked for.
    watch: Option<PreparedWatch>,
}

impl LoadedSite {
    /// Returns its path, how much is in it, and whether changes are served.
    pub(crate) fn in_words(&self) -> String {
        let source = self.loader.source();
        let shown = source.path().display();
        let state = if self.watch.is_some() { "live" } else { "snapshot until SIGHUP" };
        match source {
            ServedSource::Script(_) => format!("{shown} ({state})"),
            // The path is the name of the target that responds.
            ServedSource::Upstream(name) if self.settings.mounts.has_python(name) => {
                format!("{shown} (Python application)")
            }
            ServedSource::Upstream(_) if self.settings.mounts.all().all(Mount::is_of_store) => {
                "pages of the store".to_owned()
            }
            ServedSource::Upstream(_) => format!("{shown} (reverse proxy)"),
            // The archive has no file then.
            _ if self.settings.content.live.iter().any(String::is_empty) => {
                format!("{shown} (files are read for each request)")
            }
            _ => {
                let code = self.first.program().map_or(0, SiteProgram::file_count);
                let content = self.loader.content_count().in_words_with_code(code);
                format!("{shown} ({content}, {state})")
            }
        }
    }

    /// Returns the hosts that it responds to; empty for every host that no other site names.
    pub(crate) fn hosts(&self) -> &[HostPattern] {
        &self.settings.hosts
    }
}

/// A site that is known and not loaded yet.
pub(crate) struct UnloadedSite {
    settings: SiteSettings,
    loader: Loader,
    watch: Option<PreparedWatch>,
}

impl UnloadedSite {
    /// Prepares a site of a plan.
    ///
    /// # Errors
    /// An exclusion pattern is not valid.
    pub(crate) fn new(planned: PlannedSite, programs: &ProgramTable) -> Result<Self, Failure> {
        let PlannedSite { source, settings } = planned;
        warn_of_risks(&source, &settings);
        let password_files = settings.access.password_files();
        let has_files = !matches!(source, ServedSource::Upstream(_)) || !password_files.is_empty();
        let watched = has_files && (settings.watch || source.is_watched());
        let watch =
            watched.then(|| PreparedWatch::new(&source, &settings.content, &password_files));
        let watch = watch.transpose()?;
        let loader = Loader::new(
            source,
            &settings,
            programs.clone(),
            watch.as_ref().map(PreparedWatch::walk_teller),
        );
        Ok(Self { settings, loader, watch })
    }

    /// Returns where its content comes from.
    pub(crate) fn source(&self) -> &ServedSource {
        self.loader.source()
    }

    /// Returns the log of its own, if it has one.
    pub(crate) fn access_log(&self) -> Option<&LogTarget> {
        self.settings.access_log.as_ref().map(|(target, _)| target)
    }

    /// Returns the paths that other servers and scripts respond to.
    pub(crate) fn mounts(&self) -> &Mounts {
        &self.settings.mounts
    }

    /// Opens its log and loads it.
    ///
    /// # Errors
    /// One line that names the error; for a folder each problem.
    pub(crate) fn load(self, logs: &OpenLogs) -> Result<LoadedSite, Failure> {
        let Self { settings, loader, watch } = self;
        let log = settings.access_log.as_ref().map(|(target, format)| {
            let shown = loader.source().path().display();
            let opened = logs.open(target, *format);
            opened.with_context(|| format!("cannot open {target}, the access log of {shown}"))
        });
        let loader = loader.logging(log.transpose()?);
        let first = match loader.load() {
            Ok(first) => first,
            // Without a watch nothing would follow it.
            Err(failure) => match loader.load_failed(&failure)?.filter(|_| watch.is_some()) {
                Some(first) => {
                    report_failed_start(&loader, failure);
                    first
                }
                None => return Err(loader.with_site(failure)),
            },
        };
        Ok(LoadedSite { first, settings, loader, watch })
    }
}

/// Prints why a site begins without content.
fn report_failed_start(loader: &Loader, failure: Failure) {
    failure.report();
    not_served(&loader.source().path().display()).log();
}

/// Reports risks that an operator should not have to discover: a setting of the site that must not
/// be open to the public.
fn warn_of_risks(source: &ServedSource, settings: &SiteSettings) {
    let shown = source.path().display();
    if settings.lua.shows_errors {
        warnings_and_notes::warning(format_args!(
            "{shown} is served with --dev: browsers on this machine, at localhost or an address of \
             it, see errors with lines of the source"
        ));
    }
    if settings.lua.allowance.is_unsafe {
        warnings_and_notes::warning(format_args!(
            "{shown} is served with --lua-unsafe: its scripts can do all that this process can"
        ));
    }
}

/// Sites whose first generations are published, without their threads.
pub(crate) struct StartingSites(Vec<Starting>);

/// Publishes sites that are loaded, for workers that are about to start.
pub(crate) fn publish(sites: Vec<LoadedSite>) -> (Arc<Published>, StartingSites) {
    let (mut starting, mut firsts) = (Vec::new(), Vec::new());
    for (site, number) in sites.into_iter().zip(0..) {
        let (site, first) = site.named(SiteId(number));
        starting.push(site);
        firsts.push(first);
    }
    let entries = starting.iter().zip(firsts).map(|(site, first)| PublishedEntry {
        id: site.id,
        hosts: &site.settings.hosts,
        source: site.loader.source(),
        content: &site.settings.content,
        is_live: site.watch.is_some(),
        first: Some(first),
    });
    (Arc::new(Published::new(entries.collect())), StartingSites(starting))
}

/// A loaded site but for its generation.
struct Starting {
    id: SiteId,
    settings: SiteSettings,
    loader: Loader,
    watch: Option<PreparedWatch>,
}

/// The sites that are served.
pub(crate) struct Sites {
    published: Arc<Published>,
    logs: Arc<OpenLogs>,
    programs: ProgramTable,
    control: Control,
    /// The sites, in the order of the roster.
    sites: Vec<ActiveSite>,
    /// The number of the next one.
    next: u64,
}

/// One that is served.
struct ActiveSite {
    id: SiteId,
    source: ServedSource,
    settings: SiteSettings,
    /// Whether changes are served without being asked for.
    is_live: bool,
    reloader: Reloader,
    /// Dropped with the site, which ends the watch.
    watching: Option<Watching>,
}

/// A site of a new configuration: kept or new.
enum Next {
    /// It is served already, at this position.
    Kept(usize, Box<SiteSettings>),
    /// It is loaded and not served yet.
    New(Box<(ActiveSite, Generation, Option<PreparedWatch>)>),
}

impl Sites {
    /// Starts the threads of the sites beside the workers.
    ///
    /// # Errors
    /// There is no thread, or no watch.
    pub(crate) fn start(
        starting: StartingSites,
        published: Arc<Published>,
        logs: Arc<OpenLogs>,
        programs: ProgramTable,
        control: Control,
    ) -> Result<Self, Failure> {
        let next = starting.0.len() as u64;
        let mut this = Self { published, logs, programs, control, sites: Vec::new(), next };
        for site in starting.0 {
            let (mut site, watch) = this.started(site)?;
            site.watch(watch)?;
            this.sites.push(site);
        }
        Ok(this)
    }

    /// Returns the published sites, now and later.
    pub(crate) fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Asks every site to load again. The reports get the messages.
    pub(crate) fn reload(&self, reports: &Reports) {
        self.sites.iter().for_each(|site| site.reloader.ask(reports.clone()));
    }

    /// Makes these the sites: all of them, or nothing changes. One that is served already just as
    /// it is to be loads again in its own time; every other one is loaded before it is served.
    /// `file` is the configuration that names them.
    ///
    /// # Errors
    /// The error of the first site that cannot be loaded.
    pub(crate) fn arrange(
        &mut self,
        planned: Vec<PlannedSite>,
        file: &Path,
        reports: &Reports,
    ) -> Result<(), Failure> {
        let mut is_free = vec![true; self.sites.len()];
        let mut arranged = Vec::new();
        for site in planned {
            let is_match = |known: &ActiveSite| {
                known.source == site.source && known.settings.loads_like(&site.settings)
            };
            let mut known = self.sites.iter().zip(&mut is_free);
            let kept = known
                .position(|(known, is_free)| is_match(known) && std::mem::replace(is_free, false));
            arranged.push(match kept {
                Some(at) => Next::Kept(at, site.settings.into()),
                None => {
                    let loaded = UnloadedSite::new(site, &self.programs)?.load(&self.logs);
                    release_memory::release_heap();
                    let loaded = loaded?;
                    let (starting, first) = loaded.named(SiteId(self.next));
                    self.next += 1;
                    let (site, watch) = self.started(starting)?;
                    Next::New(Box::new((site, first, watch)))
                }
            });
        }
        self.switch(arranged, file, reports);
        Ok(())
    }

    /// Switches to the arranged sites. Nothing can fail any more but a watch.
    fn switch(&mut self, arranged: Vec<Next>, file: &Path, reports: &Reports) {
        let mut old: Vec<Option<ActiveSite>> = self.sites.drain(..).map(Some).collect();
        let (mut firsts, mut watches) = (Vec::new(), Vec::new());
        for next in arranged {
            let (site, first, watch) = match next {
                Next::Kept(at, settings) => {
                    let Some(mut site) = old.get_mut(at).and_then(Option::take) else { continue };
                    site.settings = *settings;
                    (site, None, None)
                }
                Next::New(new) => {
                    let (site, first, watch) = *new;
                    (site, Some(first), watch)
                }
            };
            self.sites.push(site);
            firsts.push(first);
            watches.push(watch);
        }
        let gone = old.iter().flatten().count();
        let kept: Vec<bool> = firsts.iter().map(Option::is_none).collect();
        let brought = kept.iter().filter(|is_kept| !**is_kept).count();
        let entries = self.sites.iter().zip(firsts).map(|(site, first)| PublishedEntry {
            id: site.id,
            hosts: &site.settings.hosts,
            source: &site.source,
            content: &site.settings.content,
            is_live: site.is_live,
            first,
        });
        self.published.arrange(entries.collect());
        self.control.wake_all();
        let sites = counted(self.sites.len() as u64, "site");
        let file = file.display();
        let line = match self.sites.len() + gone {
            0 => format!("reloaded {file}"),
            _ => format!("reloaded {file}: {sites}, {brought} new, {gone} removed"),
        };
        let round = ReloadRound::new(line, reports.clone());
        for ((site, watch), is_kept) in self.sites.iter_mut().zip(watches).zip(kept) {
            if is_kept {
                site.reloader.ask_in(&round);
            } else if let Err(failure) = site.watch(watch) {
                report_failure(failure, reports);
            }
        }
    }

    /// Starts the thread of a site.
    fn started(&self, site: Starting) -> Result<(ActiveSite, Option<PreparedWatch>), Failure> {
        let Starting { id, settings, loader, watch } = site;
        let source = loader.source().clone();
        let (published, control) = (Arc::clone(&self.published), self.control.clone());
        let reloader = Reloader::start(id, loader, published, control);
        let reloader = reloader.context("cannot start the thread for reloads")?;
        let is_live = watch.is_some();
        Ok((ActiveSite { id, source, settings, is_live, reloader, watching: None }, watch))
    }
}

impl LoadedSite {
    fn named(self, id: SiteId) -> (Starting, Generation) {
        let Self { first, settings, loader, watch } = self;
        (Starting { id, settings, loader, watch }, first)
    }
}

impl ActiveSite {
    /// Starts its watch. The site must be served already, so that no change that the watch sees is
    /// lost.
    fn watch(&mut self, watch: Option<PreparedWatch>) -> Result<(), Failure> {
        let Some(watch) = watch else { return Ok(()) };
        let ask = self.reloader.clone();
        let started = watch.start(move |cause| match cause {
            Cause::Changing => ask.note_change(),
            Cause::Change => ask.ask(Reports::default()),
            Cause::MoreWatched => ask.ask_again(),
        });
        let shown = self.source.path().display();
        self.watching = Some(started.with_context(|| format!("cannot watch {shown}"))?);
        Ok(())
    }
}
