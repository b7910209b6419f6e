//! What the engine remembers of an exchange.

use pinion_http::coding::Coding;
use pinion_http::h1::glance::PageForm;

use crate::app::Gone;
use crate::encode::EncoderId;

/// How far an exchange has come. One per connection; HTTP/1 has one exchange at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No exchange is open.
    #[default]
    None,
    /// The request is there, no final head went out.
    Open,
    /// The head went out, content follows.
    Streaming,
    /// The answer is complete.
    Done,
    /// The answer cannot be completed; the connection is to be cut.
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

/// What the engine remembers of the exchange of a connection.
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
    /// The connection may live on after this answer.
    pub(crate) keep_alive: bool,
    /// The client waits for 100 Continue.
    pub(crate) expects_continue: bool,
    /// Why the engine gave it up, if it did.
    pub(crate) given_up: Option<Gone>,
    /// The application asked for events (`wait`).
    pub(crate) waiting: bool,
    /// Content goes out in chunks.
    pub(crate) chunked: bool,
    /// The queue went over its high water; `Writable` is owed.
    pub(crate) owes_writable: bool,
    /// The peer has ended; `End` is owed to the stream behind the bytes that came before.
    pub(crate) owes_end: bool,
    /// The answer may be compressed, in this coding if the client is to have one.
    pub(crate) coding: Option<Coding>,
    /// What compresses it, while it does.
    pub(crate) encoder: Option<EncoderId>,
    /// Content bytes still to come in a response with a length, before they are compressed.
    pub(crate) left: Option<u64>,
    /// The application has called `want`: the request's content is read.
    pub(crate) reads: bool,
    /// It was told that the request's content is complete.
    pub(crate) told_end: bool,
    /// Content bytes of the request the application will take.
    pub(crate) wanted: u64,
    /// Deadline of the application, in milliseconds; 0 is none.
    pub(crate) deadline_ms: u64,
}

impl ExchangeState {
    /// What a byte stream begins with; the peer may have `ended` already.
    pub(crate) fn of_stream(ended: bool) -> Self {
        Self { stage: Stage::Open, open: true, owes_end: ended, ..Self::default() }
    }

    /// How the client can read an error page.
    pub(crate) fn page_form(&self) -> PageForm {
        PageForm { head_only: self.head_only, text: self.text_page }
    }
}
