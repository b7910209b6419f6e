//! What the engine remembers of an exchange.

use pinion_http::coding::Coding;
use pinion_http::refusal::RefusedRequest;

use crate::encode::EncoderId;

/// How far an exchange has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its head has not come yet.
    #[default]
    None,
    /// The request is there, no final head went out.
    Open,
    /// The head went out, content follows.
    Streaming,
    /// The answer is complete.
    Done,
    /// The answer cannot be completed; the connection is to be cut, or the stream reset.
    Aborted,
    /// The connection became a byte stream.
    Upgraded,
}

impl Stage {
    /// Whether an answer is still to come, or the rest of it.
    #[inline]
    pub(crate) fn is_unanswered(self) -> bool {
        matches!(self, Stage::Open | Stage::Streaming)
    }
}

/// What carries an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// A connection of HTTP/1, which carries one exchange at a time.
    Connection,
    /// The stream with this number, of HTTP/2 or HTTP/3.
    Stream(u32),
}

/// What the engine remembers of an exchange, whatever carries it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExchangeState {
    pub(crate) stage: Stage,
    /// The application has heard of it and not ended it: it is owed `Gone` if nothing else ends it.
    pub(crate) open: bool,
    /// The method was HEAD: content is dropped.
    pub(crate) head_only: bool,
    /// An error page of the engine goes out as plain text, because the client prefers it.
    pub(crate) text_page: bool,
    /// The client speaks HTTP/1.0.
    pub(crate) http10: bool,
    /// The client waits for 100 Continue.
    pub(crate) expects_continue: bool,
    /// The application asked for events (`wait`).
    pub(crate) waiting: bool,
    /// The queue went over its high water; `Writable` is owed.
    pub(crate) owes_writable: bool,
    /// The answer may be compressed, in this coding if the client is to have one.
    pub(crate) coding: Option<Coding>,
    /// What compresses it, while it does.
    pub(crate) encoder: Option<EncoderId>,
    /// Content bytes still to come in a response with a length, before they are compressed.
    pub(crate) left: Option<u64>,
    /// Content bytes of the request the application will take; none of it is read before the
    /// application has called `want`.
    pub(crate) wanted: Option<u64>,
}

impl ExchangeState {
    /// What is left of the request for an error page: how the client can read it.
    pub(crate) fn refused_request(&self) -> RefusedRequest<'static> {
        let (head_only, text) = (self.head_only, self.text_page);
        RefusedRequest { head_only, text, ..RefusedRequest::default() }
    }
}
