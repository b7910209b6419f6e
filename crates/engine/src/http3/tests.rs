//! Clients that open no window, with a real QUIC between them and a worker whose time is stepped.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, TransportConfig};
use rustls::pki_types::CertificateDer;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::address::Address;
use crate::app::Event;
use crate::backend::epoll::Epoll;
use crate::clock::Now;
use crate::exchange::{Exchange, Slice};
use crate::limits::WINDOW_STALL_MS;
use crate::listener::{bind_udp, local_address};
use crate::mapping::Mappings;
use crate::quic::config::{QuicConfig, QuicKeys};
use crate::quic::made_settings;
use crate::quic::service::DoorPlan;
use crate::raw::RawStream;
use crate::settings::{ListenerSettings, Protocol, Protocols, Settings as WorkerSettings};
use crate::worker::{Shared, Worker};

/// What a client lets come on a stream, and how much there would be.
const WINDOW_BYTES: u32 = 5000;
const CONTENT_BYTES: usize = 1 << 20;
/// Turns of a millisecond that something may take.
const TURNS_MAX: usize = 10_000;
/// "GET /" of "a", in literals and names of the static table (RFC 9204 §4.5).
const REQUEST: &[u8] = &[0x1, 10, 0, 0, 0xc0 | 17, 0xc0 | 23, 0x50, 1, b'a', 0x51, 1, b'/'];

/// Answers with more than the window takes.
#[derive(Default)]
struct Large {
    gone: Vec<Gone>,
    floods: usize,
}

impl App for Large {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        match event {
            Event::Head(_) => {
                exchange.head(200, std::iter::empty(), Some(CONTENT_BYTES as u64));
                exchange.write(Slice::Shared(Bytes::from(vec![b'x'; CONTENT_BYTES])));
                exchange.wait(None);
            }
            Event::Gone(why) => self.gone.push(why),
            _ => {}
        }
    }

    fn raw(&mut self, _: crate::app::RawEvent<'_>, _: &mut RawStream<'_>) {}

    fn pass(&mut self, _: Now, _: &mut Mappings) {}

    /// No pass waits: the client has its turn on the same thread.
    fn alarm_ms(&self) -> Option<u64> {
        Some(0)
    }

    fn flooded(&mut self, _: Address) {
        self.floods += 1;
    }
}

/// A worker and its client, who move in turn.
struct Pair {
    worker: Worker<Epoll, Large>,
    runtime: Runtime,
    client: Endpoint,
}

impl Pair {
    /// With the client's connection, on which all of the window is used up.
    fn with_shut_window() -> (Pair, Connection, Slot) {
        let (tls, root) = made_settings();
        let config = QuicConfig::new(&tls, QuicKeys::random(), 60_000).expect("a cipher suite");
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let sockets: Vec<_> = bind_udp(local, 1).expect("bind").into_iter().map(Arc::new).collect();
        let address = local_address(&sockets[0]).expect("an address");
        let doors = vec![DoorPlan { sockets, config, listener: 0 }];
        let shared = Arc::new(Shared::new(1, 10, Vec::new(), doors));
        let settings = WorkerSettings {
            listeners: vec![ListenerSettings::plain(Protocol::Http(Protocols::ALL))],
            ..WorkerSettings::default()
        };
        let epoll = Epoll::new(Vec::new()).expect("epoll");
        let mut worker = Worker::new(0, epoll, Large::default(), Arc::new(settings), shared);
        worker.open_doors().expect("a door");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = {
            let _context = runtime.enter();
            Endpoint::client(local).expect("a port")
        };
        let mut pair = Pair { worker, runtime, client };
        let connecting = {
            let _context = pair.runtime.enter();
            pair.client.connect_with(client_config(root), address, "localhost").expect("begun")
        };
        let connection = pair.turns(connecting).expect("a connection");
        let (mut sender, receiver) = pair.turns(connection.open_bi()).expect("a stream");
        pair.turns(sender.write_all(REQUEST)).expect("written");
        sender.finish().expect("open");
        // Nobody reads it, and it is not stopped.
        std::mem::forget(receiver);
        let slot = pair.worker.core.conns.next_live(0).expect("a connection");
        let mut left = TURNS_MAX;
        while pair.worker.core.conns.get(slot).watch != Watch::Window {
            left = left.checked_sub(1).expect("in time");
            pair.turn();
        }
        (pair, connection, slot)
    }

    /// One of each.
    fn turn(&mut self) {
        self.turns(std::future::ready(()));
    }

    /// Turns until a future of the client's has come.
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

    /// Has the deadline begin now: whatever the machine is busy with, nothing leaves between this
    /// and what the test does next.
    fn begin_watch(&mut self, slot: Slot) {
        let core = &mut self.worker.core;
        core.conns.get(slot).watch = Watch::Nothing;
        core.watch(slot);
        let conn = core.conns.get(slot);
        assert_eq!(conn.watch, Watch::Window);
        assert_eq!(conn.deadline_ms, core.now.monotonic_ms + WINDOW_STALL_MS);
    }

    /// The deadline passes. True when the connection is not closed for that.
    fn outlasts_deadline(&mut self, slot: Slot) -> bool {
        let core = &mut self.worker.core;
        core.now.monotonic_ms += WINDOW_STALL_MS;
        self.worker.deadline(slot);
        self.worker.core.conns.get(slot).phase == Phase::Http3
    }
}

/// With a window that is shut behind so many bytes.
fn client_config(root: Vec<u8>) -> ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(root)).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = QuicClientConfig::try_from(tls).expect("a cipher suite");
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(WINDOW_BYTES.into());
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    config
}

/// RFC 9114 §10.5: as over HTTP/2, after the same time.
#[test]
fn a_window_that_stays_shut_is_excessive_load() {
    const EXCESSIVE_LOAD: u32 = 0x107;
    let (mut pair, connection, slot) = Pair::with_shut_window();
    pair.begin_watch(slot);
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

/// Who is on a slow path has not had yet what QUIC was given before.
#[test]
fn frames_that_leave_behind_a_shut_window_give_more_time() {
    let (mut pair, _connection, slot) = Pair::with_shut_window();
    pair.begin_watch(slot);
    // GOAWAY: a frame that needs no window of a request.
    leave(&mut pair.worker.core, slot);
    pair.worker.settle(slot);
    assert!(pair.outlasts_deadline(slot), "a frame has left");
    assert!(!pair.outlasts_deadline(slot), "no other has left since");
    assert_eq!(pair.worker.app.floods, 1);
}
