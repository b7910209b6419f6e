//! The common settings of a QUIC listener's connections.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};

use super::cipher_suite_choice::BySuites;
use super::congestion::CongestionControl;
use super::connection_ids::{ConnectionHome, IdKey, Ids, RandomSource};
use crate::limits::{
    QUIC_CONNECTION_WINDOW_BYTES, QUIC_DATAGRAM_MAX_BYTES, QUIC_INCOMING_MAX_BYTES, QUIC_PING_MS,
    QUIC_SEND_WINDOW_BYTES, QUIC_STREAM_WINDOW_BYTES, QUIC_STREAMS, QUIC_UNI_STREAMS,
};
use crate::tls::TlsConfig;
#[cfg(feature = "sim")]
use {
    super::null_session::NullServer,
    crate::backend::sim::{Random, SharedClock},
};

/// A function that returns whether the process with this epoch has ended, so that its connections
/// are lost.
pub type HasEnded = Arc<dyn Fn(u16) -> bool + Send + Sync>;

/// The keys of a server's QUIC, as values: a process that takes over its connections needs them.
#[derive(Clone)]
pub struct QuicKeys {
    /// The key of connection IDs.
    pub ids: [u8; 16],
    /// The key of stateless resets (RFC 9000 §10.3).
    pub reset: [u8; 64],
    /// The key of the tokens of Retry and NEW_TOKEN (RFC 9000 §8.1).
    pub tokens: [u8; 64],
    /// The epoch of the process, which the IDs of its connections carry.
    pub epoch: u16,
    /// The check of other processes with these keys. Each worker calls it at most once a second for
    /// each of them, unless there are very many.
    pub has_ended: HasEnded,
}

impl QuicKeys {
    /// Creates new keys, which no other process has.
    pub fn random() -> Self {
        let has_ended: HasEnded = Arc::new(|_| false);
        let (ids, reset, tokens, epoch) = ([0; 16], [0; 64], [0; 64], 0);
        let mut keys = Self { ids, reset, tokens, epoch, has_ended };
        let mut epoch = [0; 2];
        for bytes in [&mut keys.ids[..], &mut keys.reset, &mut keys.tokens, &mut epoch] {
            crate::tls::fill_random(bytes);
        }
        keys.epoch = u16::from_ne_bytes(epoch);
        keys
    }
}

/// The QUIC settings of a listener.
#[derive(Clone)]
pub struct QuicConfig {
    server: Arc<ServerConfig>,
    keys: QuicKeys,
    random: RandomSource,
}

impl QuicConfig {
    /// Creates the settings with the certificates and tickets of `tls`, which must offer TLS 1.3
    /// and the ALPN of HTTP/3. `idle_ms` is how long a connection may be silent.
    ///
    /// Returns `None` if `tls` has no cipher suite that QUIC can use.
    pub fn new(
        tls: &TlsConfig,
        keys: QuicKeys,
        idle_ms: u64,
        congestion: CongestionControl,
    ) -> Option<Self> {
        let crypto = BySuites::new(tls)?;
        let server = server(Arc::new(crypto), &keys, idle_ms, congestion);
        Some(Self { server: Arc::new(server), keys, random: RandomSource::System })
    }

    /// Returns the settings of a simulated listener, whose connections have a null session in place
    /// of TLS. One `seed` decides everything that is random; `flight_bytes` are sent in place of a
    /// certificate.
    #[cfg(feature = "sim")]
    pub fn simulated(seed: u64, idle_ms: u64, flight_bytes: usize, clock: SharedClock) -> Self {
        let mut random = Random::new(seed);
        let has_ended: HasEnded = Arc::new(|_| false);
        let (ids, reset, tokens) = (random.bytes(), random.bytes(), random.bytes());
        let keys = QuicKeys { ids, reset, tokens, epoch: 0, has_ended };
        let crypto = Arc::new(NullServer { flight_bytes });
        let mut server = server(crypto, &keys, idle_ms, CongestionControl::default());
        server.time_source(Arc::new(clock));
        Self { server: Arc::new(server), keys, random: RandomSource::Seeded(random) }
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    pub(super) fn id_key(&self) -> IdKey {
        IdKey::new(&self.keys.ids)
    }

    pub(super) fn has_ended(&self) -> HasEnded {
        Arc::clone(&self.keys.has_ended)
    }

    pub(super) fn place(&self, worker: u16) -> ConnectionHome {
        ConnectionHome { worker, epoch: self.keys.epoch }
    }

    pub(super) fn endpoint(&self, worker: u16) -> Arc<EndpointConfig> {
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &self.keys.reset);
        let mut config = EndpointConfig::new(Arc::new(reset));
        let (key, place) = (self.id_key(), self.place(worker));
        let is_advertised = config.max_udp_payload_size(QUIC_DATAGRAM_MAX_BYTES).is_ok();
        debug_assert!(is_advertised, "RFC 9000 §18.2: at least 1200 bytes");
        let mut random = self.random.clone();
        config.rng_seed(random.endpoint_seed());
        config.cid_generator(move || {
            Box::new(Ids { key: key.clone(), place, random: random.clone() })
        });
        Arc::new(config)
    }
}

/// Returns the common settings of a listener's connections, with this session in place of TLS.
fn server(
    crypto: Arc<dyn quinn_proto::crypto::ServerConfig>,
    keys: &QuicKeys,
    idle_ms: u64,
    congestion: CongestionControl,
) -> ServerConfig {
    let tokens = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&keys.tokens);
    let mut server = ServerConfig::new(crypto, Arc::new(tokens));
    let mut transport = TransportConfig::default();
    // A connection with open exchanges is kept alive by PINGs; one without is closed when `idle_ms`
    // are over, before this.
    let idle_ms = idle_ms.max(2 * QUIC_PING_MS);
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(QUIC_STREAMS.into()))
        .max_concurrent_uni_streams(VarInt::from_u32(QUIC_UNI_STREAMS))
        .stream_receive_window(VarInt::from_u32(QUIC_STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(QUIC_CONNECTION_WINDOW_BYTES))
        .send_window(QUIC_SEND_WINDOW_BYTES)
        .congestion_controller_factory(congestion.factory())
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(IdleTimeout::try_from(Duration::from_millis(idle_ms)).ok());
    server
        .transport_config(Arc::new(transport))
        .incoming_buffer_size(QUIC_INCOMING_MAX_BYTES)
        .incoming_buffer_size_total(16 * QUIC_INCOMING_MAX_BYTES);
    server
}

impl std::fmt::Debug for QuicConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys are secret.
        f.debug_struct("QuicConfig").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_settings;
    use super::*;
    use bytes::BytesMut;
    use quinn_proto::crypto::rustls::QuicClientConfig;
    use quinn_proto::{
        ClientConfig, ConnectionIdGenerator as _, DatagramEvent, Endpoint, Incoming, Transmit,
    };
    use rustls::RootCertStore;
    use rustls::pki_types::CertificateDer;
    use std::net::SocketAddr;
    use std::time::Instant;

    /// Bytes of the token at the end of a stateless reset (RFC 9000 §10.3).
    const RESET_TOKEN_BYTES: usize = 16;

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 443).into()
    }

    fn endpoint(config: &QuicConfig) -> Endpoint {
        Endpoint::new(config.endpoint(0), Some(config.server()), false, None)
    }

    fn enter(endpoint: &mut Endpoint, bytes: &[u8], out: &mut Vec<u8>) -> Option<DatagramEvent> {
        endpoint.handle(Instant::now(), address(), None, None, BytesMut::from(bytes), out)
    }

    fn newcomer(endpoint: &mut Endpoint, bytes: &[u8]) -> Incoming {
        match enter(endpoint, bytes, &mut Vec::new()) {
            Some(DatagramEvent::NewConnection(incoming)) => incoming,
            _ => panic!("no newcomer"),
        }
    }

    fn client(root: &[u8]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(root.to_vec())).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("suites");
        let tls = builder.with_root_certificates(roots).with_no_client_auth();
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("settings")))
    }

    /// Returns whether `second` accepts the token of a Retry that a client got from `first`.
    fn takes_token(first: &QuicConfig, second: &QuicConfig, client: ClientConfig) -> bool {
        let mut own = Endpoint::new(Arc::default(), None, false, None);
        let connected = own.connect(Instant::now(), client, address(), "localhost");
        let (handle, mut connection) = connected.expect("a connection");
        let say = |connection: &mut quinn_proto::Connection| {
            let mut bytes = Vec::new();
            let said = connection.poll_transmit(Instant::now(), 1, &mut bytes);
            bytes.truncate(said.expect("a datagram").size);
            bytes
        };
        let (mut first, mut second) = (endpoint(first), endpoint(second));
        let incoming = newcomer(&mut first, &say(&mut connection));
        assert!(!incoming.remote_address_validated());
        let mut retry = Vec::new();
        let Transmit { size, .. } = first.retry(incoming, &mut retry).expect("no token yet");
        match enter(&mut own, &retry[..size], &mut Vec::new()) {
            Some(DatagramEvent::ConnectionEvent(to, event)) if to == handle => {
                connection.handle_event(event);
            }
            _ => panic!("no Retry"),
        }
        let incoming = newcomer(&mut second, &say(&mut connection));
        let is_taken = incoming.remote_address_validated();
        second.ignore(incoming);
        is_taken
    }

    /// Returns the token that resets an unknown connection with this id.
    fn reset_token(config: &QuicConfig, id: &[u8]) -> Vec<u8> {
        let datagram = [&[0x40][..], id, &[0; 100]].concat();
        let mut reset = Vec::new();
        match enter(&mut endpoint(config), &datagram, &mut reset) {
            Some(DatagramEvent::Response(Transmit { size, .. })) => {
                reset[size - RESET_TOKEN_BYTES..size].to_vec()
            }
            _ => panic!("no stateless reset"),
        }
    }

    /// RFC 9000 §8.1.2: a client may bring the token that the process before gave it. §10.3: it
    /// recognizes the end of a connection by the token that it got from the process before.
    #[test]
    fn processes_with_the_same_keys_share_tokens_and_reset_tokens() {
        let keys = QuicKeys::random();
        let epoch = keys.epoch.wrapping_add(1);
        let (tls, root) = made_settings();
        let of = |keys| {
            QuicConfig::new(&tls, keys, 1000, CongestionControl::Cubic).expect("a cipher suite")
        };
        let before = of(keys.clone());
        let id = Ids { key: before.id_key(), place: before.place(0), random: RandomSource::System }
            .generate_cid();
        let stranger = QuicKeys { ids: keys.ids, ..QuicKeys::random() };
        for (later, is_known) in [(QuicKeys { epoch, ..keys }, true), (stranger, false)] {
            let later = of(later);
            assert_eq!(takes_token(&before, &later, client(&root)), is_known);
            assert_eq!(reset_token(&before, &id) == reset_token(&later, &id), is_known);
        }
    }
}
