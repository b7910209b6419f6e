//! The contract between the engine and an application (docs/ARCHITECTURE.md, "The contract").
//!
//! Everywhere else calls go down and values come back. This trait is the one exception, because the
//! engine calls it. It has two entry points, one for HTTP exchanges of any version and one for byte
//! streams.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use pinion_http::error_page;
use pinion_http::field::Fields;
use pinion_http::prepared_response::Prepared;
use pinion_http::refusal::{Refusal, RefusedRequest};
use pinion_http::request_head::RequestHead;

use crate::byte_stream_handle::ByteStreamHandle;
use crate::clock::Now;
use crate::connection_actions::Connections;
use crate::exchange::Exchange;
use crate::exchange_address::Address;

pub use crate::end_reason::Gone;
pub use crate::inbox::Message;

/// An event of an HTTP exchange.
pub enum Event<'a> {
    /// A request begins. Unless the application responds, or calls `wait`, before it returns, the
    /// engine responds: with 413 if the request announces more content than its limit
    /// ([`Exchange::content_fits`]), else with 500.
    Head(&'a RequestHead<'a>),
    /// Bytes of the request's body. They come only against `want`, and never more than were wanted.
    Body(&'a [u8]),
    /// The body is complete. The event comes once, as soon as the whole body was taken, after the
    /// first `want`. It does not come for a request without content
    /// ([`Framing::None`](pinion_http::request_head::Framing)).
    ///
    /// The event carries the trailers: fields that the client sent after the content. They are not
    /// part of the head and must never be merged into it, nor be looked up in place of a field of
    /// the head (RFC 9110 §6.5.1). Those that are dangerous when mistaken for fields of the head
    /// ([`trailers::is_forbidden`](pinion_http::h1::trailers::is_forbidden)) are left out.
    BodyEnd(Fields<'a>),
    /// The content of the request is malformed, over its limit or late, and no response head has
    /// been sent. The application may respond with [`Exchange::prepared`] before it returns,
    /// usually with an error page of [`Refusal::status`], since it knows the request; then the
    /// exchange is over. Unless it does, [`Event::Gone`] follows and the engine responds. Either
    /// way no further content comes, and an HTTP/1 connection ends.
    Refused(Refusal),
    /// The client of an HTTP/1 or HTTP/2 connection will send no more, and its request is complete.
    /// Most clients that do this have left, but over HTTP/1 it is also how a client says that no
    /// other request follows (RFC 9112 §9.6). The event comes at most once for each exchange that
    /// [waits](Exchange::wait), also if the exchange has begun after the end of the input, and not
    /// while a pipelined request waits.
    InputEnd,
    /// Most of the queued output has left; there is room for more.
    Writable,
    /// A message was posted to this exchange's address, by another thread or by another event of
    /// this one.
    Posted(Message),
    /// The deadline given to `wait` has passed.
    Deadline,
    /// The server has begun to stop: a response that would never end can be finished in order
    /// within the grace period. The event comes at most once, to exchanges that are open at that
    /// time; later ones can ask ([`Exchange::is_stopping`]).
    Stopping,
    /// The exchange is over although the application has not ended it by a response, an abort or an
    /// upgrade: nothing can be sent any more. The event comes at most once, and as the last event.
    Gone(Gone),
}

/// An event of a byte stream.
pub enum ByteStreamEvent<'a> {
    /// The connection is open, or was upgraded.
    Open,
    /// Bytes from the peer.
    Bytes(&'a [u8]),
    /// The peer will send no more.
    End,
    /// Most of the queued output has left; there is room for more.
    Writable,
    /// A message was posted to this stream's address.
    Posted(Message),
    /// The deadline given to `wait` has passed.
    Deadline,
    /// The server has begun to stop, as in [`Event::Stopping`]; see
    /// [`ByteStreamHandle::is_stopping`].
    Stopping,
    /// The connection is gone although the application has not ended it. The event comes at most
    /// once, and as the last event.
    Gone(Gone),
}

/// A response that the engine gave on its own: the peer sent no request that could be handed on, or
/// was too slow with it, or the application did not respond. The connection ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnResponse {
    /// The status of the response.
    pub status: u16,
    /// The client's address; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Bytes of the content of the response.
    pub body_bytes: u64,
    /// Bytes of the head and the content together, as they were queued.
    pub bytes: u64,
}

/// The interface by which the engine calls the application. Each worker has its own, which is never
/// shared, so it needs no locks.
pub trait App {
    /// Handles one event of one HTTP exchange.
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>);

    /// Handles one event of one byte stream.
    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>);

    /// Called once at the start of every pass, before any event. Here the application switches to a
    /// new generation of the served content, and does due work that belongs to no exchange
    /// ([`Self::alarm_ms`]).
    fn pass(&mut self, connections: &mut Connections<'_>);

    /// Called once at the end of every pass, after all events. Here the application does work once
    /// for all events of the pass, such as messages that have several requests. Output that is
    /// written here leaves in this pass. Some events come later in the pass, such as the next
    /// request of a connection whose response has ended: an application with work left by them sets
    /// an [alarm](Self::alarm_ms) of now.
    #[inline]
    fn pass_end(&mut self, connections: &mut Connections<'_>) {
        let _nothing_to_do = connections;
    }

    /// Returns the latest time for the next call of [`Self::pass`], in milliseconds of
    /// [`Now::monotonic_ms`]; `None` leaves it to the connections. The engine calls this before
    /// every wait, so it must be cheap. An alarm for finished work must be cleared: one that has
    /// passed makes the worker spin, with passes that do not wait.
    ///
    /// A worker that ends waits for the alarm only while the application [is busy](Self::is_busy).
    #[inline]
    fn alarm_ms(&self) -> Option<u64> {
        None
    }

    /// Called when the server has begun to stop: nothing that could wait for another server should
    /// begin any more. The call comes at most once, after the [events](Event::Stopping) of all open
    /// exchanges.
    fn stopping(&mut self) {}

    /// Returns whether work that belongs to no exchange is unfinished. A worker that ends calls
    /// this after each of its passes. It waits for the work, as for open exchanges, as long as the
    /// grace period lasts.
    fn is_busy(&self) -> bool {
        false
    }

    /// Handles a message that was posted to this application
    /// ([`Poster::post_to_app`](crate::Poster::post_to_app)). It belongs to no exchange; to wake
    /// one, post to its address.
    fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        let _not_expected = (message, connections);
    }

    /// Returns whether an HTTP/2 or HTTP/3 connection that begins now may have requests with an
    /// extended CONNECT (RFC 8441, RFC 9220), to which [`Exchange::open_tunnel`] responds. The
    /// setting is announced to the client once, and holds as long as the connection lasts.
    fn takes_extended_connect(&self) -> bool {
        false
    }

    /// Returns the field lines of the error pages that the engine sends on its own: whole lines as
    /// on the wire.
    fn page_fields(&self) -> &[u8] {
        error_page::BUILT_IN_FIELDS
    }

    /// Returns the error page of a status that the engine sends on its own, for the known parts of
    /// the request. Its content is [bytes](pinion_http::prepared_response::PreparedBody::Bytes).
    fn error_page(&mut self, status: u16, request: &RefusedRequest<'_>) -> Prepared<'_> {
        error_page::response(status, request.error_format, self.page_fields())
    }

    /// Called when the engine has responded on its own.
    fn answered(&mut self, connection: Address, response: OwnResponse) {
        let _not_asked = (connection, response);
    }

    /// Called when a connection ends because its client made work without end, or delayed others
    /// that wait for it for too long. The client got `ENHANCE_YOUR_CALM` (RFC 9113 §10.5) or
    /// `H3_EXCESSIVE_LOAD` (RFC 9114 §10.5).
    #[cold]
    fn flooded(&mut self, connection: Address) {
        let _not_asked = connection;
    }

    /// Called when a connection of `peer` was closed as soon as it was accepted: the client holds
    /// as many as it may
    /// ([`WorkerSettings::connections_per_client`](crate::settings::WorkerSettings)).
    #[cold]
    fn connection_refused(&mut self, peer: SocketAddr, now: Now) {
        let _not_asked = (peer, now);
    }

    /// Called when all bytes that were queued on a connection so far have left, except for the
    /// [dropped](Self::dropped) ones: the kernel has taken them, or QUIC has, which keeps some of
    /// them until the client has acknowledged them.
    #[inline]
    fn sent(&mut self, connection: Address) {
        let _not_asked = connection;
    }

    /// Called when the last `bytes` of the response of an exchange were dropped with it, before the
    /// kernel or QUIC has taken them: its client has stopped it, or its connection ends.
    #[cold]
    fn dropped(&mut self, exchange: Address, bytes: u64) {
        let _not_asked = (exchange, bytes);
    }

    /// Called when an exchange has ended for which the application has [asked for
    /// this](Exchange::notify_end), with the number of the exchange. The application has nothing
    /// open there any more, and the rest of the response, at most
    /// [`FRAMED_MAX_BYTES`](crate::limits::FRAMED_MAX_BYTES), is on its way; or its stream was
    /// reset, or its connection has ended. An exchange that has become a byte stream ends with its
    /// connection. The call comes once, and before [`Event::Head`] of the client's next request.
    #[cold]
    fn ended(&mut self, number: NonZeroU32) {
        let _not_asked = number;
    }

    /// Called when a connection has ended. Of the bytes that were queued on it and not dropped
    /// before, the kernel has not taken the last `unsent_bytes`.
    #[inline]
    fn closed(&mut self, connection: Address, unsent_bytes: u64) {
        let _not_asked = (connection, unsent_bytes);
    }
}
