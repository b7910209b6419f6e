//! A certificate and its key, as files. What is wrong with them is one line that names the file.

use crate::calendar;
use crate::failure::{Failure, without_number};
use crate::settings::CertificateFiles;
use pinion_engine::tls::certificates::{Certificate, CertificateError, Name};
use pinion_engine::tls::config::{ClientAuthorities, TlsError};
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a file: the authorities of a whole browser have a quarter of it.
const PEM_MAX_BYTES: u64 = 1 << 20;

/// A file that cannot be used, and why.
#[derive(Debug)]
pub(crate) struct BadFile {
    /// As written.
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
        let chain = read(&self.cert)?;
        let key = if self.key == self.cert { chain.clone() } else { read(&self.key)? };
        Certificate::from_pem(&chain, &key).map_err(|error| self.blamed(&error))
    }

    /// What a client will not like about it.
    pub(crate) fn warning(&self, certificate: &Certificate) -> Option<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let file = self.cert.display();
        if now > certificate.not_after() {
            let date = calendar::rfc3339(certificate.not_after());
            return Some(format!(
                "{file}: the certificate has expired on {date}; clients refuse it"
            ));
        }
        if now < certificate.not_before() {
            let date = calendar::rfc3339(certificate.not_before());
            return Some(format!(
                "{file}: the certificate is not valid before {date}; clients refuse it until then"
            ));
        }
        None
    }

    fn blamed(&self, error: &CertificateError) -> BadFile {
        let is_one = self.key == self.cert;
        let why = match error {
            CertificateError::WrongKey if !is_one => {
                format!("the private key is not that of the certificate in {}", self.cert.display())
            }
            CertificateError::NoKey if is_one => {
                format!("{error}, and no other file is named for it (--key)")
            }
            error => error.to_string(),
        };
        let file = if error.is_about_key() { &self.key } else { &self.cert };
        BadFile { file: file.clone(), why }
    }
}

/// Who clients have to have a certificate from.
///
/// # Errors
/// The file cannot be used.
pub(crate) fn client_authorities(file: &Path) -> Result<ClientAuthorities, BadFile> {
    let bad = |error: TlsError| BadFile { file: file.to_owned(), why: error.to_string() };
    ClientAuthorities::from_pem(&read(file)?).map_err(bad)
}

/// The first host that a client can be sent to.
pub(crate) fn first_host(certificate: &Certificate) -> Option<&str> {
    certificate.names().iter().find_map(|name| match name {
        Name::Dns(name) if !name.starts_with("*.") => Some(name.as_str()),
        _ => None,
    })
}

/// `AB:CD:…`, as browsers show it.
pub(crate) fn shown(fingerprint: [u8; 32]) -> String {
    let pairs: Vec<String> = fingerprint.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// The bytes of a regular file, so that a pipe keeps nobody waiting.
fn read(file: &Path) -> Result<Vec<u8>, BadFile> {
    let bad = |why: String| BadFile { file: file.to_owned(), why };
    let cannot =
        |error: io::Error| bad(format!("cannot be read: {}", without_number(&error.to_string())));
    if !fs::metadata(file).map_err(cannot)?.is_file() {
        return Err(bad("is no regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(cannot)?;
    opened.take(PEM_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    match bytes.len() as u64 > PEM_MAX_BYTES {
        true => Err(bad(format!("is larger than {} MiB", PEM_MAX_BYTES >> 20))),
        false => Ok(bytes),
    }
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
