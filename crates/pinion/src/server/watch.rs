//! Waits for changes of the served source and calls back: a folder when anything of it changes,
//! also at the targets of its links, an archive when another file takes its name.
//!
//! The kernel's notices only say that it is time to look. Changes come in bursts (an editor saves
//! by three renames, a deployment copies thousands of files), so a call waits until it has been
//! quiet for a moment. Notices can also be missed: the folder itself is replaced, a link on the way
//! to it is switched, a network disk sends none. Therefore the watched path is looked at every two
//! seconds as well, and watched anew when it leads somewhere else.
//!
//! Password files are looked at as well: they belong to the site, wherever they are.
//!
//! Each build reports the links that it has met, and they are watched from then on
//! ([`watched_tree`]). Notices about files that a build leaves out are dropped: a log that is
//! written into the folder must not have it built for every request.

mod kernel_watcher;
mod path_presence;
mod watch_target;
mod watched_tree;

use super::path_state::{Look, look};
use crate::failure::Failure;
use crate::served_source::ServedSource;
use crate::settings::BuildSettings;
use crate::warnings_and_notes;
use kernel_watcher::KernelWatcher;
use notify::{EventKind, RecursiveMode};
use path_presence::{Presence, WatchedKind};
use pinion_builder::{Progress, WalkedSite};
use std::collections::BTreeMap;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};
use watch_target::{WatchTarget, WatchedPasswordFile};

/// Quiet for this long means the burst is over: generators of sites pause for less between two
/// files.
const QUIET: Duration = Duration::from_millis(300);

/// A burst that never ends is interrupted by a call this often: a generator that writes a large
/// site takes some seconds, and a program that writes without end must not hold up every reload.
const BURST_MAX: Duration = Duration::from_secs(10);

/// How often the path is looked at without any notice.
const LOOK: Duration = Duration::from_secs(2);

/// The event that a watch reports of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A notice of a change has come, and more may follow: nothing is to be loaded yet. Comes for
    /// each notice of a burst.
    Changing,
    /// Something of it has changed, and it is to be loaded.
    Change,
    /// Its last build has met links that were not watched: their targets may have changed before
    /// they were, so the site is to be loaded.
    MoreWatched,
}

/// A watch that runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watching(Sender<Notice>);

impl Drop for Watching {
    fn drop(&mut self) {
        // When the receiver is gone, the watch has ended already.
        let _ended = self.0.send(Notice::End);
    }
}

/// A watch that has not begun.
pub(crate) struct PreparedWatch {
    target: WatchTarget,
    site: Option<Presence>,
    password_files: Vec<Presence>,
    sender: Sender<Notice>,
    inbox: Receiver<Notice>,
}

/// Passes the paths that the walk of a build has met to a watch.
#[derive(Clone, Debug)]
pub(crate) struct WalkTeller(Sender<Notice>);

impl Progress for WalkTeller {
    fn walked(&self, walked: WalkedSite) {
        // The receiver is gone when the program ends.
        let _ended = self.0.send(Notice::Walked(walked));
    }
}

impl PreparedWatch {
    /// Prepares the watch of a source that is built in this way, and the password files of its
    /// site.
    ///
    /// # Errors
    /// An exclusion pattern is not valid.
    pub(crate) fn new(
        source: &ServedSource,
        content: &BuildSettings,
        password_files: &[&Path],
    ) -> Result<Self, Failure> {
        let (sender, inbox) = mpsc::channel();
        let target = WatchTarget::new(source, content, password_files)?;
        let site = !matches!(source, ServedSource::Upstream(_));
        let site = site.then(|| Presence::new(WatchedKind::Site, target.path()));
        let of_file = |path: &&Path| Presence::new(WatchedKind::PasswordFile, path);
        let password_files = password_files.iter().map(of_file).collect();
        Ok(Self { target, site, password_files, sender, inbox })
    }

    /// Returns the channel for every build of the source, before the start too.
    pub(crate) fn walk_teller(&self) -> WalkTeller {
        WalkTeller(self.sender.clone())
    }

    /// Starts watching on a thread of its own.
    ///
    /// # Errors
    /// The system's limit on watches is reached, or there is no thread.
    pub(crate) fn start(
        self,
        on_change: impl FnMut(Cause) + Send + 'static,
    ) -> anyhow::Result<Watching> {
        let Self { target, site, password_files, sender, inbox } = self;
        let watching = Watching(sender.clone());
        let on_event = move |event: notify::Result<notify::Event>| {
            if let Some(notice) = Notice::of(event) {
                // The receiver is gone when the program ends.
                let _ended = sender.send(notice);
            }
        };
        // Links are followed by the scope, which knows the paths of their targets in the site.
        let watcher = KernelWatcher::start(on_event)?;
        let mut running = Running {
            seen: look(target.path()),
            target,
            watcher,
            inbox,
            on_change: Box::new(on_change),
            armed: BTreeMap::new(),
            stale: false,
            ended: false,
            has_changed: false,
            site,
            password_files,
        };
        // Nothing is watched yet, so these are the links of the first build.
        while let Ok(Notice::Walked(walked)) = running.inbox.try_recv() {
            running.target.take_walked(walked);
        }
        running.arm()?;
        let shown = running.target.path().display().to_string();
        let watch = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| running.run()));
            if ended.is_err() {
                warnings_and_notes::warning(format_args!(
                    "{shown} is not watched any more; SIGHUP reloads it"
                ));
            }
        };
        thread::Builder::new().name("watch".to_owned()).spawn(watch)?;
        Ok(watching)
    }
}

/// A message to a watch.
enum Notice {
    /// Something happened there.
    Change(Vec<PathBuf>),
    /// Something has changed at an unknown path.
    Lost,
    /// The walk of a build has met this.
    Walked(WalkedSite),
    /// The watch is to end.
    End,
}

impl Notice {
    /// Returns the notice of an event; `None` for an event that changes nothing: reading a folder
    /// to build it is noticed too, and must not start the next build.
    fn of(event: notify::Result<notify::Event>) -> Option<Self> {
        let ended_writing = notify::event::AccessKind::Close(notify::event::AccessMode::Write);
        let Ok(event) = event else { return Some(Self::Lost) };
        match event.kind {
            EventKind::Access(access) if access != ended_writing => None,
            _ if event.need_rescan() || event.paths.is_empty() => Some(Self::Lost),
            _ => Some(Self::Change(event.paths)),
        }
    }
}

/// A watch on its thread.
struct Running {
    target: WatchTarget,
    watcher: KernelWatcher,
    inbox: Receiver<Notice>,
    on_change: Box<dyn FnMut(Cause) + Send>,
    /// The target of the path at the last call.
    seen: Look,
    /// The watched paths, with their targets at that time; a path without a target is not watched
    /// yet.
    armed: BTreeMap<PathBuf, (RecursiveMode, Look)>,
    /// A watch may have been lost.
    stale: bool,
    /// The watch was asked to end.
    ended: bool,
    /// A notice of a change has come since the last call.
    has_changed: bool,
    /// The presence of the served source; `None` for a site without files.
    site: Option<Presence>,
    /// Whether the password files are there.
    password_files: Vec<Presence>,
}

impl Running {
    fn run(mut self) {
        while let Some(noticed) = self.wait() {
            if noticed {
                self.wait_for_quiet();
            }
            if self.ended {
                return;
            }
            let moved = self.follow();
            let look = look(self.target.path());
            let is_back = self.report_presence(look.is_some(), noticed);
            let changed = match &self.target {
                WatchTarget::Folder(_) => noticed || moved || is_back,
                WatchTarget::Archive { password_files, .. } => {
                    look != self.seen || password_files.iter().any(WatchedPasswordFile::has_changed)
                }
            };
            // A path that leads nowhere is being replaced; the next look finds its new target.
            if changed && look.is_some() {
                let has_changed = mem::take(&mut self.has_changed);
                let is_change = has_changed || moved || is_back || look != self.seen;
                self.seen = look;
                self.target.record_state();
                (self.on_change)(if is_change { Cause::Change } else { Cause::MoreWatched });
            }
        }
    }

    /// Reports once of each path that it leads nowhere, and once that it leads somewhere again.
    /// Returns whether the served source is back.
    fn report_presence(&mut self, is_there: bool, noticed: bool) -> bool {
        for file in &mut self.password_files {
            let is_there = look(file.path()).is_some();
            file.report(is_there, noticed);
        }
        self.site.as_mut().is_some_and(|site| site.report(is_there, noticed))
    }

    /// Waits for a notice that matters, or until it is time to look; true for a notice, `None` when
    /// there will never be one again.
    fn wait(&mut self) -> Option<bool> {
        let until = Instant::now() + LOOK;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(notice) => {
                    if self.hears(notice) {
                        return Some(true);
                    }
                    if left.is_zero() {
                        return Some(false);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Some(false),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Swallows notices until none that matters has come for a moment, or the burst has lasted too
    /// long.
    fn wait_for_quiet(&mut self) {
        let last = Instant::now() + BURST_MAX;
        let mut until = Instant::now() + QUIET;
        loop {
            let left = until.min(last).saturating_duration_since(Instant::now());
            let Ok(notice) = self.inbox.recv_timeout(left) else { return };
            if self.hears(notice) {
                until = Instant::now() + QUIET;
            }
            if left.is_zero() || self.ended {
                return;
            }
        }
    }

    /// Returns whether a notice calls for a build.
    fn hears(&mut self, notice: Notice) -> bool {
        match notice {
            Notice::Lost => {
                self.note_change();
                true
            }
            Notice::End => {
                self.ended = true;
                true
            }
            Notice::Change(paths) => {
                for path in &paths {
                    // It was moved, or only its rights are others: the watch may be gone.
                    if self.armed.remove(path).is_some() {
                        let _gone = self.watcher.unwatch(path);
                        self.stale = true;
                    }
                }
                let concerns = paths.iter().any(|path| self.target.concerns(path));
                if concerns {
                    self.note_change();
                }
                concerns
            }
            Notice::Walked(walked) => {
                // Paths that were not watched during the build may have changed since: one more
                // load.
                let is_more = self.target.take_walked(walked);
                self.arm_or_warn();
                is_more
            }
        }
    }

    /// Records a change, and reports one of a folder. An archive is complete whenever it has its
    /// name, and notices are about its neighbours too.
    fn note_change(&mut self) {
        self.has_changed = true;
        if matches!(self.target, WatchTarget::Folder(_)) {
            (self.on_change)(Cause::Changing);
        }
    }

    /// Watches paths anew whose target has changed; returns whether there is one.
    fn follow(&mut self) -> bool {
        let is_another = |(path, (_, seen)): (&PathBuf, &(RecursiveMode, Look))| {
            let now = look(path);
            now.is_some() && now != *seen
        };
        let moved = self.target.has_moved() || self.armed.iter().any(is_another);
        if moved || self.stale {
            self.arm_or_warn();
        }
        moved
    }

    fn arm_or_warn(&mut self) {
        if let Err(error) = self.arm() {
            let path = self.target.path().display();
            warnings_and_notes::warning(format_args!(
                "cannot watch {path}: {error}; SIGHUP loads what has changed there"
            ));
        }
    }

    /// Watches all paths that have to be watched now, and no others. A path that cannot be watched
    /// is not tried again before its target changes.
    fn arm(&mut self) -> anyhow::Result<()> {
        self.stale = false;
        self.target.resolve();
        let wanted = self.target.watches();
        let is_wrong = |path: &PathBuf, (mode, seen): &mut (RecursiveMode, Look)| {
            let now = look(path);
            wanted.get(path) != Some(mode) || (now.is_some() && now != *seen)
        };
        for (path, _) in self.armed.extract_if(.., is_wrong) {
            // It may be gone already; that is why we are here.
            let _gone = self.watcher.unwatch(&path);
        }
        let mut outcome = Ok(());
        for (path, mode) in wanted {
            if self.armed.contains_key(&path) {
                continue;
            }
            let seen = look(&path);
            if seen.is_some()
                && let Err(error) = self.watcher.watch(&path, mode)
            {
                outcome = Err(error);
            }
            self.armed.insert(path, (mode, seen));
        }
        outcome
    }
}
