//! The common settings of a TLS listener's connections.

use std::ops::Range;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, RootCertStore};
use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::TlsConfig;
use super::certificate::{CertificateError, certificates};
use super::certificate_resolver::CertificateStore;
use super::client_hello::{Choice, choice};
use super::invalid_server_name;
use super::tickets::Tickets;
use crate::limits::TLS13_TICKETS;
use crate::settings::Protocols;

/// The authorities of which clients must have a certificate.
#[derive(Debug, Clone)]
pub struct ClientAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The reason why there are no settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TlsError {
    /// An error in the certificates of the authorities.
    #[error(transparent)]
    Authorities(#[from] CertificateError),
    /// A certificate that is none of an authority; the number is its position in the file, from 1.
    #[error("certificate {0} of the file cannot be used as that of an authority")]
    NoAuthority(usize),
    /// An unexpected error of the cryptographic library.
    #[error("TLS cannot be set up: {0}")]
    Library(String),
}

impl ClientAuthorities {
    /// Reads the authorities' certificates from PEM.
    ///
    /// # Errors
    /// Returns a phrase that follows the name of the file.
    pub fn from_pem(text: &[u8]) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for (der, number) in certificates(text)?.into_iter().zip(1..) {
            let vouches = vouches(&der);
            let added = roots.add(der).is_ok();
            (vouches && added).then_some(()).ok_or(TlsError::NoAuthority(number))?;
        }
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().map_err(|error| TlsError::Library(error.to_string()))?;
        Ok(Self { verifier })
    }
}

/// Returns whether a certificate can authenticate a client: as an authority, or itself, if it is
/// self-signed. With that of a client or a server alone, given by mistake, all clients would be
/// refused without a reason.
fn vouches(der: &[u8]) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, certificate)| {
        certificate.is_ca() || certificate.subject() == certificate.issuer()
    })
}

/// The settings that suit a client.
pub(crate) struct Suiting<'a> {
    pub(crate) settings: &'a Arc<rustls::ServerConfig>,
    /// The position of the name, in the first record after its header, if it is to be hidden.
    pub(super) hidden: Option<Range<usize>>,
}

impl TlsConfig {
    /// Creates the settings of a listener. With `clients`, clients without a certificate of these
    /// authorities are refused, at each connection: there are no tickets.
    ///
    /// # Errors
    /// Returns [`TlsError::Library`].
    pub fn new(
        store: &Arc<CertificateStore>,
        tickets: &Arc<Tickets>,
        protocols: Protocols,
        clients: Option<&ClientAuthorities>,
    ) -> Result<Self, TlsError> {
        Self::speaking(&alpn(protocols), store, tickets, clients)
    }

    /// Creates the settings of a QUIC listener: TLS 1.3 inside QUIC, with HTTP/3 as its protocol
    /// (RFC 9114 §3.1).
    ///
    /// # Errors
    /// Returns [`TlsError::Library`].
    pub fn for_quic(
        store: &Arc<CertificateStore>,
        tickets: &Arc<Tickets>,
        clients: Option<&ClientAuthorities>,
    ) -> Result<Self, TlsError> {
        Self::speaking(&[b"h3".to_vec()], store, tickets, clients)
    }

    fn speaking(
        alpn: &[Vec<u8>],
        store: &Arc<CertificateStore>,
        tickets: &Arc<Tickets>,
        clients: Option<&ClientAuthorities>,
    ) -> Result<Self, TlsError> {
        let settings = |provider| -> Result<_, TlsError> {
            let mut config = common(provider, store, tickets, clients)?;
            config.alpn_protocols = alpn.to_vec();
            Ok(config)
        };
        let mut aes_first = settings(short_keys_first())?;
        aes_first.ignore_client_order = true;
        let by_client = Arc::new(settings(default_provider())?);
        let hidden_name = Arc::new(settings(invalid_server_name::provider(default_provider()))?);
        Ok(Self { by_client, aes_first: Arc::new(aes_first), hidden_name })
    }

    /// Returns the settings for a client whose first bytes are `input`, or `None` as long as the
    /// bytes do not suffice. All clients of a kind get the same, since a session is resumed with
    /// the suite that it had.
    pub(crate) fn suiting(&self, input: &[u8]) -> Option<Suiting<'_>> {
        Some(match choice(input)? {
            Choice::ByClient => Suiting { settings: &self.by_client, hidden: None },
            Choice::AesFirst => Suiting { settings: &self.aes_first, hidden: None },
            Choice::HiddenName(place) => {
                Suiting { settings: &self.hidden_name, hidden: Some(place) }
            }
        })
    }
}

/// Returns a provider with AES-128 suites in front of those with AES-256: neither can be broken,
/// and SHA-384, which belongs to the longer keys, takes a good part of a handshake on processors
/// without instructions for it.
fn short_keys_first() -> CryptoProvider {
    let mut provider = default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        !matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        )
    });
    provider
}

fn common(
    provider: CryptoProvider,
    store: &Arc<CertificateStore>,
    tickets: &Arc<Tickets>,
    clients: Option<&ClientAuthorities>,
) -> Result<rustls::ServerConfig, TlsError> {
    // X25519MLKEM768 is in front.
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&TLS13, &TLS12]);
    let builder = builder.map_err(|error| TlsError::Library(error.to_string()))?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(&clients.verifier)),
        None => builder.with_no_client_auth(),
    };
    let resolver = Arc::<CertificateStore>::clone(store);
    let mut config = builder.with_cert_resolver(resolver);
    // Sessions are kept in tickets, in the memory of clients.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if clients.is_some() {
        // A resumed session keeps the identity of the client, and each one gives the ticket of the
        // next: an expired certificate would be valid for ever.
        config.send_tls13_tickets = 0;
    } else {
        config.ticketer = Arc::<Tickets>::clone(tickets);
        config.send_tls13_tickets = TLS13_TICKETS;
    }
    Ok(config)
}

/// Returns the ALPN protocols by preference (RFC 7301).
fn alpn(protocols: Protocols) -> Vec<Vec<u8>> {
    let mut offered = Vec::new();
    if protocols.http2 {
        offered.push(b"h2".to_vec());
    }
    if protocols.http1 {
        offered.push(b"http/1.1".to_vec());
        // `curl --http1.0` offers this protocol alone.
        offered.push(b"http/1.0".to_vec());
    }
    offered
}
