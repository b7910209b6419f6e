//! The settings of a server: limits, timeouts, and the protocols of its listeners.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use pinion_http::limits::Limits;

use crate::connection_direction::ConnectionDirection;
use crate::deadline::DeadlineKind;
use crate::limits::{BODY_TIMEOUT_MS, HEAD_TIMEOUT_MS, IDLE_TIMEOUT_MS, STREAM_IDLE_TIMEOUT_MS};
use crate::tls::TlsConfig;

/// The protocol of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP, in these versions.
    Http(Protocols),
    /// A byte stream that the application itself reads.
    ByteStream,
}

/// The versions of HTTP that clients may use on a listener. Over TLS the two sides negotiate one
/// (ALPN); otherwise the first bytes decide, or there is only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// HTTP/1.0 and 1.1.
    pub http1: bool,
    /// HTTP/2.
    pub http2: bool,
}

impl Protocols {
    /// Every version.
    pub const ALL: Self = Self { http1: true, http2: true };
}

/// The common settings of a listener's connections.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// The protocol.
    pub protocol: Protocol,
    /// Complete field lines (`Name: value\r\n`) sent with every response, such as `Server`.
    pub fields: Vec<u8>,
    /// The TLS settings, if its connections are encrypted.
    pub tls: Option<TlsConfig>,
    /// The timeouts of its byte streams: those of a listener for byte streams, and connections that
    /// the application has upgraded or taken over.
    pub streams: StreamTimeouts,
    /// The proxies whose connections begin with a PROXY protocol header, if there are any.
    pub proxy_protocol: Option<ProxySources>,
}

impl ListenerSettings {
    /// Creates the settings of a listener without encryption and added fields.
    pub fn plain(protocol: Protocol) -> Self {
        let streams = StreamTimeouts::default();
        Self { protocol, fields: Vec::new(), tls: None, streams, proxy_protocol: None }
    }
}

/// The timeouts of the byte streams of a listener. A stream that has waited too long is cut, and
/// its application gets the reason. A peer that does not take its output is cut earlier
/// ([`SEND_STALL_MS`](crate::limits::SEND_STALL_MS)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamTimeouts {
    /// Milliseconds for the first byte of a client, from the time when the application wants bytes
    /// on a stream of a listener for byte streams; [`Gone::Stalled`](crate::app::Gone::Stalled).
    /// `None` is for protocols in which the server speaks first, or the client need not.
    pub first_byte_ms: Option<u64>,
    /// Milliseconds in which neither side sends a byte; [`Gone::Idle`](crate::app::Gone::Idle).
    /// `None` is for ever.
    pub idle_ms: Option<u64>,
}

impl Default for StreamTimeouts {
    fn default() -> Self {
        Self { first_byte_ms: None, idle_ms: Some(STREAM_IDLE_TIMEOUT_MS) }
    }
}

/// The proxies that a listener trusts to send the addresses of their clients.
///
/// A connection from one of them must begin with a PROXY protocol header
/// ([`pinion_http::proxy_protocol`]), else it is cut. A connection from anywhere else has the
/// address of its socket, and a header on it is no request and no handshake.
#[derive(Clone)]
pub struct ProxySources(Arc<dyn Fn(Option<SocketAddr>) -> bool + Send + Sync>);

impl ProxySources {
    /// Creates the set of proxies for whose address `contains` returns true; `None` is a Unix
    /// socket.
    pub fn new(contains: impl Fn(Option<SocketAddr>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(contains))
    }

    /// Returns whether this is the address of a trusted proxy.
    pub(crate) fn contains(&self, address: Option<SocketAddr>) -> bool {
        (self.0)(address)
    }
}

impl fmt::Debug for ProxySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxySources")
    }
}

/// Settings of a worker; all workers have the same.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Limits of the protocol.
    pub limits: Limits,
    /// Milliseconds for a request head, from its first byte (or from accept).
    pub head_ms: u64,
    /// Milliseconds that a client may pause while it sends a body.
    pub body_ms: u64,
    /// Milliseconds for which an idle connection is kept.
    pub idle_ms: u64,
    /// The maximum number of connections of the whole server.
    pub connections: usize,
    /// The maximum number of connections that one client may hold at once; `None` is no limit. A
    /// client is an IPv4 address or a /64 prefix of IPv6.
    pub connections_per_client: Option<u32>,
    /// Proxies that are exempt from this limit, since their connections carry requests of many
    /// clients.
    pub trusted_proxies: Option<ProxySources>,
    /// The maximum number of connections that the server itself opens at once.
    pub outgoing: usize,
    /// The maximum number of requests of one connection; `None` is no bound.
    pub requests_per_connection: Option<u32>,
    /// The maximum number of bytes of this worker's buffers.
    pub buffer_bytes: usize,
    /// The settings of the listeners, by index.
    pub listeners: Vec<ListenerSettings>,
}

impl WorkerSettings {
    /// Returns the timeout of a byte stream for a deadline of this kind, in milliseconds; `None` is
    /// none. Streams that the server has opened have no timeout here: the application sets theirs.
    pub(crate) fn stream_timeout_ms(
        &self,
        direction: ConnectionDirection,
        kind: DeadlineKind,
    ) -> Option<u64> {
        let ConnectionDirection::Incoming(listener) = direction else { return None };
        let timeouts = &self.listeners.get(usize::from(listener.get()))?.streams;
        if kind == DeadlineKind::FirstByte { timeouts.first_byte_ms } else { timeouts.idle_ms }
    }
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            head_ms: HEAD_TIMEOUT_MS,
            body_ms: BODY_TIMEOUT_MS,
            idle_ms: IDLE_TIMEOUT_MS,
            connections: 1024,
            connections_per_client: None,
            trusted_proxies: None,
            outgoing: 1024,
            requests_per_connection: None,
            buffer_bytes: 64 << 20,
            listeners: vec![ListenerSettings::plain(Protocol::Http(Protocols::ALL))],
        }
    }
}
