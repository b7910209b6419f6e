//! The log of a release folder: one line for each switch, and the releases that a rollback can
//! return to.
//!
//! `2026-11-21T19:12:00Z DIGEST publish anna@192.0.2.7`: the time (RFC 3339, UTC), the release that
//! became current, how, and the user. Members are added after these, never changed.

use super::folder::ReleaseFolder;
use super::id::Id;
use crate::timestamp_format;
use rustix::process::getuid;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::time::SystemTime;

/// Bytes of the log that are read, from its end: some eight thousand switches, which is more than
/// any folder keeps releases.
const READ_MAX_BYTES: u64 = 1 << 20;

/// Characters of a name in the log.
const WHO_MAX: usize = 64;

/// How a release became current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It was published.
    Publish,
    /// An operator rolled back to it.
    Rollback,
    /// The act is unknown: the process was killed before it could write its line.
    Switch,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HistoryLine {
    /// RFC 3339, UTC.
    pub(crate) time: String,
    /// The release that became current.
    pub(crate) id: Id,
    /// How.
    pub(crate) act: Act,
    /// The user; `-` if unknown.
    pub(crate) who: String,
}

/// The log as far as it counts, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Vec<HistoryLine>);

impl History {
    /// Reads it; lines that are not ours are skipped, and a missing log is empty.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(folder: &ReleaseFolder) -> io::Result<Self> {
        let mut file = match File::open(folder.log()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(READ_MAX_BYTES)))?;
        let mut tail = Vec::new();
        file.take(READ_MAX_BYTES).read_to_end(&mut tail)?;
        Ok(Self::parse(&String::from_utf8_lossy(&tail)))
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(HistoryLine::parse).collect())
    }

    /// Returns the last line.
    pub(crate) fn last(&self) -> Option<&HistoryLine> {
        self.0.last()
    }

    /// Returns the last line about a release.
    pub(crate) fn last_about(&self, id: &Id) -> Option<&HistoryLine> {
        self.0.iter().rfind(|line| line.id == *id)
    }

    /// Returns the line of the last time that a release was published.
    pub(crate) fn published(&self, id: &Id) -> Option<&HistoryLine> {
        self.0.iter().rfind(|line| line.id == *id && line.act == Act::Publish)
    }

    /// Returns the releases in the order of rollbacks; the last is `current`. Publishing pushes a
    /// release, a rollback pops all releases above its target: an operator who rolls back twice is
    /// two releases back, not at the start.
    pub(crate) fn stack(&self, current: Option<&Id>) -> Vec<Id> {
        let mut stack: Vec<Id> = Vec::new();
        for line in &self.0 {
            settle(&mut stack, &line.id, line.act);
        }
        if let Some(current) = current {
            settle(&mut stack, current, Act::Switch);
        }
        stack
    }

    /// Puts a line at the end of the log, synced. Half a line that a crash left there goes.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn append(&mut self, folder: &ReleaseFolder, line: HistoryLine) -> io::Result<()> {
        let mut file = open_log(folder)?;
        let whole = whole_lines_bytes(&mut file)?;
        if whole < file.metadata()?.len() {
            file.set_len(whole)?;
        }
        file.seek(SeekFrom::Start(whole))?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_all()?;
        self.0.push(line);
        Ok(())
    }
}

/// Opens the log, and makes it if there is none.
///
/// # Errors
/// The error of the system.
pub(crate) fn open_log(folder: &ReleaseFolder) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).open(folder.log())
}

/// Returns the number of bytes up to the end of the last line that is whole. Lines are short: a
/// piece of the end has one.
fn whole_lines_bytes(file: &mut File) -> io::Result<u64> {
    let bytes = file.metadata()?.len();
    let from = bytes.saturating_sub(READ_MAX_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(READ_MAX_BYTES).read_to_end(&mut tail)?;
    let end = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    Ok(from + end as u64)
}

fn settle(stack: &mut Vec<Id>, id: &Id, act: Act) {
    let known = stack.iter().rposition(|other| other == id);
    match (act, known) {
        (_, Some(at)) if at + 1 == stack.len() => {}
        (Act::Rollback | Act::Switch, Some(at)) => stack.truncate(at + 1),
        _ => stack.push(id.clone()),
    }
}

impl HistoryLine {
    /// Returns a line about an act of now.
    pub(crate) fn now(id: &Id, act: Act) -> Self {
        Self { time: rfc3339(SystemTime::now()), id: id.clone(), act, who: who() }
    }

    /// Returns a line about a switch of which nothing is known but when the link was made.
    pub(crate) fn found(id: &Id, made: SystemTime) -> Self {
        Self { time: rfc3339(made), id: id.clone(), act: Act::Switch, who: "-".to_owned() }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (time, id, act) = (words.next()?, Id::parse(words.next()?)?, words.next()?);
        let act =
            [Act::Publish, Act::Rollback, Act::Switch].into_iter().find(|a| a.word() == act)?;
        let who = words.next().unwrap_or("-");
        Some(Self { time: time.to_owned(), id, act, who: who.to_owned() })
    }
}

impl fmt::Display for HistoryLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.time, self.id, self.act.word(), self.who)
    }
}

impl Act {
    /// Returns the word in the log.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Rollback => "rollback",
            Self::Switch => "switch",
        }
    }
}

/// Returns the user who runs this program, as far as the environment shows: under sudo the person
/// before it, under ssh with the address.
pub(crate) fn who() -> String {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(named);
    let user = user.unwrap_or_else(|| format!("uid-{}", getuid().as_raw()));
    let from = named("SSH_CONNECTION");
    let from = from.as_deref().and_then(|text| text.split(' ').next());
    let who = from.map_or(user.clone(), |from| format!("{user}@{from}"));
    // One word of the line, for any content of the environment.
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    who.chars().take(WHO_MAX).map(plain).collect()
}

pub(crate) fn rfc3339(time: SystemTime) -> String {
    timestamp_format::rfc3339(timestamp_format::unix_seconds(time))
}

#[cfg(test)]
mod tests {
    use super::super::folder::tests::{Scratch, id};
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    /// Returns a history in which `+a` publishes a, and `-a` goes back to it.
    fn history(text: &str) -> History {
        let line = |word: &str| {
            let (act, digit) = word.split_at(1);
            let act = if act == "+" { Act::Publish } else { Act::Rollback };
            HistoryLine::now(&id(digit.chars().next().expect("a digit")), act)
        };
        History(text.split(' ').filter(|word| !word.is_empty()).map(line).collect())
    }

    fn stack(text: &str, current: Option<char>) -> String {
        let stack = history(text).stack(current.map(id).as_ref());
        stack.iter().map(|id| &id.as_str()[..1]).collect()
    }

    #[test]
    fn rollbacks_and_publishes_determine_the_previous_releases() {
        assert_eq!(stack("", None), "");
        assert_eq!(stack("+a +b +c", Some('c')), "abc");
        // Two rollbacks go back two releases, and the next published release follows the one that
        // is then current.
        assert_eq!(stack("+a +b +c -b", Some('b')), "ab");
        assert_eq!(stack("+a +b +c -b -a", Some('a')), "a");
        assert_eq!(stack("+a +b +c -a +d", Some('d')), "ad");
        // A rollback may lead forward again, to a release that is not on the way back.
        assert_eq!(stack("+a +b +c -a -c", Some('c')), "ac");
        // An old release that is published again is a new step.
        assert_eq!(stack("+a +b +a", Some('a')), "aba");
        assert_eq!(stack("+a +a", Some('a')), "a");
    }

    #[test]
    fn the_link_determines_the_current_release_without_a_log_entry() {
        assert_eq!(stack("+a", Some('b')), "ab");
        assert_eq!(stack("+a +b +c", Some('a')), "a");
        assert_eq!(stack("", Some('a')), "a");
    }

    #[test]
    fn an_incomplete_line_is_skipped_and_replaced() {
        let scratch = Scratch::new();
        let folder = ReleaseFolder::open_or_make(&scratch.0).expect("a folder");
        let mut history = History::read(&folder).expect("none yet");
        history.append(&folder, HistoryLine::now(&id('a'), Act::Publish)).expect("written");
        let whole = fs::read(folder.log()).expect("the log");
        for cut in 0..whole.len() {
            let torn = [&whole[..], &whole[..cut]].concat();
            fs::write(folder.log(), torn).expect("written");
            let mut history = History::read(&folder).expect("read");
            assert!(history.0.iter().all(|line| line.id == id('a')));
            history.append(&folder, HistoryLine::now(&id('b'), Act::Rollback)).expect("written");
            let text = fs::read_to_string(folder.log()).expect("the log");
            let acts: Vec<Act> = History::parse(&text).0.iter().map(|line| line.act).collect();
            assert_eq!(acts, [Act::Publish, Act::Rollback], "{cut}: {text}");
            assert_eq!(text.lines().count(), 2);
        }
    }

    proptest! {
        #[test]
        fn a_line_round_trips(second in 0_i64..4_000_000_000, who in "[!-~]{1,64}") {
            let time = timestamp_format::rfc3339(second);
            let line = HistoryLine { time, id: id('c'), act: Act::Switch, who };
            prop_assert_eq!(HistoryLine::parse(&line.to_string()), Some(line));
        }

        #[test]
        fn any_text_is_parsed_as_a_log(text in ".{0,300}") {
            prop_assert!(History::parse(&text).stack(Some(&id('a'))).last() == Some(&id('a')));
        }

        #[test]
        fn the_stack_ends_with_the_current_release(acts in "([+-][a-e] ){1,30}") {
            let history = history(&acts);
            let last = history.last().expect("a line").id.clone();
            let stack = history.stack(Some(&last));
            prop_assert_eq!(stack.last(), Some(&last));
            prop_assert!(stack.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}
