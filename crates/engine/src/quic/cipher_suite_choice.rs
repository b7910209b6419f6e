//! TLS inside QUIC: as over TCP, the settings of a client depend on its first bytes. The library
//! has one for all, so a session begins with those that suit every client, and another takes its
//! place before it has read anything. A name that is no DNS name is hidden from the library as over
//! TCP ([`HiddenName`]).

use std::any::Any;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError};

use crate::tls::{Choice, HiddenName, TlsConfig, bare_choice};

/// The settings of a listener, in each of their kinds.
pub(super) struct BySuites {
    by_client: Arc<QuicServerConfig>,
    aes_first: Arc<QuicServerConfig>,
    hidden_name: Arc<QuicServerConfig>,
}

impl BySuites {
    /// Creates the settings; `None` if there is no cipher suite that QUIC can use.
    pub(super) fn new(tls: &TlsConfig) -> Option<Self> {
        let settings = |tls| QuicServerConfig::try_from(Arc::clone(tls)).ok().map(Arc::new);
        Some(Self {
            by_client: settings(&tls.by_client)?,
            aes_first: settings(&tls.aes_first)?,
            hidden_name: settings(&tls.hidden_name)?,
        })
    }
}

impl ServerConfig for BySuites {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.by_client.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.by_client.retry_tag(version, id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn Session> {
        let session = Arc::clone(&self.by_client).start_session(version, parameters);
        let parameters = *parameters;
        let undecided = Undecided { configs: self, version, parameters, begun: Vec::new() };
        Box::new(Suited { session, undecided: Some(Box::new(undecided)), hidden_name: None })
    }
}

/// A session, and the state for its replacement.
struct Suited {
    session: Box<dyn Session>,
    /// The state for the replacement, until the first bytes show the settings of the client.
    undecided: Option<Box<Undecided>>,
    /// The server name that is hidden from the library until the handshake is over.
    hidden_name: Option<Arc<HiddenName>>,
}

struct Undecided {
    configs: Arc<BySuites>,
    version: u32,
    parameters: TransportParameters,
    /// The first bytes of the client, which no session has read. QUIC bounds them: it buffers no
    /// more than a first flight.
    begun: Vec<u8>,
}

impl Undecided {
    /// Returns a session with these settings, which has read nothing.
    fn session(&self, config: &Arc<QuicServerConfig>) -> Box<dyn Session> {
        Arc::clone(config).start_session(self.version, &self.parameters)
    }
}

impl Suited {
    /// Makes the library read a part of the handshake, which it may hash.
    fn read(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let read = {
            let _restored = self.hidden_name.as_ref().map(HiddenName::restored);
            self.session.read_handshake(bytes)
        };
        if !self.session.is_handshaking() {
            self.hidden_name = None;
        }
        read
    }
}

impl Session for Suited {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let Some(mut undecided) = self.undecided.take() else { return self.read(bytes) };
        undecided.begun.extend_from_slice(bytes);
        match bare_choice(&undecided.begun) {
            None => {
                self.undecided = Some(undecided);
                return Ok(false);
            }
            Some(Choice::ByClient) => {}
            Some(Choice::AesFirst) => {
                self.session = undecided.session(&undecided.configs.aes_first);
            }
            Some(Choice::HiddenName(place)) => {
                self.session = undecided.session(&undecided.configs.hidden_name);
                self.hidden_name = HiddenName::hide(&mut undecided.begun, place);
            }
        }
        self.read(&undecided.begun)
    }

    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.session.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.session.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.session.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.session.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.session.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.session.transport_parameters()
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let _restored = self.hidden_name.as_ref().map(HiddenName::restored);
        self.session.write_handshake(out)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.session.next_1rtt_keys()
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.session.is_valid_retry(id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.session.export_keying_material(output, label, context)
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_settings;
    use super::*;
    use quinn_proto::crypto::ClientConfig as _;
    use quinn_proto::crypto::rustls::QuicClientConfig;
    use rustls::crypto::CryptoProvider;
    use rustls::crypto::aws_lc_rs::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    use rustls::pki_types::CertificateDer;
    use rustls::{KeyLog, RootCertStore, SupportedCipherSuite};
    use std::sync::Mutex;

    /// The lengths of secrets: each is as long as the hash of its suite.
    #[derive(Debug, Default)]
    struct Lengths(Mutex<Vec<usize>>);

    impl KeyLog for Lengths {
        fn log(&self, _: &str, _: &[u8], secret: &[u8]) {
            self.0.lock().expect("one thread").push(secret.len());
        }
    }

    /// Performs a handshake whose ClientHello comes in pieces of this many bytes. Returns the
    /// length of its secrets, and the number of packets that its keys are good for.
    fn handshake(
        server: &Arc<BySuites>,
        root: &[u8],
        suites: &[SupportedCipherSuite],
        piece_bytes: usize,
    ) -> (usize, u64) {
        const VERSION: u32 = 1;
        let provider = CryptoProvider {
            cipher_suites: suites.to_vec(),
            ..rustls::crypto::aws_lc_rs::default_provider()
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(root.to_vec())).expect("a certificate");
        let builder = rustls::ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("suites");
        let mut client = builder.with_root_certificates(roots).with_no_client_auth();
        client.alpn_protocols = vec![b"h3".to_vec()];
        let lengths = Arc::new(Lengths::default());
        client.key_log = lengths.clone();
        let initial =
            TLS13_AES_128_GCM_SHA256.tls13().and_then(rustls::Tls13CipherSuite::quic_suite);
        let client = QuicClientConfig::with_initial(Arc::new(client), initial.expect("a suite"));
        let client = Arc::new(client.expect("settings"));
        let parameters = TransportParameters::read(Side::Client, &mut &[][..]).expect("none");
        let mut client = client.start_session(VERSION, "localhost", &parameters).expect("a client");
        let mut server = Arc::clone(server).start_session(VERSION, &parameters);
        let mut limit = 0;
        while client.is_handshaking() || server.is_handshaking() {
            for _ in 0..3 {
                let mut said = Vec::new();
                let _keys = client.write_handshake(&mut said);
                for piece in said.chunks(piece_bytes) {
                    server.read_handshake(piece).expect("a client that is right");
                }
            }
            for _ in 0..3 {
                let mut said = Vec::new();
                if let Some(keys) = server.write_handshake(&mut said) {
                    limit = keys.packet.local.confidentiality_limit();
                }
                if !said.is_empty() {
                    client.read_handshake(&said).expect("a server that is right");
                }
            }
        }
        let lengths = lengths.0.lock().expect("one thread");
        (lengths[0], limit)
    }

    /// As over TCP, the server selects AES with short keys unless ChaCha20 is the client's first
    /// choice.
    #[test]
    fn the_suite_is_the_cheapest_that_the_client_prefers() {
        let (tls, root) = made_settings();
        let server = Arc::new(BySuites::new(&tls).expect("a cipher suite"));
        let (short, long, chacha) =
            (TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256);
        for piece_bytes in [1, 7, 40, 100, usize::MAX] {
            let of = |suites: &[_]| handshake(&server, &root, suites, piece_bytes);
            let [is_short, is_long, is_chacha] = [short, long, chacha].map(|suite| of(&[suite]));
            assert_eq!([is_short.0, is_long.0, is_chacha.0], [32, 48, 32]);
            assert_ne!(is_short, is_chacha);
            assert_eq!(of(&[long, chacha, short]), is_short, "{piece_bytes}");
            assert_eq!(of(&[long, chacha]), is_long, "{piece_bytes}");
            assert_eq!(of(&[chacha, short, long]), is_chacha, "{piece_bytes}");
        }
    }
}
