//! The thread that loads the next generation of a site: on SIGHUP, and when a watched source has
//! changed. Loading may take long (a folder is built), so no other thread and no other site waits
//! for it; requests that come meanwhile are served by one more load, however many they are.

use super::content_count::ContentCount;
use super::dev::load_failure::Meanwhile;
use super::reload_report::Reports;
use super::site_generation::Generation;
use super::site_loader::Loader;
use super::site_roster::{Published, SiteId};
use crate::control::protocol::Message;
use crate::failure::Failure;
use anyhow::anyhow;
use pinion_archive::Digest;
use pinion_engine::release_memory;
use pinion_engine::server::Control;
use pinion_lua::site_program::SiteProgram;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Asks for a reload, from any thread.
#[derive(Clone)]
pub(crate) struct Reloader {
    asked: SyncSender<()>,
    pending: Arc<Mutex<Pending>>,
    last_change: Arc<LastChange>,
}

/// The time of the last notice of a change, whether or not it has led to a load yet.
#[derive(Default)]
struct LastChange(Mutex<Option<Instant>>);

impl LastChange {
    fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a load that was requested and has not begun.
#[derive(Default)]
struct Pending {
    /// Whether its outcome is reported even if it is that of the load before.
    is_reported: bool,
    /// Reloads of the configuration that it is a part of.
    rounds: Vec<Arc<ReloadRound>>,
    /// The reports that get its messages.
    reports: Reports,
}

impl Pending {
    /// Counts the site as one that keeps its previous version.
    fn count_failure(&self) {
        for round in &self.rounds {
            round.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn add(&mut self, other: Self) {
        self.is_reported |= other.is_reported;
        self.rounds.extend(other.rounds);
        self.reports.add(other.reports);
    }
}

/// A reload of the configuration: once the last of its sites is loaded, one line says how many of
/// them keep their previous version.
pub(crate) struct ReloadRound {
    line: String,
    failed: AtomicU64,
    /// The reports that get the line.
    reports: Reports,
}

impl ReloadRound {
    /// Returns a reload that is reported by this line.
    pub(crate) fn new(line: String, reports: Reports) -> Arc<Self> {
        Arc::new(Self { line, failed: AtomicU64::new(0), reports })
    }

    fn report(&self) -> String {
        match self.failed.load(Ordering::Relaxed) {
            0 => self.line.clone(),
            1 => format!("{}; 1 site keeps its previous version", self.line),
            failed => format!("{}; {failed} sites keep their previous versions", self.line),
        }
    }
}

impl Drop for ReloadRound {
    fn drop(&mut self) {
        self.reports.log(&Message::info(self.report()));
    }
}

impl Reloader {
    /// Starts the thread of a site. It ends when the last handle that could ask is dropped.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(
        id: SiteId,
        loader: Loader,
        published: Arc<Published>,
        control: Control,
    ) -> io::Result<Self> {
        // The channel holds one request: a load that has not begun serves every later request too.
        let (asked, wishes) = sync_channel(1);
        let pending = Arc::new(Mutex::default());
        let last_change = Arc::new(LastChange::default());
        let served = loader.content_count();
        let device = device_of(loader.source().path());
        let site = ReloadedSite {
            id,
            loader,
            published,
            control,
            wishes,
            pending: Arc::clone(&pending),
            last_change: Arc::clone(&last_change),
            served,
            device,
            last: None,
        };
        thread::Builder::new().name("reload".to_owned()).spawn(move || site.run())?;
        Ok(Self { asked, pending, last_change })
    }

    /// Records that the site is changing: a load is asked for once that has come to an end.
    pub(crate) fn note_change(&self) {
        self.last_change.set();
    }

    /// Asks for a reload. The reports get its messages.
    pub(crate) fn ask(&self, reports: Reports) {
        self.ask_for(Pending { is_reported: true, rounds: Vec::new(), reports });
    }

    /// Asks as a part of a reload of the configuration.
    pub(crate) fn ask_in(&self, round: &Arc<ReloadRound>) {
        let (rounds, reports) = (vec![Arc::clone(round)], round.reports.clone());
        self.ask_for(Pending { is_reported: true, rounds, reports });
    }

    /// Asks for the same load once more: it is not reported unless its outcome differs.
    pub(crate) fn ask_again(&self) {
        self.ask_for(Pending::default());
    }

    fn ask_for(&self, wish: Pending) {
        lock(&self.pending).add(wish);
        match self.asked.try_send(()) {
            // Full: the load that waits will see the same state.
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => {
                let pending = std::mem::take(&mut *lock(&self.pending));
                pending.reports.log(&Message::error("reloading has ended"));
            }
        }
    }
}

fn lock(pending: &Mutex<Pending>) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time for which a site that has lost most of its paths must not change before it is served:
/// generators remove the old site before they write the new one.
const SHRUNK_WAIT: Duration = Duration::from_secs(2);

/// The longest time of this wait, for a site that never becomes stable.
const SHRUNK_WAIT_MAX: Duration = Duration::from_secs(30);

/// Paths from which on a site that has lost more than half of them counts as one that is being
/// written anew: in a smaller one a person may well delete as many.
const SHRUNK_MIN_PATHS: u64 = 8;

/// Returns whether a site with so many paths is perhaps one that is being written anew.
fn has_shrunk(paths: u64, served_paths: u64) -> bool {
    paths == 0 && served_paths > 0 || served_paths >= SHRUNK_MIN_PATHS && paths < served_paths / 2
}

fn digest_of(generation: &Generation) -> Digest {
    generation.archive().layout().digest()
}

fn path_count(generation: &Generation) -> u64 {
    generation.archive().layout().entry_count()
}

/// Returns whether a folder is empty because its file system was unmounted: it had paths, and the
/// folder that has its name now is on another device.
fn is_unmounted(paths: u64, served_paths: u64, served: Option<u64>, now: Option<u64>) -> bool {
    paths == 0 && served_paths > 0 && served.is_some() && now.is_some() && served != now
}

/// Returns the device of the file system that a path is on.
fn device_of(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|metadata| metadata.dev())
}

/// The outcome of a load.
#[derive(PartialEq, Eq)]
enum LoadOutcome {
    /// It is served, with password files of this digest.
    Served(Digest, Option<blake3::Hash>),
    /// It failed, with these messages.
    Failed(Vec<String>),
    /// The folder is empty, as its file system was unmounted.
    Unmounted,
}

/// A site on the thread that loads it.
struct ReloadedSite {
    id: SiteId,
    loader: Loader,
    published: Arc<Published>,
    control: Control,
    wishes: Receiver<()>,
    pending: Arc<Mutex<Pending>>,
    last_change: Arc<LastChange>,
    /// The size of the served content.
    served: ContentCount,
    /// The device that it was on.
    device: Option<u64>,
    /// `None` before the first reload.
    last: Option<LoadOutcome>,
}

impl ReloadedSite {
    fn run(mut self) {
        while self.wishes.recv().is_ok() {
            let mut wish = self.take_pending();
            let Some(loaded) = self.load(&mut wish) else { return };
            match loaded {
                Ok(next) => self.serve(next, &wish),
                Err(failure) => self.fail(failure, &wish),
            }
        }
    }

    fn take_pending(&self) -> Pending {
        std::mem::take(&mut *lock(&self.pending))
    }

    /// Loads the site, and again as long as it seems to be written anew; `None` when no handle is
    /// left that could ask. A site that has shrunk is returned only if two loads agree on it
    /// between which nothing has changed for [`SHRUNK_WAIT`], or if that takes too long.
    fn load(&self, wish: &mut Pending) -> Option<Result<Generation, Failure>> {
        let until = Instant::now() + SHRUNK_WAIT_MAX;
        let mut loaded = self.load_once(wish);
        while let Ok(next) = &loaded
            && has_shrunk(path_count(next), self.served.paths)
            && Instant::now() < until
        {
            let before = digest_of(next);
            match self.wait_for_wish(until) {
                Ok(()) => {
                    wish.add(self.take_pending());
                    loaded = self.load_once(wish);
                }
                Err(RecvTimeoutError::Timeout) => {
                    // Changes may come without a notice, and during a load.
                    let began = Instant::now();
                    loaded = self.load_once(&Pending::default());
                    let is_quiet = self.last_change.get().is_none_or(|last| last < began);
                    if is_quiet && loaded.as_ref().is_ok_and(|next| digest_of(next) == before) {
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        Some(loaded)
    }

    /// Waits for the next request, until nothing has changed for [`SHRUNK_WAIT`]. A burst of
    /// changes ends with a request, and may take longer than that.
    fn wait_for_wish(&self, until: Instant) -> Result<(), RecvTimeoutError> {
        let began = Instant::now();
        loop {
            let last = self.last_change.get().map_or(began, |last| last.max(began));
            let quiet = (last + SHRUNK_WAIT).min(until);
            let left = quiet.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.wishes.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                });
            }
            match self.wishes.recv_timeout(left) {
                // There may have been changes meanwhile.
                Err(RecvTimeoutError::Timeout) => {}
                heard => return heard,
            }
        }
    }

    fn load_once(&self, wish: &Pending) -> Result<Generation, Failure> {
        // A mistake of ours in one load must not be the end of all later ones.
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            if wish.is_reported { self.loader.load() } else { self.loader.load_again() }
        }));
        let loaded = loaded.unwrap_or_else(|_| Err(anyhow!("loading panicked").into()));
        release_memory::release_heap();
        loaded
    }

    /// Returns whether an outcome is reported, and remembers it.
    fn is_reported(&mut self, outcome: LoadOutcome, wish: &Pending) -> bool {
        let is_news = self.last.as_ref() != Some(&outcome);
        self.last = Some(outcome);
        is_news || wish.is_reported
    }

    fn serve(&mut self, next: Generation, wish: &Pending) {
        let content = ContentCount::of(&next.archive());
        let code = next.program().map_or(0, SiteProgram::file_count);
        let device = device_of(self.loader.source().path());
        if is_unmounted(content.paths, self.served.paths, self.device, device) {
            return self.keep_unmounted(wish);
        }
        let digest = digest_of(&next);
        let passwords = next.access().map(|rules| rules.password_digest());
        if !self.published.publish(self.id, next) {
            // The site was taken out of the configuration meanwhile.
            return;
        }
        self.control.wake_all();
        if self.is_reported(LoadOutcome::Served(digest, passwords), wish) {
            let source_path = self.loader.source().path().display();
            report_reloaded(&source_path, content, self.served, code, &wish.reports);
        }
        (self.served, self.device) = (content, device);
    }

    fn keep_unmounted(&mut self, wish: &Pending) {
        wish.count_failure();
        if self.is_reported(LoadOutcome::Unmounted, wish) {
            let source_path = self.loader.source().path().display();
            let error = format!(
                "{source_path} is empty and on another file system than before, so keeping the \
                 previous version; mount its file system again"
            );
            self.published.set_error(self.id, Some(error.clone()));
            wish.reports.log(&Message::error(error));
        }
    }

    fn fail(&mut self, failure: Failure, wish: &Pending) {
        wish.count_failure();
        let meanwhile = self.published.meanwhile(self.id);
        if let Some(shown) = self.loader.shown(&failure, meanwhile) {
            self.published.fail(self.id, shown);
            self.control.wake_all();
        }
        self.published.set_error(self.id, failure.messages().first().cloned());
        if self.is_reported(LoadOutcome::Failed(failure.messages()), wish) {
            let source_path = self.loader.source().path().display();
            wish.reports.log(&match meanwhile {
                Meanwhile::Previous => Message::error(format!(
                    "cannot reload {source_path}, keeping the previous version"
                )),
                Meanwhile::Nothing => not_served(&source_path),
            });
            report_failure(self.loader.with_site(failure), &wish.reports);
        }
    }
}

/// Returns that a site has nothing to serve, because its first load has failed.
pub(super) fn not_served(source_path: &dyn fmt::Display) -> Message {
    Message::error(format!(
        "{source_path} is not served until the error is corrected; requests of this machine get \
         the error, others status 503 (--dev)"
    ))
}

/// Logs why something could not be loaded, and adds it to all reports.
pub(super) fn report_failure(failure: Failure, reports: &Reports) {
    failure.messages().into_iter().for_each(|line| reports.add_message(&Message::error(line)));
    failure.report();
}

fn report_reloaded(
    source_path: &dyn fmt::Display,
    now: ContentCount,
    before: ContentCount,
    code: u64,
    reports: &Reports,
) {
    reports
        .log(&Message::info(format!("reloaded {source_path}: {}", now.in_words_with_code(code))));
    if has_shrunk(now.paths, before.paths) {
        reports.log(&Message::warning(format!(
            "{source_path} had {} before this reload; if that is not what you wanted, \
             bring the files back and they are served again",
            before.in_words()
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_on_another_device_that_lost_everything_is_unmounted() {
        let (one, other) = (Some(1), Some(2));
        for (paths, served_paths, served, now, expected) in [
            (0, 5, one, other, true),
            (0, 5, one, one, false),
            (1, 5, one, other, false),
            (0, 0, one, other, false),
            (0, 5, None, other, false),
            (0, 5, one, None, false),
        ] {
            let found = is_unmounted(paths, served_paths, served, now);
            assert_eq!(found, expected, "{paths} of {served_paths}, {served:?} {now:?}");
        }
    }

    #[test]
    fn a_configuration_reload_reports_the_number_of_failed_sites() {
        let round = ReloadRound::new("reloaded a.toml: 3 sites".to_owned(), Reports::default());
        let rounds = vec![Arc::clone(&round)];
        let wish = Pending { is_reported: true, rounds, ..Pending::default() };
        assert_eq!(round.report(), "reloaded a.toml: 3 sites");
        wish.count_failure();
        assert_eq!(round.report(), "reloaded a.toml: 3 sites; 1 site keeps its previous version");
        wish.count_failure();
        assert!(round.report().ends_with("; 2 sites keep their previous versions"));
    }

    #[test]
    fn a_site_has_shrunk_that_lost_everything_or_more_than_half_of_much() {
        for (paths, served_paths, expected) in
            [(0, 0, false), (0, 1, true), (1, 7, false), (3, 8, true), (4, 8, false), (9, 8, false)]
        {
            assert_eq!(has_shrunk(paths, served_paths), expected, "{paths} of {served_paths}");
        }
    }
}
