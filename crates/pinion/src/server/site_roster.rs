//! The sites that workers serve: the current generation of every site, and the site of each host.
//!
//! Sites change one by one. Each change makes another [`Roster`], in which every other site has the
//! generation it had.

use super::dev::load_failure::{LoadFailure, Meanwhile};
use super::mounts::Mount;
use super::site_generation::Generation;
use crate::control::status;
use crate::json_failure_document;
use crate::served_source::ServedSource;
use crate::settings::{BuildSettings, NamedSources};
use pinion_lua::site_program::SiteProgram;
use pinion_site::host_selection::{HostPattern, Hosts};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The id of a site, unique for as long as the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteId(pub(crate) u64);

/// The sites that are served at one time.
pub(crate) struct Roster {
    /// The hosts, by the position of a site.
    pub(crate) hosts: Arc<Hosts>,
    /// The sites, in the order of the configuration.
    pub(crate) sites: Vec<(SiteId, Arc<Generation>)>,
}

/// The current roster, and a number that workers compare.
pub(crate) struct Published {
    /// Counts publications; a worker compares it with the number it has, once a pass.
    number: AtomicU64,
    current: Mutex<Arc<Roster>>,
    /// The status of the sites, in the same order.
    about: Mutex<Vec<AboutSite>>,
    /// Held by the worker that takes it up.
    turn: Mutex<()>,
}

/// A site of a new roster.
pub(crate) struct PublishedEntry<'p> {
    /// Its name.
    pub(crate) id: SiteId,
    /// Its hosts.
    pub(crate) hosts: &'p [HostPattern],
    /// The source of its content.
    pub(crate) source: &'p ServedSource,
    /// How a folder becomes an archive.
    pub(crate) content: &'p BuildSettings,
    /// Whether changes are served without being asked for.
    pub(crate) is_live: bool,
    /// Its first generation; none for a site that stays as it is.
    pub(crate) first: Option<Generation>,
}

/// A site as it is served at one time, for explanations.
pub(crate) struct ServedSite {
    /// The generation that is served.
    pub(crate) generation: Arc<Generation>,
    /// Its hosts.
    pub(crate) hosts: Vec<HostPattern>,
    /// The source of its content.
    pub(crate) source: ServedSource,
    /// The sources of its responses that flags name.
    pub(crate) named: NamedSources,
}

/// The status of a site.
#[derive(Clone, Debug)]
struct AboutSite {
    id: SiteId,
    hosts: Vec<HostPattern>,
    source: ServedSource,
    named: NamedSources,
    is_live: bool,
    /// The number of versions it has had.
    generation: u64,
    /// The reason why the last reload failed.
    error: Option<String>,
}

impl AboutSite {
    fn new(entry: &PublishedEntry<'_>) -> Self {
        Self {
            id: entry.id,
            hosts: entry.hosts.to_vec(),
            source: entry.source.clone(),
            named: entry.content.named_sources(),
            is_live: entry.is_live,
            generation: 1,
            error: None,
        }
    }
}

impl Published {
    /// Publishes the first roster.
    pub(crate) fn new(entries: Vec<PublishedEntry<'_>>) -> Self {
        let about = Mutex::new(entries.iter().map(AboutSite::new).collect());
        let nothing = Roster { hosts: Arc::new(Hosts::new([])), sites: Vec::new() };
        let current = Mutex::new(Arc::new(nothing.followed_by(entries)));
        Self { number: AtomicU64::new(1), current, about, turn: Mutex::new(()) }
    }

    /// Returns the number of the current roster; never 0.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Returns the current roster with its number.
    pub(crate) fn current(&self) -> (u64, Arc<Roster>) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // The number changes under the lock, so the two belong together.
        (self.number(), Arc::clone(&current))
    }

    /// Lets one worker after the other load the published roster, so that the others continue while
    /// scripts start in one; returns `None` while another worker has the turn.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Publishes another generation of a site; returns false when there is no such site any more.
    /// Workers have to be woken afterwards, as for every change.
    pub(crate) fn publish(&self, id: SiteId, next: Generation) -> bool {
        let mut next = Some(Arc::new(next));
        self.change(|roster| {
            let sites = roster.sites.iter().map(|(known, generation)| {
                let is_match = *known == id;
                let taken = next.take_if(|_| is_match);
                (*known, taken.unwrap_or_else(|| Arc::clone(generation)))
            });
            Roster { hosts: Arc::clone(&roster.hosts), sites: sites.collect() }
        });
        self.change_about(id, |about| {
            about.generation += 1;
            about.error = None;
        });
        next.is_none()
    }

    /// Takes note of why the last reload of a site failed.
    pub(crate) fn set_error(&self, id: SiteId, error: Option<String>) {
        self.change_about(id, |about| about.error = error);
    }

    fn change_about(&self, id: SiteId, change: impl FnOnce(&mut AboutSite)) {
        if let Some(about) = lock(&self.about).iter_mut().find(|about| about.id == id) {
            change(about);
        }
    }

    /// Returns the status of the sites.
    pub(crate) fn status(&self) -> Vec<status::SiteStatus> {
        let (_, roster) = self.current();
        let about = lock(&self.about).clone();
        let site = |about: AboutSite| {
            let (_, generation) = roster.sites.iter().find(|(id, _)| *id == about.id)?;
            let archive = generation.archive();
            Some(status::SiteStatus {
                hosts: about.hosts.iter().map(HostPattern::to_string).collect(),
                source: json_failure_document::text(about.source.path()),
                live: about.is_live,
                digest: archive.layout().digest().to_string(),
                generation: about.generation,
                paths: archive.layout().entry_count(),
                code_files: generation.program().map_or(0, SiteProgram::file_count),
                error: about.error,
                upstreams: generation.mounts().all().flat_map(Mount::status).collect(),
            })
        };
        about.into_iter().filter_map(site).collect()
    }

    /// Records that the next generation of a site could not be loaded, so that workers notify pages
    /// of its developer. They have to be woken afterwards.
    pub(crate) fn fail(&self, id: SiteId, failure: LoadFailure) {
        self.change(|roster| {
            let site = roster.sites.iter().find(|(known, _)| *known == id);
            if let Some((_, generation)) = site {
                generation.fail(failure);
            }
            Roster { hosts: Arc::clone(&roster.hosts), sites: roster.sites.clone() }
        });
    }

    /// Returns the version that a site serves while its next generation cannot be loaded.
    pub(crate) fn meanwhile(&self, id: SiteId) -> Meanwhile {
        let (_, roster) = self.current();
        let site = roster.sites.iter().find(|(known, _)| *known == id);
        if site.is_some_and(|(_, generation)| generation.has_no_content()) {
            Meanwhile::Nothing
        } else {
            Meanwhile::Previous
        }
    }

    /// Makes these the sites.
    pub(crate) fn arrange(&self, entries: Vec<PublishedEntry<'_>>) {
        let mut about = lock(&self.about);
        let next = entries.iter().map(|entry| {
            let known = about.iter().find(|known| known.id == entry.id);
            let AboutSite { generation, error, .. } =
                known.cloned().unwrap_or(AboutSite::new(entry));
            AboutSite { generation, error, ..AboutSite::new(entry) }
        });
        *about = next.collect();
        // The lock is held, so that its holder always finds every site of the current roster.
        self.change(|roster| roster.followed_by(entries));
    }

    /// Returns the site that responds for a host, as it is served now.
    pub(crate) fn select(&self, authority: Option<&[u8]>) -> Option<ServedSite> {
        let about = lock(&self.about);
        let (_, roster) = self.current();
        let (id, generation) = roster.sites.get(roster.hosts.select(authority)?)?;
        let about = about.iter().find(|about| about.id == *id)?;
        Some(ServedSite {
            generation: Arc::clone(generation),
            hosts: about.hosts.clone(),
            source: about.source.clone(),
            named: about.named.clone(),
        })
    }

    fn change(&self, next: impl FnOnce(&Roster) -> Roster) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(next(&current));
        self.number.fetch_add(1, Ordering::Release);
    }
}

fn lock(about: &Mutex<Vec<AboutSite>>) -> MutexGuard<'_, Vec<AboutSite>> {
    about.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Roster {
    fn followed_by(&self, entries: Vec<PublishedEntry<'_>>) -> Self {
        let hosts = Hosts::new(entries.iter().map(|entry| entry.hosts));
        let generation = |entry: PublishedEntry<'_>| {
            let known = || {
                let site = self.sites.iter().find(|(id, _)| *id == entry.id);
                site.map(|(_, generation)| Arc::clone(generation))
            };
            let generation = entry.first.map(Arc::new).or_else(known);
            (entry.id, generation.expect("a site that goes on has been there"))
        };
        Self { hosts: Arc::new(hosts), sites: entries.into_iter().map(generation).collect() }
    }

    /// Returns the site that has every host no other one names, or else no site in particular.
    pub(crate) fn rest(&self) -> Option<&Generation> {
        self.sites.get(self.hosts.rest()?).map(|(_, generation)| &**generation)
    }
}
