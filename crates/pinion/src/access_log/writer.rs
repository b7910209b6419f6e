//! The log thread: takes records out of the rings, makes lines, writes many at once.

use super::format::{Formatter, LINE_MAX_BYTES};
use super::open_logs::{LogHandle, LogId, NewLog};
use super::output::{OpenLog, cannot_open};
use super::record::{LogRecord, RECORD_MAX_BYTES};
use super::ring::Consumer;
use super::{LogShared, Ring};
use crate::failure::without_number;
use crate::panics;
use pinion_engine::stderr;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How long records gather after the first one; a reader of the log waits no longer than that.
const GATHER: Duration = Duration::from_millis(50);

/// Lines are written when this many bytes of them stand ready: a large write for any disk, a small
/// buffer for us.
pub(super) const WRITE_BYTES: usize = 256 << 10;

/// Bytes that gather at most: a line is added while there are fewer than [`WRITE_BYTES`]. Reserved
/// at once, so that no log is lost for lack of memory.
pub(super) const LINES_BYTES: usize = WRITE_BYTES + LINE_MAX_BYTES;

/// The shortest time between two reports of trouble.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Everything the thread owns.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<LogShared>,
    consumers: Vec<Consumer>,
    logs: BTreeMap<LogId, Log>,
    /// A record on its way from a ring to the lines of its log.
    message: Vec<u8>,
    /// Drops of rings whose worker is gone.
    dropped_before: u64,
    dropped_reported: u64,
    reported_at: Option<Instant>,
}

/// One log.
#[derive(Debug)]
struct Log {
    formatter: Formatter,
    output: OpenLog,
    handle: Weak<LogHandle>,
    lines: Vec<u8>,
    lines_count: u64,
    /// The number of lines that were lost and not reported yet, and the reason.
    unwritten: u64,
    last_error: Option<io::Error>,
    reported_at: Option<Instant>,
}

impl Writer {
    /// Makes the writer. Nothing is read or written before [`Writer::run`].
    pub(crate) fn new(shared: Arc<LogShared>) -> Self {
        let mut this = Self {
            shared,
            consumers: Vec::new(),
            logs: BTreeMap::new(),
            message: Vec::with_capacity(RECORD_MAX_BYTES.next_multiple_of(size_of::<u64>())),
            dropped_before: 0,
            dropped_reported: 0,
            reported_at: None,
        };
        // Here, so that their memory is taken before anything is served.
        this.take_new_logs();
        this
    }

    /// Runs until the log is finished and every ring is empty. After a panic the next round
    /// follows, one pause later.
    pub(crate) fn run(mut self) {
        self.shared.bell.attach();
        loop {
            let mut is_over = None;
            panics::survive(|| is_over = Some(self.round()));
            match is_over {
                Some(true) => return,
                Some(false) => {}
                None if self.shared.finish.load(Ordering::Acquire) => return,
                None => thread::sleep(REPORT_INTERVAL),
            }
        }
    }

    /// Writes all waiting records and waits for more; returns true when no more will come.
    fn round(&mut self) -> bool {
        // Read before the rings, so that nothing logged before `finish` is left behind.
        let finish = self.shared.finish.load(Ordering::Acquire);
        let reopen = self.shared.reopen.swap(false, Ordering::AcqRel);
        self.take_new_rings();
        self.take_new_logs();
        // Before the rings, which may still have lines for these.
        let is_left = |log: &&Log| log.handle.strong_count() == 0;
        let has_left = self.logs.values().any(|log| is_left(&log));
        let left: Vec<LogId> = if has_left {
            self.logs.iter().filter(|(_, log)| is_left(log)).map(|(id, _)| *id).collect()
        } else {
            Vec::new()
        };
        let mut any = false;
        if reopen {
            // Records from before the rotation belong to the old files.
            any = self.drain();
            self.logs.values_mut().for_each(Log::reopen);
        }
        any |= self.drain();
        self.report(finish);
        self.logs.retain(|id, _| !left.contains(id));
        if finish {
            return true;
        }
        if any {
            self.shared.bell.gather(GATHER);
        } else {
            self.forget_ended_rings();
            self.shared.bell.sleep(|| something_to_do(&self.shared));
        }
        false
    }

    fn take_new_logs(&mut self) {
        for NewLog { id, output, format, handle } in self.shared.logs.take_new() {
            let log = Log {
                formatter: Formatter::new(format),
                output,
                handle,
                lines: Vec::with_capacity(LINES_BYTES),
                lines_count: 0,
                unwritten: 0,
                last_error: None,
                reported_at: None,
            };
            self.logs.insert(id, log);
        }
    }

    fn take_new_rings(&mut self) {
        let rings = self.shared.rings.lock().unwrap_or_else(PoisonError::into_inner);
        for ring in rings.iter() {
            if !self.consumers.iter().any(|known| Arc::ptr_eq(known.ring(), ring)) {
                self.consumers.push(Consumer::new(Arc::clone(ring)));
            }
        }
    }

    /// Forgets rings whose worker has ended: only the list and the consumer still hold them.
    fn forget_ended_rings(&mut self) {
        let mut rings = self.shared.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.retain(|ring| {
            let ended = Arc::strong_count(ring) == 2 && {
                // Pairs with the Release of the worker's own drop: its last record is seen.
                fence(Ordering::Acquire);
                ring.is_empty()
            };
            let consumer = self.consumers.iter().position(|known| Arc::ptr_eq(known.ring(), ring));
            match consumer {
                Some(at) if ended => {
                    self.dropped_before += ring.dropped();
                    self.consumers.swap_remove(at);
                    false
                }
                _ => true,
            }
        });
    }

    /// Writes all records in the rings; returns false when there were none.
    fn drain(&mut self) -> bool {
        let mut any = false;
        let mut message = std::mem::take(&mut self.message);
        let mut consumers = std::mem::take(&mut self.consumers);
        for consumer in &mut consumers {
            while consumer.pop(&mut message) {
                any = true;
                if let Some(record) = LogRecord::decode(&message) {
                    self.add(&record);
                }
            }
        }
        self.consumers = consumers;
        self.message = message;
        self.logs.values_mut().for_each(Log::write);
        any
    }

    /// Makes a line of a record. One for a log that was closed goes nowhere.
    fn add(&mut self, record: &LogRecord<'_>) {
        if !self.logs.contains_key(&record.log) {
            // It may have been opened since the round began.
            self.take_new_logs();
        }
        let Some(log) = self.logs.get_mut(&record.log) else { return };
        log.formatter.line(record, &mut log.lines);
        log.lines_count += 1;
        if log.lines.len() >= WRITE_BYTES {
            log.write();
        }
    }

    /// Reports on stderr how many records were lost, at most every [`REPORT_INTERVAL`], and always
    /// at the end.
    fn report(&mut self, end: bool) {
        self.logs.values_mut().for_each(|log| log.report(end));
        if !is_due(self.reported_at, end) {
            return;
        }
        let rings = self.consumers.iter().map(|consumer| consumer.ring().dropped());
        let dropped = self.dropped_before + rings.sum::<u64>();
        if dropped > self.dropped_reported {
            let lines = dropped - self.dropped_reported;
            stderr::line(format_args!(
                "pinion: the access log could not keep up; lines dropped: {lines}"
            ));
            self.dropped_reported = dropped;
            self.reported_at = Some(Instant::now());
        }
    }
}

impl Log {
    fn write(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if let Err(error) = self.output.write_lines(&self.lines) {
            self.unwritten += self.lines_count;
            self.last_error = Some(error);
        }
        self.lines.clear();
        self.lines_count = 0;
    }

    fn reopen(&mut self) {
        if let Err(error) = self.output.reopen() {
            let (name, reason) = (self.output.name(), cannot_open(&error));
            stderr::line(format_args!(
                "pinion: cannot reopen the access log {name}, the old file stays: {reason}"
            ));
        }
    }

    fn report(&mut self, end: bool) {
        if !is_due(self.reported_at, end) {
            return;
        }
        if let Some(error) = self.last_error.take() {
            let lines = std::mem::take(&mut self.unwritten);
            let (name, reason) = (self.output.name(), without_number(&error.to_string()));
            stderr::line(format_args!(
                "pinion: cannot write the access log {name}: {reason}; lines lost: {lines}"
            ));
            self.reported_at = Some(Instant::now());
        }
    }
}

fn is_due(reported_at: Option<Instant>, end: bool) -> bool {
    end || reported_at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL)
}

fn something_to_do(shared: &LogShared) -> bool {
    let full = |ring: &Arc<Ring>| !ring.is_empty();
    shared.finish.load(Ordering::Acquire)
        || shared.reopen.load(Ordering::Acquire)
        || shared.rings.lock().unwrap_or_else(PoisonError::into_inner).iter().any(full)
}

#[cfg(test)]
mod tests {
    use super::super::{AccessLog, OpenLogs, record};
    use super::*;
    use crate::settings::{LogFormat, LogTarget};
    use std::fs::File;
    use std::path::PathBuf;

    #[test]
    fn a_full_disk_only_loses_lines() {
        assert!(File::open("/dev/full").is_ok(), "the test needs /dev/full");
        let mut output = OpenLog::file(PathBuf::from("/dev/full")).expect("it opens");
        assert!(output.write_lines(b"line\n").is_err());
        let logs = Arc::new(OpenLogs::default());
        let server = logs.open(&LogTarget::File(PathBuf::from("/dev/full")), LogFormat::Json);
        let log = AccessLog::start(logs, server.ok()).expect("a thread");
        let mut logger = log.logger();
        for _ in 0..10 {
            logger.log(&record::example());
        }
        log.finish();
    }

    #[test]
    fn the_ring_of_an_ended_worker_is_removed() {
        let shared = Arc::new(LogShared::default());
        let mut writer = Writer::new(Arc::clone(&shared));
        let ring = Arc::new(Ring::new());
        shared.rings.lock().expect("a lock").push(Arc::clone(&ring));
        writer.take_new_rings();
        writer.forget_ended_rings();
        assert_eq!(writer.consumers.len(), 1, "its worker lives");
        drop(ring);
        writer.forget_ended_rings();
        assert!(writer.consumers.is_empty());
        assert!(shared.rings.lock().expect("a lock").is_empty());
    }
}
