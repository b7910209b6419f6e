//! The store of the server, as scripts reach it: without a socket, in the same process.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use pinion_engine::Poster;
use pinion_engine::app::Message;
use pinion_jobs::byte_quota::ByteReservation;
use pinion_store::job::{FinishedJob, Job};
use pinion_store::store::Store;

/// The function that is called with a job of the store that has ended; `None` if the job has failed
/// because of a fault in the program.
pub type StoreJobDone = Box<dyn FnOnce(Option<FinishedJob>) + Send>;

/// Runs commands of the store that may take long, on other threads than those of the workers.
pub trait StoreJobRunner: Send + Sync {
    /// Queues a job, and calls the function after it. A job that is not wanted any more when its
    /// turn comes is not run. Returns false if too many jobs wait.
    #[must_use]
    fn run(&self, job: Job, wanted: Weak<()>, done: StoreJobDone) -> bool;
}

/// The store of a server. Copies are the same one.
#[derive(Clone)]
pub struct StoreAccess {
    /// The keys and values of the store.
    pub store: Arc<Store>,
    /// The runner of its commands that may take long.
    pub jobs: Arc<dyn StoreJobRunner>,
}

impl fmt::Debug for StoreAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreAccess")
    }
}

/// The store of a script.
#[derive(Clone, Debug, Default)]
pub(crate) enum ScriptStoreChoice {
    /// No store: the server was started without one.
    #[default]
    Absent,
    /// The store of the server.
    OfServer(StoreAccess),
    /// An empty store of its own, because the script runs on trial.
    Trial,
}

/// The worker whose scripts wait for jobs of the store, to post their ends to.
pub(crate) struct StoreWorker {
    poster: Poster,
    worker: u16,
}

/// The number of the last job of all workers. A worker that starts again may receive the ends of
/// jobs that it has begun before, and mistakes none of them for another one.
static LAST_JOB: AtomicU64 = AtomicU64::new(0);

/// Returns a number that no other job has.
pub(crate) fn job_number() -> u64 {
    LAST_JOB.fetch_add(1, Ordering::Relaxed) + 1
}

/// The message to a worker that a job of the store has ended.
pub(crate) struct StoreJobEnd {
    pub(crate) number: u64,
    pub(crate) finished: Option<FinishedJob>,
}

/// The time that a thread waits before it posts again to a worker with too many messages.
const POST_PAUSE: Duration = Duration::from_millis(1);

impl StoreWorker {
    pub(crate) fn new(poster: Poster, worker: u16) -> Self {
        Self { poster, worker }
    }

    /// Queues a job with this number, whose memory is reserved, as long as it is wanted. Its end is
    /// posted to the worker as a [`StoreJobEnd`]. Returns false if too many jobs wait.
    #[must_use]
    pub(crate) fn run(
        &self,
        access: &StoreAccess,
        (number, job): (u64, Job),
        wanted: Weak<()>,
        reserved: ByteReservation,
    ) -> bool {
        let (poster, worker) = (self.poster.clone(), self.worker);
        let done = move |finished| {
            drop(reserved);
            let mut message: Message = Box::new(StoreJobEnd { number, finished });
            while let Err(refused) = poster.post_to_app(worker, message) {
                message = refused;
                thread::sleep(POST_PAUSE);
            }
        };
        access.jobs.run(job, wanted, Box::new(done))
    }
}
