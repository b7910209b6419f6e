//! HTTP/1 on one connection: bytes in, exchanges with the application, bytes queued. The wire
//! machine itself is `pinion_http::h1`; here it meets the connection.

pub(crate) mod response;

use pinion_http::h1::body::BodyReader;
use pinion_http::limits::BODY_DISCARD_MAX_BYTES;

use crate::deadline::Watch;
use crate::exchange::state::ExchangeState;

/// How far HTTP/1 has come on a connection: it carries one exchange at a time.
pub(crate) enum Http1 {
    /// Waits for a request head, or for the rest of one, of which so many bytes were looked through
    /// for its end.
    Head { scanned: u32 },
    /// A request that the application answers.
    Exchange(OpenExchange),
    /// The request was answered without its content, which is dropped; so many bytes were so far.
    Discard { content: BodyReader, dropped: u32 },
}

/// The exchange of a connection of HTTP/1.
pub(crate) struct OpenExchange {
    pub(crate) state: ExchangeState,
    /// Reads the content of the request, until that is complete.
    pub(crate) content: Option<BodyReader>,
    /// The connection may live on after this response.
    pub(crate) keep_alive: bool,
    /// The client said that it would send no further request.
    pub(crate) client_closes: bool,
    /// The response has no length and goes out in chunks.
    pub(crate) is_chunked: bool,
}

impl Http1 {
    /// Waits for a request.
    pub(crate) const IDLE: Self = Self::Head { scanned: 0 };

    /// What a deadline has to watch, beside output that does not leave.
    #[inline]
    pub(crate) fn watch(&self, nothing_kept: bool) -> Watch {
        match self {
            Self::Head { .. } if nothing_kept => Watch::Idle,
            Self::Head { .. } => Watch::Head,
            Self::Exchange(open) if open.awaits_content() => Watch::Body,
            Self::Exchange(_) => Watch::Nothing,
            Self::Discard { .. } => Watch::Discard,
        }
    }

    /// The exchange, if one is open.
    #[inline]
    pub(crate) fn exchange(&mut self) -> Option<&mut OpenExchange> {
        match self {
            Self::Exchange(open) => Some(open),
            _ => None,
        }
    }
}

impl OpenExchange {
    /// Whether the content of the request is waited for: it is wanted, or what comes next is no
    /// content but frames it.
    #[inline]
    pub(crate) fn awaits_content(&self) -> bool {
        let Some(content) = &self.content else { return false };
        match self.state.wanted {
            Some(0) => !content.is_in_content(),
            Some(_) => true,
            None => false,
        }
    }

    /// Whether what comes from the peer can be used or kept now.
    #[inline]
    pub(crate) fn takes_input(&self, nothing_kept: bool) -> bool {
        match &self.content {
            Some(_) => self.awaits_content() || nothing_kept && !self.state.waiting,
            None => nothing_kept,
        }
    }

    /// Whether the content that the request announces is within its limit.
    #[inline]
    pub(crate) fn fits(&self) -> bool {
        self.content.as_ref().is_none_or(BodyReader::fits)
    }

    /// Whether the application wants content that is announced to be over its limit.
    #[inline]
    pub(crate) fn wants_too_much(&self) -> bool {
        self.state.wanted.is_some() && !self.fits()
    }

    /// Whether the answer that is being given must be the last one, because of request content that
    /// is still to come. Whether an unanswered expectation is followed by its content is the
    /// client's choice, so the bytes that come next could be read two ways (RFC 9110 §10.1.1); and
    /// content over the limit costs more to read than a new connection.
    #[inline]
    pub(crate) fn must_end_behind_content(&self) -> bool {
        self.content.as_ref().is_some_and(|content| {
            !content.is_at_end()
                && (self.state.expects_continue
                    || content.known_remaining() > BODY_DISCARD_MAX_BYTES)
        })
    }
}
