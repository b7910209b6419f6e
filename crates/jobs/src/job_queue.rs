//! Jobs: work that a worker must not do itself because it blocks, such as file operations and the
//! hashing of passwords. A few threads do it for all workers. Passwords have threads of their own,
//! because file operations take a moment and a hash takes long.
//!
//! Everything is bounded: the threads, the queued jobs, the bytes of their arguments, and the bytes
//! of results that no worker has received. A job is cancelled by dropping its [`CancelOnDrop`].

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use pinion_engine::Poster;
use pinion_engine::app::Message;

use crate::byte_quota::{ByteQuota, ByteReservation};
use crate::limits::{
    JOB_RESULTS_MAX_BYTES, JOB_THREADS_MAX, JOBS_MAX, JOBS_MAX_BYTES, PASSWORD_THREADS_MAX,
    PASSWORDS_MAX,
};

/// The result of a job: a value, or the text of an error.
pub type JobOutcome<T> = Result<T, String>;

/// A value that a job returns.
pub trait JobValue: Send + 'static {
    /// Returns the memory that the value takes, in bytes.
    fn held_bytes(&self) -> usize;
}

impl JobValue for Vec<u8> {
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.capacity()
    }
}

/// The kind of a job, which decides which threads run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// File operations.
    Files,
    /// Hashing of passwords.
    Passwords,
}

/// A job that may block, to run on a thread beside the workers.
pub struct BlockingJob<T> {
    work: Box<dyn FnOnce() -> JobOutcome<T> + Send>,
    kind: JobKind,
    /// The memory of the arguments of the job, in bytes.
    bytes: usize,
}

/// The guard of a job. A job whose guard is dropped before a thread has begun it is not run.
#[derive(Debug, Default)]
pub struct CancelOnDrop(Arc<()>);

impl<T: JobValue> BlockingJob<T> {
    /// Creates a job of the kind [`Files`](JobKind::Files). `bytes` is the memory that its
    /// arguments hold.
    pub fn files(bytes: usize, work: impl FnOnce() -> JobOutcome<T> + Send + 'static) -> Self {
        Self { work: Box::new(work), kind: JobKind::Files, bytes }
    }

    /// Creates a job of the kind [`Passwords`](JobKind::Passwords), which hashes a password.
    /// `bytes` is the memory that its arguments hold.
    pub fn passwords(bytes: usize, work: impl FnOnce() -> JobOutcome<T> + Send + 'static) -> Self {
        Self { kind: JobKind::Passwords, ..Self::files(bytes, work) }
    }

    /// Converts the value of the job, on its thread.
    pub fn map<U: JobValue>(self, convert: impl FnOnce(T) -> U + Send + 'static) -> BlockingJob<U> {
        let Self { work, kind, bytes } = self;
        BlockingJob { work: Box::new(move || work().map(convert)), kind, bytes }
    }

    /// Runs the job unless it is cancelled, so that jobs of clients that have left do not delay
    /// other jobs.
    pub(crate) fn run(self, guard: &Weak<()>) -> JobOutcome<T> {
        if guard.strong_count() == 0 {
            return Err("the request that waited for it is over".to_owned());
        }
        (self.work)()
    }
}

impl<T> fmt::Debug for BlockingJob<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Job").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The message that notifies a worker of the result of one of its jobs.
#[derive(Debug)]
pub struct JobDone<T> {
    /// The number that the job was submitted with.
    pub number: u64,
    /// The result of the job.
    pub result: JobResult<T>,
}

/// The result of a job. Its bytes count in the quota of results until it is dropped.
#[derive(Debug)]
pub struct JobResult<T> {
    /// The value, or the text of an error.
    pub outcome: JobOutcome<T>,
    _reservation: ByteReservation,
}

/// The worker that a job belongs to, and its number there.
#[derive(Clone)]
pub struct JobOwner {
    /// The number of the job, chosen by the worker.
    pub number: u64,
    /// The number of the worker.
    pub worker: u16,
    /// Posts the result to the worker.
    pub poster: Poster,
}

/// The limits of the jobs of all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// The most bytes of arguments of queued jobs.
    pub waiting_bytes: usize,
    /// The bytes of results that no worker has received at which no further job is begun.
    pub results_bytes: usize,
    /// The number of threads for files, at least 1.
    pub file_threads: usize,
    /// The number of threads for passwords, at least 1.
    pub password_threads: usize,
}

impl Default for JobLimits {
    /// Returns the limits of [`crate::limits`].
    fn default() -> Self {
        Self {
            waiting_bytes: JOBS_MAX_BYTES,
            results_bytes: JOB_RESULTS_MAX_BYTES,
            file_threads: JOB_THREADS_MAX,
            password_threads: PASSWORD_THREADS_MAX,
        }
    }
}

/// The queues of jobs and their threads, for all workers.
pub struct JobQueues {
    files: Arc<JobQueue>,
    passwords: Arc<JobQueue>,
}

/// The queue of the jobs of one kind.
struct JobQueue {
    /// The name of the kind in messages.
    name: &'static str,
    threads_max: usize,
    waiting_max: usize,
    state: Mutex<JobQueueState>,
    is_filled: Condvar,
    /// The bytes of arguments of queued jobs of all kinds. `results` has the bytes of results that
    /// no worker has received.
    waiting: Arc<ByteQuota>,
    results: Arc<ByteQuota>,
}

#[derive(Default)]
struct JobQueueState {
    waiting: VecDeque<QueuedJob>,
    threads: usize,
    idle: usize,
}

/// The error of a job that has panicked. The log has the message of the panic.
pub(crate) const FAILED_INSIDE: &str = "internal error, see the log of the server";

/// Runs a job and returns the message for its worker. The bytes of the result are reserved.
type RunJob = Box<dyn FnOnce(&Arc<ByteQuota>) -> Message + Send>;

/// A job in a queue. The type of its value is erased, so that jobs of all types share the threads.
struct QueuedJob {
    run: RunJob,
    worker: u16,
    poster: Poster,
    _reservation: ByteReservation,
}

impl QueuedJob {
    fn new<T: JobValue>(
        job: BlockingJob<T>,
        guard: &CancelOnDrop,
        owner: JobOwner,
        reservation: ByteReservation,
    ) -> Self {
        let JobOwner { number, worker, poster } = owner;
        let guard = Arc::downgrade(&guard.0);
        let run = move |results: &Arc<ByteQuota>| -> Message {
            // A job that panics is reported to its worker, and its thread takes the next job.
            let outcome = catch_unwind(AssertUnwindSafe(|| job.run(&guard)));
            let outcome = outcome.unwrap_or_else(|_| Err(FAILED_INSIDE.to_owned()));
            let bytes = outcome.as_ref().map_or_else(String::len, T::held_bytes);
            let result = JobResult { outcome, _reservation: results.reserve(bytes) };
            Box::new(JobDone { number, result })
        };
        Self { run: Box::new(run), worker, poster, _reservation: reservation }
    }

    /// Runs the job and posts its result, whose bytes count among `results`.
    fn run(self, results: &Arc<ByteQuota>) {
        let Self { run, worker, poster, _reservation } = self;
        let mut message = run(results);
        // The inbox of the worker is full. The worker reads it soon, so this thread tries again.
        while let Err(back) = poster.post_to_app(worker, message) {
            message = back;
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl fmt::Debug for JobQueues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("JobQueues").finish_non_exhaustive()
    }
}

impl Default for JobQueues {
    fn default() -> Self {
        Self::new(&JobLimits::default())
    }
}

impl JobQueues {
    /// Creates queues with these limits. Threads start when there are jobs for them.
    #[must_use]
    pub fn new(limits: &JobLimits) -> Self {
        let waiting = Arc::new(ByteQuota::new(limits.waiting_bytes));
        let results = Arc::new(ByteQuota::new(limits.results_bytes));
        let queue = |name, threads_max, waiting_max| {
            let (waiting, results) = (Arc::clone(&waiting), Arc::clone(&results));
            let (state, is_filled) = Default::default();
            let queue =
                JobQueue { name, threads_max, waiting_max, state, is_filled, waiting, results };
            Arc::new(queue)
        };
        Self {
            files: queue("files", limits.file_threads, JOBS_MAX),
            passwords: queue("passwords", limits.password_threads, PASSWORDS_MAX),
        }
    }

    /// Queues a job, which runs unless `guard` is dropped before a thread has begun it. In both
    /// cases its owner receives a [`JobDone`] of this type.
    ///
    /// # Errors
    /// Too many jobs are queued, or the arguments of queued jobs have too many bytes, or no thread
    /// can be started.
    pub fn submit<T: JobValue>(
        &self,
        job: BlockingJob<T>,
        guard: &CancelOnDrop,
        owner: JobOwner,
    ) -> Result<(), String> {
        let queue = match job.kind {
            JobKind::Files => &self.files,
            JobKind::Passwords => &self.passwords,
        };
        let reservation = queue.waiting.try_reserve(job.bytes);
        let reservation = reservation.ok_or_else(|| queue.is_full())?;
        queue.submit(QueuedJob::new(job, guard, owner, reservation))
    }

    /// Creates queues without threads. Jobs run in [`Self::run_one`].
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn without_threads() -> Self {
        let queues = Self::default();
        for queue in [&queues.files, &queues.passwords] {
            queue.lock().threads = queue.threads_max;
        }
        queues
    }

    /// Runs the job that has waited longest; jobs with files come before jobs with passwords.
    /// Returns false if no job is queued.
    #[cfg(feature = "sim")]
    pub fn run_one(&self) -> bool {
        [&self.files, &self.passwords].into_iter().any(|queue| {
            let job = queue.lock().waiting.pop_front();
            job.map(|job| job.run(&queue.results)).is_some()
        })
    }
}

impl JobQueue {
    fn is_full(&self) -> String {
        format!(
            "too many {} wait for a thread (at most {}, and {} MiB with them); wait for earlier \
             ones before you start more",
            self.name,
            self.waiting_max,
            self.waiting.max_bytes() >> 20
        )
    }

    fn submit(self: &Arc<Self>, job: QueuedJob) -> Result<(), String> {
        let mut state = self.lock();
        if state.waiting.len() >= self.waiting_max {
            return Err(self.is_full());
        }
        state.waiting.push_back(job);
        if state.idle < state.waiting.len() && state.threads < self.threads_max {
            let queue = Arc::clone(self);
            let thread = thread::Builder::new().name(format!("job {}", self.name));
            match thread.spawn(move || queue.run_jobs()) {
                Ok(_) => state.threads += 1,
                // The existing threads run the job later.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    state.waiting.pop_back();
                    return Err(format!("no thread can be started: {error}"));
                }
            }
        }
        drop(state);
        self.is_filled.notify_one();
        Ok(())
    }

    /// Runs jobs on a thread of the queue, as long as the program runs.
    fn run_jobs(&self) {
        loop {
            let job = self.take();
            // Workers receive their results soon, so this thread waits for space.
            while self.results.is_full() {
                thread::sleep(Duration::from_millis(1));
            }
            job.run(&self.results);
        }
    }

    fn take(&self) -> QueuedJob {
        let mut state = self.lock();
        state.idle += 1;
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.idle -= 1;
                return job;
            }
            state = self.is_filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_job_does_not_run() {
        let guard = CancelOnDrop::default();
        let weak = Arc::downgrade(&guard.0);
        let work = || Ok(b"done".to_vec());
        assert_eq!(BlockingJob::files(0, work).run(&weak), Ok(b"done".to_vec()));
        drop(guard);
        assert!(BlockingJob::files(0, work).run(&weak).is_err());
        assert!(BlockingJob::passwords(0, work).run(&weak).is_err());
    }
}
