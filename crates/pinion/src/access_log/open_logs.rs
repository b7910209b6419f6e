//! The logs that are open: that of the server and those of sites. Logs of the same file share one
//! descriptor, so that no line is written into another one.

use super::output::{FileId, OpenLog, cannot_open};
use crate::settings::{LogFormat, LogTarget};
use anyhow::{anyhow, bail};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Logs that are open at once at most. Each is a descriptor, and a buffer for its lines.
pub(crate) const LOGS_MAX: usize = 256;

/// Names a log in records. No two logs of a server have the same, one after the other either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogId(pub(super) u16);

/// A handle of a log that a site or the server writes to. The log is closed once its last handle is
/// dropped.
#[derive(Debug)]
pub(crate) struct LogHandle {
    id: LogId,
}

/// The logs that are open. The log thread takes those that it does not know yet.
#[derive(Debug, Default)]
pub(crate) struct OpenLogs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of logs that were opened so far.
    opened: u16,
    known: Vec<KnownLog>,
    /// The logs that the log thread has not taken yet.
    new: Vec<NewLog>,
    /// The server was started without a log, so that no log thread writes.
    is_unwritten: bool,
}

#[derive(Debug)]
struct KnownLog {
    target: LogTarget,
    /// The identity of the file; `None` if the target is not a file.
    file: Option<FileId>,
    format: LogFormat,
    handle: Weak<LogHandle>,
}

/// A log for the log thread.
#[derive(Debug)]
pub(super) struct NewLog {
    pub(super) id: LogId,
    pub(super) output: OpenLog,
    pub(super) format: LogFormat,
    pub(super) handle: Weak<LogHandle>,
}

impl LogHandle {
    /// Returns the name that records have for the log.
    pub(crate) fn id(&self) -> LogId {
        self.id
    }
}

impl OpenLogs {
    /// Opens a log, or returns the one that writes to the same file already.
    ///
    /// # Errors
    /// The file cannot be opened for appending, it is written in another format, or too many logs
    /// are open.
    pub(crate) fn open(
        &self,
        target: &LogTarget,
        format: LogFormat,
    ) -> anyhow::Result<Arc<LogHandle>> {
        let mut state = self.lock();
        if state.is_unwritten {
            bail!("the server was started without any access log; a restart is needed");
        }
        state.known.retain(|log| log.handle.strong_count() > 0);
        if let Some(found) = state.find(|log| log.target == *target) {
            return found.in_format(format);
        }
        let output =
            OpenLog::open(target.clone()).map_err(|error| anyhow!("{}", cannot_open(&error)))?;
        let file = output.file_id();
        if let Some(found) = state.find(|log| file.is_some() && log.file == file) {
            return found.in_format(format);
        }
        if state.known.len() >= LOGS_MAX {
            bail!("{LOGS_MAX} access logs are open, which are the most; let sites share one");
        }
        // A server that is reloaded every second opens them for 18 hours.
        let next = state.opened.checked_add(1);
        let next = next.ok_or_else(|| anyhow!("too many logs were opened; restart the server"))?;
        let handle = Arc::new(LogHandle { id: LogId(state.opened) });
        state.opened = next;
        let weak = Arc::downgrade(&handle);
        let known = KnownLog { target: target.clone(), file, format, handle: Weak::clone(&weak) };
        state.known.push(known);
        state.new.push(NewLog { id: handle.id, output, format, handle: weak });
        Ok(handle)
    }

    /// Returns how many logs are open.
    pub(crate) fn len(&self) -> usize {
        let mut state = self.lock();
        state.known.retain(|log| log.handle.strong_count() > 0);
        state.known.len()
    }

    /// Refuses logs from now on: there is no thread that would write them.
    pub(crate) fn leave_unwritten(&self) {
        self.lock().is_unwritten = true;
    }

    /// Takes those that were opened since the last call.
    pub(super) fn take_new(&self) -> Vec<NewLog> {
        std::mem::take(&mut self.lock().new)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&self, is_match: impl Fn(&KnownLog) -> bool) -> Option<&KnownLog> {
        self.known.iter().find(|log| is_match(log))
    }
}

impl KnownLog {
    fn in_format(&self, format: LogFormat) -> anyhow::Result<Arc<LogHandle>> {
        if self.format != format {
            let name = self.format.name();
            bail!(
                "another site, or the server, writes it in the format {name}; write log-format = \
                 \"{name}\" here too, or name another file"
            );
        }
        self.handle.upgrade().ok_or_else(|| anyhow!("it is being closed; try again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn logs_of_the_same_file_are_one() {
        let name = format!("pinion-open-logs-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let target = |name: &str| LogTarget::File(folder.join(name));
        symlink("a.log", folder.join("link.log")).expect("a link");
        let logs = OpenLogs::default();
        let open = |name: &str, format| logs.open(&target(name), format);
        let a = open("a.log", LogFormat::Json).expect("a log");
        let b = open("b.log", LogFormat::Combined).expect("a log");
        assert_ne!(a.id(), b.id());
        for same in ["a.log", "./a.log", "link.log"] {
            assert_eq!(open(same, LogFormat::Json).expect(same).id(), a.id(), "{same}");
            assert!(open(same, LogFormat::Combined).is_err(), "{same}");
        }
        let stdout = logs.open(&LogTarget::Stdout, LogFormat::Json).expect("stdout");
        assert_ne!(stdout.id(), a.id());
        assert_eq!((logs.len(), logs.take_new().len()), (3, 3));
        assert!(open("missing/a.log", LogFormat::Json).is_err());
        // A log that is not used any more may be opened in another format, and never gets its
        // number again.
        drop(a);
        let again = open("a.log", LogFormat::Combined).expect("a log");
        assert!(again.id() > b.id());
        logs.leave_unwritten();
        assert!(open("c.log", LogFormat::Json).is_err());
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn the_number_of_logs_is_bounded() {
        let name = format!("pinion-many-logs-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let logs = OpenLogs::default();
        let open = |number: usize| {
            logs.open(&LogTarget::File(folder.join(number.to_string())), LogFormat::Json)
        };
        let held: Vec<_> = (0..LOGS_MAX).map(open).collect();
        assert!(held.iter().all(Result::is_ok));
        assert!(open(LOGS_MAX).is_err());
        assert!(open(0).is_ok(), "one that is open takes nothing");
        drop(held);
        assert!(open(LOGS_MAX).is_ok());
        fs::remove_dir_all(folder).expect("removed");
    }
}
