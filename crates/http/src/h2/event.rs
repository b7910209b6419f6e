//! The actions of a client, one per step.

use super::frame::ErrorCode;
use crate::field::Fields;
use crate::flood_budget::Budget;
use crate::refusal::Refusal;
use crate::request_head::RequestHead;

/// The number of bytes of the input that were used, and their event.
#[derive(Debug)]
pub struct Step<'a> {
    /// Bytes of the input that need not be given again.
    pub used: usize,
    /// The event of these bytes.
    pub event: Event<'a>,
}

/// An event of a connection. Streams that are named in an event are open, but for [`Event::Reset`].
#[derive(Debug)]
pub enum Event<'a> {
    /// The rest of the input can only be used with more input: at most
    /// [`INPUT_MAX_BYTES`](super::session::INPUT_MAX_BYTES) in all.
    NeedMore,
    /// There is nothing to report; responses to it may have been written.
    Nothing,
    /// A request.
    Head {
        /// The number of the stream.
        stream: u32,
        /// The request.
        head: &'a RequestHead<'a>,
        /// Whether the stream ends here.
        end: bool,
    },
    /// A request that is to be answered with the status of the refusal.
    HeadRefused {
        /// The number of the stream.
        stream: u32,
        /// The reason of the refusal.
        refusal: Refusal,
        /// The received part of its head, see
        /// [`refused_request`](crate::multiplexed_request_head::refused_request).
        fields: Fields<'a>,
        /// Whether the stream ends here.
        end: bool,
    },
    /// Content. The caller returns every byte of it to the window by
    /// [`consumed`](super::session::Session::consumed), sooner or later.
    Data {
        /// The number of the stream.
        stream: u32,
        /// The bytes; none perhaps, when it is the end.
        bytes: &'a [u8],
        /// Whether the stream ends here.
        end: bool,
    },
    /// The end of the content, with trailer fields. Fields that are
    /// [forbidden](crate::h1::trailers::is_forbidden) there are left out.
    Trailers {
        /// Their stream.
        stream: u32,
        /// The fields.
        fields: Fields<'a>,
    },
    /// A stream has ended before its response. It is open no more; if it was this side that ended
    /// it, for a fault of the client, that was written already. The data of the caller for it is
    /// [left](super::session::Session::left).
    Reset {
        /// The stream.
        stream: u32,
        /// The reason of the end.
        code: ErrorCode,
        /// Whether the client did it.
        by_peer: bool,
    },
    /// A window was opened that had been shut: perhaps something can be sent.
    Opened,
    /// The connection is over: the caller sends the written bytes, then closes it. Input is ignored
    /// from now on.
    Fatal {
        /// The reason of the end.
        code: ErrorCode,
        /// The budget that the client has used up, if that was the reason.
        budget: Option<Budget>,
    },
}

/// The reason why a connection ends within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepFault {
    /// The client broke the protocol.
    Broken(ErrorCode),
    /// The client had too much of something.
    Excess(Budget),
}

impl From<Budget> for StepFault {
    fn from(budget: Budget) -> StepFault {
        StepFault::Excess(budget)
    }
}

impl From<ErrorCode> for StepFault {
    fn from(code: ErrorCode) -> StepFault {
        StepFault::Broken(code)
    }
}
