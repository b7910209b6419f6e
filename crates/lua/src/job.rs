//! Work that a worker must not do itself, because it blocks: files, the hashing of passwords. A few
//! threads do it for all workers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pinion_engine::Poster;
use pinion_engine::app::Message;

use crate::limits::{JOB_RESULTS_MAX_BYTES, JOB_THREADS_MAX, JOBS_MAX, JOBS_MAX_BYTES};
use crate::plain::Plain;
use crate::tally::{Counted, Tally};

/// What has come of work: a value, or why there is none.
pub(crate) type Finished = Result<Plain, String>;

/// Something that may block.
pub(crate) struct Job {
    work: Box<dyn FnOnce() -> Finished + Send>,
    /// Of what it holds.
    bytes: usize,
}

impl Job {
    /// One that holds next to nothing.
    pub(crate) fn new(work: impl FnOnce() -> Finished + Send + 'static) -> Self {
        Self { work: Box::new(work), bytes: 0 }
    }

    /// One that holds so many bytes.
    pub(crate) fn of(bytes: usize, work: impl FnOnce() -> Finished + Send + 'static) -> Self {
        Self { bytes, ..Self::new(work) }
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
#[derive(Default)]
pub struct Jobs {
    queue: Mutex<Queue>,
    more: Condvar,
    /// Of what waits with jobs, and of results that nobody has taken.
    waiting: Arc<Tally>,
    results: Arc<Tally>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Order>,
    threads: usize,
    idle: usize,
}

/// A job, and whose it is.
struct Order {
    job: Job,
    _counted: Counted,
    number: u64,
    worker: u16,
    poster: Poster,
}

impl Order {
    /// Does the job and tells the worker. What comes of it counts among `results`.
    fn carry_out(self, results: &Arc<Tally>) {
        let Self { job, number, worker, poster, _counted } = self;
        let finished = (job.work)();
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

impl Jobs {
    /// Has a job done. The worker hears of it by [`Done`], under this number.
    ///
    /// # Errors
    /// Too many wait already.
    pub(crate) fn submit(
        self: &Arc<Self>,
        job: Job,
        number: u64,
        worker: u16,
        poster: Poster,
    ) -> Result<(), String> {
        let mut queue = self.lock();
        let counted = match queue.waiting.len() < JOBS_MAX {
            true => self.waiting.count_up_to(JOBS_MAX_BYTES, job.bytes),
            false => None,
        };
        let Some(counted) = counted else {
            return Err("too many files and passwords wait already; try again later".to_owned());
        };
        queue.waiting.push_back(Order { job, _counted: counted, number, worker, poster });
        if queue.idle < queue.waiting.len() && queue.threads < JOB_THREADS_MAX {
            let jobs = Arc::clone(self);
            let started = thread::Builder::new().name("lua jobs".to_owned());
            match started.spawn(move || jobs.work()) {
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

    /// Without threads: what waits is done by [`Self::do_one`].
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn by_hand() -> Self {
        let threads = JOB_THREADS_MAX;
        let queue = Mutex::new(Queue { threads, ..Queue::default() });
        Self { queue, ..Self::default() }
    }

    /// Does the job that has waited longest; false when none waits.
    #[cfg(feature = "sim")]
    pub fn do_one(&self) -> bool {
        let order = self.lock().waiting.pop_front();
        order.map(|order| order.carry_out(&self.results)).is_some()
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
