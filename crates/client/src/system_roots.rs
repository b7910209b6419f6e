//! The root certificates of the system.

use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls_native_certs::{CertificateResult, load_native_certs};
use thiserror::Error;

/// The error of a system without root certificates. The field has the reasons, or is empty.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the system has no root certificates{}{}; install the package ca-certificates, or set \
     SSL_CERT_FILE to a PEM file with certificates of authorities, or SSL_CERT_DIR to a folder of \
     such files",
    if .0.is_empty() { "" } else { ": " },
    .0
)]
pub struct NoSystemRoots(String);

/// Returns the root certificates of the system. They are read when they are first needed, from the
/// usual files of Linux systems, or from the file in the variable `SSL_CERT_FILE` and the folder in
/// `SSL_CERT_DIR`. All settings share them.
///
/// # Errors
/// Fails if there are none. The next call tries again, so that they can be installed meanwhile.
pub fn system_roots() -> Result<Arc<RootCertStore>, NoSystemRoots> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let roots = usable(load_native_certs())?;
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}

/// Keeps the certificates that can be used. Some of a system usually cannot: they are of a form
/// that no server uses any more.
fn usable(found: CertificateResult) -> Result<RootCertStore, NoSystemRoots> {
    let mut roots = RootCertStore::empty();
    let (_added, unusable) = roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let mut reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    if unusable > 0 {
        reasons.push(format!("{unusable} certificates cannot be used"));
    }
    Err(NoSystemRoots(reasons.join(", ")))
}
