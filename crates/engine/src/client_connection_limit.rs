//! The limit of connections that one client holds at once, over all workers.

use crate::settings::ProxySources;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The part of an address that identifies a client: an IPv4 address, or the first 64 bits of an
/// IPv6 address, because one subscriber has all addresses of such a prefix (RFC 4291 §2.5.1,
/// RFC 6177).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClientKey {
    /// An IPv4 address, also one that was mapped to IPv6.
    Ipv4(Ipv4Addr),
    /// The prefix of an IPv6 address.
    Ipv6Prefix([u8; 8]),
}

impl ClientKey {
    pub(crate) fn of(peer: SocketAddr) -> Self {
        match peer.ip().to_canonical() {
            IpAddr::V4(address) => Self::Ipv4(address),
            IpAddr::V6(address) => {
                let [prefix, _host] = *address.octets().as_chunks::<8>().0 else { unreachable!() };
                Self::Ipv6Prefix(prefix)
            }
        }
    }
}

/// The connections of each client, if their number is limited.
pub(crate) struct ClientLimit {
    /// The maximum number of connections of one client; `None` is no limit.
    max: Option<u32>,
    /// Proxies, whose connections carry requests of many clients and are not limited.
    trusted_proxies: Option<ProxySources>,
    /// The number of connections of each client, by worker. There is a map for each worker, so that
    /// the connections of one that has panicked are forgotten together.
    workers: Box<[Mutex<HashMap<ClientKey, u32>>]>,
}

impl ClientLimit {
    pub(crate) fn new(
        max: Option<u32>,
        trusted_proxies: Option<ProxySources>,
        workers: usize,
    ) -> Self {
        Self { max, trusted_proxies, workers: (0..workers).map(|_| Mutex::default()).collect() }
    }

    /// Counts a connection of `peer` that `worker` has accepted. Returns false, and counts nothing,
    /// if the client holds as many as it may, or if no memory is left to count it. Two workers that
    /// ask at the same time for the last one may both be refused, but never both succeed.
    ///
    /// Clients on Unix sockets have no address and are not limited, nor are trusted proxies.
    pub(crate) fn admit(&self, worker: u16, peer: Option<SocketAddr>) -> bool {
        let Some((max, key)) = self.limit_of(peer) else { return true };
        {
            let mut connections = self.connections_of(worker);
            if connections.try_reserve(1).is_err() {
                return false;
            }
            *connections.entry(key).or_default() += 1;
        }
        let of_worker = |worker| self.connections_of(worker as u16).get(&key).copied();
        let held: u32 = (0..self.workers.len()).filter_map(of_worker).sum();
        if held > max {
            self.leave(worker, peer);
        }
        held <= max
    }

    /// Counts the end of a connection of `peer` on `worker`.
    pub(crate) fn leave(&self, worker: u16, peer: Option<SocketAddr>) {
        let Some((_, key)) = self.limit_of(peer) else { return };
        if let Entry::Occupied(mut held) = self.connections_of(worker).entry(key) {
            *held.get_mut() -= 1;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }

    /// Returns how many connections a client may hold, and its key; `None` if it is not limited.
    #[inline]
    fn limit_of(&self, peer: Option<SocketAddr>) -> Option<(u32, ClientKey)> {
        let (max, address) = (self.max?, peer?);
        let is_proxy = self.trusted_proxies.as_ref().is_some_and(|proxies| proxies.contains(peer));
        (!is_proxy).then(|| (max, ClientKey::of(address)))
    }

    /// Forgets all connections of a worker that has ended.
    pub(crate) fn leave_all(&self, worker: u16) {
        self.connections_of(worker).clear();
    }

    fn connections_of(&self, worker: u16) -> MutexGuard<'_, HashMap<ClientKey, u32>> {
        self.workers[usize::from(worker)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(text.parse().expect("an address"), 1))
    }

    #[test]
    fn trusted_proxies_are_not_limited() {
        let proxy = peer("192.0.2.1");
        let proxies = ProxySources::new(move |address| address == proxy);
        let limit = ClientLimit::new(Some(1), Some(proxies), 1);
        assert!((0..10).all(|_| limit.admit(0, proxy)));
        (0..10).for_each(|_| limit.leave(0, proxy));
        assert!(limit.admit(0, peer("192.0.2.2")) && !limit.admit(0, peer("192.0.2.2")));
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_an_ipv6_prefix() {
        let key = |text| ClientKey::of(peer(text).expect("an address"));
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
    }

    #[test]
    fn the_limit_of_a_client_counts_over_all_workers() {
        let limit = ClientLimit::new(Some(2), None, 2);
        let client = peer("192.0.2.1");
        assert!(limit.admit(0, client) && limit.admit(1, client));
        assert!(!limit.admit(0, client) && !limit.admit(1, client));
        assert!(limit.admit(0, peer("192.0.2.2")), "another client");
        assert!((0..9).all(|_| limit.admit(0, None)), "Unix sockets");
        limit.leave(0, None);
        limit.leave(0, client);
        assert!(limit.admit(1, client) && !limit.admit(0, client));
        limit.leave_all(1);
        assert!(limit.admit(0, client) && limit.admit(0, client) && !limit.admit(0, client));
        let left = limit.workers.iter().map(|worker| worker.lock().expect("a map").len());
        assert_eq!(left.sum::<usize>(), 2, "nothing is kept of refused connections");
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let limit = ClientLimit::new(None, None, 1);
        assert!((0..9).all(|_| limit.admit(0, peer("192.0.2.1"))));
        assert!(limit.workers[0].lock().expect("a map").is_empty());
    }

    #[test]
    fn threads_never_admit_more_than_the_limit() {
        use std::sync::atomic::{AtomicU32, Ordering};
        const MAX: u32 = 3;
        let (limit, held) = (ClientLimit::new(Some(MAX), None, 4), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (limit, held) = (&limit, &held);
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        if limit.admit(worker, peer("192.0.2.1")) {
                            assert!(held.fetch_add(1, Ordering::SeqCst) < MAX);
                            held.fetch_sub(1, Ordering::SeqCst);
                            limit.leave(worker, peer("192.0.2.1"));
                        }
                    }
                });
            }
        });
    }
}
