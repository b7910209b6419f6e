//! TLS of a server: certificates, ticket keys and the configuration of each listener. It is opened
//! before any thread starts; [`certificate_reloader`] reloads changed files afterwards.

mod certificate_reloader;

use crate::certificate_files::{client_authorities, is_named, redirect_host, shown};
use crate::failure::Failure;
use crate::self_signed;
use crate::settings::{
    CanonicalHost, CertificateFiles, Certificates, Listen, ListenKind, SelfSignedKey, Serve,
};
use crate::warnings_and_notes;
use pinion_engine::tls::TlsConfig;
use pinion_engine::tls::certificate::Certificate;
use pinion_engine::tls::certificate_resolver::CertificateStore;
use pinion_engine::tls::tickets::Tickets;
use std::path::PathBuf;
use std::sync::Arc;

use super::path_state::Look;
use super::reload_report::Reports;
use crate::control::protocol::Message;
use certificate_reloader::look_at;

pub(crate) use certificate_reloader::{Keeper, ServedCertificates, Wish};

/// The TLS state of a server.
pub(crate) struct Tls {
    /// The certificates that are served, with the files they came from; never empty.
    loaded: Vec<(CertificateFiles, Certificate)>,
    /// The states of the files before they were read.
    looks: Vec<[Look; 2]>,
    /// The key and the state folder of our own certificate, which has to be renewed before it
    /// expires.
    own: Option<(SelfSignedKey, Option<PathBuf>)>,
    store: Arc<CertificateStore>,
    /// The shared TLS configuration of the connections of each encrypted listener.
    configs: Vec<(Listen, TlsConfig)>,
    /// The host that redirects lead to; `None` without a listener that redirects.
    leads_to: Option<CanonicalHost>,
}

impl Tls {
    /// Reads everything that encrypts, and makes a certificate where there is none. For a server
    /// with at least one encrypted listener.
    ///
    /// # Errors
    /// One line that names the file, or says that redirects lead nowhere.
    pub(crate) fn open(settings: &Serve, tickets: &Arc<Tickets>) -> Result<Self, Failure> {
        let (files, own) = match &settings.tls.certificates {
            Certificates::Files(files) => (files.clone(), None),
            Certificates::SelfSigned { key } => {
                // Refused before a certificate is made.
                redirects_to(settings, None)?;
                let state = settings.tls.state.clone();
                (vec![self_signed::files(*key, state.as_deref())?], Some((*key, state)))
            }
        };
        let (mut loaded, mut looks) = (Vec::new(), Vec::new());
        for files in files {
            // Loading the sites may take minutes: files that change meanwhile are read again.
            looks.push(look_at(&files));
            let certificate = files.load()?;
            report_certificate(&files, &certificate, own.is_some(), &Reports::default());
            loaded.push((files, certificate));
        }
        let first = loaded.first().map(|(_, first)| first).filter(|_| own.is_none());
        let leads_to = redirects_to(settings, first)?;
        if let Some(canonical) = leads_to.as_ref().filter(|_| own.is_none()) {
            warn_of_unnamed(canonical, loaded.iter().map(|(_, certificate)| certificate));
        }
        let certificates: Vec<Certificate> =
            loaded.iter().map(|(_, certificate)| certificate.clone()).collect();
        let store = Arc::new(CertificateStore::new(&certificates));
        let configs = configs(settings, &store, tickets)?;
        Ok(Self { loaded, looks, own, store, configs, leads_to })
    }

    /// Returns the shared TLS configuration of a listener's connections; `None` for one that does
    /// not encrypt.
    pub(crate) fn config(&self, listen: &Listen) -> Option<TlsConfig> {
        let known = self.configs.iter().find(|(known, _)| known == listen);
        known.map(|(_, config)| config.clone())
    }

    /// Returns where redirects lead, if there are any: `https://` and a host, with a port if it is
    /// not the usual one. `port` is that of the first TLS listener.
    pub(crate) fn origin(&self, port: Option<u16>) -> Option<String> {
        self.leads_to.as_ref().map(|host| origin(host, port))
    }
}

/// Returns the host that redirects to HTTPS lead to; none where no listener redirects. `first` is
/// the first certificate, if the server does not make its own.
///
/// # Errors
/// [`Failure::Usage`]: there is no such host.
fn redirects_to(
    settings: &Serve,
    first: Option<&Certificate>,
) -> Result<Option<CanonicalHost>, Failure> {
    if !settings.has(ListenKind::Redirect) {
        return Ok(None);
    }
    let host = redirect_host(settings.tls.canonical.as_ref(), first);
    host.map(Some)
        .map_err(|why| Failure::usage(format!("--redirect-http {why}; add --canonical-host HOST")))
}

/// Returns the origin that redirects to HTTPS lead to, without a server; `None` where no listener
/// redirects. Of the certificates only the first is read, and none if the host is given.
///
/// # Errors
/// The errors of [`Tls::open`].
pub(crate) fn redirect_origin(settings: &Serve) -> Result<Option<String>, Failure> {
    let first = match &settings.tls.certificates {
        Certificates::Files(files) if settings.has(ListenKind::Redirect) => {
            let is_needed = settings.tls.canonical.is_none();
            files.first().filter(|_| is_needed).map(CertificateFiles::load).transpose()?
        }
        Certificates::Files(_) | Certificates::SelfSigned { .. } => None,
    };
    let host = redirects_to(settings, first.as_ref())?;
    let listener = settings.listen.iter().find(|listen| listen.kind == ListenKind::Tls);
    let port = listener.and_then(|listen| listen.address.port());
    Ok(host.map(|host| origin(&host, port)))
}

fn origin(CanonicalHost { host, port: given }: &CanonicalHost, port: Option<u16>) -> String {
    match given.or(port) {
        Some(443) | None => format!("https://{host}"),
        Some(port) => format!("https://{host}:{port}"),
    }
}

/// Makes the configuration of every encrypted listener. A ticket of one is good at another, but for
/// those that ask clients for certificates: they neither give nor take any.
fn configs(
    settings: &Serve,
    store: &Arc<CertificateStore>,
    tickets: &Arc<Tickets>,
) -> Result<Vec<(Listen, TlsConfig)>, Failure> {
    let mut configs = Vec::new();
    for listen in settings.listen.iter().filter(|listen| listen.kind.is_secured()) {
        let clients = listen.client_ca.as_deref().map(client_authorities).transpose()?;
        let clients = clients.as_ref();
        let config = match listen.kind {
            ListenKind::Quic => TlsConfig::for_quic(store, tickets, clients),
            _ => TlsConfig::new(store, tickets, listen.protocols.tcp, clients),
        };
        configs.push((listen.clone(), config.map_err(anyhow::Error::from)?));
    }
    Ok(configs)
}

/// Warns if no certificate names the host that redirects lead to.
fn warn_of_unnamed<'c>(
    CanonicalHost { host, .. }: &CanonicalHost,
    certificates: impl Iterator<Item = &'c Certificate>,
) {
    if !is_named(host, certificates) {
        warnings_and_notes::warning(format_args!(
            "redirects lead to {host} (--canonical-host), which no certificate names; browsers \
             refuse it"
        ));
    }
}

/// Reports facts about a certificate that is served from now on.
fn report_certificate(
    files: &CertificateFiles,
    certificate: &Certificate,
    is_own: bool,
    reports: &Reports,
) {
    for warning in files.warnings(certificate) {
        reports.log(&Message::warning(warning));
    }
    if is_own {
        reports.log(&Message::info(format!(
            "self-signed certificate {}, SHA-256 {}",
            self_signed::for_clients(&files.cert).display(),
            shown(certificate.fingerprint())
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A redirect omits port 443, whatever setting it comes from (RFC 9110 §4.2.2).
    #[test]
    fn a_redirect_names_the_port_that_is_not_the_usual_one() {
        for (given, bound, expected) in [
            (None, Some(443), "https://a.test"),
            (None, Some(8443), "https://a.test:8443"),
            (None, None, "https://a.test"),
            (Some(443), Some(8443), "https://a.test"),
            (Some(8443), Some(443), "https://a.test:8443"),
        ] {
            let host = CanonicalHost { host: "a.test".to_owned(), port: given };
            assert_eq!(origin(&host, bound), expected, "{given:?} {bound:?}");
        }
    }
}
