//! The times at which the next request of each client is due, for limits of rate. The table is
//! shared by all workers.
//!
//! The table has a fixed size. A client has its place in one of many sets, which is found by a hash
//! with a random key. When all places of a set are taken by clients that are not forgotten yet, a
//! new client gets the place of the one whose next request is due first, together with that time.
//! So a client that is pushed out of the table gains nothing: the time that it finds when it comes
//! back is never earlier than its own was. The cost is that clients beyond the size of the table
//! share a limit with others.

use pinion_http::gcra::{Admission, RateLimit};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Places of a set. They lie in two lines of the cache.
const SET_PLACES: usize = 8;

/// Locks of the table: workers rarely meet at the same one.
const SHARDS: usize = 64;

/// The table.
pub(crate) struct RateTable {
    keys: RandomState,
    /// Sets of each shard, once it has a client.
    sets: usize,
    shards: Box<[Mutex<Vec<Set>>]>,
}

type Set = [ClientRate; SET_PLACES];

/// The state of a client; all zero for a free entry.
#[derive(Clone, Copy, Default)]
struct ClientRate {
    client: u64,
    due_ns: u64,
}

/// The part of an address that identifies a client: an IPv4 address, or the first 64 bits of an
/// IPv6 address, because one subscriber has all addresses of such a prefix (RFC 4291 §2.5.1,
/// RFC 6177). Clients on Unix sockets are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientPrefix {
    Ipv4([u8; 4]),
    Ipv6([u8; 8]),
    Unix,
}

impl ClientPrefix {
    /// Returns that of an address.
    pub(crate) fn of(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            None => Self::Unix,
            Some(IpAddr::V4(address)) => Self::Ipv4(address.octets()),
            Some(IpAddr::V6(address)) => {
                let [prefix, _host] = *address.octets().as_chunks::<8>().0 else { unreachable!() };
                Self::Ipv6(prefix)
            }
        }
    }
}

impl RateTable {
    /// Makes a table for so many clients.
    pub(crate) fn new(clients_max: usize) -> Self {
        let sets = clients_max.div_ceil(SHARDS * SET_PLACES);
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { keys: RandomState::new(), sets, shards }
    }

    /// Returns the bytes of a table for so many clients, once it is full.
    pub(crate) const fn bytes(clients_max: usize) -> usize {
        let sets = clients_max.div_ceil(SHARDS * SET_PLACES);
        SHARDS * (size_of::<Mutex<Vec<Set>>>() + sets * size_of::<Set>())
    }

    /// Decides about a request of a client. `scope` is the number of the limit.
    ///
    /// # Errors
    /// The request is over the limit; in so many nanoseconds one will be within it.
    pub(crate) fn admit(
        &self,
        limit: &RateLimit,
        (scope, client): (u64, ClientPrefix),
        now_ns: u64,
    ) -> Result<(), u64> {
        let hash = self.keys.hash_one((scope, client));
        let mut shard = self.shard(hash);
        if shard.is_empty() {
            shard.reserve_exact(self.sets);
            shard.resize(self.sets, Set::default());
        }
        let Some(place) = place_in(set_of(&mut shard, hash), hash, now_ns) else { return Ok(()) };
        // Another limit may let its clients run further ahead.
        let due_ns = place.due_ns.min(limit.due_max_ns(now_ns));
        match limit.admit(due_ns, now_ns) {
            Admission::Admitted { due_ns } => {
                *place = ClientRate { client: hash, due_ns };
                Ok(())
            }
            Admission::Refused { wait_ns } => Err(wait_ns),
        }
    }

    /// Takes a request back that was admitted.
    pub(crate) fn refund(&self, limit: &RateLimit, (scope, client): (u64, ClientPrefix)) {
        let hash = self.keys.hash_one((scope, client));
        let mut shard = self.shard(hash);
        let found = set_of(&mut shard, hash)
            .and_then(|set| set.iter_mut().find(|place| place.client == hash));
        if let Some(place) = found {
            place.due_ns = limit.refund(place.due_ns);
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Vec<Set>> {
        let shard = &self.shards[(hash as usize) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set_of(shard: &mut [Set], hash: u64) -> Option<&mut Set> {
    let count = shard.len().max(1);
    shard.get_mut((hash >> 32) as usize % count)
}

/// Returns the place of a client: its own, or the one that it gets.
fn place_in(set: Option<&mut Set>, client: u64, now_ns: u64) -> Option<&mut ClientRate> {
    let set = set?;
    let own = set.iter().position(|place| place.client == client);
    let at = own.or_else(|| {
        let earliest = set.iter().enumerate().min_by_key(|(_, place)| place.due_ns)?;
        Some(earliest.0)
    })?;
    let place = set.get_mut(at)?;
    if own.is_none() && place.due_ns <= now_ns {
        // The client that it belonged to is forgotten.
        place.due_ns = 0;
    }
    Some(place)
}

#[cfg(test)]
mod tests;
