//! Tests of the effects of a listener's TLS settings, by handshakes with rustls' own client in
//! memory.

use std::cell::Cell;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize,
};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs::kx_group};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, ServerConnection,
    SignatureScheme, SupportedProtocolVersion,
};

use super::TlsConfig;
use super::certificate::{Certificate, CertificateError, CertificateName, PemFile};
use super::certificate_resolver::CertificateStore;
use super::config::{ClientAuthorities, TlsError};
use super::tickets::{TicketKey, Tickets};
use crate::limits::TICKET_KEY_SECONDS;
use crate::settings::Protocols;

const BOTH: Protocols = Protocols { http1: true, http2: true };

/// A certificate and its key, as PEM.
pub(super) struct Made {
    cert: String,
    key: String,
}

impl Made {
    fn with(pair: &KeyPair, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let parameters = CertificateParams::new(names).expect("names");
        let certificate = parameters.self_signed(pair).expect("signed");
        Self { cert: certificate.pem(), key: pair.serialize_pem() }
    }

    pub(super) fn new(names: &[&str]) -> Self {
        Self::with(&KeyPair::generate().expect("a key"), names)
    }

    fn load(&self) -> Certificate {
        Certificate::from_pem(self.cert.as_bytes(), self.key.as_bytes()).expect("a certificate")
    }
}

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(1_000_000) };
}

fn now() -> u64 {
    NOW.get()
}

pub(super) fn tickets(keys: Vec<TicketKey>) -> Arc<Tickets> {
    Arc::new(Tickets::at(keys, now).expect("random bytes"))
}

pub(super) fn server(
    made: &[&Made],
    tickets: &Arc<Tickets>,
    ca: Option<&ClientAuthorities>,
) -> TlsConfig {
    let certificates: Vec<Certificate> = made.iter().map(|made| made.load()).collect();
    let store = Arc::new(CertificateStore::new(&certificates));
    TlsConfig::new(&store, tickets, BOTH, ca).expect("settings")
}

pub(super) fn client(
    trusted: &[&Made],
    versions: &[&'static SupportedProtocolVersion],
    provider: CryptoProvider,
    own: Option<&Made>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for made in trusted {
        roots.add(CertificateDer::from_pem_slice(made.cert.as_bytes()).expect("PEM")).expect("it");
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(versions).expect("versions");
    let builder = builder.with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(made) => {
            let chain = vec![CertificateDer::from_pem_slice(made.cert.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::in_memory_sessions(8);
    Arc::new(config)
}

/// Performs a whole handshake. The server then sends one byte, so that tickets arrive.
fn connect(
    server: &TlsConfig,
    client: &Arc<ClientConfig>,
    name: &str,
) -> Result<(ClientConnection, ServerConnection), rustls::Error> {
    let name = name.to_owned().try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name)?;
    let mut wire = Vec::new();
    client.write_tls(&mut wire).expect("memory");
    let mut server = ServerConnection::new(Arc::clone(
        server.suiting(&wire).map_or(&server.by_client, |suiting| suiting.settings),
    ))?;
    while !wire.is_empty() || client.wants_write() || server.wants_write() {
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("memory");
            server.process_new_packets()?;
        }
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire).expect("memory");
        }
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory");
            client.process_new_packets()?;
        }
        wire.clear();
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok((client, server))
}

fn kind(server: &TlsConfig, client: &Arc<ClientConfig>) -> Option<HandshakeKind> {
    connect(server, client, "a.test").expect("a handshake").0.handshake_kind()
}

#[test]
fn every_kind_of_key_is_served_in_both_versions() {
    let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    let others = [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519];
    let others = others.map(|kind| KeyPair::generate_for(kind).expect("a key"));
    for pair in others.iter().chain([&rsa]) {
        let made = Made::with(pair, &["a.test"]);
        for version in [&TLS12, &TLS13] {
            let server = server(&[&made], &tickets(Vec::new()), None);
            let client = client(&[&made], &[version], default_provider(), None);
            let (client, _) = connect(&server, &client, "a.test").expect("a handshake");
            assert_eq!(client.protocol_version(), Some(version.version));
            assert_eq!(client.alpn_protocol(), Some(&b"h2"[..]));
        }
    }
}

#[test]
fn keys_are_exchanged_with_a_post_quantum_part_when_the_client_can() {
    let made = Made::new(&["a.test"]);
    let server = server(&[&made], &tickets(Vec::new()), None);
    let group = |provider| {
        let client = client(&[&made], &[&TLS13], provider, None);
        let (client, _) = connect(&server, &client, "a.test").expect("a handshake");
        client.negotiated_key_exchange_group().map(SupportedKxGroup::name)
    };
    assert_eq!(group(default_provider()), Some(NamedGroup::X25519MLKEM768));
    let old = CryptoProvider { kx_groups: vec![kx_group::X25519], ..default_provider() };
    assert_eq!(group(old), Some(NamedGroup::X25519));
}

/// The server selects AES with short keys, unless ChaCha20 is the client's first choice. It selects
/// whatever suite is the only one of the client.
#[test]
fn the_suite_is_the_cheapest_that_the_client_prefers() {
    use rustls::CipherSuite as S;
    let made = Made::new(&["a.test"]);
    let server = server(&[&made], &tickets(Vec::new()), None);
    let (short, long, chacha) = (
        S::TLS13_AES_128_GCM_SHA256,
        S::TLS13_AES_256_GCM_SHA384,
        S::TLS13_CHACHA20_POLY1305_SHA256,
    );
    let (short2, long2, chacha2) = (
        S::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        S::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        S::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    );
    for (version, offered, expected) in [
        (&TLS13, &[long, chacha, short][..], short),
        (&TLS13, &[long, short], short),
        (&TLS13, &[long, chacha], long),
        (&TLS13, &[chacha, short, long], chacha),
        (&TLS13, &[chacha], chacha),
        (&TLS12, &[long2, chacha2, short2], short2),
        (&TLS12, &[chacha2, short2], chacha2),
        (&TLS12, &[long2], long2),
    ] {
        let mut provider = default_provider();
        let all = std::mem::take(&mut provider.cipher_suites);
        let find = |suite: &S| all.iter().find(|known| known.suite() == *suite).copied();
        provider.cipher_suites = offered.iter().filter_map(find).collect();
        let client = client(&[&made], &[version], provider, None);
        for expected_kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let (client, _) = connect(&server, &client, "a.test").expect("a handshake");
            let suite = client.negotiated_cipher_suite().map(|suite| suite.suite());
            assert_eq!(suite, Some(expected), "{offered:?}");
            assert_eq!(client.handshake_kind(), Some(expected_kind), "{offered:?}");
        }
    }
}

#[test]
fn chain_and_key_may_be_one_file_in_any_order() {
    let made = Made::new(&["B.test", "*.c.test", "192.0.2.1"]);
    let Made { cert, key } = &made;
    for bundle in [format!("{cert}{key}"), format!("{key}{cert}"), format!("text\n{cert}\n{key}")] {
        let loaded = Certificate::from_pem(bundle.as_bytes(), bundle.as_bytes()).expect("a pair");
        assert!(loaded.is_same(&made.load()));
        assert_eq!(loaded.fingerprint(), made.load().fingerprint());
        let dns = |name: &str| CertificateName::Dns(name.to_owned());
        let ip = CertificateName::Ip("192.0.2.1".parse().expect("an address"));
        assert_eq!(loaded.names(), [dns("b.test"), dns("*.c.test"), ip]);
        for (host, is_named) in [
            ("b.test", true),
            ("a.c.test", true),
            ("c.test", false),
            ("x.a.c.test", false),
            ("x.b.test", false),
            ("test", false),
            ("192.0.2.1", false),
        ] {
            assert_eq!(loaded.names_host(host), is_named, "{host}");
        }
        assert!(loaded.not_before() < 0x7fff_ffff && loaded.not_after() > 0x7fff_ffff);
    }
}

#[test]
fn unusable_certificates_have_a_reason() {
    let (one, two) = (Made::new(&["a.test"]), Made::new(&["b.test"]));
    let load = |cert: &str, key: &str| Certificate::from_pem(cert.as_bytes(), key.as_bytes());
    let wrong = |cert: &str, key: &str| load(cert, key).expect_err("it is wrong");
    let Made { cert, key } = &one;
    assert_eq!(wrong("", key), CertificateError::NoCertificate);
    assert_eq!(wrong(key, key), CertificateError::NoCertificate);
    assert_eq!(wrong(cert, cert), CertificateError::NoKey);
    assert_eq!(wrong(cert, &two.key), CertificateError::WrongKey);
    let turned = format!("{}{cert}", two.cert);
    assert_eq!(wrong(&turned, key), CertificateError::WrongOrder(2));
    assert!(load(&format!("{cert}{}", two.cert), key).is_ok(), "a chain");
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert_eq!(wrong(cert, &encrypted), CertificateError::EncryptedKey);
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n\
               -----END RSA PRIVATE KEY-----\n";
    assert_eq!(wrong(cert, old), CertificateError::EncryptedKey);
    let empty = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert_eq!(wrong(cert, empty), CertificateError::UnusableKey);
    let empty = empty.replace("PRIVATE KEY", "CERTIFICATE");
    assert_eq!(wrong(&empty, key), CertificateError::BadCertificate(1));
    assert_eq!(wrong(&format!("{cert}{empty}"), key), CertificateError::BadCertificate(2));
    let damaged = |text: &str| [text.replace("-----END", ""), text.replacen('M', "!", 1)];
    for (file, cert, key) in damaged(cert)
        .into_iter()
        .map(|damage| (PemFile::Certificate, damage, key.clone()))
        .chain(damaged(key).into_iter().map(|damage| (PemFile::Key, cert.clone(), damage)))
    {
        let error = wrong(&cert, &key);
        assert!(matches!(error, CertificateError::DamagedPem(of, _) if of == file), "{error}");
        assert_eq!(error.is_about_key(), file == PemFile::Key, "{cert}{key}");
    }
}

/// RFC 6066 §3, RFC 9525 §6.3: a wildcard stands for one label.
#[test]
fn a_client_gets_the_certificate_of_the_host_it_names() {
    let first = Made::new(&["first.test"]);
    let exact = Made::new(&["a.b.test", "b.test"]);
    let wild = Made::new(&["*.b.test"]);
    let all = [&first, &wild, &exact];
    let server = server(&all, &tickets(Vec::new()), None);
    let client = client(&all, &[&TLS13], default_provider(), None);
    let got = |host: &str| {
        let connected = connect(&server, &client, host).map(|(client, _)| {
            let chain = client.peer_certificates().expect("a chain")[0].clone();
            all.iter().position(|made| is_match(made, &chain))
        });
        connected.ok().flatten()
    };
    for (host, expected) in
        [("first.test", Some(0)), ("A.b.test", Some(2)), ("b.test", Some(2)), ("x.b.test", Some(1))]
    {
        assert_eq!(got(host), expected, "{host}");
    }
    // The first certificate is for none of these hosts, so the client refuses it.
    for host in ["x.y.b.test", "other.test", "192.0.2.1"] {
        assert_eq!(got(host), None, "{host}");
    }
}

fn is_match(made: &Made, chain: &CertificateDer<'_>) -> bool {
    CertificateDer::from_pem_slice(made.cert.as_bytes()).expect("PEM") == *chain
}

#[test]
fn of_two_certificates_a_client_gets_the_one_it_can_check() {
    let ed = Made::with(&KeyPair::generate_for(&PKCS_ED25519).expect("a key"), &["a.test"]);
    let p256 = Made::new(&["a.test"]);
    let server = server(&[&ed, &p256], &tickets(Vec::new()), None);
    let got = |schemes: &[SignatureScheme]| {
        let mut provider = default_provider();
        let mapping = provider.signature_verification_algorithms.mapping;
        let known: Vec<_> =
            mapping.iter().filter(|(scheme, _)| schemes.contains(scheme)).copied().collect();
        provider.signature_verification_algorithms.mapping = known.leak();
        let client = client(&[&ed, &p256], &[&TLS13], provider, None);
        let (client, _) = connect(&server, &client, "a.test").expect("a handshake");
        is_match(&p256, &client.peer_certificates().expect("a chain")[0])
    };
    assert!(!got(&[SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256]));
    assert!(got(&[SignatureScheme::ECDSA_NISTP256_SHA256]));
}

#[test]
fn certificates_are_replaced_for_the_next_handshake() {
    let (one, two) = (Made::new(&["a.test"]), Made::new(&["a.test"]));
    let store = Arc::new(CertificateStore::new(&[one.load()]));
    let server = TlsConfig::new(&store, &tickets(Vec::new()), BOTH, None).expect("settings");
    let trusting = |made: &Made| client(&[made], &[&TLS13], default_provider(), None);
    assert!(connect(&server, &trusting(&one), "a.test").is_ok());
    let before = trusting(&one);
    assert_eq!(kind(&server, &before), Some(HandshakeKind::Full));
    store.replace(&[two.load()]);
    // The keys of tickets do not depend on certificates.
    assert_eq!(kind(&server, &before), Some(HandshakeKind::Resumed));
    assert!(connect(&server, &trusting(&one), "a.test").is_err());
    assert!(connect(&server, &trusting(&two), "a.test").is_ok());
}

#[test]
fn a_ticket_is_good_at_every_worker_and_for_the_time_of_two_keys() {
    let made = Made::new(&["a.test"]);
    let keys = tickets(Vec::new());
    for version in [&TLS12, &TLS13] {
        let client = client(&[&made], &[version], default_provider(), None);
        let (here, there) = (server(&[&made], &keys, None), server(&[&made], &keys, None));
        assert_eq!(kind(&here, &client), Some(HandshakeKind::Full));
        assert_eq!(kind(&there, &client), Some(HandshakeKind::Resumed));
        // The next key encrypts tickets, and the previous one still decrypts them.
        let before = keys.keys();
        NOW.set(NOW.get() + TICKET_KEY_SECONDS);
        assert_eq!(kind(&here, &client), Some(HandshakeKind::Resumed));
        assert_eq!(keys.keys().get(1), before.first(), "{version:?}");
        assert_ne!(keys.keys().first(), before.first());
        // Tickets of a removed key are of no use, and do no harm.
        NOW.set(NOW.get() + 2 * TICKET_KEY_SECONDS);
        assert_eq!(kind(&here, &client), Some(HandshakeKind::Full));
    }
}

#[test]
fn tickets_stay_valid_with_inherited_keys() {
    let made = Made::new(&["a.test"]);
    let client = client(&[&made], &[&TLS13], default_provider(), None);
    let keys = tickets(Vec::new());
    assert_eq!(kind(&server(&[&made], &keys, None), &client), Some(HandshakeKind::Full));
    let next = tickets(keys.keys());
    assert_eq!(kind(&server(&[&made], &next, None), &client), Some(HandshakeKind::Resumed));
    let stranger = tickets(Vec::new());
    assert_eq!(kind(&server(&[&made], &stranger, None), &client), Some(HandshakeKind::Full));
}

#[test]
fn a_ticket_does_not_replace_a_client_certificate() {
    let made = Made::new(&["a.test"]);
    let keys = tickets(Vec::new());
    let authority = authority();
    let open = server(&[&made], &keys, None);
    let closed = server(&[&made], &keys, Some(&authority.2));
    for version in [&TLS12, &TLS13] {
        let stranger = client(&[&made], &[version], default_provider(), None);
        assert_eq!(kind(&open, &stranger), Some(HandshakeKind::Full));
        assert_eq!(kind(&open, &stranger), Some(HandshakeKind::Resumed));
        assert!(connect(&closed, &stranger, "a.test").is_err(), "{version:?}");
        let own = Some(&authority.1);
        let known = client(&[&made], &[version], default_provider(), own);
        // A known client has to send its certificate again, since the certificate may have expired
        // meanwhile.
        assert_eq!(kind(&closed, &known), Some(HandshakeKind::Full));
        assert_eq!(kind(&closed, &known), Some(HandshakeKind::Full));
        // A server that requests no certificates issues a ticket, which is of no use where a
        // certificate is required.
        assert_eq!(kind(&open, &known), Some(HandshakeKind::Full));
        assert_eq!(kind(&open, &known), Some(HandshakeKind::Resumed));
        assert_eq!(kind(&closed, &known), Some(HandshakeKind::Full));
        let other = Made::new(&["someone"]);
        let other = client(&[&made], &[version], default_provider(), Some(&other));
        assert!(connect(&closed, &other, "a.test").is_err(), "{version:?}");
    }
}

#[test]
fn quic_listeners_with_client_certificates_issue_no_tickets() {
    let store = Arc::new(CertificateStore::new(&[Made::new(&["a.test"]).load()]));
    let authorities = authority().2;
    for (clients, gives) in [(None, true), (Some(&authorities), false)] {
        let config = TlsConfig::for_quic(&store, &tickets(Vec::new()), clients).expect("settings");
        for config in [&config.by_client, &config.aes_first] {
            assert_eq!((config.ticketer.enabled(), config.send_tls13_tickets > 0), (gives, gives));
            assert!(!config.session_storage.can_cache());
        }
    }
}

/// Creates an authority, and a certificate that it has signed.
fn authority() -> (Made, Made, ClientAuthorities) {
    let (pair, own) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
    let mut parameters = CertificateParams::new(Vec::new()).expect("names");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = parameters.self_signed(&pair).expect("signed").pem();
    let key = pair.serialize_pem();
    let issuer = Issuer::new(parameters, pair);
    let mut client = CertificateParams::new(vec!["someone".to_owned()]).expect("names");
    client.distinguished_name.push(DnType::CommonName, "someone");
    let client = client.signed_by(&own, &issuer).expect("signed").pem();
    let authorities = ClientAuthorities::from_pem(certificate.as_bytes()).expect("an authority");
    let made = Made { cert: client, key: own.serialize_pem() };
    (Made { cert: certificate, key }, made, authorities)
}

#[test]
fn client_authorities_must_be_ca_certificates() {
    let none = ClientAuthorities::from_pem(b"").expect_err("none");
    assert_eq!(none, TlsError::Authorities(CertificateError::NoCertificate));
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let text = format!("{}{empty}", authority().0.cert);
    let bad = ClientAuthorities::from_pem(text.as_bytes()).expect_err("bad");
    assert_eq!(bad, TlsError::NoAuthority(2));
    let (_, someone, _) = authority();
    let leaf = ClientAuthorities::from_pem(someone.cert.as_bytes()).expect_err("no authority");
    assert_eq!(leaf, TlsError::NoAuthority(1));
    // A certificate that is signed with its own key admits only the client that has this key.
    let own = Made::new(&["someone"]);
    ClientAuthorities::from_pem(own.cert.as_bytes()).expect("one client");
}

#[test]
fn a_forged_ticket_is_refused() {
    let keys = tickets(Vec::new());
    let ticket = keys.seal(b"session").expect("sealed");
    assert_eq!(keys.open(&ticket).as_deref(), Some(&b"session"[..]));
    for at in 0..ticket.len() {
        let mut forged = ticket.clone();
        forged[at] ^= 1;
        assert_eq!(keys.open(&forged), None, "byte {at}");
        assert_eq!(keys.open(&ticket[..at]), None, "cut at {at}");
    }
    assert_ne!(keys.seal(b"session").expect("sealed"), ticket, "another nonce");
    let shown = format!("{keys:?}");
    let secret = format!("{:?}", keys.keys()[0].secret);
    assert!(!shown.contains(&secret[1..20]), "{shown}");
}
