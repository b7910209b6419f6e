//! The switch: the link leads somewhere else, and the log says so.
//!
//! The order is such that a crash at any moment leaves the old release or the new one: the file of
//! the release is whole and synced before the link is made, the link takes its place by a rename,
//! and the log follows. A log that lacks its last line is mended by the next turn.

use super::folder::{CURRENT, ReleaseFolder};
use super::history::{self, Act, History, HistoryLine};
use super::id::{Id, PREFIX_DIGITS_MIN, is_hex};
use super::lock::Lock;
use super::release_in_use;
use super::release_store;
use crate::failure::Failure;
use anyhow::{Context as _, anyhow};
use pinion_builder::switch_link;
use pinion_engine::stderr;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

/// The most digits of a number of steps; a longer text is the beginning of a digest.
const STEP_DIGITS_MAX: usize = 3;

/// A locked release folder: no other process switches meanwhile.
pub(crate) struct Turn<'a> {
    folder: &'a ReleaseFolder,
    _lock: Lock,
    history: History,
    current: Option<Id>,
}

/// The result of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Switched {
    /// The release that is current now.
    pub(crate) id: Id,
    /// The release before it; none for the first.
    pub(crate) previous: Option<Id>,
    /// The file that a server has to load, if one had a release of the folder in use.
    awaited: Option<PathBuf>,
}

/// The target of a rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    /// A number of releases, at least one.
    Steps(usize),
    /// The release whose digest begins so.
    Prefix(String),
}

impl ReleaseFolder {
    /// Waits for the lock, and removes the files that killed processes have left.
    ///
    /// # Errors
    /// It cannot be locked, `cancelled` became true, or the log cannot be read.
    pub(crate) fn turn(&self, cancelled: &AtomicBool) -> Result<Turn<'_>, Failure> {
        let lock = Lock::take(self, cancelled)?;
        self.remove_left_links();
        let cannot = || format!("cannot read {}", self.log().display());
        let history = History::read(self).with_context(cannot)?;
        let mut turn = Turn { folder: self, _lock: lock, history, current: self.current() };
        turn.mend_log();
        Ok(turn)
    }

    /// Removes links that were left behind. Links are made under the lock alone, so all of them are
    /// unused.
    fn remove_left_links(&self) {
        let (begin, end) = (format!(".{CURRENT}."), ".tmp");
        let Ok(entries) = fs::read_dir(self.path()) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(&begin) && name.ends_with(end)) {
                // One more file in the folder does no harm.
                let _stays = fs::remove_file(entry.path());
            }
        }
    }
}

impl Turn<'_> {
    /// Returns the current release.
    pub(crate) fn current(&self) -> Option<&Id> {
        self.current.as_ref()
    }

    /// Returns the log.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Makes a stored release current. If only the log cannot be written, that is reported, and is
    /// no error: the requested release is served.
    ///
    /// # Errors
    /// The link cannot be switched.
    pub(crate) fn switch_to(&mut self, id: &Id, act: Act) -> Result<Switched, Failure> {
        let folder = self.folder;
        let previous = self.current.clone();
        // Any release: a server that has refused the last one still serves an older one.
        let others = release_store::ids(folder)?.into_iter().filter(|other| other != id);
        let is_served =
            others.into_iter().any(|other| release_in_use::is_held(&folder.file(&other)));
        // Before the link, so that the folder is synced once for both.
        let opened = history::open_log(folder);
        let (link, target) = (folder.current_link(), ReleaseFolder::target(id));
        let cannot = || format!("cannot switch {}", link.display());
        if !link.is_symlink() && link.exists() {
            return Err(
                anyhow!("{} is not a link that Pinion made; move it away", link.display()).into()
            );
        }
        switch_link(&link, &target).with_context(cannot)?;
        self.current = Some(id.clone());
        let appended = opened.and_then(|_| self.history.append(folder, HistoryLine::now(id, act)));
        if let Err(error) = appended {
            let log = folder.log();
            stderr::line(format_args!(
                "pinion: switched, but cannot write {}: {error}",
                log.display()
            ));
        }
        let awaited = is_served.then(|| folder.file(id));
        Ok(Switched { id: id.clone(), previous, awaited })
    }

    /// Returns the release that is the target of a rollback.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub(crate) fn find(&self, back: &Back) -> Result<Id, Failure> {
        let stored = release_store::ids(self.folder)?;
        let shown = self.folder.path().display();
        let advice = format!("`pinion releases {shown}` lists them");
        match back {
            Back::Steps(steps) => {
                let way = way_back(&self.history, self.current.as_ref(), &stored);
                let found = way.get(steps - 1).cloned();
                Ok(found.ok_or_else(|| match way.len() {
                    0 => anyhow!("there is no release before the current one in {shown}"),
                    1 => anyhow!("there is only one release before the current one in {shown}"),
                    many => {
                        anyhow!("there are only {many} releases before the current one; {advice}")
                    }
                })?)
            }
            Back::Prefix(prefix) => {
                let is_meant = |id: &&Id| id.as_str().starts_with(prefix.as_str());
                let found: Vec<&Id> = stored.iter().filter(is_meant).collect();
                match found.as_slice() {
                    [only] => Ok((*only).clone()),
                    [] => Err(anyhow!("no release begins with {prefix}; {advice}").into()),
                    many => {
                        let many: Vec<&str> = many.iter().map(|id| id.short()).collect();
                        let many = many.join(", ");
                        Err(anyhow!("{prefix} can be any of {many}; write more of it").into())
                    }
                }
            }
        }
    }

    /// Adds the missing line to the log when a process was killed between its link and its line.
    fn mend_log(&mut self) {
        let Some(current) = &self.current else { return };
        if self.history.last().is_some_and(|line| line.id == *current) {
            return;
        }
        let made = self.folder.current_link().symlink_metadata().and_then(|link| link.modified());
        let line = HistoryLine::found(current, made.unwrap_or_else(|_| SystemTime::now()));
        // The next switch reports when the log cannot be written.
        let _later = self.history.append(self.folder, line);
    }
}

/// Returns the releases before the current one that are still there, the nearest first.
pub(crate) fn way_back(history: &History, current: Option<&Id>, stored: &[Id]) -> Vec<Id> {
    let stack = history.stack(current);
    let mut way: Vec<Id> = Vec::new();
    for id in stack.into_iter().rev() {
        // A release removed between two switches to the same release leaves one step.
        let is_new = Some(&id) != current && !way.contains(&id);
        if is_new && stored.contains(&id) {
            way.push(id);
        }
    }
    way
}

impl Switched {
    /// Waits until the server that had the old release in use has the new one: `None` if none had.
    pub(crate) fn is_taken_up(&self) -> Option<bool> {
        self.awaited.as_deref().map(release_in_use::wait_until_held)
    }
}

impl Back {
    /// Reads an operand: up to three digits are steps, everything else the beginning of a digest.
    ///
    /// # Errors
    /// A phrase that names the forms it may have.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if (1..=STEP_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) {
            return match text.parse() {
                Ok(steps) if steps > 0 => Ok(Self::Steps(steps)),
                _ => Err("0 is the release that is current; the one before is 1".to_owned()),
            };
        }
        let prefix = text.to_ascii_lowercase();
        if (PREFIX_DIGITS_MIN..=64).contains(&prefix.len()) && is_hex(&prefix) {
            Ok(Self::Prefix(prefix))
        } else {
            Err(format!(
                "{text:?} is neither a number of releases (1 to 999) nor the first \
             {PREFIX_DIGITS_MIN} or more digits of a digest"
            ))
        }
    }
}

impl fmt::Display for Back {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "{steps}"),
            Self::Prefix(prefix) => f.write_str(prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::tests::{Scratch, id};
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::Ordering;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    /// A folder with these releases, which are no archives: a turn does not look into them.
    fn folder(scratch: &Scratch, releases: &str) -> ReleaseFolder {
        let folder = ReleaseFolder::open_or_make(&scratch.0).expect("a folder");
        for digit in releases.chars() {
            fs::write(folder.file(&id(digit)), "").expect("written");
        }
        folder
    }

    #[test]
    fn publishes_and_rollbacks_switch_the_current_release() {
        let scratch = Scratch::new();
        let folder = folder(&scratch, "abc");
        let mut turn = folder.turn(&GO_ON).expect("a turn");
        for digit in ['a', 'b', 'c'] {
            let before = turn.current().cloned();
            let switched = turn.switch_to(&id(digit), Act::Publish).expect("switched");
            assert_eq!((switched.previous.clone(), folder.current()), (before, Some(id(digit))));
            assert_eq!(switched.is_taken_up(), None);
        }
        let back = turn.find(&Back::Steps(1)).expect("found");
        turn.switch_to(&back, Act::Rollback).expect("switched");
        assert_eq!(folder.current(), Some(id('b')));
        assert_eq!(turn.find(&Back::Steps(1)).expect("found"), id('a'));
        let failure = turn.find(&Back::Steps(2)).expect_err("too far");
        assert!(failure.reason().expect("a reason").contains("only one release"));
        assert_eq!(turn.find(&Back::Prefix("cccc".to_owned())).expect("found"), id('c'));
        drop(turn);
        // A release whose file is missing is no step.
        fs::remove_file(folder.file(&id('a'))).expect("removed");
        let turn = folder.turn(&GO_ON).expect("a turn");
        let failure = turn.find(&Back::Steps(1)).expect_err("nothing there");
        assert!(failure.reason().expect("a reason").contains("no release before"));
    }

    #[test]
    fn the_next_switch_cleans_up_after_a_killed_one() {
        let scratch = Scratch::new();
        let folder = folder(&scratch, "ab");
        folder.turn(&GO_ON).expect("a turn").switch_to(&id('a'), Act::Publish).expect("switched");
        // One process was killed after it had switched its link, and another one before.
        fs::remove_file(folder.current_link()).expect("removed");
        symlink(ReleaseFolder::target(&id('b')), folder.current_link()).expect("a link");
        let left = scratch.0.join(".current.pinion.1-0.tmp");
        symlink(ReleaseFolder::target(&id('a')), &left).expect("a link");
        let turn = folder.turn(&GO_ON).expect("a turn");
        assert!(!left.is_symlink());
        let last = turn.history().last().expect("a line");
        assert_eq!((last.act, &last.id, last.who.as_str()), (Act::Switch, &id('b'), "-"));
        assert_eq!(turn.find(&Back::Steps(1)).expect("found"), id('a'));
    }

    #[test]
    fn waiting_for_the_lock_can_be_cancelled() {
        let scratch = Scratch::new();
        let folder = folder(&scratch, "");
        let cancelled = AtomicBool::new(false);
        let turn = folder.turn(&cancelled).expect("a turn");
        cancelled.store(true, Ordering::Relaxed);
        let failure = folder.turn(&cancelled).err().expect("locked");
        assert!(failure.reason().expect("a reason").contains("cancelled"));
        drop(turn);
        assert!(folder.turn(&cancelled).is_ok());
    }

    #[test]
    fn rollback_targets_are_steps_or_digest_prefixes() {
        assert_eq!(Back::parse("1"), Ok(Back::Steps(1)));
        assert_eq!(Back::parse("999"), Ok(Back::Steps(999)));
        assert_eq!(Back::parse("1234"), Ok(Back::Prefix("1234".to_owned())));
        assert_eq!(Back::parse("ABCD"), Ok(Back::Prefix("abcd".to_owned())));
        for wrong in ["", "0", "-1", "abc", "xyzw", &"a".repeat(65), "1.5"] {
            assert!(Back::parse(wrong).is_err(), "{wrong}");
        }
    }
}
