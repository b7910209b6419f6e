//! The engine's state of an exchange.

use pinion_http::content_coding::Coding;
use pinion_http::error_page::ErrorFormat;
use pinion_http::refusal::RefusedRequest;

use crate::exchange::added_fields::AddedFields;
use crate::response_compression::EncoderId;

/// The stage of an exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ExchangeStage {
    /// The head of the request has not arrived yet.
    #[default]
    Head,
    /// The application responds, and no final head was sent.
    Open,
    /// The application responds; the head was sent, and content follows.
    Streaming,
    /// The engine responds. The application does not know of the exchange, or was informed that it
    /// is over.
    Refused,
    /// The response is complete. The exchange is over for the application.
    Done,
    /// The response cannot be completed: the connection is to be cut, or the stream reset. The
    /// application has yet to be informed.
    Broken,
    /// Broken, and over for the application.
    Aborted,
}

impl ExchangeStage {
    /// Returns whether the application still has to respond, or to complete its response.
    #[inline]
    pub(crate) fn is_unanswered(self) -> bool {
        matches!(self, ExchangeStage::Open | ExchangeStage::Streaming)
    }

    /// Returns whether the application knows of the exchange and has not ended it: it is owed
    /// `Gone` if nothing else ends it.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        matches!(self, ExchangeStage::Open | ExchangeStage::Streaming | ExchangeStage::Broken)
    }

    /// Notes that the response cannot be completed.
    pub(crate) fn give_up(&mut self) {
        *self = if self.is_open() { ExchangeStage::Broken } else { ExchangeStage::Aborted };
    }

    /// Ends the exchange for the application; the engine responds if it still can. Returns whether
    /// the exchange [was open](Self::is_open).
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

/// The carrier of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// An HTTP/1 connection, which carries one exchange at a time.
    Connection,
    /// The stream with this number, of HTTP/2 or HTTP/3.
    Stream(u32),
}

/// The engine's state of an exchange, independent of its carrier.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExchangeState {
    pub(crate) stage: ExchangeStage,
    /// Whether the method was HEAD, so that content is dropped.
    pub(crate) head_only: bool,
    /// The format of the engine's error pages that the client prefers.
    pub(crate) error_format: ErrorFormat,
    /// Whether the client speaks HTTP/1.0.
    pub(crate) http10: bool,
    /// Whether the client waits for 100 Continue.
    pub(crate) expects_continue: bool,
    /// Whether the application requested events (`wait`).
    pub(crate) waiting: bool,
    /// Whether the application was informed that the client sends no more.
    pub(crate) input_end_reported: bool,
    /// Whether the response is a [tunnel](crate::exchange::Exchange::open_tunnel), in which both
    /// sides may be silent for long.
    pub(crate) is_tunnel: bool,
    /// Whether the application has ended our side of the tunnel.
    pub(crate) has_finished: bool,
    /// Whether the response is incomplete: after the queued part of it, the stream is reset.
    pub(crate) is_cut_short: bool,
    /// Whether the queue exceeded its high water, so that `Writable` is owed.
    pub(crate) owes_writable: bool,
    /// The coding in which the response may be compressed, if the client is to have one.
    pub(crate) coding: Option<Coding>,
    /// The encoder that compresses it, while it does.
    pub(crate) encoder: Option<EncoderId>,
    /// Content bytes still to come in a response with a length, before compression.
    pub(crate) left: Option<u64>,
    /// Content bytes of the request that the application will take; none of it is read before the
    /// application has called `want`.
    pub(crate) wanted: Option<u64>,
    /// The fields that the application has added to the response, until its head is sent.
    pub(crate) added: Option<Box<AddedFields>>,
}

impl ExchangeState {
    /// Returns whether the application waits for an event and has yet to be informed that the
    /// client sends no more.
    pub(crate) fn awaits_input_end(&self) -> bool {
        self.stage.is_unanswered() && self.waiting && !self.input_end_reported
    }

    /// Returns whether content of the response can be written.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.stage == ExchangeStage::Streaming && !self.has_finished
    }

    /// Returns whether our side ends after the queued content.
    #[inline]
    pub(crate) fn sends_no_more(&self) -> bool {
        self.stage == ExchangeStage::Done || self.has_finished
    }

    /// Returns the known part of the request for an error page: the format that the client can
    /// read.
    pub(crate) fn refused_request(&self) -> RefusedRequest<'static> {
        let (head_only, error_format) = (self.head_only, self.error_format);
        RefusedRequest { head_only, error_format, ..RefusedRequest::default() }
    }
}
