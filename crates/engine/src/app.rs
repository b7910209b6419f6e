//! The contract between the engine and an application (docs/ARCHITECTURE.md, "The contract").
//!
//! Everywhere else calls go down and values come back; this trait is the one exception, because the
//! engine calls it. It has two entry points, one for HTTP exchanges of any version and one for byte
//! streams.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use pinion_http::field::Fields;
use pinion_http::page;
use pinion_http::prepared::Prepared;
use pinion_http::refusal::{Refusal, RefusedRequest};
use pinion_http::request::RequestHead;

use crate::address::Address;
use crate::clock::Now;
use crate::connections::Connections;
use crate::exchange::Exchange;
use crate::raw::RawStream;

pub use crate::gone::Gone;
pub use crate::inbox::Message;

/// What happens to an exchange.
pub enum Event<'a> {
    /// A request begins. Unless the application answers, or calls `wait`, before it returns, the
    /// engine answers: 413 when the request announces more content than its limit
    /// ([`Exchange::content_fits`]), else 500.
    Head(&'a RequestHead<'a>),
    /// Bytes of the request's body; they come only against `want`, never more than was wanted.
    Body(&'a [u8]),
    /// The body is complete. Comes once, as soon as all of it was taken, after the first `want`;
    /// not for a request without content ([`Framing::None`](pinion_http::request::Framing)).
    ///
    /// With it come the trailers: fields that the client sent behind the content. They are not part
    /// of the head and must never be merged into it, nor be looked up where a field of the head is
    /// meant (RFC 9110 §6.5.1). Those that something could act upon as if they were
    /// ([`trailers::is_forbidden`](pinion_http::h1::trailers::is_forbidden)) are left out.
    BodyEnd(Fields<'a>),
    /// The content of the request is malformed, over its limit or late, and no head of a response
    /// has gone out. The application may answer with [`Exchange::prepared`] before it returns, as a
    /// rule by a page of [`Refusal::status`], since it knows for what; then the exchange is over.
    /// Unless it does, [`Event::Gone`] follows and the engine answers. Either way no content comes
    /// any more, and a connection of HTTP/1 ends.
    Refused(Refusal),
    /// The client of a connection of HTTP/1 or HTTP/2 will send no more, and all of its request is
    /// there. Most clients that do this have left, but over HTTP/1 it is also how a client says
    /// that no other request follows (RFC 9112 §9.6). Comes at most once for each exchange that
    /// [waits](Exchange::wait), also if it has begun behind the end, and not while a pipelined
    /// request waits.
    InputEnd,
    /// What was written has mostly left; there is room for more.
    Writable,
    /// Somebody posted to this exchange's address: another thread, or another event of this one.
    Posted(Message),
    /// The deadline given to `wait` has passed.
    Deadline,
    /// The server has begun to stop: an answer that would never end has the grace to come to a good
    /// one. Comes at most once, to what is open at that time; what begins later can ask
    /// ([`Exchange::is_stopping`]).
    Stopping,
    /// The exchange is over although the application has not ended it, by an answer, an abort or an
    /// upgrade: nothing can be sent any more. Comes at most once, and as the last event.
    Gone(Gone),
}

/// What happens to a byte stream.
pub enum RawEvent<'a> {
    /// The connection is open, or was upgraded.
    Open,
    /// Bytes from the peer.
    Bytes(&'a [u8]),
    /// The peer will send no more.
    End,
    /// What was written has mostly left; there is room for more.
    Writable,
    /// Somebody posted to this stream's address.
    Posted(Message),
    /// The deadline given to `wait` has passed.
    Deadline,
    /// The server has begun to stop, as [`Event::Stopping`]; see [`RawStream::is_stopping`].
    Stopping,
    /// The connection is gone although the application has not ended it. Comes at most once, and as
    /// the last event.
    Gone(Gone),
}

/// An answer that the engine gave by itself: the peer sent no request that could be handed on, or
/// was too slow with it, or the application gave no answer. The connection ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnAnswer {
    /// Its status.
    pub status: u16,
    /// The client's address; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// Bytes of its content.
    pub body_bytes: u64,
    /// Bytes of head and content together, as they were queued.
    pub bytes: u64,
}

/// What the engine calls. One per worker; never shared, so no locks.
pub trait App {
    /// One event of one HTTP exchange.
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>);

    /// One event of one byte stream.
    fn raw(&mut self, event: RawEvent<'_>, stream: &mut RawStream<'_>);

    /// Called once at the top of every pass, before any event: the place to take up a new
    /// generation of what is served, and to do what is due of work that belongs to no exchange
    /// ([`Self::alarm_ms`]).
    fn pass(&mut self, connections: &mut Connections<'_>);

    /// Called once at the end of every pass, behind all events: the place for what is done once
    /// for all that have come together, such as messages that have several requests. What is
    /// written here leaves in this pass. Some events come later in the pass, such as the next
    /// request of a connection whose response has ended: what they leave to do is an
    /// [alarm](Self::alarm_ms) of now.
    #[inline]
    fn pass_end(&mut self, connections: &mut Connections<'_>) {
        let _nothing_to_do = connections;
    }

    /// When [`Self::pass`] is to be called at the latest, in milliseconds of
    /// [`Now::monotonic_ms`]; `None` leaves that to the connections. Asked before every wait, so
    /// keep it at hand. Work that is done must not stand here any more: an alarm that has passed
    /// makes passes that do not wait, one behind the other.
    ///
    /// A worker that ends waits for it only while the application [is busy](Self::is_busy).
    #[inline]
    fn alarm_ms(&self) -> Option<u64> {
        None
    }

    /// The server has begun to stop: nothing that could wait for another server should begin any
    /// more. Comes at most once, after the [events](Event::Stopping) of what is open.
    fn stopping(&mut self) {}

    /// Whether work that belongs to no exchange has not come to its end. Asked behind each pass of
    /// a worker that ends: it waits for the work as for what is open, as long as the grace lasts.
    fn is_busy(&self) -> bool {
        false
    }

    /// Somebody posted to this application ([`Poster::post_to_app`](crate::Poster::post_to_app)).
    /// It belongs to no exchange; to wake one, post to its address.
    fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        let _not_expected = (message, connections);
    }

    /// Whether a connection of HTTP/2 or HTTP/3 that begins now may have requests with an extended
    /// CONNECT (RFC 8441, RFC 9220), to which [`Exchange::open_tunnel`] responds. The client of the
    /// connection is told so once, and it holds as long as the connection lasts.
    fn takes_extended_connect(&self) -> bool {
        false
    }

    /// Field lines for the error pages that the engine answers with by itself, whole lines in the
    /// form of the wire.
    fn page_fields(&self) -> &[u8] {
        page::BUILT_IN_FIELDS
    }

    /// The page of a status that the engine answers with by itself, for what is known of the
    /// request. Its content is [bytes](pinion_http::prepared::PreparedBody::Bytes).
    fn error_page(&mut self, status: u16, request: &RefusedRequest<'_>) -> Prepared<'_> {
        page::answer(status, request.error_format, self.page_fields())
    }

    /// The engine has answered by itself.
    fn answered(&mut self, connection: Address, answer: OwnAnswer) {
        let _not_asked = (connection, answer);
    }

    /// A connection ends because its client made work without end, or holds up for too long what
    /// waits for it: it was told
    /// `ENHANCE_YOUR_CALM` (RFC 9113 §10.5) or `H3_EXCESSIVE_LOAD` (RFC 9114 §10.5).
    #[cold]
    fn flooded(&mut self, connection: Address) {
        let _not_asked = connection;
    }

    /// A connection of `peer` was closed as soon as it was accepted: the client holds as many as it
    /// may ([`WorkerSettings::connections_per_client`](crate::settings::Settings)).
    #[cold]
    fn connection_refused(&mut self, peer: SocketAddr, now: Now) {
        let _not_asked = (peer, now);
    }

    /// Everything that was queued on a connection so far has left, but for what was
    /// [dropped](Self::dropped): the kernel has taken it, or QUIC has, which keeps some of it until
    /// the client has it.
    #[inline]
    fn sent(&mut self, connection: Address) {
        let _not_asked = connection;
    }

    /// The last `bytes` of the answer of an exchange were dropped with it, before the kernel or
    /// QUIC has taken them: its client has stopped it, or its connection ends.
    #[cold]
    fn dropped(&mut self, exchange: Address, bytes: u64) {
        let _not_asked = (exchange, bytes);
    }

    /// An exchange has ended for which the application has [asked for this](Exchange::notify_end),
    /// under its number: the application has nothing open there any more, and what is left of the
    /// response, at most [`FRAMED_MAX_BYTES`](crate::limits::FRAMED_MAX_BYTES), is on its way; or
    /// its stream was reset, or its connection has ended. An exchange that has become a byte stream
    /// ends with its connection. Comes once, and before [`Event::Head`] of what the client sends
    /// next.
    #[cold]
    fn ended(&mut self, number: NonZeroU32) {
        let _not_asked = number;
    }

    /// A connection has ended. Of what was queued on it and not dropped before, the kernel has not
    /// taken the last `unsent_bytes`.
    #[inline]
    fn closed(&mut self, connection: Address, unsent_bytes: u64) {
        let _not_asked = (connection, unsent_bytes);
    }
}
