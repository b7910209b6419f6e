//! The log thread: takes records out of the rings, makes lines, writes many at once.

use super::format::{Formatter, LINE_MAX_BYTES};
use super::output::Output;
use super::record::{RECORD_MAX_BYTES, Record};
use super::ring::Consumer;
use super::{Ring, Shared};
use crate::failure::without_number;
use crate::panics;
use crate::settings::LogFormat;
use pinion_engine::stderr;
use std::io;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};
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

/// Trouble is told at most this often.
const TELL: Duration = Duration::from_secs(10);

/// Everything the thread owns.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    consumers: Vec<Consumer>,
    formatter: Formatter,
    output: Output,
    /// A record on its way from a ring into `lines`.
    message: Vec<u8>,
    lines: Vec<u8>,
    lines_count: u64,
    trouble: Trouble,
}

/// What was lost and not told yet.
#[derive(Debug, Default)]
struct Trouble {
    /// Drops of rings whose worker is gone.
    dropped_before: u64,
    dropped_told: u64,
    unwritten: u64,
    last_error: Option<io::Error>,
    told_at: Option<Instant>,
}

impl Writer {
    /// Nothing is read or written before [`Writer::run`].
    pub(crate) fn new(shared: Arc<Shared>, output: Output, format: LogFormat) -> Self {
        Self {
            shared,
            consumers: Vec::new(),
            formatter: Formatter::new(format),
            output,
            message: Vec::with_capacity(RECORD_MAX_BYTES.next_multiple_of(size_of::<u64>())),
            lines: Vec::with_capacity(LINES_BYTES),
            lines_count: 0,
            trouble: Trouble::default(),
        }
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
                None => thread::sleep(TELL),
            }
        }
    }

    /// Writes what there is and waits for more; true when nothing will come any more.
    fn round(&mut self) -> bool {
        // Read before the rings, so that nothing logged before `finish` is left behind.
        let finish = self.shared.finish.load(Ordering::Acquire);
        let reopen = self.shared.reopen.swap(false, Ordering::AcqRel);
        self.take_new_rings();
        let mut any = false;
        if reopen {
            // What was logged before the rotation belongs to the old file.
            any = self.drain();
            if let Err(error) = self.output.reopen() {
                let reason = without_number(&error.to_string());
                stderr::line(format_args!(
                    "pinion: cannot reopen the access log, the old file stays: {reason}"
                ));
            }
        }
        any |= self.drain();
        self.tell(finish);
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

    fn take_new_rings(&mut self) {
        let rings = self.shared.rings.lock().unwrap_or_else(PoisonError::into_inner);
        for ring in rings.iter() {
            if !self.consumers.iter().any(|known| Arc::ptr_eq(known.ring(), ring)) {
                self.consumers.push(Consumer::new(Arc::clone(ring)));
            }
        }
    }

    /// A worker that ended left its ring to us alone: the list, the consumer and nobody else.
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
                    self.trouble.dropped_before += ring.dropped();
                    self.consumers.swap_remove(at);
                    false
                }
                _ => true,
            }
        });
    }

    /// Writes what stands in the rings; false when nothing did.
    fn drain(&mut self) -> bool {
        let mut any = false;
        let mut message = std::mem::take(&mut self.message);
        let mut consumers = std::mem::take(&mut self.consumers);
        for consumer in &mut consumers {
            while consumer.pop(&mut message) {
                any = true;
                if let Some(record) = Record::decode(&message) {
                    self.formatter.line(&record, &mut self.lines);
                    self.lines_count += 1;
                }
                if self.lines.len() >= WRITE_BYTES {
                    self.write();
                }
            }
        }
        self.consumers = consumers;
        self.message = message;
        self.write();
        any
    }

    fn write(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if let Err(error) = self.output.write_lines(&self.lines) {
            self.trouble.unwritten += self.lines_count;
            self.trouble.last_error = Some(error);
        }
        self.lines.clear();
        self.lines_count = 0;
    }

    /// Tells on stderr what was lost, at most every [`TELL`], and always at the end.
    fn tell(&mut self, end: bool) {
        let trouble = &mut self.trouble;
        if !end && trouble.told_at.is_some_and(|told| told.elapsed() < TELL) {
            return;
        }
        let rings = self.consumers.iter().map(|consumer| consumer.ring().dropped());
        let dropped = trouble.dropped_before + rings.sum::<u64>();
        if dropped > trouble.dropped_told {
            let lines = dropped - trouble.dropped_told;
            stderr::line(format_args!(
                "pinion: the access log could not keep up; lines dropped: {lines}"
            ));
            trouble.dropped_told = dropped;
            trouble.told_at = Some(Instant::now());
        }
        if let Some(error) = trouble.last_error.take() {
            let lines = std::mem::take(&mut trouble.unwritten);
            let reason = without_number(&error.to_string());
            stderr::line(format_args!(
                "pinion: cannot write the access log: {reason}; lines lost: {lines}"
            ));
            trouble.told_at = Some(Instant::now());
        }
    }
}

fn something_to_do(shared: &Shared) -> bool {
    let full = |ring: &Arc<Ring>| !ring.is_empty();
    shared.finish.load(Ordering::Acquire)
        || shared.reopen.load(Ordering::Acquire)
        || shared.rings.lock().unwrap_or_else(PoisonError::into_inner).iter().any(full)
}

#[cfg(test)]
mod tests {
    use super::super::{AccessLog, record};
    use super::*;
    use std::fs::File;
    use std::path::PathBuf;

    #[test]
    fn a_disk_that_takes_nothing_loses_lines_and_nothing_else() {
        assert!(File::open("/dev/full").is_ok(), "the test needs /dev/full");
        let mut output = Output::file(PathBuf::from("/dev/full")).expect("it opens");
        assert!(output.write_lines(b"line\n").is_err());
        let log = AccessLog::start(output, LogFormat::Json).expect("a thread");
        let mut logger = log.logger();
        for _ in 0..10 {
            logger.log(&record::example());
        }
        log.finish();
    }

    #[test]
    fn a_worker_that_ended_leaves_no_ring_behind() {
        let shared = Arc::new(Shared::default());
        let output = Output::file(PathBuf::from("/dev/null")).expect("it opens");
        let mut writer = Writer::new(Arc::clone(&shared), output, LogFormat::Json);
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
