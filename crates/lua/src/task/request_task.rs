//! The task of a request, with the state of its response.

use super::{TaskBudget, TaskState, Waits};
use crate::body::received_content::ReceivedContent;
use crate::limits::{ROOM_WAIT_MAX_MS, ROOM_WAIT_ONCE_MS};
use crate::request::HandledRequest;
use crate::script_quotas::Allowance;
use crate::script_response::ScriptResponse;
use crate::sent_file::FileTransfer;
use pinion_engine::exchange_address::Address;
use pinion_http::content_coding::Coding;

/// A request and the state of its response.
#[derive(Debug)]
pub(crate) struct RequestTask {
    pub(crate) state: TaskState,
    /// The exchange of the request.
    pub(crate) address: Address,
    /// Whether the client sends no more, and has most likely left.
    pub(crate) is_input_over: bool,
    pub(crate) request: HandledRequest,
    pub(crate) response: ScriptResponse,
    pub(crate) content: ReceivedContent,
    /// The file that is the content of its response.
    pub(crate) sending: Option<FileTransfer>,
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
    /// The time limit of the request, or of a stream from one write to the next, in milliseconds.
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

impl RequestTask {
    /// Creates the task of the request of an exchange.
    pub(super) fn new(address: Address, left: TaskBudget) -> Self {
        Self {
            state: TaskState::new(left),
            address,
            is_input_over: false,
            request: HandledRequest::default(),
            response: ScriptResponse::default(),
            content: ReceivedContent::default(),
            sending: None,
            has_begun: false,
            is_compressed: true,
            coding: None,
            sent_bytes: 0,
            is_failing: false,
            failure: None,
            wall_ms: 0,
            waits_since_ms: 0,
            room_since_ms: 0,
            room_waited_ms: 0,
        }
    }

    /// Makes an ended task that of another request.
    pub(super) fn renew(&mut self, address: Address, left: TaskBudget) {
        self.address = address;
        self.state.left = left;
    }

    /// Drops all values of a task that has ended, except for the memory of the head and of the
    /// fields, which the next request reuses.
    pub(super) fn clear(&mut self) {
        let request = std::mem::take(&mut self.request);
        let mut response = std::mem::take(&mut self.response);
        response.clear();
        *self = Self { request, response, ..Self::new(self.address, self.state.left) };
    }

    /// Sets the deadline: the request has its whole time limit from now on.
    pub(crate) fn begin_time(&mut self, now_ms: u64, wall_ms: u64) {
        (self.state.deadline_ms, self.room_waited_ms) = (now_ms + wall_ms, 0);
        self.wall_ms = wall_ms;
    }

    /// Renews the deadline of a stream after a write, unless its client has kept it waiting for as
    /// long as clients may.
    pub(crate) fn renew_time(&mut self, now_ms: u64) {
        if self.room_left_ms() > 0 {
            self.state.deadline_ms = self.state.deadline_ms.max(now_ms + self.wall_ms);
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
            self.state.left.regain(now_ms.saturating_sub(self.waits_since_ms), allowance);
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
        self.state.deadline_ms += granted_ms;
    }

    /// Returns when the request is ended unless it goes on before, in monotonic milliseconds.
    pub(crate) fn ends_ms(&self) -> u64 {
        let deadline_ms = self.state.deadline_ms;
        match self.state.waits {
            Waits::Room | Waits::FileRoom => {
                deadline_ms + self.room_left_ms().min(ROOM_WAIT_ONCE_MS)
            }
            _ => deadline_ms,
        }
    }

    fn room_left_ms(&self) -> u64 {
        ROOM_WAIT_MAX_MS.saturating_sub(self.room_waited_ms)
    }
}
