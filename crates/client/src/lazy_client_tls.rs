//! TLS settings that are made when a connection needs them first, since that may read the root
//! certificates of the system.

use std::sync::OnceLock;

use crate::client_tls::{ClientTls, ClientTlsError, ServerTrust};

/// TLS settings, made when they are needed first.
#[derive(Debug)]
pub struct LazyClientTls {
    trust: ServerTrust,
    alpn: &'static [&'static [u8]],
    made: OnceLock<ClientTls>,
}

impl LazyClientTls {
    /// Says what the settings will be; the parameters are those of [`ClientTls::new`].
    #[must_use]
    pub fn new(trust: ServerTrust, alpn: &'static [&'static [u8]]) -> Self {
        Self { trust, alpn, made: OnceLock::new() }
    }

    /// Returns which servers are trusted.
    #[must_use]
    pub fn trust(&self) -> &ServerTrust {
        &self.trust
    }

    /// Returns the settings. The first call makes them, which may read files.
    ///
    /// # Errors
    /// See [`ClientTls::new`]. The next call tries again, as root certificates may be installed
    /// meanwhile.
    pub fn get(&self) -> Result<&ClientTls, ClientTlsError> {
        if let Some(tls) = self.made.get() {
            return Ok(tls);
        }
        let tls = ClientTls::new(&self.trust, self.alpn)?;
        Ok(self.made.get_or_init(|| tls))
    }

    /// Returns whether the settings were needed.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.made.get().is_some()
    }
}
