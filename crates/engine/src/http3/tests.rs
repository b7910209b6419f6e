//! Tests of clients that grant no flow-control window, over a real QUIC connection to a worker
//! whose time advances step by step.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connecting, Connection, ConnectionError, Endpoint, TransportConfig};
use rustls::pki_types::CertificateDer;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::app::App;
use crate::app::Event;
use crate::backend::Slot;
use crate::backend::epoll::Epoll;
use crate::byte_stream_handle::ByteStreamHandle;
use crate::connection_actions::Connections;
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::exchange::{Exchange, Slice};
use crate::exchange_address::Address;
use crate::inbox::Poster;
use crate::limits::{LAST_MS, QUIC_STREAM_WINDOW_BYTES, QUIC_UNI_STREAMS, WINDOW_STALL_MS};
use crate::listener::{bind_udp, local_address};
use crate::quic::config::{QuicConfig, QuicKeys};
use crate::quic::congestion::CongestionControl;
use crate::quic::made_settings;
use crate::quic::worker_endpoints::EndpointPlan;
use crate::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use crate::worker::{SharedByWorkers, Worker};

/// The window of a stream that the client grants, which ends within the response, and the length of
/// the response, both in bytes.
const SHUT: (u32, usize) = (5000, 1 << 20);
/// A response so short that QUIC accepts all of it, and longer than the data that is sent before
/// the first acknowledgement.
const OPEN: (u32, usize) = (1 << 20, 60_000);
/// The maximum number of turns, of a millisecond each, that one step of a test may take.
const TURNS_MAX: usize = 10_000;
/// "GET /" of "a", in literals and names of the static table (RFC 9204 §4.5).
const REQUEST: &[u8] = &[0x1, 10, 0, 0, 0xc0 | 17, 0xc0 | 23, 0x50, 1, b'a', 0x51, 1, b'/'];

/// An upload that is longer than the window of a stream, in a request that is read only after a
/// message asks for it.
const UPLOAD: (u32, usize) = (1 << 20, QUIC_STREAM_WINDOW_BYTES as usize + 1_000_000);

/// An application whose responses have this many bytes.
#[derive(Default)]
struct Responses {
    content_bytes: usize,
    /// The address of a request whose content is not read yet.
    unread: Option<Address>,
    /// The number of content bytes that were read.
    read_bytes: usize,
    heads: usize,
    gone: Vec<Gone>,
    floods: usize,
}

impl App for Responses {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        match event {
            Event::Head(_) if self.content_bytes == UPLOAD.1 => {
                self.unread = Some(exchange.address());
                exchange.body_limit(u64::MAX);
                exchange.wait(None);
            }
            Event::Posted(_) => exchange.want(u64::MAX),
            Event::Body(bytes) => self.read_bytes += bytes.len(),
            Event::BodyEnd(_) => {
                exchange.head(200, std::iter::empty(), Some(0));
                exchange.end(std::iter::empty());
            }
            Event::Head(_) => {
                self.heads += 1;
                exchange.head(200, std::iter::empty(), Some(self.content_bytes as u64));
                exchange.write(Slice::Shared(Bytes::from(vec![b'x'; self.content_bytes])));
                match self.content_bytes {
                    bytes if bytes == OPEN.1 => exchange.end(std::iter::empty()),
                    _ => exchange.wait(None),
                }
            }
            Event::Gone(why) => self.gone.push(why),
            _ => {}
        }
    }

    fn byte_stream_event(
        &mut self,
        _: crate::app::ByteStreamEvent<'_>,
        _: &mut ByteStreamHandle<'_>,
    ) {
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}

    /// Passes never wait, because the client runs on the same thread.
    fn alarm_ms(&self) -> Option<u64> {
        Some(0)
    }

    fn flooded(&mut self, _: Address) {
        self.floods += 1;
    }
}

/// A worker and its client, which run in turn.
struct Pair {
    worker: Worker<Epoll, Responses>,
    runtime: Runtime,
    client: Endpoint,
}

impl Pair {
    /// Creates a pair whose client has begun to connect.
    fn connecting((window_bytes, content_bytes): (u32, usize)) -> (Pair, Connecting) {
        let (tls, root) = made_settings();
        let config = QuicConfig::new(&tls, QuicKeys::random(), 60_000, CongestionControl::Cubic)
            .expect("a cipher suite");
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let sockets: Vec<_> = bind_udp(local, 1).expect("bind").into_iter().map(Arc::new).collect();
        let address = local_address(&sockets[0]).expect("an address");
        let endpoints = vec![EndpointPlan { sockets, config, listener: 0 }];
        let settings = WorkerSettings {
            listeners: vec![ListenerSettings::plain(Protocol::Http(Protocols::ALL))],
            connections: 10,
            ..WorkerSettings::default()
        };
        let shared = Arc::new(SharedByWorkers::new(1, &settings, Vec::new(), endpoints));
        let epoll = Epoll::new(Vec::new()).expect("epoll");
        let app = Responses { content_bytes, ..Responses::default() };
        let mut worker = Worker::new(0, epoll, app, Arc::new(settings), shared);
        worker.open_endpoints().expect("an endpoint");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = {
            let _context = runtime.enter();
            Endpoint::client(local).expect("a port")
        };
        let pair = Pair { worker, runtime, client };
        let connecting = {
            let _context = pair.runtime.enter();
            pair.client
                .connect_with(client_config(root, window_bytes), address, "localhost")
                .expect("begun")
        };
        (pair, connecting)
    }

    /// Creates a pair with the client's connection, on which a response is under way. The client
    /// does nothing until its next turn.
    fn answering(sizes: (u32, usize)) -> (Pair, Connection, Slot) {
        let (mut pair, connecting) = Pair::connecting(sizes);
        let connection = pair.turns(connecting).expect("a connection");
        let (mut sender, receiver) = pair.turns(connection.open_bi()).expect("a stream");
        pair.runtime.block_on(sender.write_all(REQUEST)).expect("written");
        sender.finish().expect("open");
        // The client neither reads the response nor stops it.
        std::mem::forget(receiver);
        let slot = pair.worker.core.connections.next_in_use(0).expect("a connection");
        let mut left = TURNS_MAX;
        while pair.worker.core.connections.get(slot).link.deadline.kind() != DeadlineKind::Window {
            left = left.checked_sub(1).expect("in time");
            pair.turn();
            pair.worker.pass().expect("a pass");
        }
        (pair, connection, slot)
    }

    /// Runs turns until the only connection waits for the rest of a head.
    fn awaits_head(&mut self) -> Slot {
        let slot = self.worker.core.connections.next_in_use(0).expect("a connection");
        let mut left = TURNS_MAX;
        while self.worker.core.connections.get(slot).link.deadline.kind() != DeadlineKind::Head {
            left = left.checked_sub(1).expect("in time");
            self.turn();
        }
        slot
    }

    /// Runs one turn of the worker and one of the client.
    fn turn(&mut self) {
        self.turns(std::future::ready(()));
    }

    /// Runs turns until a future of the client is ready.
    fn turns<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        for _ in 0..TURNS_MAX {
            self.worker.pass().expect("a pass");
            let turn = async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                tokio::time::timeout(Duration::ZERO, &mut future).await
            };
            if let Ok(output) = self.runtime.block_on(turn) {
                return output;
            }
        }
        panic!("it takes too long");
    }

    /// Restarts the deadline now. However busy the machine is, nothing is sent between this call
    /// and the next step of the test.
    fn start_deadline(&mut self, slot: Slot, kind: DeadlineKind, timeout_ms: u64) {
        let core = &mut self.worker.core;
        core.connections.get(slot).link.deadline.pause();
        core.set_deadline(slot);
        let deadline = core.connections.get(slot).link.deadline;
        assert_eq!(deadline.kind(), kind);
        assert_eq!(deadline.at_ms(), core.now.monotonic_ms + timeout_ms);
    }

    /// Begins to stop the server, which sends GOAWAY to the client.
    fn stop(&mut self, slot: Slot) {
        self.worker.core.ending = WorkerEnding::Finishing { newcomers_until_ms: u64::MAX };
        self.worker.core.go_away(slot);
        self.start_deadline(slot, DeadlineKind::Last, LAST_MS);
        self.worker.settle(slot);
    }

    fn acknowledgements(&mut self, slot: Slot) -> u64 {
        let http3 = self.worker.core.connections.get(slot).http3().expect("a connection");
        http3.quic.stats().frame_rx.acks
    }

    /// Lets a second pass before the deadline.
    fn time_passes(&mut self, slot: Slot) {
        self.worker.core.connections.get(slot).link.deadline.advance(1_000);
    }

    /// Returns the time of the deadline. It is later than before only if the deadline has begun
    /// anew.
    fn deadline_ms(&mut self, slot: Slot) -> u64 {
        self.worker.core.connections.get(slot).link.deadline.at_ms()
    }

    /// Lets the deadline pass. Returns whether the connection stays open.
    fn outlasts_deadline(&mut self, slot: Slot) -> bool {
        let core = &mut self.worker.core;
        core.now.monotonic_ms = core.connections.get(slot).link.deadline.at_ms();
        self.worker.deadline(slot);
        !self.worker.core.connections.get(slot).is_closing()
    }
}

/// Returns the settings of a client that grants each stream a window of this many bytes.
fn client_config(root: Vec<u8>, window_bytes: u32) -> ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(root)).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = QuicClientConfig::try_from(tls).expect("a cipher suite");
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(window_bytes.into());
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    config
}

/// A window that stays closed is the same error as over HTTP/2, after the same time (RFC 9114
/// §10.5).
#[test]
fn a_window_that_stays_closed_is_excessive_load() {
    const EXCESSIVE_LOAD: u32 = 0x107;
    let (mut pair, connection, slot) = Pair::answering(SHUT);
    pair.start_deadline(slot, DeadlineKind::Window, WINDOW_STALL_MS);
    assert!(!pair.outlasts_deadline(slot), "nothing has left");
    match pair.turns(connection.closed()) {
        ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.error_code, EXCESSIVE_LOAD.into());
        }
        other => panic!("{other}"),
    }
    assert_eq!(pair.worker.app.floods, 1);
    assert_eq!(pair.worker.app.gone, [Gone::Stalled]);
}

/// A client on a slow path may not have received yet the data that QUIC accepted before.
#[test]
fn frames_sent_beside_a_closed_window_extend_its_deadline() {
    let (mut pair, _connection, slot) = Pair::answering(SHUT);
    pair.start_deadline(slot, DeadlineKind::Window, WINDOW_STALL_MS);
    pair.time_passes(slot);
    let before_ms = pair.deadline_ms(slot);
    // GOAWAY is a frame that needs no window of a request.
    pair.worker.core.go_away(slot);
    pair.worker.settle(slot);
    assert!(pair.deadline_ms(slot) > before_ms, "it has begun anew");
    pair.time_passes(slot);
    let before_ms = pair.deadline_ms(slot);
    pair.worker.settle(slot);
    assert_eq!(pair.deadline_ms(slot), before_ms, "nothing has left");
    assert!(!pair.outlasts_deadline(slot));
    assert_eq!(pair.worker.app.floods, 1);
}

/// A server that stops does not extend its deadline for a client that is gone, because it has other
/// clients.
#[test]
fn the_deadline_of_the_last_response_is_not_restarted() {
    let (mut pair, _connection, slot) = Pair::answering(OPEN);
    pair.stop(slot);
    assert!(!pair.outlasts_deadline(slot), "nothing was acknowledged");
    assert_eq!(pair.worker.app.floods, 0);
}

#[test]
fn acknowledgements_of_the_last_response_extend_its_deadline() {
    let (mut pair, _connection, slot) = Pair::answering(OPEN);
    pair.stop(slot);
    pair.time_passes(slot);
    let (before, before_ms) = (pair.acknowledgements(slot), pair.deadline_ms(slot));
    let mut left = TURNS_MAX;
    while pair.acknowledgements(slot) == before {
        left = left.checked_sub(1).expect("in time");
        pair.turn();
        pair.worker.pass().expect("a pass");
    }
    assert!(pair.deadline_ms(slot) > before_ms, "it has begun anew");
    assert!(!pair.outlasts_deadline(slot), "nothing was acknowledged since");
}

/// Otherwise a request now and then would keep any number of incomplete heads open.
#[test]
fn other_requests_do_not_extend_the_deadline_of_a_head() {
    let (mut pair, connecting) = Pair::connecting(OPEN);
    let connection = pair.turns(connecting).expect("a connection");
    let (mut sender, mut receiver) = pair.turns(connection.open_bi()).expect("a stream");
    pair.turns(sender.write_all(&REQUEST[..REQUEST.len() / 2])).expect("written");
    let slot = pair.awaits_head();
    let due_ms = pair.deadline_ms(slot);
    for _ in 0..3 {
        let (mut sender, mut receiver) = pair.turns(connection.open_bi()).expect("a stream");
        pair.turns(sender.write_all(REQUEST)).expect("written");
        sender.finish().expect("open");
        pair.turns(receiver.read_to_end(OPEN.1 * 2)).expect("an answer");
    }
    assert_eq!(pair.awaits_head(), slot, "the other requests are over");
    assert_eq!(pair.deadline_ms(slot), due_ms);
    assert!(pair.outlasts_deadline(slot));
    pair.turns(receiver.read_to_end(OPEN.1)).expect("its refusal");
}

/// A request gets exactly one response, whether or not the rest of its head arrives.
#[test]
fn a_head_that_arrives_after_its_refusal_is_ignored() {
    const NOTHING: (u32, usize) = (0, 100);
    let (mut pair, connecting) = Pair::connecting(NOTHING);
    let connection = pair.turns(connecting).expect("a connection");
    let (mut sender, _receiver) = pair.turns(connection.open_bi()).expect("a stream");
    let (front, rest) = REQUEST.split_at(REQUEST.len() / 2);
    pair.turns(sender.write_all(front)).expect("written");
    let slot = pair.awaits_head();
    assert!(pair.outlasts_deadline(slot));
    pair.turns(sender.write_all(rest)).expect("written");
    (0..20).for_each(|_| pair.turn());
    assert_eq!(pair.worker.app.heads, 0, "it was refused");
    assert!(!pair.worker.core.connections.get(slot).is_closing());
}

/// RFC 9114 §4.1.1: a client that reads an early response may abandon the rest of its request. Its
/// RESET_STREAM arrives before the end of the response has left, and that end still comes.
#[test]
fn a_response_is_completed_if_its_request_is_abandoned() {
    const NO_ERROR: u32 = 0x100;
    let (mut pair, connecting) = Pair::connecting(OPEN);
    let connection = pair.turns(connecting).expect("a connection");
    // "POST /" of "a", and the first byte of a frame of DATA.
    let mut request = REQUEST.to_vec();
    request[4] = 0xc0 | 20;
    request.extend_from_slice(&[0x0, 0x44, 0x0, b'x']);
    for turns in 0..20 {
        let (mut sender, mut receiver) = pair.turns(connection.open_bi()).expect("a stream");
        pair.turns(sender.write_all(&request)).expect("written");
        let first = pair.turns(receiver.read(&mut [0])).expect("a response");
        assert_eq!(first, Some(1));
        (0..turns % 4).for_each(|_| pair.turn());
        sender.reset(NO_ERROR.into()).expect("open");
        let rest = pair.turns(receiver.read_to_end(2 * OPEN.1)).expect("its end");
        assert!(rest.len() > OPEN.1, "{} bytes", rest.len());
    }
}

/// A client whose handshake is under way when the server begins to stop is served: the server
/// rejects only requests that come too late (RFC 9114 §5.2).
#[test]
fn a_handshake_under_way_at_the_stop_is_served() {
    let (mut pair, connecting) = Pair::connecting(OPEN);
    let mut left = TURNS_MAX;
    while pair.worker.core.connections.next_in_use(0).is_none() {
        left = left.checked_sub(1).expect("in time");
        pair.turn();
    }
    let slot = pair.worker.core.connections.next_in_use(0).expect("a connection");
    let http3 = pair.worker.core.connections.get(slot).http3().expect("a connection");
    assert!(http3.quic.is_handshaking());
    pair.worker.drain();
    let connection = pair.turns(connecting).expect("a connection");
    let (mut sender, mut receiver) = pair.turns(connection.open_bi()).expect("a stream");
    pair.turns(sender.write_all(REQUEST)).expect("written");
    sender.finish().expect("open");
    let response = pair.turns(receiver.read_to_end(OPEN.1 * 2)).expect("an answer");
    assert!(response.len() > OPEN.1);
}

/// The refusal of each such stream takes a few bytes, and no memory for the rest of the connection
/// (RFC 9114 §6.2.3).
#[test]
fn streams_of_an_unknown_type_are_forgotten() {
    // This is more than the number of streams that may be open at once.
    const STREAMS: u32 = 3 * QUIC_UNI_STREAMS;
    let (mut pair, connection, slot) = Pair::answering(OPEN);
    for _ in 0..STREAMS {
        let mut stream = pair.turns(connection.open_uni()).expect("a stream");
        let _written = pair.turns(stream.write(&[0x21, 1, 2, 3])).expect("written");
        // The server asks a client that continues to stop sending.
        pair.turns(stream.stopped()).expect("still connected").expect("a code");
    }
    let http3 = pair.worker.core.connections.get(slot).http3().expect("a connection");
    assert!(http3.unis.is_empty(), "{} of {STREAMS}", http3.unis.len());
}

/// The application may take any time to read the content: meanwhile the client cannot send, and is
/// not late.
#[test]
fn no_deadline_runs_while_the_window_of_a_request_is_closed() {
    let (mut pair, connecting) = Pair::connecting(UPLOAD);
    let connection = pair.turns(connecting).expect("a connection");
    let (mut sender, mut receiver) = pair.turns(connection.open_bi()).expect("a stream");
    // "POST /" of "a", and a frame of DATA.
    let mut request = REQUEST.to_vec();
    request[4] = 0xc0 | 20;
    let length = (0x8000_0000 | UPLOAD.1 as u32).to_be_bytes();
    let request = [&request[..], &[0x0], &length, &vec![b'x'; UPLOAD.1]].concat();
    let writing = pair.runtime.spawn(async move {
        sender.write_all(&request).await.expect("written");
        sender.finish().expect("open");
    });
    let slot = pair.worker.core.connections.next_in_use(0).expect("a connection");
    let mut left = TURNS_MAX;
    loop {
        let http3 = pair.worker.core.connections.get(slot).http3().expect("a connection");
        if http3.counted_bytes >= QUIC_STREAM_WINDOW_BYTES as usize {
            break;
        }
        left = left.checked_sub(1).expect("in time");
        pair.turn();
    }
    for _ in 0..4 {
        let deadline = pair.worker.core.connections.get(slot).link.deadline;
        assert_eq!(deadline.kind(), DeadlineKind::Quiet);
        assert!(pair.outlasts_deadline(slot), "nothing but a PING is due");
        pair.turn();
    }
    assert!(!writing.is_finished(), "the window is closed");
    let unread = pair.worker.app.unread.expect("a request");
    let poster = Poster { inboxes: Arc::clone(&pair.worker.shared.inboxes) };
    assert!(poster.post(unread, Box::new(())).is_ok(), "room in the inbox");
    pair.turns(writing).expect("no panic");
    pair.turns(receiver.read_to_end(1000)).expect("a response");
    assert_eq!(pair.worker.app.read_bytes, UPLOAD.1);
}
