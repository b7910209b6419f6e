//! The step from PEM (RFC 7468) to a certificate with its key. Errors are found here, before a
//! client connects.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::InconsistentKeys;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject, SectionKind, SliceIter};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

/// A certificate that can be served.
#[derive(Debug, Clone)]
pub struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    names: Vec<CertificateName>,
    not_before: i64,
    not_after: i64,
    must_staple: bool,
    has_alternative_names: bool,
}

/// A subject of a certificate (RFC 5280 §4.2.1.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateName {
    /// A host name in lower case, or `*.` and a host name for one label below it.
    Dns(String),
    /// An IP address.
    Ip(IpAddr),
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

/// The reason why there is no certificate. The chain and the key may be in two files; each message
/// is a phrase that follows the name of the file concerned ([`CertificateError::is_about_key`]).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// A file with lines that begin like PEM and are damaged: that of the certificate or of the
    /// key.
    #[error("damaged PEM file: {1}; copy the file again")]
    DamagedPem(PemFile, &'static str),
    /// PEM without a certificate.
    #[error("has no certificate (-----BEGIN CERTIFICATE-----)")]
    NoCertificate,
    /// A certificate that cannot be read; the number is its position in the file, from 1.
    #[error(
        "certificate {0} of the file cannot be read: it is damaged, or not an X.509 certificate of \
         version 3"
    )]
    BadCertificate(usize),
    /// PEM without a key.
    #[error("has no private key (-----BEGIN PRIVATE KEY-----)")]
    NoKey,
    /// A key that needs a password.
    #[error("the private key is encrypted; remove the password with `openssl pkey`")]
    EncryptedKey,
    /// A key of a kind that TLS or its library does not support, or a damaged one.
    #[error(
        "the private key cannot be used: it is damaged, or none of RSA (2048 bits or more), \
         ECDSA on P-256, P-384 or P-521, Ed25519"
    )]
    UnusableKey,
    /// The key of another certificate.
    #[error("the private key does not belong to the certificate")]
    WrongKey,
    /// The key of another certificate of the same chain.
    #[error(
        "the first certificate of the file has to belong to the private key; move certificate {0} \
         of the file to its beginning"
    )]
    WrongOrder(usize),
}

/// The file concerned, of two PEM files; they may be the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PemFile {
    /// The file of the certificate and its chain.
    Certificate,
    /// The file of the private key.
    Key,
}

impl CertificateError {
    /// Returns whether the error concerns the file of the key, if that is another one.
    pub fn is_about_key(&self) -> bool {
        match self {
            Self::NoKey | Self::EncryptedKey | Self::UnusableKey | Self::WrongKey => true,
            Self::DamagedPem(file, _) => *file == PemFile::Key,
            Self::NoCertificate | Self::BadCertificate(_) => false,
            Self::WrongOrder(_) => false,
        }
    }
}

impl Certificate {
    /// Reads a chain, the certificate of the server first, and its key. If both are in one file,
    /// its text is passed twice.
    ///
    /// # Errors
    /// Returns the first error that keeps it from being served. An expired certificate is no error.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain = certificates(chain)?;
        let Facts { names, not_before, not_after, must_staple, has_alternative_names } =
            facts(&chain)?;
        let key = any_supported_type(&private_key(key)?);
        let key = key.map_err(|_| CertificateError::UnusableKey)?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => return Err(mismatch(&certified)),
            // The version is one that no client of today accepts.
            Err(_) => return Err(CertificateError::BadCertificate(1)),
        }
        Ok(Self {
            key: Arc::new(certified),
            names,
            not_before,
            not_after,
            must_staple,
            has_alternative_names,
        })
    }

    /// Returns the names of the certificate, in its own order.
    pub fn names(&self) -> &[CertificateName] {
        &self.names
    }

    /// Returns whether the certificate is valid for `host`, in lower case (RFC 9525 §6.3).
    pub fn names_host(&self, host: &str) -> bool {
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.names.iter().any(|name| match name {
            CertificateName::Dns(name) => {
                name == host || (parent.is_some() && name.strip_prefix("*.") == parent)
            }
            CertificateName::Ip(_) => false,
        })
    }

    /// Returns the first second in which it is valid, in seconds since 1970.
    pub fn not_before(&self) -> i64 {
        self.not_before
    }

    /// Returns the last second in which it is valid, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Returns whether clients that honour it refuse the certificate without an OCSP response (RFC
    /// 7633), which this server does not send.
    pub fn must_staple(&self) -> bool {
        self.must_staple
    }

    /// Returns whether it names hosts as clients read them, in its subject alternative names (RFC
    /// 9525 §2); without them, [`Self::names`] has its common name, which clients ignore.
    pub fn has_alternative_names(&self) -> bool {
        self.has_alternative_names
    }

    /// Returns the SHA-256 of the certificate, as browsers show it.
    pub fn fingerprint(&self) -> [u8; 32] {
        let certificate = self.key.cert.first().map_or(&[][..], |first| first.as_ref());
        sha256(certificate)
    }

    /// Returns whether a client would get the same bytes. The chain is compared too: an
    /// intermediate certificate may be renewed while the first one stays the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }
}

/// Returns the certificates in a PEM file, such as those of authorities that issue client
/// certificates.
///
/// # Errors
/// Fails if there are none, or one cannot be read.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| damaged(PemFile::Certificate, &error))?;
    if found.is_empty() { Err(CertificateError::NoCertificate) } else { Ok(found) }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    for (to, from) in sum.iter_mut().zip(digest(&SHA256, bytes).as_ref()) {
        *to = *from;
    }
    sum
}

/// The facts of a certificate that are needed besides its key.
struct Facts {
    names: Vec<CertificateName>,
    not_before: i64,
    not_after: i64,
    must_staple: bool,
    has_alternative_names: bool,
}

/// Returns the facts of the first certificate of a chain; the others have to be readable.
fn facts(chain: &[CertificateDer<'_>]) -> Result<Facts, CertificateError> {
    let mut facts = Vec::new();
    for (der, number) in chain.iter().zip(1..) {
        let bad = || CertificateError::BadCertificate(number);
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| bad())?;
        if !rest.is_empty() {
            return Err(bad());
        }
        let validity = certificate.validity();
        let (names, has_alternative_names) = names(&certificate).ok_or_else(bad)?;
        facts.push(Facts {
            names,
            has_alternative_names,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            must_staple: must_staple(&certificate),
        });
    }
    facts.into_iter().next().ok_or(CertificateError::NoCertificate)
}

/// Returns whether the extension for TLS features names `status_request` (RFC 7633 §4).
fn must_staple(certificate: &X509Certificate<'_>) -> bool {
    const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";
    /// The integer 5 in DER, as a member of the sequence of features.
    const STATUS_REQUEST: [u8; 3] = [2, 1, 5];
    let mut extensions = certificate.extensions().iter();
    let feature = extensions.find(|extension| extension.oid.to_id_string() == TLS_FEATURE);
    feature.is_some_and(|feature| feature.value.windows(3).any(|der| der == STATUS_REQUEST))
}

/// Returns the names, and whether they are subject alternative names; `None` if the extension is
/// there and cannot be read.
///
/// No client accepts a common name alone as the name of a host any more (RFC 9525 §2); to choose
/// between certificates it is good enough.
fn names(certificate: &X509Certificate<'_>) -> Option<(Vec<CertificateName>, bool)> {
    let mut names = Vec::new();
    let extension = certificate.subject_alternative_name().ok()?;
    for name in extension.iter().flat_map(|extension| &extension.value.general_names) {
        match name {
            GeneralName::DNSName(name) => names.extend(dns_name(name)),
            GeneralName::IPAddress(bytes) => names.extend(ip_address(bytes)),
            _ => {}
        }
    }
    let has_alternative_names = !names.is_empty();
    if !has_alternative_names {
        let common = certificate.subject().iter_common_name();
        let common = common.filter_map(|name| name.as_str().ok()).find_map(dns_name);
        names.extend(common);
    }
    Some((names, has_alternative_names))
}

/// Returns a DNS name that a client can request; any other text has no use.
fn dns_name(text: &str) -> Option<CertificateName> {
    let host = text.strip_prefix("*.").unwrap_or(text);
    let label = |label: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        !label.is_empty() && label.bytes().all(known)
    };
    host.split('.').all(label).then(|| CertificateName::Dns(text.to_ascii_lowercase()))
}

fn ip_address(bytes: &[u8]) -> Option<CertificateName> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok().map(CertificateName::Ip)
}

fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let mut sections = SliceIter::<(SectionKind, Vec<u8>)>::new(text);
    let found = sections.find_map(|section| match section {
        Ok((kind, der)) => PrivateKeyDer::from_pem(kind, der).map(Ok),
        Err(error) => Some(Err(damaged(PemFile::Key, &error))),
    });
    let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    let is_encrypted = |text: &[u8]| {
        // The older format has the name of a plain key, and a field that shows the encryption.
        [&encrypted[..], b"Proc-Type: 4,ENCRYPTED"]
            .iter()
            .any(|mark| text.windows(mark.len()).any(|window| window == *mark))
    };
    match found {
        Some(Ok(_)) | None if is_encrypted(text) => Err(CertificateError::EncryptedKey),
        Some(Err(_)) if is_encrypted(text) => Err(CertificateError::EncryptedKey),
        Some(found) => found,
        None => Err(CertificateError::NoKey),
    }
}

/// Returns the error for a key that belongs to another certificate.
fn mismatch(certified: &CertifiedKey) -> CertificateError {
    let is_its_own = |der: &CertificateDer<'static>| {
        CertifiedKey::new(vec![der.clone()], Arc::clone(&certified.key)).keys_match().is_ok()
    };
    match certified.cert.iter().position(is_its_own) {
        Some(at) => CertificateError::WrongOrder(at + 1),
        None => CertificateError::WrongKey,
    }
}

fn damaged(file: PemFile, error: &pem::Error) -> CertificateError {
    CertificateError::DamagedPem(file, phrase(error))
}

fn phrase(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a -----BEGIN line has no -----END line",
        pem::Error::IllegalSectionStart { .. } => "a -----BEGIN line is damaged",
        pem::Error::Base64Decode(_) => "the text between two lines of dashes is not base64",
        _ => "it cannot be understood",
    }
}
