//! A certificate and its key, as files. A mistake in them is reported in one line that names the
//! file.

mod wrong_file_kind;

use crate::failure::Failure;
use crate::regular_file;
use crate::settings::{CanonicalHost, CertificateFiles};
use crate::terminal::counted;
use crate::timestamp_format;
use pinion_engine::tls::certificate::{Certificate, CertificateError, CertificateName};
use pinion_engine::tls::config::{ClientAuthorities, TlsError};
use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wrong_file_kind::Role;

/// MiB of a file: the authorities of a whole browser have a quarter of it.
const PEM_MAX_MIB: u64 = 1;

const DAY_SECONDS: i64 = 86_400;

/// Seconds before its end from which on a certificate should have been renewed: certbot renews 30
/// days before the end of 90, so half of that time has gone by without success.
const EXPIRES_SOON_SECONDS: i64 = 14 * DAY_SECONDS;

/// A file that cannot be used, and why.
#[derive(Debug)]
pub(crate) struct BadFile {
    /// The text as written.
    pub(crate) file: PathBuf,
    /// A phrase that follows its name.
    pub(crate) why: String,
}

impl CertificateFiles {
    /// Reads them.
    ///
    /// # Errors
    /// The one to blame.
    pub(crate) fn load(&self) -> Result<Certificate, BadFile> {
        let chain = read(&self.cert, "the certificate")?;
        let is_one = self.key == self.cert;
        let key = if is_one { chain.clone() } else { read(&self.key, "the private key")? };
        Certificate::from_pem(&chain, &key).map_err(|error| {
            let mut bad = self.blamed(&error);
            let foreign = match error {
                CertificateError::NoCertificate => {
                    wrong_file_kind::foreign_kind(&self.cert, &chain, Role::Certificate)
                }
                CertificateError::NoKey if !is_one => {
                    wrong_file_kind::foreign_kind(&self.key, &key, Role::Key)
                }
                _ => None,
            };
            if let Some(foreign_kind) = foreign {
                bad.why = foreign_kind;
            } else if let Some(advice) = advice_on_swapped(&error, &chain, &key) {
                bad.why += advice;
            }
            bad
        })
    }

    /// Returns warnings about properties of the certificate that clients will not like.
    pub(crate) fn warnings(&self, certificate: &Certificate) -> Vec<String> {
        let no_names = (!certificate.has_alternative_names()).then(|| {
            format!(
                "{}: the certificate has no subject alternative name (SAN), and clients refuse \
                 it; order one that has the host as a SAN",
                self.cert.display()
            )
        });
        self.warning(certificate).into_iter().chain(no_names).collect()
    }

    fn warning(&self, certificate: &Certificate) -> Option<String> {
        let now = timestamp_format::unix_seconds(SystemTime::now());
        let file = self.cert.display();
        if now > certificate.not_after() {
            let date = timestamp_format::rfc3339(certificate.not_after());
            return Some(format!("{file}: the certificate expired on {date}; clients refuse it"));
        }
        if now < certificate.not_before() {
            let date = timestamp_format::rfc3339(certificate.not_before());
            return Some(format!(
                "{file}: the certificate is not valid before {date}; clients refuse it until then"
            ));
        }
        if certificate.must_staple() {
            return Some(format!(
                "{file}: the certificate asks for a stapled OCSP response, which this server does \
                 not send; Firefox refuses it, so order one without \"must staple\""
            ));
        }
        None
    }

    /// Returns the warning that the certificate ends soon, so that an operator knows it before
    /// clients notice.
    pub(crate) fn expiry_warning(&self, certificate: &Certificate) -> Option<String> {
        let left_seconds =
            certificate.not_after() - timestamp_format::unix_seconds(SystemTime::now());
        (0..EXPIRES_SOON_SECONDS).contains(&left_seconds).then(|| {
            format!(
                "{}: the certificate expires on {}, in {}; see that it is renewed",
                self.cert.display(),
                timestamp_format::rfc3339(certificate.not_after()),
                counted((left_seconds / DAY_SECONDS) as u64, "day"),
            )
        })
    }

    fn blamed(&self, error: &CertificateError) -> BadFile {
        let is_one = self.key == self.cert;
        let why = match error {
            CertificateError::WrongKey => {
                let (cert, key) = (self.cert.display(), self.key.display());
                let whose = if is_one { String::new() } else { format!(" in {cert}") };
                format!(
                    "the private key does not belong to the certificate{whose}; `openssl x509 \
                     -noout -pubkey -in {cert}` and `openssl pkey -pubout -in {key}` have to print \
                     the same"
                )
            }
            CertificateError::NoKey if is_one => {
                format!("{error}; give the private key with --key")
            }
            CertificateError::EncryptedKey => format!(
                "the private key is encrypted; remove the password: openssl pkey -in {} -out \
                 plain.key",
                self.key.display()
            ),
            error => error.to_string(),
        };
        let file = if error.is_about_key() { &self.key } else { &self.cert };
        BadFile { file: file.clone(), why }
    }
}

/// Returns the advice about a file that holds the content of the other one; it follows the error.
fn advice_on_swapped(error: &CertificateError, chain: &[u8], key: &[u8]) -> Option<&'static str> {
    let holds = |text: &[u8], label: &str| {
        text.windows(label.len()).any(|window| window == label.as_bytes())
    };
    let is_swapped = chain != key && holds(chain, "PRIVATE KEY-----");
    match error {
        CertificateError::NoCertificate if is_swapped && holds(key, "BEGIN CERTIFICATE") => {
            Some("; it is the private key: exchange the files of --cert and --key")
        }
        CertificateError::NoCertificate if is_swapped => {
            Some("; it is a private key: give it to --key, and the certificate to --cert")
        }
        CertificateError::NoKey if chain != key && holds(key, "BEGIN CERTIFICATE") => {
            Some("; it is a certificate: give the file with the private key to --key")
        }
        _ => None,
    }
}

/// Reads the authorities from which clients must have a certificate.
///
/// # Errors
/// The file cannot be used.
pub(crate) fn client_authorities(file: &Path) -> Result<ClientAuthorities, BadFile> {
    let pem = read(file, "the authorities")?;
    ClientAuthorities::from_pem(&pem).map_err(|error| {
        let foreign = match error {
            TlsError::Authorities(CertificateError::NoCertificate) => {
                wrong_file_kind::foreign_kind(file, &pem, Role::Certificate)
            }
            _ => None,
        };
        BadFile { file: file.to_owned(), why: foreign.unwrap_or_else(|| error.to_string()) }
    })
}

/// Returns the host that redirects lead to: the host that was given, or the first that the first
/// certificate names. There is no `first` where the server makes its own certificate: the names of
/// that one are good on this machine alone, and would send all other clients to a server of their
/// own.
///
/// # Errors
/// A phrase that follows the name of the redirecting listener.
pub(crate) fn redirect_host(
    canonical: Option<&CanonicalHost>,
    first: Option<&Certificate>,
) -> Result<CanonicalHost, &'static str> {
    if let Some(canonical) = canonical {
        return Ok(canonical.clone());
    }
    let first = first.ok_or(
        "needs a host to redirect to, and the self-signed certificate is for this machine alone",
    )?;
    let host = first.names().iter().find_map(|name| match name {
        CertificateName::Dns(name) if !name.starts_with("*.") => Some(name.clone()),
        _ => None,
    });
    let host = host.ok_or("needs a host to redirect to, and the first certificate names none")?;
    Ok(CanonicalHost { host, port: None })
}

/// Writes `AB:CD:…`, as browsers show it.
pub(crate) fn shown(fingerprint: [u8; 32]) -> String {
    let pairs: Vec<String> = fingerprint.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// Reads a file that should be PEM; `role` names its content in errors.
fn read(file: &Path, role: &str) -> Result<Vec<u8>, BadFile> {
    let bad = |why| BadFile { file: file.to_owned(), why };
    match file.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(bad(format!("does not exist; give the file of {role}")))
        }
        Ok(metadata) if metadata.is_dir() => Err(bad("is a folder; give a PEM file".to_owned())),
        _ => regular_file::read(file, PEM_MAX_MIB).map_err(bad),
    }
}

/// Returns whether one of these certificates names a host, as a browser compares them. An address
/// is not looked for: clients name none in a handshake (RFC 6066 §3).
pub(crate) fn is_named<'c>(
    host: &str,
    mut certificates: impl Iterator<Item = &'c Certificate>,
) -> bool {
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address || certificates.any(|certificate| certificate.names_host(host))
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

impl Error for BadFile {}

impl From<BadFile> for Failure {
    fn from(bad: BadFile) -> Self {
        Self::Failed(bad.into())
    }
}
