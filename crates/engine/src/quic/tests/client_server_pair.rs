//! A client and a server of QUIC with a path between them, in memory and with stepped time.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, StreamEvent,
    StreamId, TransportConfig, VarInt,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::quic::config::{QuicConfig, QuicKeys};
use crate::quic::congestion::CongestionControl;
use crate::quic::made_settings;

const ONE_WAY: Duration = Duration::from_millis(25);
const TICK: Duration = Duration::from_millis(1);
/// After this time without a datagram on its way, no further one follows.
const QUIET: Duration = Duration::from_millis(100);

/// Datagrams on their way, each with the time when it arrives.
type OnItsWay = VecDeque<(Instant, BytesMut)>;

/// A client and a server with a path between them that has no rate.
pub(crate) struct Path {
    now: Instant,
    client: (Endpoint, Connection, OnItsWay),
    server: (Endpoint, Option<Connection>, OnItsWay),
    /// Datagrams of the server so far, and the numbers of those that are lost.
    pub(crate) sent: u64,
    pub(crate) lost: Range<u64>,
    /// For each stream of the server, the bytes that have arrived, and whether these are all.
    pub(crate) received: HashMap<StreamId, (usize, bool)>,
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
    /// Makes a path with a client that begins to connect.
    pub(crate) fn new(congestion: CongestionControl) -> Self {
        let (tls, root) = made_settings();
        let quic = QuicConfig::new(&tls, QuicKeys::random(), 60_000, congestion);
        let quic = quic.expect("a cipher suite");
        let server = Endpoint::new(quic.endpoint(0), Some(quic.server()), false, None);
        let mut client = Endpoint::new(Arc::default(), None, false, None);
        let now = Instant::now();
        let connected = client.connect(now, client_config(root), address(), "localhost");
        let (_, connection) = connected.expect("a connection");
        let client = (client, connection, OnItsWay::new());
        Self {
            now,
            client,
            server: (server, None, OnItsWay::new()),
            sent: 0,
            lost: 0..0,
            received: HashMap::new(),
        }
    }

    /// A millisecond passes. Returns whether a datagram is on its way.
    fn tick(&mut self) -> bool {
        let Self { now, client, server, sent, lost, .. } = self;
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
            let before = to_client.len();
            send(connection, to_client, *now);
            let new = to_client.split_off(before);
            for datagram in new {
                if !lost.contains(sent) {
                    to_client.push_back(datagram);
                }
                *sent += 1;
            }
        }
        while let Some(datagram) = arrived(to_client, *now) {
            let event = own_endpoint.handle(*now, address(), None, None, datagram, &mut Vec::new());
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                own.handle_event(event);
            }
        }
        !(to_client.is_empty() && to_server.is_empty())
    }

    /// Lets time pass until nothing has been on its way for a while.
    pub(crate) fn settle(&mut self, mut each: impl FnMut(&mut Self)) {
        let mut quiet_since = self.now;
        while self.now - quiet_since < QUIET {
            if self.tick() {
                quiet_since = self.now;
            }
            each(self);
        }
    }

    pub(crate) fn server(&mut self) -> &mut Connection {
        self.server.1.as_mut().expect("a connection")
    }

    /// Makes the server send this many bytes on a stream of its own, as fast as its window allows.
    pub(crate) fn respond(&mut self, bytes: usize) {
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

    /// Makes the client read all data that has arrived, in any order.
    pub(crate) fn read(&mut self) {
        let Self { client: (_, connection, _), received, .. } = self;
        let mut readable: Vec<StreamId> = Vec::new();
        while let Some(event) = connection.poll() {
            if let Event::Stream(StreamEvent::Readable { id }) = event {
                readable.push(id);
            }
        }
        readable.extend(std::iter::from_fn(|| connection.streams().accept(Dir::Uni)));
        for id in readable {
            let mut stream = connection.recv_stream(id);
            let Ok(mut chunks) = stream.read(false) else { continue };
            let (bytes, is_whole) = received.entry(id).or_default();
            *is_whole |= loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => *bytes += chunk.bytes.len(),
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            let _should_send = chunks.finalize();
        }
    }

    pub(crate) fn window(&mut self) -> u64 {
        self.server().stats().path.cwnd
    }
}
