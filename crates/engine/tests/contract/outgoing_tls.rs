//! Outgoing TLS connections: rustls' own server at the other end, and peers that do not speak TLS.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use pinion_engine::outgoing_connect::ConnectTls;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};

use crate::outgoing::{REQUEST_BYTES, Upstream, echo, local, on_both, tcp};

/// Returns a certificate for `upstream.test`, and its key.
fn certificate() -> CertifiedKey<rcgen::KeyPair> {
    generate_simple_self_signed(["upstream.test".to_owned()]).expect("a certificate")
}

/// Returns a configuration that trusts this certificate, for a server of this name.
fn trust(certified: &CertifiedKey<rcgen::KeyPair>, name: &str) -> ConnectTls {
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    ConnectTls { config: Arc::new(config), name }
}

/// Starts a server that sends back its input, over one version of TLS.
fn serve(
    certified: &CertifiedKey<rcgen::KeyPair>,
    version: &'static SupportedProtocolVersion,
) -> Upstream {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("settings");
    let config = Arc::new(config);
    let listener = local();
    let upstream = tcp(listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = StreamOwned::new(session, stream);
            // A client that does not trust the certificate ends the handshake.
            if stream.conn.complete_io(&mut stream.sock).is_ok() {
                echo(&mut stream);
                stream.conn.send_close_notify();
                stream.flush().expect("taken");
            }
        }
    });
    upstream
}

/// Bytes that are written before the handshake is complete are sent after it, the client's end is
/// received as close_notify, and bytes after that are still read.
#[test]
fn content_is_sent_in_both_directions_and_both_sides_end() {
    let certified = certificate();
    for version in [&TLS13, &TLS12] {
        let upstream = serve(&certified, version);
        let tls = Some(trust(&certified, "upstream.test"));
        on_both(&Upstream { tls, ..upstream }, &format!("{REQUEST_BYTES} bytes"));
    }
}

#[test]
fn a_server_with_another_name_or_an_unknown_certificate_is_refused() {
    let certified = certificate();
    let upstream = serve(&certified, &TLS13);
    let tls = Some(trust(&certified, "other.test"));
    on_both(
        &Upstream { tls, ..upstream.clone() },
        "the TLS handshake failed: invalid peer certificate: certificate not valid for name \
         \"other.test\"; certificate is only valid for DnsName(\"upstream.test\")",
    );
    let tls = Some(trust(&certificate(), "upstream.test"));
    on_both(
        &Upstream { tls, ..upstream },
        // The trusted certificate has the same subject, and another key.
        "the TLS handshake failed: invalid peer certificate: BadSignature",
    );
}

/// Starts a server that sends these bytes, and reads nothing.
fn serve_bytes(bytes: &'static [u8]) -> Upstream {
    let listener: TcpListener = local();
    let upstream = tcp(listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.write_all(bytes).expect("taken");
        }
    });
    upstream
}

#[test]
fn a_server_that_speaks_no_tls_is_refused() {
    let tls = Some(trust(&certificate(), "upstream.test"));
    let upstream = Upstream { tls, ..serve_bytes(b"SSH-2.0-OpenSSH_9.2\r\n") };
    on_both(
        &upstream,
        "the TLS handshake failed: received corrupt message of type InvalidContentType",
    );
}
