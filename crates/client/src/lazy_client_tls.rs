//! TLS settings that are created when a connection first needs them, since that may read the root
//! certificates of the system.

use std::sync::OnceLock;

use rustls::pki_types::ServerName;
use thiserror::Error;

use crate::client_tls::{ClientTls, ClientTlsError, ServerTrust};

/// TLS settings, created when they are first needed.
#[derive(Debug)]
pub struct LazyClientTls {
    trust: ServerTrust,
    alpn: &'static [&'static [u8]],
    server_name: Option<ServerName<'static>>,
    made: OnceLock<ClientTls>,
}

/// A text that is not the name of a server in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is neither a host name nor an IP address")]
pub struct ServerNameError(pub String);

impl LazyClientTls {
    /// Sets the parameters of the settings, which are those of [`ClientTls::new`].
    #[must_use]
    pub fn new(trust: ServerTrust, alpn: &'static [&'static [u8]]) -> Self {
        Self { trust, alpn, server_name: None, made: OnceLock::new() }
    }

    /// Sets the name of the server, regardless of the URL: it is sent in the handshake (SNI), and
    /// the certificate has to be valid for it.
    ///
    /// # Errors
    /// Fails if the text is no name.
    pub fn with_server_name(self, name: &str) -> Result<Self, ServerNameError> {
        let server_name = ServerName::try_from(name.to_owned());
        let server_name = server_name.map_err(|_| ServerNameError(name.to_owned()))?;
        Ok(Self { server_name: Some(server_name), made: OnceLock::new(), ..self })
    }

    /// Returns which servers are trusted.
    #[must_use]
    pub fn trust(&self) -> &ServerTrust {
        &self.trust
    }

    /// Returns the settings. The first call creates them, which may read files.
    ///
    /// # Errors
    /// Fails as [`ClientTls::new`] does. The next call tries again, as root certificates may be
    /// installed meanwhile.
    pub fn get(&self) -> Result<&ClientTls, ClientTlsError> {
        if let Some(tls) = self.made.get() {
            return Ok(tls);
        }
        let tls = ClientTls::new(&self.trust, self.alpn)?;
        let tls = match &self.server_name {
            Some(name) => tls.named(&self.trust, self.alpn, name.clone()),
            None => tls,
        };
        Ok(self.made.get_or_init(|| tls))
    }

    /// Returns whether the settings were needed.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.made.get().is_some()
    }
}
