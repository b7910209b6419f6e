//! The tasks of a VM: requests that are being answered, and background work. Each has an identifier
//! that is never used again.
//!
//! | module | contents |
//! |---|---|
//! | `request_task` | the task of a request, with the state of its response |
//! | `background_task` | a task without a request |
//! | `background_task_kind` | how a background task was started, and how long it lives |
//! | `task_table` | the living tasks of a VM |
//! | `task_id` | the identifier of a task |
//! | `task_budget` | the CPU time, memory and steps that a task may still use |

mod background_task;
mod background_task_kind;
mod request_task;
mod task_budget;
mod task_id;
mod task_table;

use crate::lua_job::LuaJobResult;
use crate::vm::FunctionOrigin;
use pinion_jobs::job_queue::CancelOnDrop;
use std::cell::Cell;
use std::rc::Rc;

pub(crate) use background_task::BackgroundTask;
pub(crate) use background_task_kind::{BackgroundTaskKind, TaskLifetime};
pub(crate) use request_task::{Reported, RequestTask};
pub(crate) use task_budget::TaskBudget;
pub(crate) use task_id::TaskId;
pub(crate) use task_table::{TASK_BYTES, Tasks};

/// A request that is being answered, or work that belongs to no request.
#[derive(Debug)]
pub(crate) enum Task {
    Request(Box<RequestTask>),
    Background(Box<BackgroundTask>),
}

/// The state that requests and background work have in common.
#[derive(Debug)]
pub(crate) struct TaskState {
    /// The tasks that end with this one.
    children: Vec<TaskId>,
    /// The subscriptions of the task, which end with it.
    pub(crate) subscriptions: Vec<u64>,
    /// Whether the task has sent requests to other servers or run programs, which end with it.
    pub(crate) is_owner: bool,
    /// The tasks that begin when this one has ended.
    after: Vec<TaskId>,
    /// How many tasks its origin may still begin, counted over all its descendants. None until it
    /// begins one.
    spawns_left: Option<Rc<Cell<u32>>>,
    /// The tasks that are notified of its end.
    watchers: Vec<TaskId>,
    /// The part of a page that the task waits for, and where that begins.
    pub(crate) awaited: Option<(Awaited, Option<FunctionOrigin>)>,
    /// Whether another task has woken this one, perhaps before it began to wait for that.
    pub(crate) is_woken: bool,
    /// Cancels the job that it waits for.
    pub(crate) job_guard: Option<CancelOnDrop>,
    /// The result of the job that it has waited for.
    pub(crate) result: Option<LuaJobResult>,
    /// Whether its coroutine is parked: see [`Tasks::park`].
    is_parked: bool,
    /// The event that it waits for.
    pub(crate) waits: Waits,
    pub(crate) left: TaskBudget,
    /// The deadline of the task, in monotonic milliseconds; 0 until its first turn.
    pub(crate) deadline_ms: u64,
}

impl Task {
    fn state(&self) -> &TaskState {
        match self {
            Self::Request(task) => &task.state,
            Self::Background(task) => &task.state,
        }
    }

    fn state_mut(&mut self) -> &mut TaskState {
        match self {
            Self::Request(task) => &mut task.state,
            Self::Background(task) => &mut task.state,
        }
    }
}

impl TaskState {
    /// Creates the state of a task that has not begun.
    fn new(left: TaskBudget) -> Self {
        Self {
            children: Vec::new(),
            subscriptions: Vec::new(),
            is_owner: false,
            after: Vec::new(),
            spawns_left: None,
            watchers: Vec::new(),
            awaited: None,
            is_woken: false,
            job_guard: None,
            result: None,
            is_parked: false,
            waits: Waits::No,
            left,
            deadline_ms: 0,
        }
    }
}

/// The event that a task waits for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// No event: the task runs, or has ended.
    #[default]
    No,
    /// A time, in monotonic milliseconds.
    Until(u64),
    /// Content of the request.
    Content,
    /// Room in the output queue.
    Room,
    /// A wake-up by another task.
    Wake,
    /// A wake-up, or a time in monotonic milliseconds.
    WakeUntil(u64),
    /// The result of a job.
    Job,
    /// The next piece of the file that is the content of its response.
    File,
    /// Room for that piece.
    FileRoom,
}

impl Waits {
    /// Returns when the task goes on in any case, in monotonic milliseconds.
    pub(crate) fn until_ms(self) -> Option<u64> {
        match self {
            Self::Until(time_ms) | Self::WakeUntil(time_ms) => Some(time_ms),
            _ => None,
        }
    }
}

/// The part of a page that waits until its script says that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A block that has to call `done`.
    Block,
    /// A function that has to call its parameter.
    Await,
}
