//! The congestion control of QUIC: how much a connection may have on its way. It is a controller of
//! quinn-proto, chosen by the operator (docs/decisions/0037).

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig,
};

use crate::limits::{QUIC_BBR_WINDOW_BYTES, QUIC_CUBIC_WINDOW_BYTES};

/// The algorithm that decides how much a QUIC connection may have on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438): treats every lost packet as a sign that the path is full, as TCP does.
    #[default]
    Cubic,
    /// BBR, version 1: measures the rate and the round trip of the path, and ignores lost packets.
    Bbr,
}

impl CongestionControl {
    /// Creates the factory of a controller for each connection.
    pub(super) fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => {
                let mut config = CubicConfig::default();
                config.initial_window(QUIC_CUBIC_WINDOW_BYTES);
                Arc::new(config)
            }
            Self::Bbr => Arc::new(ValidatedBbrConfig),
        }
    }
}

/// The factory of [`ValidatedBbr`].
struct ValidatedBbrConfig;

impl ControllerFactory for ValidatedBbrConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let mut config = BbrConfig::default();
        config.initial_window(QUIC_BBR_WINDOW_BYTES);
        let inner = Arc::new(config).build(now, current_mtu);
        Box::new(ValidatedBbr { inner, used_bytes: 0, acknowledged_bytes: 0 })
    }
}

/// BBR with a window that is at most twice the bytes that the connection has ever had on its way.
///
/// The window of BBR grows by every byte that is acknowledged before the path was full once. A
/// connection with only small responses would reach a window of all the bytes that it ever sent,
/// and send the first large response in one burst. An unused window gives no information on the
/// path (RFC 7661, section 1).
struct ValidatedBbr {
    inner: Box<dyn Controller>,
    /// The most bytes that were on their way at once.
    used_bytes: u64,
    /// Bytes of the acknowledgements that are being read.
    acknowledged_bytes: u64,
}

impl Controller for ValidatedBbr {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acknowledged_bytes += bytes;
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let before_bytes = in_flight + std::mem::take(&mut self.acknowledged_bytes);
        self.used_bytes = self.used_bytes.max(before_bytes);
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window().min((2 * self.used_bytes).max(QUIC_BBR_WINDOW_BYTES))
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::SocketAddr;
    use std::time::Duration;

    use bytes::BytesMut;
    use quinn_proto::crypto::rustls::QuicClientConfig;
    use quinn_proto::{
        ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event,
        ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
    };
    use rustls::RootCertStore;
    use rustls::pki_types::CertificateDer;

    use super::super::config::{QuicConfig, QuicKeys};
    use super::super::made_settings;
    use super::*;

    const ONE_WAY: Duration = Duration::from_millis(25);
    const TICK: Duration = Duration::from_millis(1);
    /// After so long without a datagram on its way, nothing follows.
    const QUIET: Duration = Duration::from_millis(100);

    /// Datagrams on their way, each with the time when it arrives.
    type OnItsWay = VecDeque<(Instant, BytesMut)>;

    /// A client and a server with a path between them that loses nothing and has no rate.
    struct Path {
        now: Instant,
        client: (Endpoint, Connection, OnItsWay),
        server: (Endpoint, Option<Connection>, OnItsWay),
    }

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 443).into()
    }

    fn client_config(root: Vec<u8>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(root)).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("suites");
        let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let mut config =
            ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("settings")));
        let mut transport = TransportConfig::default();
        transport.receive_window(VarInt::MAX).stream_receive_window(VarInt::MAX);
        config.transport_config(Arc::new(transport));
        config
    }

    /// Sends the output that a side has now.
    fn send(from: &mut Connection, path: &mut OnItsWay, now: Instant) {
        from.handle_timeout(now);
        let mut bytes = Vec::new();
        while let Some(transmit) = from.poll_transmit(now, 1, &mut bytes) {
            path.push_back((now + ONE_WAY, BytesMut::from(&bytes[..transmit.size])));
            bytes.clear();
        }
    }

    /// Takes the next datagram that has arrived by now.
    fn arrived(path: &mut OnItsWay, now: Instant) -> Option<BytesMut> {
        path.pop_front_if(|(at, _)| *at <= now).map(|(_, datagram)| datagram)
    }

    impl Path {
        fn new(factory: Arc<dyn ControllerFactory + Send + Sync>) -> Self {
            let (tls, root) = made_settings();
            let quic = QuicConfig::new(&tls, QuicKeys::random(), 60_000, CongestionControl::Bbr);
            let quic = quic.expect("a cipher suite");
            let mut config = ServerConfig::clone(&quic.server());
            let mut transport = TransportConfig::default();
            transport.congestion_controller_factory(factory);
            config.transport_config(Arc::new(transport));
            let server = Endpoint::new(quic.endpoint(0), Some(Arc::new(config)), false, None);
            let mut client = Endpoint::new(Arc::default(), None, false, None);
            let now = Instant::now();
            let connected = client.connect(now, client_config(root), address(), "localhost");
            let (_, connection) = connected.expect("a connection");
            let client = (client, connection, OnItsWay::new());
            Self { now, client, server: (server, None, OnItsWay::new()) }
        }

        /// A millisecond passes. Returns whether a datagram is on its way.
        fn tick(&mut self) -> bool {
            let Self { now, client, server } = self;
            *now += TICK;
            let (endpoint, connection, to_client) = server;
            let (own_endpoint, own, to_server) = client;
            send(own, to_server, *now);
            while let Some(datagram) = arrived(to_server, *now) {
                let out = &mut Vec::new();
                match endpoint.handle(*now, address(), None, None, datagram, out) {
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        let accepted = endpoint.accept(incoming, *now, out, None);
                        let Ok((_, accepted)) = accepted else { panic!("refused") };
                        *connection = Some(accepted);
                    }
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        connection.as_mut().expect("a connection").handle_event(event);
                    }
                    Some(DatagramEvent::Response(_)) => panic!("a response without a connection"),
                    None => {}
                }
            }
            if let Some(connection) = connection {
                while let Some(event) = connection.poll_endpoint_events() {
                    endpoint.handle_event(ConnectionHandle(0), event);
                }
                send(connection, to_client, *now);
            }
            while let Some(datagram) = arrived(to_client, *now) {
                let event =
                    own_endpoint.handle(*now, address(), None, None, datagram, &mut Vec::new());
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    own.handle_event(event);
                }
            }
            !(to_client.is_empty() && to_server.is_empty())
        }

        /// Lets time pass until nothing has been on its way for a while.
        fn settle(&mut self, mut each: impl FnMut(&mut Self)) {
            let mut quiet_since = self.now;
            while self.now - quiet_since < QUIET {
                if self.tick() {
                    quiet_since = self.now;
                }
                each(self);
            }
        }

        fn server(&mut self) -> &mut Connection {
            self.server.1.as_mut().expect("a connection")
        }

        /// The server sends so many bytes on a stream of its own, as fast as its window allows.
        fn respond(&mut self, bytes: usize) {
            let stream = self.server().streams().open(Dir::Uni).expect("a stream");
            let content = vec![b'x'; bytes];
            let mut left = &content[..];
            self.settle(|path| {
                if !left.is_empty() {
                    let mut sender = path.server().send_stream(stream);
                    left = &left[sender.write(left).unwrap_or(0)..];
                    if left.is_empty() {
                        sender.finish().expect("open");
                    }
                }
                path.read();
            });
        }

        fn read(&mut self) {
            let connection = &mut self.client.1;
            let mut readable: Vec<StreamId> = Vec::new();
            while let Some(event) = connection.poll() {
                if let Event::Stream(StreamEvent::Readable { id }) = event {
                    readable.push(id);
                }
            }
            readable.extend(std::iter::from_fn(|| connection.streams().accept(Dir::Uni)));
            for id in readable {
                let mut stream = connection.recv_stream(id);
                let Ok(mut chunks) = stream.read(true) else { continue };
                while let Ok(Some(_)) = chunks.next(usize::MAX) {}
                let _should_send = chunks.finalize();
            }
        }

        fn window(&mut self) -> u64 {
            self.server().stats().path.cwnd
        }
    }

    /// A connection that sent small responses only has used little of its window, however many
    /// they were; a large one makes it grow.
    #[test]
    fn a_window_of_bbr_that_was_not_used_does_not_grow() {
        const RESPONSES: usize = 200;
        const BYTES: usize = 5000;
        let mut validated = Path::new(CongestionControl::Bbr.factory());
        validated.settle(|_| {});
        for _ in 0..RESPONSES {
            validated.respond(BYTES);
        }
        let small = validated.window();
        assert!(small <= 2 * QUIC_BBR_WINDOW_BYTES, "{small}");
        validated.respond(16 << 20);
        let large = validated.window();
        assert!(large > 8 * QUIC_BBR_WINDOW_BYTES, "{large}");
    }
}
