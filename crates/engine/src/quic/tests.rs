//! Tests of a client that stops during its handshake, with a worker whose time advances step by
//! step.

pub(crate) mod client_server_pair;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint};
use rustls::RootCertStore;
use tokio::runtime::Builder;

use super::config::{QuicConfig, QuicKeys};
use super::congestion::CongestionControl;
use super::made_settings;
use super::worker_endpoints::EndpointPlan;
use crate::app::{App, ByteStreamEvent, Event};
use crate::backend::Slot;
use crate::backend::epoll::Epoll;
use crate::byte_stream_handle::ByteStreamHandle;
use crate::connection_actions::Connections;
use crate::deadline::DeadlineKind;
use crate::exchange::Exchange;
use crate::limits::{HANDSHAKE_TIMEOUT_MS, TICK_MS};
use crate::listener::{bind_udp, local_address};
use crate::settings::WorkerSettings;
use crate::worker::{SharedByWorkers, Worker};

/// The maximum number of turns, of a millisecond each, that one step of a test may take.
const TURNS_MAX: usize = 10_000;

/// An application that gets no request, because no handshake succeeds.
struct Unasked;

impl App for Unasked {
    fn exchange(&mut self, _: Event<'_>, _: &mut Exchange<'_>) {}

    fn byte_stream_event(&mut self, _: ByteStreamEvent<'_>, _: &mut ByteStreamHandle<'_>) {}

    fn pass(&mut self, _: &mut Connections<'_>) {}

    /// Passes never wait, because the client runs on the same thread.
    fn alarm_ms(&self) -> Option<u64> {
        Some(0)
    }
}

/// Creates a worker, and returns it with the address of its endpoint.
fn worker() -> (Worker<Epoll, Unasked>, SocketAddr) {
    let (tls, _) = made_settings();
    let config = QuicConfig::new(&tls, QuicKeys::random(), 60_000, CongestionControl::Cubic)
        .expect("a cipher suite");
    let sockets = bind_udp((Ipv4Addr::LOCALHOST, 0).into(), 1).expect("bind");
    let address = local_address(&sockets[0]).expect("an address");
    let sockets = sockets.into_iter().map(Arc::new).collect();
    let endpoints = vec![EndpointPlan { sockets, config, listener: 0 }];
    let settings = WorkerSettings { connections: 10, ..WorkerSettings::default() };
    let shared = Arc::new(SharedByWorkers::new(1, &settings, Vec::new(), endpoints));
    let epoll = Epoll::new(Vec::new()).expect("epoll");
    let mut worker = Worker::new(0, epoll, Unasked, Arc::new(settings), shared);
    worker.open_endpoints().expect("an endpoint");
    (worker, address)
}

/// Returns the settings of a client that trusts no authority: its handshake does not reach the
/// certificate.
fn client_config() -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let roots = RootCertStore::empty();
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("a cipher suite")))
}

/// Handles deadlines as a pass at this time does.
fn expire(worker: &mut Worker<Epoll, Unasked>, now_ms: u64) {
    worker.core.now.monotonic_ms = now_ms;
    worker.core.wheel.expire(now_ms);
    while let Some(slot) = worker.core.wheel.next_due() {
        worker.deadline(slot);
    }
}

#[test]
fn a_stalled_handshake_times_out() {
    let (mut worker, address) = worker();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (_client, _connecting) = {
        let _context = runtime.enter();
        let client = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        let connecting = client.connect_with(client_config(), address, "localhost");
        (client, connecting.expect("begun"))
    };
    // The client gets no more turns as soon as the worker knows it.
    let found: Option<Slot> = (0..TURNS_MAX).find_map(|_| {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        worker.pass().expect("a pass");
        worker.core.connections.next_in_use(0)
    });
    let slot = found.expect("a connection");
    let until_ms = worker.core.now.monotonic_ms + HANDSHAKE_TIMEOUT_MS;
    assert_eq!(worker.core.connections.get(slot).link.deadline.kind(), DeadlineKind::Handshake);
    expire(&mut worker, until_ms - 1);
    assert!(!worker.core.connections.get(slot).is_closing(), "it is in time");
    // Deadlines are checked once per tick.
    expire(&mut worker, until_ms + TICK_MS);
    assert!(worker.core.connections.get(slot).is_closing(), "its time is over");
}
