//! The resources that a proxy holds, for tests: all of them are released when its requests have
//! ended.

use super::Proxy;

/// The resources that a proxy holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyHoldings {
    /// Requests of clients that have not ended.
    pub exchanges: usize,
    /// Requests to upstream servers that have not ended, those of health checks included.
    pub requests: usize,
    /// Connections to upstream servers, those of tunnels not included.
    pub connections: usize,
    /// Tunnels.
    pub tunnels: usize,
}

impl Proxy {
    /// Returns the resources that it holds.
    #[must_use]
    pub fn holdings(&self) -> ProxyHoldings {
        let (requests, connections) = self.client.holdings();
        let exchanges = self.exchanges.len().max(self.requests.len());
        ProxyHoldings { exchanges, requests, connections, tunnels: self.tunnels.count() }
    }
}
