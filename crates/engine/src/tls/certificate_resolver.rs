//! The choice of a client's certificate: by the host it names (SNI, RFC 6066 §3) and the signatures
//! it can check. Every worker uses the same store, so that a reload is one step for all of them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::{Certificate, CertificateName};

/// The certificates of a server.
#[derive(Debug)]
pub struct CertificateStore {
    /// The current certificates: read-locked for a lookup, once a handshake; written by a reload.
    current: RwLock<Arc<Directory>>,
}

impl CertificateStore {
    /// Creates a store with these certificates, the one for clients that name no host first.
    /// Without any, every handshake fails.
    pub fn new(certificates: &[Certificate]) -> Self {
        Self { current: RwLock::new(Arc::new(Directory::new(certificates))) }
    }

    /// Replaces the certificates, for every handshake that begins from now on.
    pub fn replace(&self, certificates: &[Certificate]) {
        let next = Arc::new(Directory::new(certificates));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    fn current(&self) -> Arc<Directory> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current().find(hello.server_name(), hello.signature_schemes())
    }
}

/// Certificates by their names. A host may have several, one for each kind of key.
#[derive(Debug)]
struct Directory {
    certificates: Vec<Arc<CertifiedKey>>,
    exact: HashMap<String, Vec<usize>>,
    /// The certificates by the part of the name after `*.`.
    wildcards: HashMap<String, Vec<usize>>,
}

impl Directory {
    fn new(certificates: &[Certificate]) -> Self {
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        let mut wildcards: HashMap<String, Vec<usize>> = HashMap::new();
        for (certificate, position) in certificates.iter().zip(0..) {
            for name in certificate.names() {
                // SNI holds host names alone (RFC 6066 §3).
                let CertificateName::Dns(name) = name else { continue };
                match name.strip_prefix("*.") {
                    Some(parent) => wildcards.entry(parent.to_owned()).or_default().push(position),
                    None => exact.entry(name.clone()).or_default().push(position),
                }
            }
        }
        let keys = certificates.iter().map(|certificate| Arc::clone(&certificate.key));
        Self { certificates: keys.collect(), exact, wildcards }
    }

    /// Returns the certificate for a host, in this order: that of the host itself, a wildcard that
    /// covers it, the first of all. Of several, it is the first whose key signs in a way that the
    /// client understands; if there is none, the handshake fails.
    fn find(&self, host: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let host = host.map(str::to_ascii_lowercase);
        let named = host.iter().flat_map(|host| {
            let parent = host.split_once('.').map_or("", |(_, parent)| parent);
            [self.exact.get(host), self.wildcards.get(parent)]
        });
        let named = named.flatten().flatten();
        let named: Vec<_> = named.filter_map(|at| self.certificates.get(*at)).collect();
        let is_understood =
            |certificate: &Arc<CertifiedKey>| certificate.key.choose_scheme(schemes).is_some();
        let found = match named.first() {
            Some(first) => named.iter().find(|one| is_understood(one)).unwrap_or(first),
            None => {
                let any = self.certificates.iter().find(|one| is_understood(one));
                any.or(self.certificates.first())?
            }
        };
        Some(Arc::clone(found))
    }
}
