//! The actions of a client, one per step, and the ways in which it can fail.

use super::frame::ErrorCode;
use crate::field::Fields;
use crate::flood_budget::Budget;
use crate::priority::Priority;
use crate::refusal::Refusal;
use crate::request_head::RequestHead;

/// The number of bytes of the input of a request stream that were used, and their event.
#[derive(Debug)]
pub struct Step<'a> {
    /// Bytes of the input that need not be given again.
    pub used: usize,
    /// The event of these bytes.
    pub event: RequestStreamEvent<'a>,
}

/// An event of a request stream.
#[derive(Debug)]
pub enum RequestStreamEvent<'a> {
    /// The rest of the input can only be used with more input: at most
    /// [`INPUT_MAX_BYTES`](super::request_stream::INPUT_MAX_BYTES) in all.
    NeedMore,
    /// There is nothing to report.
    Nothing,
    /// The request.
    Head {
        /// The request.
        head: &'a RequestHead<'a>,
        /// Whether the stream ends here, without a further [`RequestStreamEvent::End`].
        end: bool,
    },
    /// The request is to be answered with the status of the refusal.
    HeadRefused {
        /// The reason of the refusal.
        refusal: Refusal,
        /// The received part of its head, see
        /// [`refused_request`](crate::multiplexed_request_head::refused_request).
        fields: Fields<'a>,
        /// Whether the stream ends here, without a further [`RequestStreamEvent::End`].
        end: bool,
    },
    /// Content; there is some.
    Data {
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The end of the content, with trailer fields. Fields that are
    /// [forbidden](crate::h1::trailers::is_forbidden) there are left out.
    Trailers {
        /// The fields.
        fields: Fields<'a>,
    },
    /// The end of the stream, and of the content if that has not ended by trailers.
    End,
}

/// The number of bytes of the input of a unidirectional stream that were used, and their event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniStep {
    /// Bytes of the input that need not be given again.
    pub used: usize,
    /// The event of these bytes.
    pub event: UniEvent,
}

/// An event of a unidirectional stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniEvent {
    /// There is nothing to report.
    Nothing,
    /// The client asks for another priority of a request stream that has begun, and perhaps ended:
    /// see [`RequestStream::set_priority`](super::request_stream::RequestStream::set_priority).
    Priority {
        /// The request stream.
        stream: u64,
        /// The priority.
        priority: Priority,
    },
    /// This stream has no reader: the caller stops it with
    /// [`StreamCreationError`](ErrorCode::StreamCreationError), and the connection goes on (RFC
    /// 9114 §6.2).
    Stop,
    /// The stream has ended, which it may.
    End,
}

/// The connection is over: it closes with the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// The reason of the end.
    pub code: ErrorCode,
    /// The budget that the client has used up, if that was the reason.
    pub budget: Option<Budget>,
}

impl From<ErrorCode> for Fatal {
    fn from(code: ErrorCode) -> Fatal {
        Fatal { code, budget: None }
    }
}

impl From<Budget> for Fatal {
    fn from(budget: Budget) -> Fatal {
        Fatal { code: ErrorCode::ExcessiveLoad, budget: Some(budget) }
    }
}

/// The reason why a request stream cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The stream ends, in both directions, with the code; the connection goes on.
    Stream(ErrorCode),
    /// The connection ends.
    Connection(Fatal),
}

impl From<Fatal> for StreamError {
    fn from(fatal: Fatal) -> StreamError {
        StreamError::Connection(fatal)
    }
}

impl From<Budget> for StreamError {
    fn from(budget: Budget) -> StreamError {
        StreamError::Connection(budget.into())
    }
}
