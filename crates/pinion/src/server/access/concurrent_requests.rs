//! Counts the requests that each client has at once, for limits of that number, and knows which of
//! them one worker has.
//!
//! A request counts until the engine says that its exchange has ended
//! ([`App::ended`](pinion_engine::app::App::ended)): its response has left, or its stream or its
//! connection was aborted. Other requests of the connection still count.

use super::rate_table::ClientPrefix;
use pinion_engine::exchange::Exchange;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
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

/// The number of a limit, and the client.
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
    /// The open requests, by the numbers under which the engine reports their end.
    open: HashMap<NonZeroU32, Vec<CountedRequest>>,
    /// The number that was given last.
    last: u32,
}

impl OpenRequests {
    /// Holds the counts of a request until its exchange has ended.
    pub(crate) fn hold(&mut self, counted: Vec<CountedRequest>, exchange: &mut Exchange<'_>) {
        let known = exchange.end_number();
        let number = known.unwrap_or_else(|| self.next_number());
        if known.is_some() || exchange.notify_end(number) {
            self.insert(number, counted);
        }
    }

    fn insert(&mut self, number: NonZeroU32, counted: Vec<CountedRequest>) {
        self.open.entry(number).or_default().extend(counted);
    }

    /// Returns a number that no open request has.
    fn next_number(&mut self) -> NonZeroU32 {
        loop {
            self.last = self.last.wrapping_add(1);
            let number = NonZeroU32::new(self.last).filter(|one| !self.open.contains_key(one));
            if let Some(number) = number {
                return number;
            }
        }
    }

    /// Ends the counts of the exchange with this number.
    pub(crate) fn ended(&mut self, number: NonZeroU32) {
        self.open.remove(&number);
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
    fn a_client_has_at_most_its_limit_of_requests() {
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
    fn ended_requests_are_released() {
        let requests = Arc::new(ConcurrentRequests::default());
        let counted = |rule| requests.count((rule, CLIENT), 9).expect("counted");
        let mut open = OpenRequests { last: u32::MAX - 1, ..OpenRequests::default() };
        let numbers = [(); 3].map(|()| {
            let number = open.next_number();
            open.insert(number, vec![counted(1)]);
            number
        });
        let count = |rule| *requests.shard(&(rule, CLIENT)).get(&(rule, CLIENT)).unwrap_or(&0);
        assert_eq!(count(1), 3, "numbers go on behind the last one");
        // A second rule applies to a request that continues.
        open.insert(numbers[0], vec![counted(2)]);
        assert_eq!((count(1), count(2)), (3, 1));
        open.ended(numbers[0]);
        open.ended(numbers[0]);
        assert_eq!((count(1), count(2)), (2, 0));
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
