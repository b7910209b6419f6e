//! The tasks of a worker: requests that are being answered, and work beside them. Each has a number
//! that is never used again.

mod task_budget;
mod task_id;
mod task_table;
mod work_kind;

use crate::body::received_content::ReceivedContent;
use crate::channel_message::ChannelMessage;
use crate::limits::{ROOM_WAIT_MAX_MS, ROOM_WAIT_ONCE_MS};
use crate::lua_job::LuaJobResult;
use crate::request::HandledRequest;
use crate::script_quotas::Allowance;
use crate::script_response::ScriptResponse;
use crate::sent_file::Sending;
use crate::vm::FunctionOrigin;
use pinion_engine::address::Address;
use pinion_http::coding::Coding;
use pinion_jobs::job_queue::CancelOnDrop;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use task_budget::TaskBudget;
pub(crate) use task_id::TaskId;
pub(crate) use task_table::{TASK_BYTES, Tasks};
pub(crate) use work_kind::{Bond, WorkKind};

/// One request and the state of its response, or work that belongs to no request.
#[derive(Debug, Default)]
pub(crate) struct Task {
    /// The generation of the slot, from 1 on.
    generation: u64,
    is_live: bool,
    /// The address of the request; none for work beside requests.
    pub(crate) address: Option<Address>,
    /// The task whose budget this one uses, if not its own.
    pub(crate) account: Option<TaskId>,
    /// Whether the task belongs to no request.
    is_background: bool,
    /// The function that the work beside requests begins with, and the kind of its start.
    pub(crate) origin: Option<FunctionOrigin>,
    pub(crate) kind: WorkKind,
    /// The tasks that end with this one.
    children: Vec<TaskId>,
    /// The subscriptions of the task, which end with it.
    pub(crate) subscriptions: Vec<u64>,
    /// Whether the task has sent requests to other servers or run programs, which end with it.
    pub(crate) is_owner: bool,
    /// Whether the client sends no more, and has most likely left.
    pub(crate) is_input_over: bool,
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
    /// The message that it begins with.
    pub(crate) message: Option<Arc<ChannelMessage>>,
    pub(crate) request: HandledRequest,
    pub(crate) answer: ScriptResponse,
    /// Whether its coroutine is parked: see [`Tasks::park`].
    is_parked: bool,
    /// The event that it waits for.
    pub(crate) waits: Waits,
    pub(crate) content: ReceivedContent,
    /// The file that is the content of its response.
    pub(crate) sending: Option<Sending>,
    pub(crate) left: TaskBudget,
    /// Whether the head of the response has been sent.
    pub(crate) has_begun: bool,
    /// Whether its content may be compressed, and the coding that the client prefers.
    pub(crate) is_compressed: bool,
    pub(crate) coding: Option<Coding>,
    /// Bytes of content that have been sent.
    pub(crate) sent_bytes: u64,
    /// Whether its error handler runs.
    pub(crate) is_failing: bool,
    /// The error that this handler was called for.
    pub(crate) failure: Option<Box<Reported>>,
    /// The deadline of the task, in monotonic milliseconds.
    pub(crate) deadline_ms: u64,
    /// The time limit of the task, or of a stream from one write to the next, in milliseconds.
    pub(crate) wall_ms: u64,
    /// The start of its wait, in monotonic milliseconds.
    waits_since_ms: u64,
    /// The start of its wait for room in the output queue, in monotonic milliseconds.
    room_since_ms: u64,
    /// The time that its deadline has been extended because its client was slow to make room.
    room_waited_ms: u64,
}

/// An error that was logged.
#[derive(Debug)]
pub(crate) struct Reported {
    /// The identifier of the error in the log and the response.
    pub(crate) id: String,
    /// The request, the message and the stack.
    pub(crate) report: String,
}

impl Task {
    /// Sets the deadline: the task has its whole time limit from now on.
    pub(crate) fn begin_time(&mut self, now_ms: u64, wall_ms: u64) {
        (self.deadline_ms, self.room_waited_ms) = (now_ms + wall_ms, 0);
        self.wall_ms = wall_ms;
    }

    /// Renews the deadline of a stream after a write, unless its client has kept it waiting for as
    /// long as clients may.
    pub(crate) fn renew_time(&mut self, now_ms: u64) {
        if self.room_left_ms() > 0 {
            self.deadline_ms = self.deadline_ms.max(now_ms + self.wall_ms);
        }
    }

    /// Records the start of a wait.
    pub(crate) fn begin_wait(&mut self, now_ms: u64) {
        self.waits_since_ms = now_ms;
    }

    /// Records the end of a wait. A stream regains some of its allowance meanwhile, because it
    /// blocks no other request.
    pub(crate) fn end_wait(&mut self, now_ms: u64, allowance: &Allowance) {
        if self.has_begun {
            self.left.regain(now_ms.saturating_sub(self.waits_since_ms), allowance);
        }
    }

    /// Records that the output queue is full until the client has received some of it.
    pub(crate) fn room_went(&mut self, now_ms: u64) {
        self.room_since_ms = now_ms;
    }

    /// Records that the output queue has room again. The deadline moves by the time of the wait,
    /// because it was the client that was slow.
    pub(crate) fn room_came(&mut self, now_ms: u64) {
        let waited_ms = now_ms.saturating_sub(self.room_since_ms);
        let granted_ms = waited_ms.min(self.room_left_ms());
        self.room_waited_ms += granted_ms;
        self.deadline_ms += granted_ms;
    }

    /// Returns when the task is ended unless it goes on before, in monotonic milliseconds.
    pub(crate) fn ends_ms(&self) -> u64 {
        match self.waits {
            Waits::Room | Waits::FileRoom => {
                self.deadline_ms + self.room_left_ms().min(ROOM_WAIT_ONCE_MS)
            }
            _ => self.deadline_ms,
        }
    }

    fn room_left_ms(&self) -> u64 {
        ROOM_WAIT_MAX_MS.saturating_sub(self.room_waited_ms)
    }

    /// Returns whether the task belongs to no request.
    pub(crate) fn is_background(&self) -> bool {
        self.is_background
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
