//! Threads that execute commands that may take long, so that no worker does it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use pinion_engine::Poster;
use pinion_engine::app::Message;
use pinion_engine::exchange_address::Address;
use pinion_lua::store_access::{StoreJobDone, StoreJobRunner};
use pinion_store::job::{FinishedJob, Job, JobQueue, ShardSet};
use pinion_store::store::Store;

use super::pages::FoundValue;
use super::unix_ms;
use super::waiting_pages::{LOOKS_MAX, LookEnd};

/// Threads for jobs. Two, so that a long job does not hold up those that need none of its shards;
/// more would take the processors from the workers.
const JOB_THREADS: usize = 2;

/// Jobs of the scripts of all workers that wait: as many as looks.
const SCRIPT_JOBS_MAX: usize = LOOKS_MAX;

/// How long a thread waits before it posts again to a worker with too many messages.
const POST_PAUSE: Duration = Duration::from_millis(1);

/// Jobs of the clients and scripts of all workers, and of requests for pages.
#[derive(Debug)]
pub(crate) struct StoreJobs {
    store: Arc<Store>,
    queue: Mutex<JobQueue<StoreJob>>,
    /// A job was added, or has ended.
    changed: Condvar,
    /// Looks that wait or run.
    looks: AtomicUsize,
    /// Jobs of scripts that wait or run.
    script_jobs: AtomicUsize,
}

/// A job for a thread, and the recipient of its result.
#[derive(Debug)]
pub(super) enum StoreJob {
    /// A command of a client.
    Command { job: Box<Job>, owner: JobOwner },
    /// A look at the key of a page.
    Look { key: Vec<u8>, owner: JobOwner },
    /// A command of a script, which has a function called as long as the script is there.
    Script { job: Box<Job>, wanted: Weak<()>, done: ScriptDone },
}

/// The stream or the exchange that waits for a job.
pub(super) struct JobOwner {
    pub(super) poster: Poster,
    pub(super) address: Address,
}

impl std::fmt::Debug for JobOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("JobOwner").field(&self.address).finish()
    }
}

/// The callback of a script; see [`StoreJobDone`].
pub(super) struct ScriptDone(StoreJobDone);

impl std::fmt::Debug for ScriptDone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScriptDone")
    }
}

/// The message that is posted to the stream of a client when its job has ended. If the stream is
/// gone, the reply is dropped.
pub(super) struct JobEnd {
    store: Arc<Store>,
    /// `None` once it was taken.
    finished: Option<Box<FinishedJob>>,
}

impl JobEnd {
    /// Returns the result, once.
    pub(super) fn take(&mut self) -> Option<FinishedJob> {
        self.finished.take().map(|finished| *finished)
    }
}

impl Drop for JobEnd {
    fn drop(&mut self) {
        if let Some(finished) = self.finished.take() {
            finished.abandon(&self.store);
        }
    }
}

impl StoreJobs {
    /// Returns an empty queue without threads.
    pub(super) fn new(store: &Arc<Store>) -> Self {
        let (store, queue) = (Arc::clone(store), Mutex::default());
        let (looks, script_jobs) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { store, queue, changed: Condvar::new(), looks, script_jobs }
    }

    /// Starts the threads. They last as long as the process: a server that stops waits for clients
    /// that wait for a job, as long as for others, and not for the threads.
    ///
    /// # Errors
    /// The system has no thread for them.
    pub(crate) fn start(store: &Arc<Store>) -> io::Result<Arc<Self>> {
        let jobs = Arc::new(Self::new(store));
        for number in 0..JOB_THREADS {
            let jobs = Arc::clone(&jobs);
            let name = format!("store-job-{number}");
            thread::Builder::new().name(name).spawn(move || jobs.run_all())?;
        }
        Ok(jobs)
    }

    /// Adds a job. Its end is posted to the owner.
    pub(super) fn push(&self, job: Job, owner: JobOwner) {
        let shards = job.shards();
        self.add(shards, StoreJob::Command { job: Box::new(job), owner });
    }

    /// Adds a look at the value of a key, which is posted to the owner. Returns false if there are
    /// too many.
    #[must_use]
    pub(super) fn push_look(&self, key: Vec<u8>, owner: JobOwner) -> bool {
        if self.looks.fetch_add(1, Ordering::Relaxed) >= LOOKS_MAX {
            self.looks.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let shards = self.store.shard_of(&key);
        self.add(shards, StoreJob::Look { key, owner });
        true
    }

    fn add(&self, shards: ShardSet, job: StoreJob) {
        self.lock().push(shards, job);
        self.changed.notify_one();
    }

    fn run_all(&self) {
        loop {
            let (shards, job) = self.next();
            match job {
                StoreJob::Command { job, owner } => {
                    let end = self.command_end(job.run(&self.store, unix_ms()));
                    self.end(shards, &owner, end);
                }
                StoreJob::Look { key, owner } => {
                    // A fault ends the request, not the thread.
                    let look = || FoundValue::look_as_job(&self.store, &key, unix_ms());
                    let end = self.look_end(catch_unwind(AssertUnwindSafe(look)).ok());
                    self.end(shards, &owner, end);
                }
                StoreJob::Script { job, wanted, done } => {
                    let finished = self.run_for_script(*job, &wanted);
                    self.script_jobs.fetch_sub(1, Ordering::Relaxed);
                    self.finished(shards);
                    done.0(finished);
                }
            }
        }
    }

    /// Runs a job if the script that has made it still waits for it. Returns `None` if it was not
    /// run, or has failed.
    fn run_for_script(&self, job: Job, wanted: &Weak<()>) -> Option<FinishedJob> {
        if wanted.strong_count() == 0 {
            job.abandon(&self.store);
            return None;
        }
        let finished = job.run(&self.store, unix_ms());
        if finished.has_failed() {
            finished.abandon(&self.store);
            return None;
        }
        Some(finished)
    }

    /// Returns the message for the client of a job that has ended.
    pub(super) fn command_end(&self, finished: FinishedJob) -> Message {
        Box::new(JobEnd { store: Arc::clone(&self.store), finished: Some(Box::new(finished)) })
    }

    /// Returns the message for the request of a look that has ended.
    pub(super) fn look_end(&self, found: Option<FoundValue>) -> Message {
        self.looks.fetch_sub(1, Ordering::Relaxed);
        Box::new(LookEnd(found))
    }

    /// Ends a job with these shards.
    pub(super) fn end(&self, shards: ShardSet, owner: &JobOwner, end: Message) {
        self.finished(shards);
        post(owner, end);
    }

    fn finished(&self, shards: ShardSet) {
        self.lock().finished(shards);
        self.changed.notify_all();
    }

    /// Takes the next job that can run, without waiting.
    #[cfg(test)]
    pub(super) fn start_one(&self) -> Option<(ShardSet, StoreJob)> {
        self.lock().start()
    }

    /// Waits for a job that can run.
    fn next(&self) -> (ShardSet, StoreJob) {
        let mut queue = self.lock();
        loop {
            if let Some(next) = queue.start() {
                return next;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobQueue<StoreJob>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreJobRunner for StoreJobs {
    fn run(&self, job: Job, wanted: Weak<()>, done: StoreJobDone) -> bool {
        if self.script_jobs.fetch_add(1, Ordering::Relaxed) >= SCRIPT_JOBS_MAX {
            self.script_jobs.fetch_sub(1, Ordering::Relaxed);
            job.abandon(&self.store);
            return false;
        }
        let (shards, done) = (job.shards(), ScriptDone(done));
        self.add(shards, StoreJob::Script { job: Box::new(job), wanted, done });
        true
    }
}

/// Posts the end of a job to the stream or request that waits for it.
fn post(owner: &JobOwner, mut message: Message) {
    while let Err(refused) = owner.poster.post(owner.address, message) {
        message = refused;
        thread::sleep(POST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_store::ReplyOutput;
    use pinion_store::client::Client;
    use pinion_store::settings::Settings;

    /// A store whose commands are all jobs, and a queue without threads.
    fn jobs() -> (Arc<Store>, StoreJobs) {
        let store = Arc::new(Store::new(Settings::default(), [1; 24], 0).with_work_max(0));
        let jobs = StoreJobs::new(&store);
        (store, jobs)
    }

    fn job(store: &Store) -> Job {
        let mut client = Client::new(store, "a client", 0);
        client.receive(store, b"INCR visits\r\n", 0, &mut ReplyOutput::default());
        client.take_job().expect("each command is a job")
    }

    #[test]
    fn jobs_of_removed_scripts_are_not_run() {
        let (store, jobs) = jobs();
        let has_visits = || store.look(0, b"visits", 0, |value| value.is_some()).expect("no job");
        assert!(jobs.run_for_script(job(&store), &Weak::new()).is_none());
        assert!(!has_visits());
        let wanted = Arc::new(());
        assert!(jobs.run_for_script(job(&store), &Arc::downgrade(&wanted)).is_some());
        assert!(has_visits());
    }

    #[test]
    fn jobs_of_scripts_are_bounded() {
        let (store, jobs) = jobs();
        let run = || StoreJobRunner::run(&jobs, job(&store), Weak::new(), Box::new(|_| ()));
        assert!((0..SCRIPT_JOBS_MAX).all(|_| run()));
        assert!(!run());
    }
}
