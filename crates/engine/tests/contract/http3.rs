//! The same contract over HTTP/3: the handlers are those of HTTP/1, QUIC is quinn's, and the frames
//! of the client are made here.

mod closing;
mod content;
mod fairness;
mod handshakes;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use pinion_engine::listener::{QuicListener, bind_udp, local_address};
use pinion_engine::quic::config::{QuicConfig, QuicKeys};
use pinion_engine::quic::congestion::CongestionControl;
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols};
use pinion_engine::tls::TlsConfig;
use pinion_engine::tls::certificate::Certificate;
use pinion_engine::tls::certificate_resolver::CertificateStore;
use pinion_engine::tls::tickets::Tickets;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connecting, Connection, Endpoint, RecvStream, SendStream};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::RootCertStore;
use tokio::runtime::{Builder, Runtime};

use crate::test_server::TestServer;

/// The certificate of the servers of all tests.
static CERTIFIED: LazyLock<CertifiedKey<KeyPair>> =
    LazyLock::new(|| generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate"));

/// Drives the connections of all tests.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().expect("a runtime")
});

/// Binds a listener of QUIC and returns its address.
pub(crate) fn listener(workers: usize) -> (QuicListener, SocketAddr) {
    let sockets = bind_udp((Ipv4Addr::LOCALHOST, 0).into(), workers).expect("bind");
    let address = local_address(&sockets[0]).expect("an address");
    let (chain, key) = (CERTIFIED.cert.pem(), CERTIFIED.signing_key.serialize_pem());
    let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes()).expect("a pair");
    let store = Arc::new(CertificateStore::new(&[certificate]));
    let tickets = Arc::new(Tickets::new(Vec::new()).expect("random bytes"));
    let tls = TlsConfig::for_quic(&store, &tickets, None).expect("settings");
    let config = QuicConfig::new(&tls, QuicKeys::random(), 60_000, CongestionControl::Cubic)
        .expect("a cipher suite");
    let settings = ListenerSettings::plain(Protocol::Http(Protocols::ALL));
    let sockets = sockets.into_iter().map(Arc::new).collect();
    (QuicListener { sockets, settings, config }, address)
}

/// Waits for a future, at most ten seconds.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let patient = async { tokio::time::timeout(Duration::from_secs(10), future).await };
    RUNTIME.block_on(patient).expect("in time")
}

/// Runs a future on the thread that drives connections: data that it sends without waiting is sent
/// together.
pub(crate) fn at_once<F>(future: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    wait(RUNTIME.spawn(future)).expect("no panic")
}

/// Returns a frame (RFC 9114 §7.1) of less than 64 bytes.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    assert!(kind < 64 && payload.len() < 64, "integers of one byte");
    [&[kind, payload.len() as u8], payload].concat()
}

/// Returns the head of a request, with literals and names of the static table (RFC 9204 §4.5).
pub(crate) fn head(method: u8, path: &str) -> Vec<u8> {
    let mut section = vec![0, 0, 0xc0 | method, 0xc0 | SCHEME, 0x50, 1, b'a', 0x51];
    section.push(path.len() as u8);
    section.extend_from_slice(path.as_bytes());
    frame(0x1, &section)
}

/// Indices in the static table (RFC 9204 §A).
pub(crate) const GET: u8 = 17;
pub(crate) const POST: u8 = 20;
const SCHEME: u8 = 23;

/// Begins the handshake of a client.
pub(crate) fn connecting(server: SocketAddr) -> (Endpoint, Connecting) {
    let mut roots = RootCertStore::empty();
    roots.add(CERTIFIED.cert.der().clone()).expect("a certificate");
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = QuicClientConfig::try_from(tls).expect("a cipher suite");
    let config = ClientConfig::new(Arc::new(crypto));
    let _context = RUNTIME.enter();
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let connecting = endpoint.connect_with(config, server, "localhost").expect("begun");
    (endpoint, connecting)
}

/// A connection.
pub(crate) struct Http3 {
    pub(crate) connection: Connection,
    _endpoint: Endpoint,
    _control: SendStream,
}

impl Http3 {
    pub(crate) fn connect(server: &TestServer) -> Http3 {
        Http3::connect_to(server.quic)
    }

    pub(crate) fn connect_to(server: SocketAddr) -> Http3 {
        let (endpoint, connecting) = connecting(server);
        let connection = wait(connecting).expect("a connection");
        let mut control = wait(connection.open_uni()).expect("open");
        wait(control.write_all(&[&[0][..], &frame(0x4, &[])].concat())).expect("written");
        Http3 { connection, _endpoint: endpoint, _control: control }
    }

    /// Opens a request stream and writes its first bytes.
    pub(crate) fn open(&self, bytes: &[u8]) -> (SendStream, RecvStream) {
        let (mut sender, receiver) = wait(self.connection.open_bi()).expect("open");
        wait(sender.write_all(bytes)).expect("written");
        (sender, receiver)
    }

    /// Returns the whole response of a path, in its frames.
    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        let (mut sender, mut receiver) = self.open(&head(GET, path));
        sender.finish().expect("open");
        wait(receiver.read_to_end(1 << 20)).expect("an answer")
    }
}
