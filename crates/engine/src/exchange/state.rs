//! What the engine remembers of an exchange.

use pinion_http::coding::Coding;
use pinion_http::page::ErrorFormat;
use pinion_http::refusal::RefusedRequest;

use crate::encode::EncoderId;
use crate::exchange::added_fields::AddedFields;

/// How far an exchange has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ExchangeStage {
    /// The head of the request has not come yet.
    #[default]
    Head,
    /// The application responds, and no final head has gone out.
    Open,
    /// The application responds; the head has gone out, content follows.
    Streaming,
    /// The engine responds. The application has not heard of the exchange, or has heard that it is
    /// over.
    Refused,
    /// The response is complete. The exchange is over for the application.
    Done,
    /// The response cannot be completed: the connection is to be cut, or the stream reset. The
    /// application is to hear of that.
    Broken,
    /// Broken, and over for the application.
    Aborted,
}

impl ExchangeStage {
    /// Whether the application still has to respond, or to complete its response.
    #[inline]
    pub(crate) fn is_unanswered(self) -> bool {
        matches!(self, ExchangeStage::Open | ExchangeStage::Streaming)
    }

    /// Whether the application has heard of the exchange and not ended it: it is owed `Gone` if
    /// nothing else ends it.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        matches!(self, ExchangeStage::Open | ExchangeStage::Streaming | ExchangeStage::Broken)
    }

    /// The response cannot be completed.
    pub(crate) fn give_up(&mut self) {
        *self = if self.is_open() { ExchangeStage::Broken } else { ExchangeStage::Aborted };
    }

    /// The exchange is over for the application, and the engine responds if it still can. Says
    /// whether the exchange [was open](Self::is_open).
    pub(crate) fn take_open(&mut self) -> bool {
        let over = match self {
            ExchangeStage::Open => ExchangeStage::Refused,
            ExchangeStage::Streaming | ExchangeStage::Broken => ExchangeStage::Aborted,
            ExchangeStage::Head
            | ExchangeStage::Refused
            | ExchangeStage::Done
            | ExchangeStage::Aborted => return false,
        };
        *self = over;
        true
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
#[derive(Debug, Clone, Default)]
pub(crate) struct ExchangeState {
    pub(crate) stage: ExchangeStage,
    /// The method was HEAD: content is dropped.
    pub(crate) head_only: bool,
    /// The form of an error page of the engine, which the client prefers.
    pub(crate) error_format: ErrorFormat,
    /// The client speaks HTTP/1.0.
    pub(crate) http10: bool,
    /// The client waits for 100 Continue.
    pub(crate) expects_continue: bool,
    /// The application asked for events (`wait`).
    pub(crate) waiting: bool,
    /// The application has heard that the client sends no more.
    pub(crate) told_input_end: bool,
    /// The response is a [tunnel](crate::exchange::Exchange::open_tunnel): both sides may be silent
    /// for long.
    pub(crate) is_tunnel: bool,
    /// The application has ended our side of the tunnel.
    pub(crate) has_finished: bool,
    /// The response is not complete: behind what is queued of it, the stream is reset.
    pub(crate) is_cut_short: bool,
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
    /// What the application has added to the response, until its head goes out.
    pub(crate) added: Option<Box<AddedFields>>,
}

impl ExchangeState {
    /// Whether the application waits for something and has yet to hear that the client sends no
    /// more.
    pub(crate) fn awaits_input_end(&self) -> bool {
        self.stage.is_unanswered() && self.waiting && !self.told_input_end
    }

    /// Whether content of the response can be written.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.stage == ExchangeStage::Streaming && !self.has_finished
    }

    /// Whether our side ends behind the content that is queued.
    #[inline]
    pub(crate) fn sends_no_more(&self) -> bool {
        self.stage == ExchangeStage::Done || self.has_finished
    }

    /// What is left of the request for an error page: how the client can read it.
    pub(crate) fn refused_request(&self) -> RefusedRequest<'static> {
        let (head_only, error_format) = (self.head_only, self.error_format);
        RefusedRequest { head_only, error_format, ..RefusedRequest::default() }
    }
}
