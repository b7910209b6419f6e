//! The thread for client libraries: asynchronous tasks beside the workers, for libraries that need
//! tokio, such as those for name servers and databases.
//!
//! A [`TaskThread`] has one thread with a current-thread runtime of tokio. The first task starts
//! it, and it ends when the last handle is dropped. A task may have several results. They go in
//! order to a callback or to the inbox of a worker, and each takes bytes of two windows until it is
//! dropped: one of its task and one of all tasks of its library. A task that produces faster than
//! its results are dropped waits (back-pressure).
//!
//! A task must never block, because it would hold up all others. Work that blocks is for
//! [`job_queue`](crate::job_queue).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use std::{fmt, future};

use thiserror::Error;
use tokio::runtime::{self, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;

use crate::job_queue::{FAILED_INSIDE, JobOwner, JobValue};
use crate::limits::{
    ALL_TASK_RESULTS_MAX_BYTES, BLOCKING_THREADS_MAX, TASK_RESULTS_MAX_BYTES, TASKS_MAX,
};

/// The name of the thread, as `ps -T` shows it.
const THREAD_NAME: &str = "async-tasks";

/// The pause before a result is posted again to a worker whose inbox is full. The worker reads its
/// inbox soon.
const POST_PAUSE: Duration = Duration::from_millis(1);

/// The limits of the tasks of one library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskLimits {
    /// The most tasks at the same time.
    pub tasks: usize,
    /// The most bytes of results of one task that are not dropped yet.
    pub task_results_bytes: u32,
    /// The most bytes of results of all tasks of the library that are not dropped yet.
    pub results_bytes: u32,
}

impl Default for TaskLimits {
    /// Returns the limits of [`crate::limits`].
    fn default() -> Self {
        Self {
            tasks: TASKS_MAX,
            task_results_bytes: TASK_RESULTS_MAX_BYTES,
            results_bytes: ALL_TASK_RESULTS_MAX_BYTES,
        }
    }
}

/// The reason why a task was not started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TaskError {
    /// The limit of tasks at the same time is reached.
    #[error("too many tasks run (at most {0}); wait for earlier ones before you start more")]
    TooMany(usize),
    /// The system has no descriptors or no thread for the runtime.
    #[error("the thread for tasks cannot be started: {0}")]
    Start(String),
}

/// An event of a task, which its receiver gets.
#[derive(Debug)]
pub enum TaskEvent<T> {
    /// A result of the task. Results come in the order in which the task has sent them.
    Result(TaskResult<T>),
    /// The last event of a task: the task has returned, or has failed with this error. A cancelled
    /// task has no such event.
    End(Result<(), String>),
}

/// A result of a task. Its bytes count in both windows until it is dropped.
#[derive(Debug)]
pub struct TaskResult<T> {
    /// The value that the task has sent.
    pub value: T,
    _window: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// The message that delivers an event of a task to its worker.
#[derive(Debug)]
pub struct TaskMessage<T> {
    /// The number of the task at its worker.
    pub number: u64,
    /// The event of the task.
    pub event: TaskEvent<T>,
}

/// The receiver of the events of a task.
pub enum TaskReceiver<T> {
    /// A function, which is called on the thread of the tasks. It must not block.
    Callback(Box<dyn FnMut(TaskEvent<T>) + Send>),
    /// A worker, which gets [`TaskMessage`]s of this type.
    Worker(JobOwner),
}

impl<T> fmt::Debug for TaskReceiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Callback(_) => "Callback",
            Self::Worker(_) => "Worker",
        })
    }
}

/// Cancels a task when it is dropped: the task ends at its next `await`, and its values are dropped
/// on its thread. A result that it is just sending may still arrive. Dropping the guard of a task
/// that has ended has no effect.
#[derive(Debug)]
#[must_use = "a task whose guard is dropped is cancelled"]
pub struct TaskGuard(AbortHandle);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A handle of the thread for asynchronous tasks. Clones share the thread and its limits. The
/// thread ends when all handles are dropped, and all tasks are cancelled then. A task that owns a
/// handle keeps the thread.
#[derive(Clone)]
pub struct TaskThread {
    limits: TaskLimits,
    /// A permit for each task that may start.
    tasks: Arc<Semaphore>,
    /// A permit for each byte of results.
    results: Arc<Semaphore>,
    running: Arc<Mutex<Option<RunningThread>>>,
}

struct RunningThread {
    runtime: Handle,
    /// Dropping this sender ends the thread.
    _stop: oneshot::Sender<()>,
}

impl fmt::Debug for TaskThread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("TaskThread");
        shown.field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Default for TaskThread {
    fn default() -> Self {
        Self::new(TaskLimits::default())
    }
}

impl TaskThread {
    /// Creates a handle. The thread starts with the first task.
    #[must_use]
    pub fn new(limits: TaskLimits) -> Self {
        let tasks = Arc::new(Semaphore::new(limits.tasks));
        let results = Arc::new(Semaphore::new(limits.results_bytes as usize));
        Self { limits, tasks, results, running: Arc::default() }
    }

    /// Returns a handle of the same thread with limits of its own, so that the tasks of one library
    /// do not use up the limits of another.
    #[must_use]
    pub fn with_limits(&self, limits: TaskLimits) -> Self {
        Self { running: Arc::clone(&self.running), ..Self::new(limits) }
    }

    /// Starts a task from any thread, and the thread of tasks if it does not run. `work` is called
    /// on that thread, so it may create values that need the runtime. Its future is cancelled by
    /// dropping the guard; otherwise `receiver` gets its results and then exactly one
    /// [`TaskEvent::End`]. A panic ends only the task, and is an error there.
    ///
    /// # Errors
    /// Too many tasks run, or the thread cannot be started. Then `work` and `receiver` are dropped
    /// before this function returns, and the next call tries again.
    pub fn spawn<T, F>(
        &self,
        work: impl FnOnce(TaskOutput<T>) -> F + Send + 'static,
        receiver: TaskReceiver<T>,
    ) -> Result<TaskGuard, TaskError>
    where
        T: JobValue,
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let limits = &self.limits;
        let permit = Arc::clone(&self.tasks).try_acquire_owned();
        let permit = permit.map_err(|_| TaskError::TooMany(limits.tasks))?;
        let runtime = self.runtime().map_err(TaskError::Start)?;
        let receiver = Arc::new(Mutex::new(receiver));
        let output = TaskOutput {
            receiver: Arc::clone(&receiver),
            window: Arc::new(Semaphore::new(limits.task_results_bytes as usize)),
            window_bytes: limits.task_results_bytes,
            all: Arc::clone(&self.results),
            all_bytes: limits.results_bytes,
        };
        let task = runtime.spawn(async move {
            let outcome = without_panic(async { work(output).await }).await;
            deliver(&receiver, TaskEvent::End(outcome)).await;
            drop(permit);
        });
        Ok(TaskGuard(task.abort_handle()))
    }

    /// Returns the runtime, whose thread is started if it does not run.
    fn runtime(&self) -> Result<Handle, String> {
        let mut running = lock(&self.running);
        if let Some(running) = &*running {
            return Ok(running.runtime.clone());
        }
        let mut builder = runtime::Builder::new_current_thread();
        builder.enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).thread_name(THREAD_NAME);
        let runtime = builder.build().map_err(|error| error.to_string())?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name(THREAD_NAME.to_owned());
        let spawned = thread.spawn(move || run(&runtime, stopped));
        spawned.map_err(|error| error.to_string())?;
        *running = Some(RunningThread { runtime: handle.clone(), _stop: stop });
        Ok(handle)
    }
}

/// Runs tasks until the last handle is dropped. The remaining tasks are dropped with the runtime.
fn run(runtime: &Runtime, stopped: oneshot::Receiver<()>) {
    // Nothing is ever sent, so the result is always that the other half was dropped.
    let _ = runtime.block_on(stopped);
}

/// Sends the results of a task.
pub struct TaskOutput<T> {
    receiver: Arc<Mutex<TaskReceiver<T>>>,
    /// A permit for each byte of results of this task.
    window: Arc<Semaphore>,
    window_bytes: u32,
    /// A permit for each byte of results of all tasks of the library.
    all: Arc<Semaphore>,
    all_bytes: u32,
}

impl<T> fmt::Debug for TaskOutput<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TaskOutput").finish_non_exhaustive()
    }
}

impl<T: JobValue> TaskOutput<T> {
    /// Delivers a result as soon as both windows have as many bytes as it takes
    /// ([`JobValue::held_bytes`] and those of its message). A result that is larger than a window
    /// is delivered when nothing else is in that window.
    ///
    /// The result that waits here counts in neither window, so a task should make its next result
    /// after this has returned.
    pub async fn send(&mut self, value: T) {
        let bytes = value.held_bytes().saturating_add(size_of::<TaskMessage<T>>());
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let window = acquire(&self.window, bytes.min(self.window_bytes)).await;
        let all = acquire(&self.all, bytes.min(self.all_bytes)).await;
        let result = TaskResult { value, _window: window, _all: all };
        deliver(&self.receiver, TaskEvent::Result(result)).await;
    }
}

/// Waits for permits, in the order of the calls.
async fn acquire(window: &Arc<Semaphore>, bytes: u32) -> OwnedSemaphorePermit {
    let permits = Arc::clone(window).acquire_many_owned(bytes).await;
    permits.unwrap_or_else(|_| unreachable!("the windows are never closed"))
}

/// Delivers an event to the receiver of a task.
async fn deliver<T: JobValue>(receiver: &Mutex<TaskReceiver<T>>, event: TaskEvent<T>) {
    let owner = match &mut *lock(receiver) {
        TaskReceiver::Callback(callback) => return callback(event),
        TaskReceiver::Worker(owner) => owner.clone(),
    };
    let mut message: pinion_engine::app::Message =
        Box::new(TaskMessage { number: owner.number, event });
    while let Err(back) = owner.poster.post_to_app(owner.worker, message) {
        message = back;
        tokio::time::sleep(POST_PAUSE).await;
    }
}

/// Turns a panic into an error. The log has the message of the panic.
async fn without_panic(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let mut work = pin!(work);
    future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err(FAILED_INSIDE.to_owned())))
    })
    .await
}

/// A poisoned lock is used all the same: a callback that has panicked is called once more, for the
/// end of its task.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
