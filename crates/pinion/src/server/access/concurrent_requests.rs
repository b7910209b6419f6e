//! How many requests each client has at once, for limits of that, and which of them one worker has.
//!
//! A request counts until its response has left, or its connection has ended. The engine tells an
//! application that everything which was queued on a connection has left, and not which response
//! that was. So the requests of a connection are looked at then: one that is still open goes on.

use super::rate_table::ClientPrefix;
use pinion_engine::address::Address;
use pinion_engine::connections::Connections;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks of the table: workers rarely meet at the same one.
const SHARDS: usize = 16;

/// The requests of each client, of all workers. There are never more than connections and streams
/// have, because each of them is a request that is open.
#[derive(Default)]
pub(crate) struct ConcurrentRequests {
    keys: RandomState,
    shards: [Mutex<HashMap<CountKey, u32>>; SHARDS],
}

/// What is limited, and the client.
type CountKey = (u64, ClientPrefix);

/// One request that is counted, until this is dropped.
pub(crate) struct CountedRequest {
    of: Arc<ConcurrentRequests>,
    key: CountKey,
}

impl ConcurrentRequests {
    /// Counts a request of a client. Returns `None` if the client has `max` already.
    pub(crate) fn count(self: &Arc<Self>, key: CountKey, max: u32) -> Option<CountedRequest> {
        let mut counts = self.shard(&key);
        let count = counts.entry(key).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(CountedRequest { of: Arc::clone(self), key })
    }

    fn shard(&self, key: &CountKey) -> MutexGuard<'_, HashMap<CountKey, u32>> {
        let shard = &self.shards[self.keys.hash_one(key) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.of.shard(&self.key).entry(self.key) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// The counted requests of one worker.
#[derive(Default)]
pub(crate) struct OpenRequests {
    /// By the slot of their connection.
    open: HashMap<u32, Vec<(Address, Vec<CountedRequest>)>>,
    /// Slots of which something has left.
    sent: Vec<u32>,
}

impl OpenRequests {
    /// Holds what is counted of a request until the request is over.
    pub(crate) fn hold(&mut self, address: Address, counted: Vec<CountedRequest>) {
        self.open.entry(address.slot).or_default().push((address, counted));
    }

    /// Whether no request of this worker is counted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Everything that was queued on a connection has left, or an exchange of it has ended.
    #[cold]
    pub(crate) fn look_at(&mut self, connection: Address) {
        if self.open.contains_key(&connection.slot) {
            self.sent.push(connection.slot);
        }
    }

    /// A connection has ended.
    #[cold]
    pub(crate) fn closed(&mut self, connection: Address) {
        self.open.remove(&connection.slot);
    }

    /// Lets go of requests that are over. Call it at the top of each pass.
    #[inline]
    pub(crate) fn pass(&mut self, connections: &mut Connections<'_>) {
        if !self.sent.is_empty() {
            self.release(|address| {
                connections.exchange(address).is_some() || connections.stream(address).is_some()
            });
        }
    }

    /// Whether [`Self::pass`] has something to do.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.sent.is_empty()
    }

    #[cold]
    fn release(&mut self, mut is_open: impl FnMut(Address) -> bool) {
        for slot in std::mem::take(&mut self.sent) {
            let Entry::Occupied(mut requests) = self.open.entry(slot) else { continue };
            requests.get_mut().retain(|(address, _)| is_open(*address));
            if requests.get().is_empty() {
                requests.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientPrefix = ClientPrefix::Ipv4([192, 0, 2, 1]);

    fn held(requests: &ConcurrentRequests) -> usize {
        requests.shards.iter().map(|shard| shard.lock().expect("counts").len()).sum()
    }

    #[test]
    fn a_client_has_as_many_as_it_may() {
        let requests = Arc::new(ConcurrentRequests::default());
        let first = requests.count((1, CLIENT), 2).expect("one");
        let second = requests.count((1, CLIENT), 2).expect("two");
        assert!(requests.count((1, CLIENT), 2).is_none());
        // Another client, and another limit.
        assert!(requests.count((1, ClientPrefix::Ipv6([1; 8])), 2).is_some());
        assert!(requests.count((2, CLIENT), 2).is_some());
        drop(first);
        let third = requests.count((1, CLIENT), 2).expect("a free one");
        assert!(requests.count((1, CLIENT), 2).is_none());
        drop((second, third));
        assert_eq!(held(&requests), 0, "nothing is kept of clients that have none");
    }

    #[test]
    fn requests_that_are_over_are_let_go_of() {
        let requests = Arc::new(ConcurrentRequests::default());
        let address = |slot, exchange| Address { worker: 0, slot, generation: 1, exchange };
        let mut open = OpenRequests::default();
        for (slot, exchange) in [(1, 1), (1, 2), (2, 1), (3, 1)] {
            let counted = requests.count((1, CLIENT), 9).expect("counted");
            open.hold(address(slot, exchange), vec![counted]);
        }
        let count = || *requests.shard(&(1, CLIENT)).get(&(1, CLIENT)).unwrap_or(&0);
        assert_eq!(count(), 4);
        open.look_at(address(1, 9));
        open.look_at(address(7, 1));
        assert!(open.has_work());
        open.release(|address| address.exchange == 2);
        assert!(!open.has_work() && !open.is_empty());
        assert_eq!(count(), 3, "one stream of the connection goes on");
        open.closed(address(3, 1));
        assert_eq!(count(), 2);
        // A worker that panics drops all of them.
        drop(open);
        assert_eq!(held(&requests), 0);
    }

    #[test]
    fn threads_together_have_no_more_than_the_limit() {
        use std::sync::atomic::{AtomicU32, Ordering};
        const MAX: u32 = 3;
        let (requests, held) = (Arc::new(ConcurrentRequests::default()), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Some(counted) = requests.count((1, CLIENT), MAX) {
                            assert!(held.fetch_add(1, Ordering::SeqCst) < MAX);
                            held.fetch_sub(1, Ordering::SeqCst);
                            drop(counted);
                        }
                    }
                });
            }
        });
    }
}
