//! Work that a worker must not do itself, because it blocks: files, the hashing of passwords. A few
//! threads do it for all workers, and those for passwords are others than those for files, which
//! are done in a moment.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use pinion_engine::Poster;
use pinion_engine::app::Message;

use crate::limits::{
    JOB_RESULTS_MAX_BYTES, JOB_THREADS_MAX, JOBS_MAX, JOBS_MAX_BYTES, PASSWORD_THREADS_MAX,
    PASSWORDS_MAX,
};
use crate::plain::Plain;
use crate::tally::{Counted, Tally};

/// What has come of work: a value, or why there is none.
pub(crate) type Finished = Result<Plain, String>;

/// Something that may block.
pub(crate) struct Job {
    work: Box<dyn FnOnce() -> Finished + Send>,
    /// Of what it holds.
    bytes: usize,
    is_password: bool,
}

/// As long as this lives somebody waits for a job.
pub(crate) type Wanted = Arc<()>;

impl Job {
    /// One that has to do with files and holds next to nothing.
    pub(crate) fn new(work: impl FnOnce() -> Finished + Send + 'static) -> Self {
        Self { work: Box::new(work), bytes: 0, is_password: false }
    }

    /// One that has to do with files and holds so many bytes.
    pub(crate) fn of(bytes: usize, work: impl FnOnce() -> Finished + Send + 'static) -> Self {
        Self { bytes, ..Self::new(work) }
    }

    /// One that hashes a password, and holds so many bytes.
    pub(crate) fn password(bytes: usize, work: impl FnOnce() -> Finished + Send + 'static) -> Self {
        Self { is_password: true, ..Self::of(bytes, work) }
    }

    /// Does it, if anybody still waits for it: what clients wanted that have left since holds up
    /// nobody.
    fn run(self, wanted: &Weak<()>) -> Finished {
        match wanted.strong_count() {
            0 => Err("the request that waited for it is over".to_owned()),
            _ => (self.work)(),
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Job")
    }
}

/// Tells a worker that a job of it is done.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) number: u64,
    pub(crate) result: JobResult,
}

/// What has come of a job. It is counted until somebody takes it.
#[derive(Debug)]
pub(crate) struct JobResult {
    pub(crate) finished: Finished,
    pub(crate) _counted: Counted,
}

/// The threads, and what waits for them.
pub struct Jobs {
    files: Arc<Line>,
    passwords: Arc<Line>,
}

/// Jobs of one kind.
struct Line {
    /// What they have to do with, in words.
    what: &'static str,
    threads_max: usize,
    waiting_max: usize,
    queue: Mutex<Queue>,
    more: Condvar,
    /// Of what waits with jobs of all kinds, and of results that nobody has taken.
    waiting: Arc<Tally>,
    results: Arc<Tally>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Order>,
    threads: usize,
    idle: usize,
}

/// What a script is told of a job that has panicked; the panic itself is in the log.
const FAILED_INSIDE: &str = "internal error, see the log of the server";

/// A job, and whose it is.
struct Order {
    job: Job,
    _counted: Counted,
    wanted: Weak<()>,
    number: u64,
    worker: u16,
    poster: Poster,
}

impl Order {
    /// Does the job and tells the worker. What comes of it counts among `results`.
    fn carry_out(self, results: &Arc<Tally>) {
        let Self { job, wanted, number, worker, poster, _counted } = self;
        // Whatever happens, the worker hears of it, and the thread takes the next job.
        let outcome = catch_unwind(AssertUnwindSafe(|| job.run(&wanted)));
        let finished = outcome.unwrap_or_else(|_| Err(FAILED_INSIDE.to_owned()));
        let bytes = finished.as_ref().map_or_else(String::len, Plain::bytes);
        let result = JobResult { finished, _counted: results.count(bytes) };
        let mut message: Message = Box::new(Done { number, result });
        // A worker whose inbox is full takes it up in a moment.
        while let Err(back) = poster.post_to_app(worker, message) {
            message = back;
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Jobs").finish_non_exhaustive()
    }
}

impl Default for Jobs {
    fn default() -> Self {
        let files = Line::new("files", JOB_THREADS_MAX, JOBS_MAX);
        let (waiting, results) = (Arc::clone(&files.waiting), Arc::clone(&files.results));
        let passwords = Line::new("passwords", PASSWORD_THREADS_MAX, PASSWORDS_MAX);
        let passwords = Line { waiting, results, ..passwords };
        Self { files: Arc::new(files), passwords: Arc::new(passwords) }
    }
}

impl Jobs {
    /// Has a job done, unless `wanted` is gone by then. The worker hears of it by [`Done`], under
    /// this number, in any case.
    ///
    /// # Errors
    /// Too many wait already, or too many bytes with them.
    pub(crate) fn submit(
        &self,
        job: Job,
        wanted: &Wanted,
        number: u64,
        worker: u16,
        poster: Poster,
    ) -> Result<(), String> {
        let line = if job.is_password { &self.passwords } else { &self.files };
        let counted = line.waiting.count_up_to(JOBS_MAX_BYTES, job.bytes);
        let _counted = counted.ok_or_else(|| line.is_full())?;
        line.submit(Order { job, _counted, wanted: Arc::downgrade(wanted), number, worker, poster })
    }

    /// Without threads: what waits is done by [`Self::do_one`].
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn by_hand() -> Self {
        let jobs = Self::default();
        for line in [&jobs.files, &jobs.passwords] {
            line.lock().threads = line.threads_max;
        }
        jobs
    }

    /// Does the job that has waited longest, one with files before any password; false when none
    /// waits.
    #[cfg(feature = "sim")]
    pub fn do_one(&self) -> bool {
        [&self.files, &self.passwords].into_iter().any(|line| {
            let order = line.lock().waiting.pop_front();
            order.map(|order| order.carry_out(&line.results)).is_some()
        })
    }
}

impl Line {
    fn new(what: &'static str, threads_max: usize, waiting_max: usize) -> Self {
        let (queue, more, waiting, results) = Default::default();
        Self { what, threads_max, waiting_max, queue, more, waiting, results }
    }

    fn is_full(&self) -> String {
        format!(
            "too many {} wait for a thread (at most {}, and {} MiB with them); wait for earlier \
             ones before you start more",
            self.what,
            self.waiting_max,
            JOBS_MAX_BYTES >> 20
        )
    }

    fn submit(self: &Arc<Self>, order: Order) -> Result<(), String> {
        let mut queue = self.lock();
        if queue.waiting.len() >= self.waiting_max {
            return Err(self.is_full());
        }
        queue.waiting.push_back(order);
        if queue.idle < queue.waiting.len() && queue.threads < self.threads_max {
            let line = Arc::clone(self);
            let started = thread::Builder::new().name(format!("lua {}", self.what));
            match started.spawn(move || line.work()) {
                Ok(_) => queue.threads += 1,
                // Those that run do it later.
                Err(_) if queue.threads > 0 => {}
                Err(error) => {
                    queue.waiting.pop_back();
                    return Err(format!("no thread can be started: {error}"));
                }
            }
        }
        drop(queue);
        self.more.notify_one();
        Ok(())
    }

    /// What each thread does, as long as the program runs.
    fn work(&self) {
        loop {
            let order = self.take();
            // Scripts take what is there in a moment.
            while self.results.bytes() >= JOB_RESULTS_MAX_BYTES {
                thread::sleep(Duration::from_millis(1));
            }
            order.carry_out(&self.results);
        }
    }

    fn take(&self) -> Order {
        let mut queue = self.lock();
        queue.idle += 1;
        loop {
            if let Some(order) = queue.waiting.pop_front() {
                queue.idle -= 1;
                return order;
            }
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_waits_for_is_not_done() {
        let wanted = Wanted::default();
        let waits = Arc::downgrade(&wanted);
        let done = || Ok(Plain::Boolean(true));
        assert!(matches!(Job::new(done).run(&waits), Ok(Plain::Boolean(true))));
        drop(wanted);
        assert!(Job::new(done).run(&waits).is_err());
        assert!(Job::password(0, done).run(&waits).is_err());
    }
}
