//! HTTP/1 on one connection: the exchange that it carries, the input of its request
//! (`request_input`), and the bytes of its response (`response`). The wire machine itself is
//! `pinion_http::h1`.

pub(crate) mod request_input;
pub(crate) mod response;

use pinion_http::error_page::ErrorFormat;
use pinion_http::field::KnownField;
use pinion_http::h1::body::BodyReader;
use pinion_http::limits::BODY_DISCARD_MAX_BYTES;
use pinion_http::method::Method;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_http::version::Version;

use crate::deadline::DeadlineKind;
use crate::exchange::state::{ExchangeStage, ExchangeState};
use crate::limits::CLOSE_AT_ONCE_MAX_BYTES;
use crate::linger::Remaining;

/// The state of HTTP/1 on a connection: it carries one exchange at a time.
pub(crate) enum Http1 {
    /// It waits for a request head, or for the rest of one, of which `scanned` bytes were searched
    /// for its end.
    Head { scanned: u32 },
    /// A request to which the application responds.
    Exchange(OpenExchange),
    /// The client got 101: the connection becomes a byte stream after the event.
    Upgraded,
    /// The request got its response without its content, which is dropped; `dropped` bytes of it
    /// were dropped so far.
    Discard { content: BodyReader, dropped: u32 },
}

/// The exchange of an HTTP/1 connection.
pub(crate) struct OpenExchange {
    pub(crate) state: ExchangeState,
    /// The reader of the request's content, until that is complete.
    pub(crate) content: Option<BodyReader>,
    /// Whether the connection may stay open after this response.
    pub(crate) keep_alive: bool,
    /// Whether the client has announced that it sends no further request.
    pub(crate) client_closes: bool,
    /// Whether the response has no length and is sent in chunks.
    pub(crate) is_chunked: bool,
}

impl Http1 {
    /// The state in which it waits for a request.
    pub(crate) const IDLE: Self = Self::Head { scanned: 0 };

    /// Returns the kind of deadline that the connection needs, besides that of a blocked send.
    #[inline]
    pub(crate) fn deadline_kind(&self, nothing_kept: bool) -> DeadlineKind {
        match self {
            Self::Head { .. } if nothing_kept => DeadlineKind::Idle,
            Self::Head { .. } => DeadlineKind::Head,
            Self::Exchange(open) if open.awaits_content() => DeadlineKind::Body,
            Self::Exchange(_) | Self::Upgraded => DeadlineKind::Nothing,
            Self::Discard { .. } => DeadlineKind::Discard,
        }
    }

    /// Continues with the rest of the request's content, which is dropped.
    pub(crate) fn discard_content(&mut self) {
        let content = self.exchange().and_then(|open| open.content.take());
        *self = content.map_or(Self::IDLE, |content| Self::Discard { content, dropped: 0 });
    }

    /// Returns the exchange, if one is open.
    #[inline]
    pub(crate) fn exchange(&mut self) -> Option<&mut OpenExchange> {
        match self {
            Self::Exchange(open) => Some(open),
            _ => None,
        }
    }
}

/// The next step of a connection whose response is complete.
pub(crate) enum AfterResponse {
    /// It waits for the next request.
    Idle,
    /// It stays open, and first drops the unread content of the request.
    Discard,
    /// It ends, and the client may still send this.
    End(Remaining),
}

impl OpenExchange {
    /// Creates the exchange of a request whose head has arrived. With `may_stay` the connection may
    /// stay open after it, if the client agrees.
    #[inline(always)]
    pub(crate) fn new(head: &RequestHead<'_>, content_max_bytes: u64, may_stay: bool) -> Self {
        let has_content = !matches!(head.framing, Framing::None);
        let state = ExchangeState {
            stage: ExchangeStage::Open,
            head_only: head.method == Method::Head,
            http10: head.version == Version::Http10,
            expects_continue: head.expect_continue,
            error_format: if has_content {
                preferred_error_format(head.values(KnownField::Accept))
            } else {
                ErrorFormat::default()
            },
            ..ExchangeState::default()
        };
        // After CONNECT a client may send bytes for its tunnel without waiting for the response.
        // There is no tunnel, and those bytes must not be read as requests (RFC 9110 §9.3.6).
        let is_tunnel = head.method == Method::Connect;
        Self {
            state,
            content: has_content.then(|| BodyReader::new(head.framing, content_max_bytes)),
            keep_alive: head.keep_alive && may_stay && !is_tunnel,
            client_closes: !head.keep_alive,
            is_chunked: false,
        }
    }

    /// Decides the next step of the connection, now that the response is complete; `out_bytes`
    /// returns the total number of output bytes on it.
    #[inline]
    pub(crate) fn after_response(&self, out_bytes: impl FnOnce() -> u64) -> AfterResponse {
        let is_unread = self.content.as_ref().is_some_and(|content| !content.is_at_end());
        if !self.keep_alive {
            // A client that asked to close should send nothing more, but some send an extra line
            // end (RFC 9112 §2.2). It costs nothing once the responses have reached them.
            let may_send = !self.client_closes;
            return AfterResponse::End(match () {
                () if is_unread => Remaining::Content,
                () if may_send || out_bytes() > CLOSE_AT_ONCE_MAX_BYTES => Remaining::UselessInput,
                () => Remaining::Nothing,
            });
        }
        match () {
            () if !is_unread => AfterResponse::Idle,
            () if self.must_end_behind_content() => AfterResponse::End(Remaining::Content),
            () => AfterResponse::Discard,
        }
    }

    /// Returns whether the content of the request is waited for: it is wanted, or the next input is
    /// no content but frames it.
    #[inline]
    pub(crate) fn awaits_content(&self) -> bool {
        let Some(content) = &self.content else { return false };
        match self.state.wanted {
            Some(0) => !content.is_in_content(),
            Some(_) => true,
            None => false,
        }
    }

    /// Returns whether input of the peer can be used or kept now.
    #[inline]
    pub(crate) fn takes_input(&self, nothing_kept: bool) -> bool {
        match &self.content {
            Some(_) => self.awaits_content() || nothing_kept && !self.state.waiting,
            None => nothing_kept,
        }
    }

    /// Returns whether the application has the whole request, has not responded to it yet, and does
    /// not know that the client sends no more.
    pub(crate) fn is_input_end_pending(&self) -> bool {
        self.content.is_none() && self.state.awaits_input_end()
    }

    /// Returns whether the announced content of the request is within its limit.
    #[inline]
    pub(crate) fn fits(&self) -> bool {
        self.content.as_ref().is_none_or(BodyReader::fits)
    }

    /// Returns whether the application wants content that is announced to be over its limit.
    #[inline]
    pub(crate) fn wants_too_much(&self) -> bool {
        self.state.wanted.is_some() && !self.fits()
    }

    /// Returns whether the connection can become a byte stream in response: the client speaks
    /// HTTP/1.1, the request has no content, and there is no response yet.
    pub(crate) fn can_upgrade(&self) -> bool {
        self.can_be_taken_over() && !self.state.http10
    }

    /// Returns whether the connection can become a byte stream without a response: the request has
    /// no content, and there is no response yet.
    pub(crate) fn can_be_taken_over(&self) -> bool {
        self.state.stage == ExchangeStage::Open && self.content.is_none()
    }

    /// Returns whether the current response must be the last one, because of request content that
    /// is still to come. A client that has expected 100 and got no reply may send its content or
    /// not, so the next bytes could be read two ways (RFC 9110 §10.1.1); and content over the limit
    /// costs more to read than a new connection.
    #[inline]
    pub(crate) fn must_end_behind_content(&self) -> bool {
        self.content.as_ref().is_some_and(|content| {
            !content.is_at_end()
                && (self.state.expects_continue
                    || content.known_remaining() > BODY_DISCARD_MAX_BYTES)
        })
    }
}
