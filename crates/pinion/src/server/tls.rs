//! What encrypts: certificates, ticket keys and what each listener makes of them. Opened before any
//! thread starts; [`keeper`] takes up changed files afterwards.

mod keeper;

use crate::certificate_files::{client_authorities, first_host, shown};
use crate::failure::Failure;
use crate::self_signed;
use crate::settings::{
    CanonicalHost, CertificateFiles, Certificates, Listen, SelfSignedKey, Serve,
};
use anyhow::anyhow;
use pinion_engine::stderr;
use pinion_engine::tls::TlsConfig;
use pinion_engine::tls::certificates::Certificate;
use pinion_engine::tls::config::ClientAuthorities;
use pinion_engine::tls::resolver::CertificateStore;
use pinion_engine::tls::tickets::{TicketKey, Tickets};
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use keeper::{Keeper, Wish};

/// What encrypts the connections of a server.
pub(crate) struct Tls {
    /// Those that are served, with where they came from; never empty.
    loaded: Vec<(CertificateFiles, Certificate)>,
    /// What has to be made anew before its time is over.
    own: Option<(SelfSignedKey, Option<PathBuf>)>,
    store: Arc<CertificateStore>,
    tickets: Arc<Tickets>,
}

impl Tls {
    /// Reads certificates, and makes one where there is none. `None` for a server without TLS
    /// listeners. With `ticket_keys` that another process had, its tickets stay good.
    ///
    /// # Errors
    /// One line that names the file.
    pub(crate) fn open(
        settings: &Serve,
        ticket_keys: Vec<TicketKey>,
    ) -> Result<Option<Self>, Failure> {
        if !settings.listen.iter().any(|listen| listen.kind.is_secured()) {
            return Ok(None);
        }
        let (files, own) = match &settings.tls.certificates {
            Certificates::Files(files) => (files.clone(), None),
            Certificates::SelfSigned { key, state } => {
                (vec![self_signed::files(*key, state.as_deref())?], Some((*key, state.clone())))
            }
        };
        let mut loaded = Vec::new();
        for files in files {
            let certificate = files.load()?;
            tell(&files, &certificate, own.is_some());
            loaded.push((files, certificate));
        }
        let certificates: Vec<Certificate> =
            loaded.iter().map(|(_, certificate)| certificate.clone()).collect();
        let store = Arc::new(CertificateStore::new(&certificates));
        let tickets = Tickets::new(ticket_keys);
        let tickets = tickets.map_err(|_| anyhow!("the system has no random bytes"))?;
        Ok(Some(Self { loaded, own, store, tickets: Arc::new(tickets) }))
    }

    /// What a listener's connections have in common.
    ///
    /// # Errors
    /// One line that names the file with the authorities of clients.
    pub(crate) fn config(&self, listen: &Listen) -> Result<TlsConfig, Failure> {
        let clients: Option<ClientAuthorities> =
            listen.client_ca.as_deref().map(client_authorities).transpose()?;
        let protocols = listen.protocols.tcp;
        let config = TlsConfig::new(&self.store, &self.tickets, protocols, clients.as_ref());
        Ok(config.map_err(anyhow::Error::from)?)
    }

    /// What a listener's connections over QUIC have in common.
    ///
    /// # Errors
    /// As [`Self::config`].
    pub(crate) fn quic_config(&self, listen: &Listen) -> Result<TlsConfig, Failure> {
        let clients: Option<ClientAuthorities> =
            listen.client_ca.as_deref().map(client_authorities).transpose()?;
        let config = TlsConfig::for_quic(&self.store, &self.tickets, clients.as_ref());
        Ok(config.map_err(anyhow::Error::from)?)
    }

    /// Where redirects lead: `https://` and a host, with a port if it is not the usual one. `port`
    /// is that of the first TLS listener.
    ///
    /// # Errors
    /// No certificate names a host.
    pub(crate) fn origin(
        &self,
        canonical: Option<&CanonicalHost>,
        port: Option<u16>,
    ) -> Result<String, Failure> {
        let (host, given) = match canonical {
            Some(CanonicalHost { host, port }) => (host.as_str(), *port),
            None => {
                let first = self.loaded.first().and_then(|(_, first)| first_host(first));
                let missing = || {
                    Failure::usage(
                        "--redirect-http leads nowhere: the first certificate names no host; \
                         name one by --canonical-host",
                    )
                };
                (first.ok_or_else(missing)?, None)
            }
        };
        Ok(match given.or(port) {
            Some(443) | None => format!("https://{host}"),
            Some(port) => format!("https://{host}:{port}"),
        })
    }

    /// Starts what takes up changed files.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn keep(self) -> std::io::Result<Keeper> {
        Keeper::start(self)
    }
}

/// What is to be known about a certificate that is served from now on.
fn tell(files: &CertificateFiles, certificate: &Certificate, is_own: bool) {
    if let Some(warning) = files.warning(certificate) {
        stderr::line(format_args!("pinion: {warning}"));
    }
    if is_own {
        stderr::line(format_args!(
            "self-signed certificate {}, SHA-256 {}",
            self_signed::for_clients(&files.cert).display(),
            shown(certificate.fingerprint())
        ));
    }
}
