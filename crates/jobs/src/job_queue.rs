//! Jobs: work that a worker must not do itself because it blocks, such as file operations and the
//! hashing of passwords. A few threads do it for all workers. Passwords have threads of their own,
//! because file operations take a moment and a hash takes long.
//!
//! Everything is bounded: the threads, the jobs that wait, the bytes that wait with them, and the
//! bytes of results that nobody has taken. A job is cancelled by dropping its [`CancelOnDrop`].

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

/// The result of a job: a value, or why there is none.
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

/// Work that may block.
pub struct BlockingJob<T> {
    work: Box<dyn FnOnce() -> JobOutcome<T> + Send>,
    kind: JobKind,
    /// The memory that its arguments take.
    bytes: usize,
}

/// A job whose guard is dropped before a thread has begun it is not run.
#[derive(Debug, Default)]
pub struct CancelOnDrop(Arc<()>);

impl<T: JobValue> BlockingJob<T> {
    /// Makes a job with files whose arguments hold so many bytes.
    pub fn files(bytes: usize, work: impl FnOnce() -> JobOutcome<T> + Send + 'static) -> Self {
        Self { work: Box::new(work), kind: JobKind::Files, bytes }
    }

    /// Makes a job that hashes a password and whose arguments hold so many bytes.
    pub fn passwords(bytes: usize, work: impl FnOnce() -> JobOutcome<T> + Send + 'static) -> Self {
        Self { kind: JobKind::Passwords, ..Self::files(bytes, work) }
    }

    /// Converts the value of the job, on its thread.
    pub fn map<U: JobValue>(self, convert: impl FnOnce(T) -> U + Send + 'static) -> BlockingJob<U> {
        let Self { work, kind, bytes } = self;
        BlockingJob { work: Box::new(move || work().map(convert)), kind, bytes }
    }

    /// Runs the job unless it is cancelled: work for clients that have left delays no other.
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

/// The message by which a worker learns that one of its jobs is done.
#[derive(Debug)]
pub struct JobDone<T> {
    /// The number that the job was submitted with.
    pub number: u64,
    /// Its result.
    pub result: JobResult<T>,
}

/// The result of a job. Its bytes are counted until this is dropped.
#[derive(Debug)]
pub struct JobResult<T> {
    /// The value, or why there is none.
    pub outcome: JobOutcome<T>,
    _reservation: ByteReservation,
}

/// The worker that a job belongs to, and its number there.
#[derive(Clone)]
pub struct JobOwner {
    /// Chosen by the worker.
    pub number: u64,
    /// The number of the worker.
    pub worker: u16,
    /// Posts the result to the worker.
    pub poster: Poster,
}

/// What the jobs of all workers may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// Bytes that wait with jobs for a thread.
    pub waiting_bytes: usize,
    /// With so many bytes of results that no worker has taken, no further job is begun.
    pub results_bytes: usize,
    /// Threads for files, at least 1.
    pub file_threads: usize,
    /// Threads for passwords, at least 1.
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
    /// The bytes that wait with jobs of all kinds, and those of results that nobody has taken.
    waiting: Arc<ByteQuota>,
    results: Arc<ByteQuota>,
}

#[derive(Default)]
struct JobQueueState {
    waiting: VecDeque<QueuedJob>,
    threads: usize,
    idle: usize,
}

/// The outcome of a job that has panicked; the panic itself is in the log.
pub(crate) const FAILED_INSIDE: &str = "internal error, see the log of the server";

/// Runs a job and returns the message for its worker. The bytes of the result are reserved.
type RunJob = Box<dyn FnOnce(&Arc<ByteQuota>) -> Message + Send>;

/// A job in a queue. It does not name the type of its value, so that jobs of all types share their
/// threads.
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
        // A worker whose inbox is full reads it in a moment.
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
    /// Makes queues with these limits. Threads start when there are jobs for them.
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

    /// Queues a job, which runs unless `guard` is dropped before. In any case its owner gets a
    /// [`JobDone`] of this type.
    ///
    /// # Errors
    /// Too many jobs wait already, or too many bytes with them, or no thread can be started.
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

    /// Makes queues without threads: jobs run in [`Self::run_one`].
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn without_threads() -> Self {
        let queues = Self::default();
        for queue in [&queues.files, &queues.passwords] {
            queue.lock().threads = queue.threads_max;
        }
        queues
    }

    /// Runs the job that has waited longest, one with files before any password. Returns false when
    /// no job waits.
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
                // The threads that run do it later.
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
            // Workers take their results in a moment.
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
