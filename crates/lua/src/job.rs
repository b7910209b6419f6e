//! Work that a worker must not do itself, because it blocks: files, the hashing of passwords. A few
//! threads do it for all workers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pinion_engine::Poster;
use pinion_engine::app::Message;

use crate::limits::{JOB_THREADS_MAX, JOBS_MAX};
use crate::plain::Plain;

/// What has come of work: a value, or why there is none.
pub(crate) type Finished = Result<Plain, String>;

/// Something that may block.
pub(crate) struct Job(Box<dyn FnOnce() -> Finished + Send>);

impl Job {
    pub(crate) fn new(work: impl FnOnce() -> Finished + Send + 'static) -> Self {
        Self(Box::new(work))
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
    pub(crate) finished: Finished,
}

/// The threads, and what waits for them.
#[derive(Default)]
pub struct Jobs {
    queue: Mutex<Queue>,
    more: Condvar,
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
    number: u64,
    worker: u16,
    poster: Poster,
}

impl Order {
    /// Does the job and tells the worker.
    fn carry_out(self) {
        let Self { job, number, worker, poster } = self;
        let mut message: Message = Box::new(Done { number, finished: (job.0)() });
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
        if queue.waiting.len() >= JOBS_MAX {
            return Err("too many files and passwords wait already; try again later".to_owned());
        }
        queue.waiting.push_back(Order { job, number, worker, poster });
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
            self.take().carry_out();
        }
    }

    /// Without threads: what waits is done by [`Self::do_one`].
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn by_hand() -> Self {
        let threads = JOB_THREADS_MAX;
        let queue = Mutex::new(Queue { threads, ..Queue::default() });
        Self { queue, more: Condvar::new() }
    }

    /// Does the job that has waited longest; false when none waits.
    #[cfg(feature = "sim")]
    pub fn do_one(&self) -> bool {
        let order = self.lock().waiting.pop_front();
        order.map(Order::carry_out).is_some()
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
