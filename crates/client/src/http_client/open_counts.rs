//! The resources that a client holds, for tests: all of them are gone when its requests have ended.

use std::collections::HashMap;

use super::HttpClient;
use super::connection_pool_key::RequestKey;

impl HttpClient {
    /// Returns the number of requests that have not ended, and of connections.
    #[must_use]
    pub fn holdings(&self) -> (usize, usize) {
        (self.requests.len(), self.connections.len() + self.opening.len())
    }

    /// Returns the number of connections to the target that has most of them, including those that
    /// are being opened. It is never more than
    /// [`connections_per_key_max`](crate::connection_pool::PoolSettings::connections_per_key_max)
    /// for a target with one address.
    #[must_use]
    pub fn most_connections(&self) -> usize {
        let open = self.connections.values().map(|connection| &connection.key);
        let opening = self.opening.values().filter_map(|id| self.requests.get(id));
        let mut counts: HashMap<&RequestKey, usize> = HashMap::new();
        for key in open.chain(opening.map(|pending| &pending.key)) {
            *counts.entry(key).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }
}
