//! A certificate and its key, as files. What is wrong with them is one line that names the file.

use crate::calendar;
use crate::failure::Failure;
use crate::settings::CertificateFiles;
use anyhow::{Context as _, anyhow};
use pinion_engine::tls::certificates::{Certificate, CertificateError, Name};
use pinion_engine::tls::config::ClientAuthorities;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a file: the authorities of a whole browser have a quarter of it.
const PEM_MAX_BYTES: u64 = 1 << 20;

impl CertificateFiles {
    /// Reads them.
    ///
    /// # Errors
    /// One line that names the file.
    pub(crate) fn load(&self) -> Result<Certificate, Failure> {
        let chain = read(&self.cert)?;
        let key = if self.key == self.cert { chain.clone() } else { read(&self.key)? };
        let certificate = Certificate::from_pem(&chain, &key);
        Ok(certificate.map_err(|error| self.blamed(&error))?)
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

    fn blamed(&self, error: &CertificateError) -> anyhow::Error {
        let (cert, key) = (self.cert.display(), self.key.display());
        match error {
            CertificateError::WrongKey if self.key != self.cert => {
                anyhow!("{key}: the private key is not that of the certificate in {cert}")
            }
            CertificateError::NoKey if self.key == self.cert => {
                anyhow!("{cert}: {error}, and no other file is named for it (--key)")
            }
            error if error.is_about_key() => anyhow!("{key}: {error}"),
            error => anyhow!("{cert}: {error}"),
        }
    }
}

/// Who clients have to have a certificate from.
///
/// # Errors
/// One line that names the file.
pub(crate) fn client_authorities(file: &Path) -> Result<ClientAuthorities, Failure> {
    let found = ClientAuthorities::from_pem(&read(file)?);
    Ok(found.map_err(|error| anyhow!("{}: {error}", file.display()))?)
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
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = || format!("{}: cannot be read", file.display());
    let opened = File::open(file).with_context(cannot)?;
    if !opened.metadata().with_context(cannot)?.is_file() {
        return Err(anyhow!("{}: is no regular file", file.display()).into());
    }
    let mut bytes = Vec::new();
    opened.take(PEM_MAX_BYTES + 1).read_to_end(&mut bytes).with_context(cannot)?;
    if bytes.len() as u64 > PEM_MAX_BYTES {
        let most = PEM_MAX_BYTES >> 20;
        return Err(anyhow!("{}: is larger than {most} MiB", file.display()).into());
    }
    Ok(bytes)
}
