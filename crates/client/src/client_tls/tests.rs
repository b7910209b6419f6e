//! Tests of handshakes in memory with servers that have right and wrong certificates.

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConnection, HandshakeKind, ServerConfig, ServerConnection, SupportedProtocolVersion,
};

use super::*;
use crate::connect_target::ConnectTarget;

/// An authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        Self::named("authority")
    }

    fn named(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new([]).expect("no names");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(parameters, key), pem }
    }

    fn trust(&self) -> ServerTrust {
        let authorities = ServerAuthorities::from_pem(self.pem.as_bytes());
        ServerTrust::Authorities(authorities.expect("a certificate"))
    }

    fn issue(&self, names: &[&str]) -> Issued {
        self.issue_for(names, 1975, 4096)
    }

    /// Issues a certificate that is valid from the first day of one year to that of another.
    fn issue_for(&self, names: &[&str], from: i32, until: i32) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).expect("names");
        parameters.not_before = date_time_ymd(from, 1, 1);
        parameters.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        Issued { certificate: certificate.der().clone(), key }
    }
}

/// A certificate with its key.
struct Issued {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Issued {
    fn certificate_pin(&self) -> CertificatePin {
        let hash = aws_lc_rs::digest::digest(&SHA256, &self.certificate);
        CertificatePin::Certificate(hash.as_ref().try_into().expect("32 bytes"))
    }

    fn key_pin(&self) -> CertificatePin {
        let key = rcgen::PublicKeyData::subject_public_key_info(&self.key);
        let hash = aws_lc_rs::digest::digest(&SHA256, &key);
        CertificatePin::PublicKey(hash.as_ref().try_into().expect("32 bytes"))
    }

    /// A server with this certificate and the key of another one.
    fn with_key_of(&self, other: &Self) -> TestServer {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(other.key.serialize_der()));
        let key = any_supported_type(&key).expect("a key");
        TestServer {
            certified: Arc::new(CertifiedKey::new(vec![self.certificate.clone()], key)),
            names: Arc::default(),
            versions: vec![&TLS13, &TLS12],
            alpn: &[],
        }
    }

    fn server(&self) -> TestServer {
        self.with_key_of(self)
    }
}

struct TestServer {
    certified: Arc<CertifiedKey>,
    /// The names that clients have sent (RFC 6066 §3).
    names: Arc<Mutex<Vec<Option<String>>>>,
    versions: Vec<&'static SupportedProtocolVersion>,
    alpn: &'static [&'static [u8]],
}

#[derive(Debug)]
struct NoteNames {
    certified: Arc<CertifiedKey>,
    names: Arc<Mutex<Vec<Option<String>>>>,
}

impl ResolvesServerCert for NoteNames {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.names.lock().expect("names").push(hello.server_name().map(str::to_owned));
        Some(Arc::clone(&self.certified))
    }
}

impl TestServer {
    fn config(&self) -> Arc<ServerConfig> {
        let resolver =
            NoteNames { certified: Arc::clone(&self.certified), names: Arc::clone(&self.names) };
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(&self.versions).expect("versions");
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = self.alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }
}

/// Connects to a URL. Bytes flow until neither side has more, so that tickets arrive, too.
fn connect(
    client: &ClientTls,
    url: &str,
    server: &Arc<ServerConfig>,
) -> Result<ClientConnection, rustls::Error> {
    let (target, _) = ConnectTarget::from_url(url).expect(url);
    let name = target.tls_server_name().expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client.config()), name)?;
    let mut server = ServerConnection::new(Arc::clone(server))?;
    while client.wants_write() || server.wants_write() {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        client.write_tls(&mut to_server).expect("memory");
        server.read_tls(&mut &to_server[..]).expect("memory");
        server.process_new_packets()?;
        server.write_tls(&mut to_client).expect("memory");
        client.read_tls(&mut &to_client[..]).expect("memory");
        client.process_new_packets()?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(client)
}

fn settings(trust: &ServerTrust) -> ClientTls {
    ClientTls::new(trust, &[]).expect("settings")
}

/// Returns the message of a failed handshake, or an empty one.
fn outcome(trust: &ServerTrust, url: &str, server: &TestServer) -> String {
    let result = connect(&settings(trust), url, &server.config());
    result.err().map(|error| handshake_message(&error)).unwrap_or_default()
}

#[test]
fn certificates_are_valid_only_for_their_names() {
    let authority = Authority::new();
    let issued = authority.issue(&["example.org", "*.example.net", "192.0.2.1", "2001:db8::1"]);
    for url in [
        "https://example.org",
        "https://EXAMPLE.org.:8443",
        "https://www.example.net",
        "https://192.0.2.1",
        "https://[2001:db8::1]",
    ] {
        assert_eq!(outcome(&authority.trust(), url, &issued.server()), "", "{url}");
    }
    for (url, name) in [
        ("https://example.com", "example.com"),
        ("https://www.example.org", "www.example.org"),
        ("https://a.b.example.net", "a.b.example.net"),
        ("https://example.net", "example.net"),
        ("https://192.0.2.2", "192.0.2.2"),
        ("https://[2001:db8::2]", "2001:db8::2"),
    ] {
        let message = outcome(&authority.trust(), url, &issued.server());
        let expected = format!("the certificate of the server is not for {name}, but for ");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("example.org, *.example.net"), "{message}");
    }
}

#[test]
fn certificates_are_valid_only_in_their_period() {
    let authority = Authority::new();
    let expired = authority.issue_for(&["example.org"], 2020, 2021).server();
    let message = outcome(&authority.trust(), "https://example.org", &expired);
    assert_eq!(message, "the certificate of the server has expired");
    let early = authority.issue_for(&["example.org"], 4000, 4001).server();
    let message = outcome(&authority.trust(), "https://example.org", &early);
    assert!(message.contains("is not valid yet; check the clock"), "{message}");
}

#[test]
fn other_authorities_are_unknown() {
    let (own, other) = (Authority::named("own"), Authority::named("other"));
    let server = other.issue(&["example.org"]).server();
    let unknown = "the certificate of the server is from an unknown authority; if it is one of \
                   your own, name the file with its certificate";
    assert_eq!(outcome(&own.trust(), "https://example.org", &server), unknown);
    let forged = Authority::named("own").issue(&["example.org"]).server();
    let wrong =
        "the certificate of the server, or its part of the handshake, has a wrong signature";
    assert_eq!(outcome(&own.trust(), "https://example.org", &forged), wrong);
    let both = format!("{}{}", own.pem, other.pem);
    let both = ServerAuthorities::from_pem(both.as_bytes()).expect("two certificates");
    let both = ServerTrust::Authorities(both);
    assert_eq!(outcome(&both, "https://example.org", &server), "");
}

#[test]
fn a_self_signed_certificate_is_trusted_as_its_own_authority() {
    let key = KeyPair::generate().expect("a key");
    let parameters = CertificateParams::new(["example.org".to_owned()]).expect("names");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let trust = ServerAuthorities::from_pem(certificate.pem().as_bytes()).expect("a certificate");
    let trust = ServerTrust::Authorities(trust);
    let issued = Issued { certificate: certificate.der().clone(), key };
    assert_eq!(outcome(&trust, "https://example.org", &issued.server()), "");
    let other = Authority::new().issue(&["example.org"]);
    assert!(!outcome(&trust, "https://example.org", &other.server()).is_empty());
}

/// A pin stands for the key alone: the name, the date and the issuer do not count.
#[test]
fn pinned_servers_are_trusted() {
    let issued = Authority::new().issue_for(&["other.example"], 2020, 2021);
    for pin in [issued.certificate_pin(), issued.key_pin()] {
        let trust = ServerTrust::Pins(vec![CertificatePin::Certificate([7; 32]), pin]);
        for version in [&TLS13, &TLS12] {
            let server = TestServer { versions: vec![version], ..issued.server() };
            assert_eq!(outcome(&trust, "https://192.0.2.1", &server), "", "{pin} {version:?}");
        }
    }
}

#[test]
fn servers_without_the_pin_are_refused() {
    let authority = Authority::new();
    let (pinned, other) = (authority.issue(&["example.org"]), authority.issue(&["example.org"]));
    for pin in [pinned.certificate_pin(), pinned.key_pin()] {
        let trust = ServerTrust::Pins(vec![pin]);
        let message = outcome(&trust, "https://example.org", &other.server());
        let expected = format!(
            "the certificate of the server matches no pin; its fingerprint is {}, that of its \
             public key is {}",
            other.certificate_pin(),
            other.key_pin()
        );
        assert_eq!(message, expected);
    }
    // The hash of one kind is not a pin of the other kind.
    let CertificatePin::Certificate(hash) = pinned.certificate_pin() else { unreachable!() };
    let wrong_kind = ServerTrust::Pins(vec![CertificatePin::PublicKey(hash)]);
    assert!(!outcome(&wrong_kind, "https://example.org", &pinned.server()).is_empty());
}

/// Certificates are public. The server has to have the key.
#[test]
fn a_certificate_without_its_key_is_refused() {
    let authority = Authority::new();
    let (right, other) = (authority.issue(&["example.org"]), authority.issue(&["example.org"]));
    let pins = [right.certificate_pin(), right.key_pin()].map(|pin| ServerTrust::Pins(vec![pin]));
    for trust in pins.iter().chain([&authority.trust()]) {
        for version in [&TLS13, &TLS12] {
            let stolen = TestServer { versions: vec![version], ..right.with_key_of(&other) };
            let message = outcome(trust, "https://example.org", &stolen);
            assert!(message.ends_with("has a wrong signature"), "{message:?}");
        }
    }
}

#[test]
fn the_name_is_sent_and_an_address_is_not() {
    let authority = Authority::new();
    let issued = authority.issue(&["example.org", "192.0.2.1"]);
    let server = issued.server();
    assert_eq!(outcome(&authority.trust(), "https://Example.org.", &server), "");
    assert_eq!(outcome(&authority.trust(), "https://192.0.2.1", &server), "");
    let names = server.names.lock().expect("names").clone();
    assert_eq!(names, [Some("example.org".to_owned()), None]);
}

#[test]
fn protocols_are_negotiated() {
    let authority = Authority::new();
    let mut server = authority.issue(&["example.org"]).server();
    server.alpn = &[b"h2", b"http/1.1"];
    let connect = |offered: &[&[u8]]| {
        let client = ClientTls::new(&authority.trust(), offered).expect("settings");
        let connection = connect(&client, "https://example.org", &server.config());
        connection.map(|connection| connection.alpn_protocol().map(<[u8]>::to_vec))
    };
    assert_eq!(connect(&[b"http/1.1"]), Ok(Some(b"http/1.1".to_vec())));
    assert_eq!(connect(&[b"http/1.1", b"h2"]), Ok(Some(b"h2".to_vec())));
    assert_eq!(connect(&[]), Ok(None));
    assert!(connect(&[b"acme"]).is_err(), "RFC 7301 §3.2: no protocol in common");
}

#[test]
fn sessions_are_resumed_with_the_same_settings_only() {
    let authority = Authority::new();
    let server = authority.issue(&["example.org"]).server().config();
    let client = settings(&authority.trust());
    let kind = |client: &ClientTls| {
        let connection = connect(client, "https://example.org", &server).expect("a connection");
        connection.handshake_kind()
    };
    assert_eq!(kind(&client), Some(HandshakeKind::Full));
    assert_eq!(kind(&client.clone()), Some(HandshakeKind::Resumed));
    assert_eq!(kind(&settings(&authority.trust())), Some(HandshakeKind::Full));
}

#[test]
fn files_of_authorities_are_checked() {
    let error = |text: &[u8]| ServerAuthorities::from_pem(text).expect_err("an error");
    let pem = Authority::new().pem;
    assert_eq!(error(b""), ClientTlsError::NoCertificate);
    assert_eq!(error(b"nonsense"), ClientTlsError::NoCertificate);
    let key = KeyPair::generate().expect("a key").serialize_pem();
    assert_eq!(error(key.as_bytes()), ClientTlsError::NoCertificate);
    let cut = &pem[..pem.len() - 30];
    assert!(matches!(error(cut.as_bytes()), ClientTlsError::DamagedPem(_)));
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(error(format!("{pem}{empty}").as_bytes()), ClientTlsError::NoAuthority(2));
    let none = ClientTls::new(&ServerTrust::Pins(Vec::new()), &[]).err();
    assert_eq!(none, Some(ClientTlsError::NoPins));
}

#[test]
fn equal_settings_have_equal_identities() {
    let (one, other) = (Authority::new(), Authority::new());
    let pin = CertificatePin::Certificate([1; 32]);
    let all = [
        (one.trust(), vec![]),
        (other.trust(), vec![]),
        (one.trust(), vec![&b"h2"[..]]),
        (one.trust(), vec![&b"h2"[..], b"http/1.1"]),
        (one.trust(), vec![&b"h2http/1.1"[..]]),
        (ServerTrust::Pins(vec![pin]), vec![]),
        (ServerTrust::Pins(vec![CertificatePin::PublicKey([1; 32])]), vec![]),
        (ServerTrust::Pins(vec![pin, pin]), vec![]),
    ];
    let identities = || -> Vec<TlsIdentity> {
        all.iter()
            .map(|(trust, alpn)| ClientTls::new(trust, alpn).expect("settings").identity())
            .collect()
    };
    let named = |name: &str| {
        let (trust, alpn) = &all[0];
        let tls = ClientTls::new(trust, alpn).expect("settings");
        tls.named(trust, alpn, ServerName::try_from(name.to_owned()).expect("a name")).identity()
    };
    let (first, second) = (identities(), identities());
    assert_eq!(first, second);
    assert_eq!(named("a.example"), named("a.example"));
    assert!(named("a.example") != named("b.example") && named("a.example") != first[0]);
    for (at, identity) in first.iter().enumerate() {
        assert!(!first[..at].contains(identity), "{:?}", all[at]);
    }
}

/// Runs another test of this program as a process of its own, with these variables.
fn run_with(test: &str, variables: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    let (_, module) = module_path!().split_once("::").expect("a crate");
    command.args(["--exact", &format!("{module}::{test}"), "--nocapture"]);
    command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
    command.envs(variables.iter().copied()).env("PINION_CLIENT_CHILD", "1");
    let output = command.output().expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Prints the system's root certificates in this environment.
#[test]
fn print_system_roots() {
    match system_roots() {
        Ok(roots) => println!("roots: {}", roots.len()),
        Err(error) => println!("error: {error}"),
    }
    let is_same =
        |first: &Arc<RootCertStore>, second: &Arc<RootCertStore>| Arc::ptr_eq(first, second);
    if let (Ok(first), Ok(second)) = (system_roots(), system_roots()) {
        assert!(is_same(&first, &second), "they are read once");
        assert!(ClientTls::new(&ServerTrust::SystemRoots, &[]).is_ok());
    } else {
        let error = ClientTls::new(&ServerTrust::SystemRoots, &[]).err();
        assert!(matches!(error, Some(ClientTlsError::NoSystemRoots(_))), "{error:?}");
    }
}

#[test]
fn root_certificates_are_those_of_the_variables() {
    let folder = std::env::temp_dir().join(format!("pinion-client-roots-{}", std::process::id()));
    fs::create_dir_all(folder.join("empty")).expect("a folder");
    fs::create_dir_all(folder.join("two")).expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let one = write("one.pem", &Authority::new().pem);
    write("two/a.pem", &Authority::new().pem);
    write("two/b.pem", &Authority::new().pem);
    let nonsense = write("nonsense.pem", "nonsense");
    let path = |name: &str| folder.join(name).display().to_string();
    let (two, empty, missing) = (path("two"), path("empty"), path("missing.pem"));
    let roots = |variables: &[(&str, &str)]| run_with("print_system_roots", variables);

    assert!(roots(&[("SSL_CERT_FILE", &one)]).contains("roots: 1\n"));
    assert!(roots(&[("SSL_CERT_DIR", &two)]).contains("roots: 2\n"));
    assert!(roots(&[("SSL_CERT_FILE", &one), ("SSL_CERT_DIR", &two)]).contains("roots: 3\n"));
    let advice = "; install the package ca-certificates, or set SSL_CERT_FILE to a PEM file with \
                  certificates of authorities, or SSL_CERT_DIR to a folder of such files";
    let none = "error: the system has no root certificates";
    assert!(roots(&[("SSL_CERT_DIR", &empty)]).contains(&format!("{none}{advice}")));
    assert!(roots(&[("SSL_CERT_FILE", &nonsense)]).contains(&format!("{none}{advice}")));
    let output = roots(&[("SSL_CERT_FILE", &missing)]);
    assert!(output.contains(none) && output.contains(advice), "{output}");
    assert!(output.contains("missing.pem"), "the file is named: {output}");
    fs::remove_dir_all(&folder).expect("a folder");
}

proptest! {
    /// Damaged certificates are refused or read, without a panic.
    #[test]
    fn any_text_is_a_file_of_authorities_or_an_error(at: usize, byte: u8) {
        let mut pem = PEM.with(Clone::clone).into_bytes();
        let at = at % pem.len();
        pem[at] = byte;
        let _ = ServerAuthorities::from_pem(&pem);
    }
}

thread_local! {
    static PEM: String = Authority::new().pem;
}
