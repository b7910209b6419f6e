//! Who has sent a request, and how, as the upstream server is told.

use std::net::IpAddr;

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Its address; `None` on a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether its connection is encrypted.
    pub is_secured: bool,
}

impl ClientIdentity {
    /// Returns the scheme of the request.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.is_secured { "https" } else { "http" }
    }
}
