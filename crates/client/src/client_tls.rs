//! TLS settings of outgoing connections. Servers are always verified: against the root certificates
//! of the system, against authorities of one's own, or by pins.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use thiserror::Error;

use crate::certificate_pin::{CertificatePin, PinVerifier};
use crate::limits::TLS_SESSIONS_MAX;
use crate::system_roots::{NoSystemRoots, system_roots};

/// The servers that are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTrust {
    /// Servers with a certificate that is signed by a root certificate of the system.
    SystemRoots,
    /// Servers with a certificate that is signed by one of these authorities, and no others.
    Authorities(ServerAuthorities),
    /// Servers whose certificate or public key has one of these pins. Their names, the dates of
    /// their certificates and the authorities do not count: the operator has chosen the key.
    Pins(Vec<CertificatePin>),
}

/// Certificates of authorities, such as those of a company.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAuthorities {
    certificates: Vec<CertificateDer<'static>>,
}

/// The reason why there are no TLS settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientTlsError {
    /// The file of authorities is damaged.
    #[error("damaged PEM file: {0}; copy the file again")]
    DamagedPem(String),
    /// The file of authorities has no certificate.
    #[error("has no certificate (-----BEGIN CERTIFICATE-----)")]
    NoCertificate,
    /// A certificate that cannot be that of an authority; the number is its position in the file,
    /// from 1.
    #[error("certificate {0} of the file cannot be used as that of an authority")]
    NoAuthority(usize),
    /// There are no pins, so no server would be trusted.
    #[error("the list of pins is empty; add the pin of a certificate or of a public key")]
    NoPins,
    /// The system has no root certificates.
    #[error(transparent)]
    NoSystemRoots(#[from] NoSystemRoots),
    /// An unexpected error of the cryptographic library.
    #[error("TLS cannot be set up: {0}")]
    Library(String),
}

/// TLS settings. Clones share them, and the sessions that can be resumed.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    identity: TlsIdentity,
    server_name: Option<ServerName<'static>>,
}

/// The identity of TLS settings: connections are shared only between requests with equal ones.
/// Equal settings have equal identities, also after a reload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TlsIdentity([u8; 32]);

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "TlsIdentity({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.identity.fmt(f)
    }
}

impl ServerAuthorities {
    /// Reads certificates in PEM (RFC 7468).
    ///
    /// # Errors
    /// Fails if there is none, or one cannot be used. Each message follows the name of the file.
    pub fn from_pem(text: &[u8]) -> Result<Self, ClientTlsError> {
        let certificates = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
        let certificates =
            certificates.map_err(|error| ClientTlsError::DamagedPem(error.to_string()))?;
        if certificates.is_empty() {
            return Err(ClientTlsError::NoCertificate);
        }
        let authorities = Self { certificates };
        authorities.roots()?;
        Ok(authorities)
    }

    fn roots(&self) -> Result<RootCertStore, ClientTlsError> {
        let mut roots = RootCertStore::empty();
        for (certificate, number) in self.certificates.iter().zip(1..) {
            let added = roots.add(certificate.clone());
            added.map_err(|_| ClientTlsError::NoAuthority(number))?;
        }
        Ok(roots)
    }
}

impl ClientTls {
    /// Creates settings with these ALPN protocols (RFC 7301), the best one first; without any, the
    /// extension is not sent.
    ///
    /// The root certificates of the system are read when they are needed first, and then kept for
    /// all settings.
    ///
    /// # Errors
    /// Fails if the system has no root certificates, or no server would be trusted.
    pub fn new(trust: &ServerTrust, alpn: &[&[u8]]) -> Result<Self, ClientTlsError> {
        let provider = provider();
        let verifier = verifier(trust, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&TLS13, &TLS12]).map_err(library)?;
        // The verifiers of this crate, none of which accepts everything.
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        config.resumption = Resumption::in_memory_sessions(TLS_SESSIONS_MAX);
        let identity = TlsIdentity::of(trust, alpn, None);
        Ok(Self { config: Arc::new(config), identity, server_name: None })
    }

    /// Returns the settings for connections of rustls. The name of the server is that of
    /// [`crate::connect_target::ConnectTarget::tls_server_name`].
    #[must_use]
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Returns the identity of these settings.
    #[must_use]
    pub fn identity(&self) -> TlsIdentity {
        self.identity
    }

    /// Returns settings with which a server has this name, regardless of the URL: it is sent in the
    /// handshake (SNI, RFC 6066 §3), and the certificate has to be valid for it.
    #[must_use]
    pub(crate) fn named(
        self,
        trust: &ServerTrust,
        alpn: &[&[u8]],
        server_name: ServerName<'static>,
    ) -> Self {
        let identity = TlsIdentity::of(trust, alpn, Some(&server_name));
        Self { identity, server_name: Some(server_name), ..self }
    }

    /// Returns the name that servers have regardless of the URL, if there is one.
    #[must_use]
    pub fn server_name(&self) -> Option<&ServerName<'static>> {
        self.server_name.as_ref()
    }
}

/// Returns the cryptography of outgoing connections. The features of rustls in the manifest of the
/// workspace decide the library, for servers and clients alike.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn verifier(
    trust: &ServerTrust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, ClientTlsError> {
    let roots = match trust {
        ServerTrust::SystemRoots => system_roots()?,
        ServerTrust::Authorities(authorities) => Arc::new(authorities.roots()?),
        ServerTrust::Pins(pins) if pins.is_empty() => return Err(ClientTlsError::NoPins),
        ServerTrust::Pins(pins) => {
            let algorithms = provider.signature_verification_algorithms;
            return Ok(Arc::new(PinVerifier::new(pins, algorithms)));
        }
    };
    let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
    Ok(builder.build().map_err(library)?)
}

fn library(error: impl fmt::Display) -> ClientTlsError {
    ClientTlsError::Library(error.to_string())
}

impl TlsIdentity {
    fn of(trust: &ServerTrust, alpn: &[&[u8]], server_name: Option<&ServerName<'static>>) -> Self {
        let mut hash = Context::new(&SHA256);
        // Each part follows its length, so that no two settings have the same bytes.
        let mut add = |part: &[u8]| {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        match trust {
            ServerTrust::SystemRoots => add(b"system"),
            ServerTrust::Authorities(authorities) => {
                add(b"authorities");
                authorities.certificates.iter().for_each(|certificate| add(certificate));
            }
            ServerTrust::Pins(pins) => {
                add(b"pins");
                pins.iter().for_each(|pin| add(pin.to_string().as_bytes()));
            }
        }
        add(b"alpn");
        alpn.iter().for_each(|protocol| add(protocol));
        if let Some(name) = server_name {
            add(b"server name");
            add(name.to_str().as_bytes());
        }
        let mut identity = [0; 32];
        for (to, from) in identity.iter_mut().zip(hash.finish().as_ref()) {
            *to = *from;
        }
        Self(identity)
    }
}

/// Returns the message for a failed handshake: the reason, and the remedy.
#[must_use]
pub fn handshake_message(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(reason) = error else {
        return format!("the TLS handshake has failed: {error}");
    };
    match reason {
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = if presented.is_empty() { "no name".into() } else { presented.join(", ") };
            let names =
                names.replace("DnsName(", "").replace("IpAddress(", "").replace(['"', ')'], "");
            format!(
                "the certificate of the server is not for {}, but for {names}",
                expected.to_str()
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of the server has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate of the server is not valid yet; check the clock of this machine"
                .to_owned()
        }
        CertificateError::UnknownIssuer => {
            "the certificate of the server is from an unknown authority; if it is one of your own, \
             name the file with its certificate"
                .to_owned()
        }
        CertificateError::BadSignature => {
            "the certificate of the server, or its part of the handshake, has a wrong signature"
                .to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the certificate of the server is self-signed, as that of an authority; to trust this \
             server alone, give its fingerprint (fetch-pin)"
                .to_owned()
        }
        CertificateError::Other(other) => other.to_string(),
        reason => format!("the certificate of the server is refused: {reason}"),
    }
}

#[cfg(test)]
mod tests;
