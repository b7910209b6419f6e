//! `--stats`: the figures of the server; one line on stderr every given number of seconds, and one
//! at the end.
//!
//! Workers count for themselves ([`Counts`]): no two write to the same cache line. The resource use
//! of the process comes from the kernel ([`resource_usage`]), by the thread of the figures alone.

mod resource_usage;

use super::latency::{self, Times};
use crate::control::status;
use crate::terminal::{count, counted, size};
use pinion_engine::server::Control;
use pinion_engine::stderr;
use resource_usage::Usage;
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The responses of one worker, counted. Only the worker writes; the thread of the figures reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    /// The number of responses by the first digit of the status, from 2 on.
    responses: [AtomicU64; 4],
    content_bytes: AtomicU64,
    /// Connections that were ended for the work without end that their clients made.
    floods: AtomicU64,
    times: Times,
}

/// Raises a count without an atomic addition: with one writer there is nothing to lose between the
/// two halves.
#[inline]
fn raise(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Counts {
    /// Counts a response that stands in the queue.
    #[inline]
    pub(crate) fn add(&self, status: u16, content_bytes: u64) {
        let class = usize::from(status / 100).checked_sub(2);
        if let Some(responses) = class.and_then(|class| self.responses.get(class)) {
            raise(responses, 1);
        }
        raise(&self.content_bytes, content_bytes);
    }

    /// Counts a request that took so long, and stands for so many.
    #[inline]
    pub(crate) fn add_time(&self, time: Duration, weight: u64) {
        self.times.add(time, weight);
    }

    /// Counts a flood that was ended.
    #[cold]
    pub(crate) fn add_flood(&self) {
        raise(&self.floods, 1);
    }
}

/// The counts of all workers; those of a worker that was started again stay beside its new ones.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Vec<Arc<Counts>>>);

impl Tally {
    /// Returns the counts of one more worker.
    pub(crate) fn counts(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counts));
        counts
    }

    /// Returns the figures of all requests, and how long they took.
    pub(crate) fn status(&self) -> (status::Requests, Option<status::Latency>) {
        let Sum { responses, content_bytes, .. } = self.sum();
        let [status_2xx, status_3xx, status_4xx, status_5xx] = responses;
        let total = responses.iter().sum();
        let requests = status::Requests {
            total,
            status_2xx,
            status_3xx,
            status_4xx,
            status_5xx,
            content_bytes,
        };
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (requests, latency::percentiles(all.iter().map(|counts| &counts.times)))
    }

    fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        for counts in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (of_all, of_one) in sum.responses.iter_mut().zip(&counts.responses) {
                *of_all += of_one.load(Ordering::Relaxed);
            }
            sum.content_bytes += counts.content_bytes.load(Ordering::Relaxed);
            sum.floods += counts.floods.load(Ordering::Relaxed);
        }
        sum
    }
}

/// The responses of all workers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    responses: [u64; 4],
    content_bytes: u64,
    floods: u64,
}

/// Returns the memory of this process in bytes, shared pages included.
pub(super) fn memory_bytes() -> u64 {
    Usage::now().memory_bytes
}

/// Everything at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Since the start.
    at: Duration,
    /// `None` for a server without HTTP.
    sum: Option<Sum>,
    usage: Usage,
    connections: usize,
}

/// The thread that writes the lines.
pub(crate) struct Stats {
    /// Dropped at the end.
    ending: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Stats {
    /// Starts the thread that prints the figures, once in `every`. A server without HTTP has no
    /// tally.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(
        every: Duration,
        tally: Option<Arc<Tally>>,
        control: Control,
    ) -> io::Result<Self> {
        let (ending, ended) = mpsc::sync_channel(0);
        let began = Instant::now();
        let run = move || {
            let mut last = Sample::default();
            loop {
                let ends = ended.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
                let sample = Sample {
                    at: began.elapsed(),
                    sum: tally.as_deref().map(Tally::sum),
                    usage: Usage::now(),
                    connections: control.connections(),
                };
                stderr::line(format_args!("{}", line(&sample, &last)));
                last = sample;
                if ends {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("stats".to_owned()).spawn(run)?;
        Ok(Self { ending, thread })
    }

    /// Writes the last line.
    pub(crate) fn finish(self) {
        drop(self.ending);
        let _ended = self.thread.join();
    }
}

/// Returns the line of totals of responses and content, rates since the line before, and current
/// values.
fn line(now: &Sample, last: &Sample) -> String {
    let seconds = now.at.saturating_sub(last.at).as_secs_f64().max(0.001);
    let per_second = |now: u64, last: u64| now.saturating_sub(last) as f64 / seconds;
    let rate = |now, last| count(per_second(now, last).round() as u64);
    let size_rate = |now, last| size(per_second(now, last).round() as u64);
    let percent = |now: Duration, last: Duration| {
        let part = now.saturating_sub(last).as_secs_f64() / seconds;
        format!("{:.1} %", part * 100.0)
    };
    let (usage, before) = (&now.usage, &last.usage);
    let mut text = format!("stats after {} s: ", count(now.at.as_secs()));
    if let Some(sum) = now.sum {
        let last = last.sum.unwrap_or_default();
        let (total, last_total) = (sum.responses.iter().sum(), last.responses.iter().sum());
        let _fits = write!(text, "{} ({}/s)", counted(total, "response"), rate(total, last_total));
        for (class, responses) in (2..).zip(sum.responses) {
            let _fits = write!(text, ", {class}xx {}", count(responses));
        }
        let (bytes, last_bytes) = (sum.content_bytes, last.content_bytes);
        let _fits =
            write!(text, "; content {} ({}/s); ", size(bytes), size_rate(bytes, last_bytes));
    }
    text.push_str(&counted(now.connections as u64, "connection"));
    if let Some(sum) = now.sum {
        let _fits = write!(text, "; {} ended", counted(sum.floods, "flood"));
    }
    let _fits = write!(
        text,
        "; CPU {} user, {} system; memory {}; switches {}/s, {}/s forced; faults {}/s, {}/s from \
         disk; disk read {}/s, written {}/s",
        percent(usage.user, before.user),
        percent(usage.system, before.system),
        size(usage.memory_bytes),
        rate(usage.switches, before.switches),
        rate(usage.forced_switches, before.forced_switches),
        rate(usage.faults, before.faults),
        rate(usage.disk_faults, before.disk_faults),
        size_rate(usage.read_bytes, before.read_bytes),
        size_rate(usage.written_bytes, before.written_bytes),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_workers_are_summed() {
        let tally = Tally::default();
        let (one, two) = (tally.counts(), tally.counts());
        for (status, bytes) in [(200, 10), (206, 1), (304, 0), (404, 5), (599, 1)] {
            one.add(status, bytes);
        }
        two.add(200, 100);
        two.add(101, 0);
        one.add_flood();
        (0..2).for_each(|_| two.add_flood());
        assert_eq!(tally.sum(), Sum { responses: [3, 1, 1, 1], content_bytes: 117, floods: 3 });
    }

    #[test]
    fn a_line_has_totals_and_rates() {
        let usage = Usage {
            user: Duration::from_millis(500),
            system: Duration::from_millis(1500),
            memory_bytes: 5 << 20,
            switches: 20,
            forced_switches: 2,
            faults: 1000,
            disk_faults: 1,
            read_bytes: 4096,
            written_bytes: 0,
        };
        let sum = Sum { responses: [1200, 3, 2, 0], content_bytes: 1 << 20, floods: 1500 };
        let last = Sample { at: Duration::from_secs(1), usage, ..Sample::default() };
        let usage = Usage { user: Duration::from_millis(600), switches: 40, ..usage };
        let now = Sample { at: Duration::from_secs(3), sum: Some(sum), usage, connections: 7 };
        assert_eq!(
            line(&now, &last),
            "stats after 3 s: 1 205 responses (603/s), 2xx 1 200, 3xx 3, 4xx 2, 5xx 0; content \
             1.00 MiB (512 KiB/s); 7 connections; 1 500 floods ended; CPU 5.0 % user, 0.0 % \
             system; memory 5.00 MiB; switches 10/s, 0/s forced; faults 0/s, 0/s from disk; disk \
             read 0 B/s, written 0 B/s"
        );
        // Nothing is divided by nothing, and nothing goes backwards.
        let nothing = Sample { sum: Some(Sum::default()), ..last };
        assert!(line(&nothing, &now).contains("0 responses (0/s)"));
        let sum = Sum { responses: [1, 0, 0, 0], content_bytes: 1, floods: 1 };
        let sample = Sample { sum: Some(sum), connections: 1, ..Sample::default() };
        let one = line(&sample, &Sample::default());
        for part in [": 1 response (", "; 1 connection;", "; 1 flood ended;"] {
            assert!(one.contains(part), "{part}: {one}");
        }
        let without_http = line(&Sample { sum: None, ..sample }, &Sample::default());
        assert!(without_http.starts_with("stats after 0 s: 1 connection; CPU "), "{without_http}");
    }
}
