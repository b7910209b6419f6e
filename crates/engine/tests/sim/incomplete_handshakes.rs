//! Handshakes of TLS that their clients do not complete, with and without a header of the PROXY
//! protocol in front.

use std::sync::Arc;

use pinion_engine::backend::sim::{Connect, Faults, Network, Read};
use pinion_engine::limits::{HANDSHAKE_TIMEOUT_MS, TICK_MS};
use pinion_engine::settings::{
    ListenerSettings, Protocol, Protocols, ProxySources, WorkerSettings,
};
use pinion_engine::stepped_worker::{Holdings, Stepped};
use pinion_engine::tls::TlsConfig;
use pinion_engine::tls::certificate::Certificate;
use pinion_engine::tls::certificate_resolver::CertificateStore;
use pinion_engine::tls::tickets::Tickets;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::handlers::Handlers;
use crate::run;

/// Milliseconds between two parts of the input from a client.
const GAP_MS: u64 = 300;

/// The header that a proxy sends first.
const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 5000 443\r\n";

/// Returns the settings of a TLS listener, behind a proxy or not. A head has more time than a
/// handshake, so that the two are not confused.
fn settings(is_proxied: bool) -> WorkerSettings {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = Certificate::from_pem(chain.as_bytes(), key.as_bytes()).expect("a pair");
    let store = Arc::new(CertificateStore::new(&[pair]));
    let tickets = Arc::new(Tickets::new(Vec::new()).expect("random bytes"));
    let tls = TlsConfig::new(&store, &tickets, Protocols::ALL, None).expect("settings");
    let plain = ListenerSettings::plain(Protocol::Http(Protocols::ALL));
    WorkerSettings {
        head_ms: 3 * HANDSHAKE_TIMEOUT_MS,
        listeners: vec![ListenerSettings {
            tls: Some(tls),
            proxy_protocol: is_proxied.then(|| ProxySources::new(|_| true)),
            ..plain
        }],
        ..WorkerSettings::default()
    }
}

/// Returns a ClientHello.
fn hello() -> Vec<u8> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).expect("memory");
    }
    wire
}

/// Connects a client that sends these bytes, this many at a time, and nothing else. Returns the
/// milliseconds until the connection was closed, and the received bytes.
fn until_closed<const READINESS: bool>(
    bytes: &[u8],
    at_a_time: usize,
    is_proxied: bool,
) -> (u64, Vec<u8>) {
    let network = Network::new(1, Faults::default(), 1);
    let (mapping, file) = run::mapping();
    let make_app = |poster| Handlers::new(poster, mapping, file);
    let mut worker = Stepped::<READINESS, _>::new(network.clone(), settings(is_proxied), make_app);
    let connect = Connect { listener: 0, window_bytes: 64_000, local: false, protected: false };
    let client = network.connect(connect);
    let mut parts = bytes.chunks(at_a_time);
    let mut next_ms = network.now().monotonic_ms;
    let connected_ms = loop {
        if network.now().monotonic_ms >= next_ms
            && let Some(part) = parts.next()
        {
            network.send(client, part);
            next_ms += GAP_MS;
        }
        network.act_at((parts.len() > 0).then_some(next_ms));
        worker.pass().expect("a pass");
        assert!(!network.is_stuck(), "nobody watches over {:?}", network.facts(client));
        let facts = network.facts(client);
        if let (Some(attached), Some(closed)) = (facts.attached_at_ms, facts.closed_at_ms) {
            break closed - attached;
        }
    };
    assert_eq!(worker.holdings(), Holdings::default());
    let mut came = Vec::new();
    while let Read::Bytes(_) = network.read(client, usize::MAX, &mut came) {}
    (connected_ms, came)
}

fn ends_in_time<const READINESS: bool>() {
    let hello = hello();
    let half = &hello[..hello.len() / 2];
    let proxied = [HEADER, &hello].concat();
    let half_proxied = &proxied[..HEADER.len() + half.len()];
    for (bytes, at_a_time, is_proxied, is_answered) in [
        (&hello[..0], 1, false, false),
        (half, half.len(), false, false),
        // Further input does not extend the time.
        (half, 1, false, false),
        (&hello[..], hello.len(), false, true),
        (b"", 1, true, false),
        (&HEADER[..HEADER.len() - 1], 2, true, false),
        (HEADER, HEADER.len(), true, false),
        // The header and the handshake share one deadline.
        (half_proxied, 40, true, false),
        (&proxied, 500, true, true),
        (&proxied, proxied.len(), true, true),
    ] {
        let (connected_ms, came) = until_closed::<READINESS>(bytes, at_a_time, is_proxied);
        let case = format!("readiness {READINESS}, {at_a_time} of {} bytes", bytes.len());
        let allowed = HANDSHAKE_TIMEOUT_MS..=HANDSHAKE_TIMEOUT_MS + 2 * TICK_MS;
        assert!(allowed.contains(&connected_ms), "{case}: closed after {connected_ms} ms");
        assert_eq!(!came.is_empty(), is_answered, "{case}: {came:?}");
    }
}

#[test]
fn a_stalled_handshake_times_out() {
    ends_in_time::<true>();
    ends_in_time::<false>();
}
