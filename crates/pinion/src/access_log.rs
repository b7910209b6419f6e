//! The access log, written beside the workers and never by them.
//!
//! Each worker puts one bounded binary record for each request into its own ring ([`ring`]) and
//! continues; no lock, no allocation, no system call unless the log thread sleeps. One thread takes
//! the records out of all rings, makes lines of them ([`mod@format`]) and writes many lines at once
//! ([`writer`]), each to the log that its record names: that of the server, or of a site
//! ([`open_logs`]). When it cannot keep up, a record that finds its ring full is dropped and
//! counted, and the count is reported on stderr.
//!
//! Lines of one worker are in the order of its responses; lines of several workers may be out of
//! order by the time the thread lets records gather (50 ms).

mod format;
mod log_thread_wakeup;
mod open_logs;
mod output;
mod record;
mod ring;
mod writer;

pub(crate) use open_logs::{LOGS_MAX, LogHandle, LogId, OpenLogs};
#[cfg(test)]
pub(crate) use record::example;
pub(crate) use record::{LogRecord, LoggedPeer, Text};
pub(crate) use ring::RING_BYTES;

use log_thread_wakeup::Bell;
use pinion_engine::stderr;
use ring::Ring;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use writer::Writer;

/// Bytes of the log thread: a record, and for each log the lines that stand ready.
pub(crate) const WRITER_BYTES: usize = record::RECORD_MAX_BYTES;
pub(crate) const LOG_BYTES: usize = writer::LINES_BYTES;

/// How long the end of the server waits for the last lines: a pipe or a disk that takes nothing for
/// so long will not take them later.
const FINISH_MAX: Duration = Duration::from_secs(2);
/// Between two looks whether they are written.
const FINISH_LOOK: Duration = Duration::from_millis(5);

/// The running log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    shared: Arc<LogShared>,
    /// That of the server: for requests of sites without one of their own.
    server: Option<Arc<LogHandle>>,
    /// `None` once it has finished.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// One worker's end.
#[derive(Debug)]
pub(crate) struct Logger {
    ring: ring::Producer,
    shared: Arc<LogShared>,
    server: Option<LogId>,
    /// The record being written; kept so that nothing is allocated.
    message: Vec<u8>,
}

/// The state that the log thread shares with the workers.
#[derive(Debug, Default)]
struct LogShared {
    bell: Bell,
    logs: Arc<OpenLogs>,
    /// Taken at start, when a worker restarts, and once a round by the log thread.
    rings: Mutex<Vec<Arc<Ring>>>,
    reopen: AtomicBool,
    finish: AtomicBool,
}

impl AccessLog {
    /// Starts the log thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(logs: Arc<OpenLogs>, server: Option<Arc<LogHandle>>) -> io::Result<Self> {
        let shared = Arc::new(LogShared { logs, ..LogShared::default() });
        let writer = Writer::new(Arc::clone(&shared));
        let thread = thread::Builder::new().name("access-log".to_owned());
        let thread = thread.spawn(move || writer.run())?;
        Ok(Self { shared, server, thread: Mutex::new(Some(thread)) })
    }

    /// Returns a new end for one worker.
    pub(crate) fn logger(&self) -> Logger {
        let ring = Arc::new(Ring::new());
        let mut rings = self.shared.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.push(Arc::clone(&ring));
        Logger {
            ring: ring::Producer::new(ring),
            shared: Arc::clone(&self.shared),
            server: self.server.as_ref().map(|log| log.id()),
            message: Vec::with_capacity(record::RECORD_MAX_BYTES),
        }
    }

    /// Closes all log files and opens them again by their names, as a log rotation needs.
    pub(crate) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        self.shared.bell.ring();
    }

    /// Writes out all records in the rings and ends the thread. Later records are lost, and so is
    /// output that no reader takes: a reader that has stopped must not keep the server from
    /// stopping.
    pub(crate) fn finish(&self) {
        self.shared.finish.store(true, Ordering::Release);
        self.shared.bell.ring();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        let deadline = Instant::now() + FINISH_MAX;
        while !thread.is_finished() && Instant::now() < deadline {
            thread::sleep(FINISH_LOOK);
        }
        if !thread.is_finished() {
            stderr::line(format_args!(
                "pinion: the access log is blocked; its last lines are lost"
            ));
        } else if thread.join().is_err() {
            stderr::line(format_args!(
                "pinion: the access log ended by a panic; its last lines are lost"
            ));
        }
    }
}

impl Logger {
    /// Returns the log of the server, if it has one.
    pub(crate) fn server(&self) -> Option<LogId> {
        self.server
    }

    /// Puts one record into the ring, or drops it when the ring is full.
    pub(crate) fn log(&mut self, record: &LogRecord<'_>) {
        let mut message = std::mem::take(&mut self.message);
        message.clear();
        record.encode(&mut message);
        self.log_encoded(&message);
        self.message = message;
    }

    /// Writes a record that is already in its binary form.
    pub(crate) fn log_encoded(&mut self, record: &[u8]) {
        self.ring.push(record);
        self.shared.bell.pushed(self.ring.more_than_half_full());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{LogFormat, LogTarget};
    use std::fs;
    use std::path::{Path, PathBuf};

    fn temporary(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pinion-log-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        folder
    }

    fn started(path: &Path) -> AccessLog {
        let logs = Arc::new(OpenLogs::default());
        let server = opened(&logs, path);
        AccessLog::start(logs, Some(server)).expect("a thread")
    }

    fn opened(logs: &OpenLogs, path: &Path) -> Arc<LogHandle> {
        let target = LogTarget::File(path.to_owned());
        logs.open(&target, LogFormat::Combined).expect("the file opens")
    }

    #[test]
    fn each_line_goes_to_its_log_and_unused_logs_are_closed() {
        let folder = temporary("sites");
        let paths = ["server.log", "a.log", "late.log"].map(|name| folder.join(name));
        let logs = Arc::new(OpenLogs::default());
        let server = opened(&logs, &paths[0]);
        let a = opened(&logs, &paths[1]);
        let log = AccessLog::start(Arc::clone(&logs), Some(Arc::clone(&server))).expect("a thread");
        let mut logger = log.logger();
        logger.log(&LogRecord { log: server.id(), status: 200, ..example() });
        logger.log(&LogRecord { log: a.id(), status: 201, ..example() });
        // This log is opened while the thread runs.
        let late = opened(&logs, &paths[2]);
        logger.log(&LogRecord { log: late.id(), status: 202, ..example() });
        let (a_id, path) = (a.id(), paths[1].clone());
        drop(a);
        let is_open = || {
            let files = fs::read_dir("/proc/self/fd").expect("a folder").flatten();
            files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == path)
        };
        while is_open() {
            logger.log(&LogRecord { log: server.id(), status: 203, ..example() });
            thread::yield_now();
        }
        // A record that comes too late for its log is dropped.
        logger.log(&LogRecord { log: a_id, status: 500, ..example() });
        log.finish();
        let server_statuses = statuses(&paths[0]);
        assert!(server_statuses.starts_with(&[200]) && !server_statuses.contains(&500));
        assert_eq!((statuses(&paths[1]), statuses(&paths[2])), (vec![201], vec![202]));
        fs::remove_dir_all(folder).expect("removed");
    }

    fn statuses(path: &Path) -> Vec<u16> {
        let text = fs::read_to_string(path).expect("the log");
        let status = |line: &str| line.split("\" ").nth(1)?.split(' ').next()?.parse().ok();
        text.lines().map(|line| status(line).expect("a status")).collect()
    }

    #[test]
    fn every_record_of_every_worker_is_written_in_its_order() {
        let folder = temporary("all");
        let path = folder.join("access.log");
        let log = started(&path);
        thread::scope(|scope| {
            for worker in 0..3 {
                let mut logger = log.logger();
                scope.spawn(move || {
                    for request in 0..100 {
                        let status = 100 + worker * 100 + request;
                        logger.log(&LogRecord { status, ..example() });
                    }
                });
            }
        });
        log.finish();
        let statuses = statuses(&path);
        assert_eq!(statuses.len(), 300);
        for worker in 0..3 {
            let low = 100 + worker * 100;
            let of_worker = statuses.iter().copied().filter(|s| (low..low + 100).contains(s));
            assert!(of_worker.eq(low..low + 100), "worker {worker} in order");
        }
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_reopened_log_continues_under_the_old_name() {
        let folder = temporary("reopen");
        let path = folder.join("access.log");
        let log = started(&path);
        let mut logger = log.logger();
        logger.log(&LogRecord { status: 200, ..example() });
        fs::rename(&path, folder.join("access.log.1")).expect("rotated");
        log.reopen();
        // The thread makes the new file; only then does the next record belong there.
        while !path.exists() {
            thread::yield_now();
        }
        logger.log(&LogRecord { status: 404, ..example() });
        log.finish();
        assert_eq!(statuses(&folder.join("access.log.1")), [200]);
        assert_eq!(statuses(&path), [404]);
        fs::remove_dir_all(folder).expect("removed");
    }
}
