//! One connection: its transport link, and the protocol on it.

use std::net::SocketAddr;

use crate::byte_stream::{ByteStream, ConnectStep, Connecting, StreamState};
use crate::connection_direction::ConnectionDirection;
use crate::deadline::DeadlineKind;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::http3::Http3;
use crate::limits::INPUT_HIGH_WATER_BYTES;
use crate::linger::{Linger, Remaining};
use crate::multiplexed::Multiplexed;
use crate::settings::WorkerSettings;
use crate::transport_link::TransportLink;
use crate::worker_buffers::Buffers;

/// One connection.
pub(crate) struct Connection {
    /// The generation of the slot, by which messages and completions for an earlier connection in
    /// this slot are recognised.
    pub(crate) generation: u64,
    /// Whether the slot holds a connection: false before its first connection and after each
    /// release.
    pub(crate) in_use: bool,
    /// Whether a client or the server opened the connection.
    pub(crate) direction: ConnectionDirection,
    /// The number of exchanges and byte streams that have begun on the connection, modulo 2^32.
    pub(crate) exchanges_begun: u32,
    /// The client's address; `None` on a Unix socket, and until the PROXY protocol header has
    /// arrived.
    pub(crate) peer: Option<SocketAddr>,
    /// The address at the other end of the socket, which is that of the proxy, if a PROXY protocol
    /// header has arrived. The inner `None` is a Unix socket.
    pub(crate) proxy_peer: Option<Box<Option<SocketAddr>>>,
    pub(crate) link: TransportLink,
    pub(crate) protocol: Protocol,
}

/// The protocol on a connection, and its state.
pub(crate) enum Protocol {
    /// The PROXY protocol header has not arrived in full; see `driver/proxy_header.rs`. The value
    /// is the address at the other end of the socket; `None` on a Unix socket.
    ProxyHeader(Option<SocketAddr>),
    /// A TLS handshake, or nothing yet on a listener with TLS.
    Handshake,
    /// The protocol is not known yet; see `driver/protocol_detection.rs`.
    Undetected,
    Http1(Http1),
    Multiplexed(Multiplexed),
    /// The server opens the connection, which will be a byte stream.
    Connecting(Box<Connecting>),
    /// A byte stream.
    ByteStream(ByteStream),
    /// Our last response is sent or on its way; further input of the peer is dropped.
    Linger(Linger),
    /// The connection is closed; the kernel still holds memory of it.
    Closing,
}

/// The phase of a connection, as far as it decides the use of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    ProxyHeader,
    Handshake,
    Undetected,
    /// A request head of HTTP/1.
    Head,
    /// The content of an HTTP/1 request, wanted or discarded.
    Content,
    /// An HTTP/1 request is complete, and no further input is processed: its response is not
    /// complete, or the connection becomes a byte stream after a 101.
    Response,
    /// Frames of HTTP/2, or streams of QUIC.
    Multiplexed,
    /// The connection is being opened.
    Connecting,
    ByteStream,
    Linger,
    Closing,
}

impl Protocol {
    /// Returns the phase of the connection.
    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        match self {
            Self::ProxyHeader(_) => Phase::ProxyHeader,
            Self::Handshake => Phase::Handshake,
            Self::Undetected => Phase::Undetected,
            Self::Http1(Http1::Head { .. }) => Phase::Head,
            Self::Http1(Http1::Exchange(open)) if open.content.is_none() => Phase::Response,
            Self::Http1(Http1::Upgraded) => Phase::Response,
            Self::Http1(_) => Phase::Content,
            Self::Multiplexed(_) => Phase::Multiplexed,
            Self::Connecting(_) => Phase::Connecting,
            Self::ByteStream(_) => Phase::ByteStream,
            Self::Linger(_) => Phase::Linger,
            Self::Closing => Phase::Closing,
        }
    }

    /// Returns the state of HTTP/2, if that is the protocol.
    #[inline]
    pub(crate) fn http2(&mut self) -> Option<&mut Http2> {
        match self {
            Self::Multiplexed(Multiplexed::Http2(http2)) => Some(http2),
            _ => None,
        }
    }

    /// Returns the state of HTTP/3, if that is the protocol.
    #[inline]
    pub(crate) fn http3(&mut self) -> Option<&mut Http3> {
        match self {
            Self::Multiplexed(Multiplexed::Http3(http3)) => Some(http3),
            _ => None,
        }
    }

    /// Returns the state of a protocol that carries many exchanges at once, if it is one.
    #[inline]
    pub(crate) fn multiplexed(&mut self) -> Option<&mut Multiplexed> {
        match self {
            Self::Multiplexed(multiplexed) => Some(multiplexed),
            _ => None,
        }
    }

    /// Returns the state of HTTP/1, if that is the protocol.
    #[inline]
    pub(crate) fn http1(&mut self) -> Option<&mut Http1> {
        match self {
            Self::Http1(http1) => Some(http1),
            _ => None,
        }
    }

    /// Returns the byte stream, if the connection is one or will be one.
    #[inline]
    pub(crate) fn byte_stream(&mut self) -> Option<&mut ByteStream> {
        match self {
            Self::ByteStream(stream) => Some(stream),
            Self::Connecting(connecting) => Some(&mut connecting.stream),
            _ => None,
        }
    }

    /// Returns its encoder and its counted memory to the pools of the worker. A multiplexed
    /// protocol must have no open streams.
    pub(crate) fn give_back(self, buffers: &mut Buffers) {
        match self {
            Self::Http1(Http1::Exchange(mut open)) => {
                buffers.encoders.give_back(&mut open.state.encoder, &mut buffers.pool);
            }
            Self::Multiplexed(multiplexed) => {
                debug_assert!(multiplexed.open_streams() == 0);
                buffers.pool.release(multiplexed.counted_bytes());
            }
            _ => {}
        }
    }
}

impl Connection {
    pub(crate) fn empty(generation: u64) -> Self {
        Self {
            generation,
            in_use: false,
            direction: ConnectionDirection::Outgoing,
            exchanges_begun: 0,
            peer: None,
            proxy_peer: None,
            link: TransportLink::new(false),
            protocol: Protocol::Closing,
        }
    }

    /// Returns the index of the listener that accepted its client.
    ///
    /// # Panics
    /// Panics if the server has opened the connection.
    #[inline]
    pub(crate) fn listener(&self) -> u16 {
        let ConnectionDirection::Incoming(listener) = self.direction else {
            unreachable!("a connection that the server opens has no listener")
        };
        listener.get()
    }

    /// Returns the index of the listener that accepted its client; `None` if the server has opened
    /// the connection.
    pub(crate) fn accepted_by(&self) -> Option<u16> {
        match self.direction {
            ConnectionDirection::Incoming(listener) => Some(listener.get()),
            ConnectionDirection::Outgoing => None,
        }
    }

    /// Returns whether it is closed while the kernel or QUIC still holds some of its data.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        match &self.protocol {
            Protocol::Closing => true,
            Protocol::Multiplexed(Multiplexed::Http3(http3)) => http3.is_closed(),
            _ => false,
        }
    }

    /// Returns whether no stream has output that was not moved to the output queue of the
    /// connection. This is always true for protocols without streams.
    #[inline]
    pub(crate) fn streams_have_no_output(&self) -> bool {
        match &self.protocol {
            Protocol::Multiplexed(multiplexed) => multiplexed.queued_bytes() == 0,
            _ => true,
        }
    }

    /// Returns the state of HTTP/2, if that is the protocol.
    #[inline]
    pub(crate) fn http2(&mut self) -> Option<&mut Http2> {
        self.protocol.http2()
    }

    /// Returns the state of HTTP/3, if that is the protocol.
    #[inline]
    pub(crate) fn http3(&mut self) -> Option<&mut Http3> {
        self.protocol.http3()
    }

    /// Returns whether input is decrypted as TLS records. After the last response the input is
    /// dropped: decrypting it would cost the server more than sending it cost the client.
    #[inline]
    pub(crate) fn decrypts_input(&self) -> bool {
        match self.protocol {
            Protocol::Handshake => true,
            Protocol::Linger(_) => false,
            _ => self.link.tls.is_some(),
        }
    }

    /// Returns whether the last response has not left in full.
    #[inline]
    pub(crate) fn is_sending_last_response(&self) -> bool {
        matches!(&self.protocol, Protocol::Linger(linger) if linger.is_sending())
    }

    /// Returns whether our side of the connection ends after the queued output.
    #[inline]
    pub(crate) fn ends_after_queued_output(&self) -> bool {
        match &self.protocol {
            Protocol::ByteStream(stream) => stream.finished,
            _ => self.is_sending_last_response(),
        }
    }

    /// Returns whether the last response has left, and further input of the peer is dropped.
    pub(crate) fn is_dropping_input(&self) -> bool {
        matches!(&self.protocol, Protocol::Linger(linger) if linger.has_begun())
    }

    /// Returns how long it has lingered, in milliseconds; 0 if it does not.
    pub(crate) fn lingered_ms(&self, now_ms: u64) -> u64 {
        match &self.protocol {
            Protocol::Linger(linger) => linger.age_ms(now_ms),
            _ => 0,
        }
    }

    /// Returns whether an exchange or a byte stream is open whose events the application expects,
    /// if the protocol carries no more than one at a time.
    #[inline]
    pub(crate) fn has_single_open_exchange(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(Http1::Exchange(open)) => open.state.stage.is_open(),
            Protocol::ByteStream(stream) => stream.state == StreamState::Open,
            Protocol::Connecting(connecting) => connecting.stream.state == StreamState::Open,
            _ => false,
        }
    }

    /// Marks the exchange or byte stream of
    /// [`has_single_open_exchange`](Self::has_single_open_exchange) as ended, so that the
    /// application gets no more events of it. Returns whether one was open.
    pub(crate) fn end_single_exchange(&mut self) -> bool {
        match &mut self.protocol {
            Protocol::Http1(Http1::Exchange(open)) => open.state.stage.take_open(),
            Protocol::ByteStream(stream) => stream.abandon(),
            Protocol::Connecting(connecting) => connecting.stream.abandon(),
            _ => false,
        }
    }

    /// Returns whether input of the peer can be used or kept now.
    #[inline]
    pub(crate) fn takes_input(&self) -> bool {
        let Self { link, protocol, .. } = self;
        let has_room = || link.input.len() < INPUT_HIGH_WATER_BYTES;
        match protocol {
            Protocol::ProxyHeader(_) | Protocol::Handshake => true,
            Protocol::Undetected | Protocol::Multiplexed(Multiplexed::Http2(_)) => has_room(),
            Protocol::Http1(Http1::Head { .. }) => has_room(),
            Protocol::Http1(Http1::Exchange(open)) => open.takes_input(link.input.is_empty()),
            Protocol::Http1(Http1::Discard { .. }) => true,
            Protocol::Http1(Http1::Upgraded) => false,
            Protocol::ByteStream(stream) => stream.wanted_bytes > 0,
            // With `Remaining::Nothing`, no input is received while the last response is sent.
            Protocol::Linger(linger) => {
                (linger.remaining != Remaining::Nothing || !linger.is_sending()) && has_room()
            }
            // Datagrams arrive at the socket of the endpoint, not at this connection.
            Protocol::Multiplexed(Multiplexed::Http3(_)) => false,
            Protocol::Connecting(connecting) => connecting.step == ConnectStep::Handshake,
            Protocol::Closing => false,
        }
    }

    /// Returns the kind of deadline that the state of the connection needs.
    #[inline]
    pub(crate) fn deadline_kind(&mut self) -> DeadlineKind {
        let Self { link, protocol, .. } = self;
        match protocol {
            // The PROXY protocol header and the TLS handshake share one handshake timeout.
            Protocol::ProxyHeader(_) | Protocol::Handshake => DeadlineKind::Handshake,
            Protocol::Connecting(_) => DeadlineKind::Connect,
            _ if link.blocked.is_some() || link.sending => DeadlineKind::Send,
            Protocol::Undetected => DeadlineKind::Head,
            Protocol::Http1(http1) => http1.deadline_kind(link.input.is_empty()),
            Protocol::Multiplexed(multiplexed) => multiplexed.deadline_kind(link.input.is_empty()),
            Protocol::Linger(linger) if linger.is_sending() => DeadlineKind::Send,
            Protocol::Linger(_) => DeadlineKind::Linger,
            Protocol::ByteStream(stream) => stream.deadline_kind(),
            Protocol::Closing => DeadlineKind::Nothing,
        }
    }

    /// Returns whether a part of an incomplete head has arrived.
    fn has_partial_head(&self) -> bool {
        let is_within_head =
            matches!(&self.protocol, Protocol::Multiplexed(it) if it.is_within_head());
        !self.link.input.is_empty() || is_within_head
    }

    /// Returns the number of the exchange or byte stream that has begun last, as in its
    /// [`Address`](crate::exchange_address::Address).
    #[inline]
    pub(crate) fn last_exchange_number(&self) -> u32 {
        self.exchanges_begun
    }

    /// Counts an exchange or a byte stream that begins.
    #[inline]
    pub(crate) fn count_exchange(&mut self) {
        self.exchanges_begun = self.exchanges_begun.wrapping_add(1);
    }

    /// Starts a deadline of this kind, unless it runs already. Returns whether it was started.
    #[inline]
    pub(crate) fn start_deadline(
        &mut self,
        kind: DeadlineKind,
        now_ms: u64,
        settings: &WorkerSettings,
    ) -> bool {
        if let Protocol::Multiplexed(Multiplexed::Http3(_)) = self.protocol {
            // HTTP/3 streams are independent, so an incomplete head on one does not postpone the
            // deadlines of others.
            self.link.deadline.drop_postponed();
        }
        if kind == DeadlineKind::Send && (!self.link.receiving || !self.has_partial_head()) {
            // If no part of a head has arrived, the next head gets its full time. If receiving is
            // off, the rest of a head cannot arrive, so the send does not use up its time.
            self.link.deadline.end(DeadlineKind::Head);
        }
        let is_new = self.link.deadline.start(kind, now_ms, settings);
        if is_new && let Some(due_ms) = self.due_ms(kind, now_ms, settings) {
            self.link.deadline.set_at_ms(due_ms);
        }
        is_new
    }

    /// Returns the time of a deadline that is not a fixed timeout of its kind, in milliseconds:
    /// that of a byte stream, of lingering, of an outgoing connection, of discarded content of
    /// HTTP/3, or of the first late stream, since input on other streams gives it no more time.
    #[inline]
    fn due_ms(
        &mut self,
        kind: DeadlineKind,
        now_ms: u64,
        settings: &WorkerSettings,
    ) -> Option<u64> {
        let Self { direction, link, .. } = self;
        match (&mut self.protocol, kind) {
            (Protocol::ByteStream(_), DeadlineKind::FirstByte | DeadlineKind::StreamIdle) => {
                // These kinds have no fixed timeout. If a time is set, it is that of a postponed
                // deadline which continues, so it is kept.
                let is_fresh = link.deadline.at_ms() == u64::MAX;
                let after_ms = settings.stream_timeout_ms(*direction, kind).filter(|_| is_fresh)?;
                Some(now_ms.saturating_add(after_ms))
            }
            (Protocol::Linger(linger), DeadlineKind::Linger) => Some(linger.due_ms(now_ms)),
            (Protocol::Connecting(connecting), DeadlineKind::Connect) => Some(connecting.due_ms),
            (Protocol::Multiplexed(multiplexed), DeadlineKind::Body) => {
                multiplexed.due_ms(settings)
            }
            (Protocol::Multiplexed(Multiplexed::Http3(http3)), DeadlineKind::Discard) => {
                http3.discard_due_ms()
            }
            (Protocol::Multiplexed(multiplexed @ Multiplexed::Http3(_)), DeadlineKind::Head) => {
                multiplexed.due_ms(settings)
            }
            _ => None,
        }
    }

    /// Begins the byte stream for which the connection was opened or upgraded.
    pub(crate) fn begin_stream(&mut self) -> &mut ByteStream {
        self.count_exchange();
        self.link.app_deadline_ms = 0;
        self.protocol = Protocol::ByteStream(ByteStream::new(self.link.peer_ended));
        let Protocol::ByteStream(stream) = &mut self.protocol else {
            unreachable!("it was just begun")
        };
        stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer_pool::Pool;

    /// While receiving is off, the rest of the head may wait in the kernel, so this time is not
    /// charged to the client.
    #[test]
    fn time_for_a_head_stops_while_receiving_is_off() {
        let (settings, mut pool) = (WorkerSettings::default(), Pool::new(1 << 20));
        let head_timeout_ms = settings.head_ms;
        for (receiving, left_ms) in [(true, head_timeout_ms - 30), (false, head_timeout_ms)] {
            let mut connection =
                Connection { link: TransportLink::new(true), ..Connection::empty(0) };
            assert!(connection.link.input.keep(&mut pool, b"half"));
            let begin = |connection: &mut Connection, kind, after_ms| {
                connection.start_deadline(kind, (1 << 40) + after_ms, &settings);
                connection.link.next_deadline_ms() - (1 << 40) - after_ms
            };
            assert_eq!(begin(&mut connection, DeadlineKind::Head, 0), head_timeout_ms);
            connection.link.receiving = receiving;
            begin(&mut connection, DeadlineKind::Send, 10);
            connection.link.sent(1);
            connection.link.receiving = true;
            assert_eq!(
                begin(&mut connection, DeadlineKind::Head, 30),
                left_ms,
                "receiving: {receiving}"
            );
            std::mem::take(&mut connection.link.input).give_back(&mut pool);
        }
    }

    /// Otherwise the application would be called again and again, at each tick of the timer wheel.
    #[test]
    fn without_a_deadline_of_the_connection_only_that_of_the_application_expires() {
        const APP_DEADLINE_MS: u64 = 1 << 50;
        let mut connection = Connection::empty(0);
        let begin = |connection: &mut Connection, kind| {
            connection.start_deadline(kind, 1 << 40, &WorkerSettings::default())
        };
        connection.link.app_deadline_ms = APP_DEADLINE_MS;
        begin(&mut connection, DeadlineKind::Nothing);
        assert_eq!(connection.link.next_deadline_ms(), APP_DEADLINE_MS);
        begin(&mut connection, DeadlineKind::Body);
        assert!(connection.link.next_deadline_ms() < APP_DEADLINE_MS);
        connection.link.received();
        assert_eq!(
            connection.link.next_deadline_ms(),
            APP_DEADLINE_MS,
            "after content was received"
        );
        begin(&mut connection, DeadlineKind::Send);
        connection.link.sent(1);
        assert_eq!(connection.link.next_deadline_ms(), APP_DEADLINE_MS, "after output was sent");
    }
}
