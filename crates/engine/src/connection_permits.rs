//! Permits for connections: as many as the server may hold, regardless of the number of its workers
//! and listeners.
//!
//! A worker that accepts holds one permit in reserve for the next client, so no connection is ever
//! without a permit. While a permit is free, some worker accepts: a worker that holds one in
//! reserve also accepts clients for which the kernel has notified a worker without a permit.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::limits::{
    ACCEPT_EXTRA_CONNECTIONS, ACCEPT_SLACK_CONNECTIONS, PERMIT_BATCH_DIVISOR,
    PERMIT_RESERVE_DIVISOR, QUIC_RETRY_HANDSHAKES, QUIC_UNPROVEN_DIVISOR,
};

/// The permits of a server and their holders.
pub(crate) struct ConnectionPermits {
    /// Permits of the server.
    all: usize,
    /// Permits that connections hold or workers have in reserve.
    taken: AtomicUsize,
    workers: Box<[Share]>,
}

/// The share of one worker. Only its own thread changes the first two.
#[derive(Default)]
struct Share {
    connections: AtomicUsize,
    has_reserve: AtomicBool,
    /// Whether another worker asks this one to accept waiting clients.
    accept: AtomicBool,
    /// Whether another worker asks this one to close connections that may be closed under pressure.
    relieve: AtomicBool,
}

impl ConnectionPermits {
    pub(crate) fn new(all: usize, workers: usize) -> Self {
        let workers = (0..workers).map(|_| Share::default()).collect();
        Self { all, taken: AtomicUsize::new(0), workers }
    }

    /// Returns the number of unfinished QUIC handshakes on one worker above which new clients have
    /// to validate their address by Retry (RFC 9000 §8.1.2).
    pub(crate) fn unproven_max(&self) -> usize {
        QUIC_RETRY_HANDSHAKES.min(self.all / QUIC_UNPROVEN_DIVISOR / self.workers.len())
    }

    /// Reserves a permit for the next client of the worker, unless it has one in reserve. Returns
    /// false if no permit is free.
    pub(crate) fn reserve(&self, worker: u16) -> bool {
        let share = self.share(worker);
        if share.has_reserve.load(Ordering::Relaxed) {
            return true;
        }
        let one_more = |taken| (taken < self.all).then_some(taken + 1);
        let relaxed = Ordering::Relaxed;
        let got = self.taken.fetch_update(relaxed, relaxed, one_more).is_ok();
        // Sequential consistency: either `pass_on` of another worker sees this reserve, or this
        // worker then sees the request of that one in `takes_accept_request`.
        share.has_reserve.store(got, Ordering::SeqCst);
        got
    }

    /// Asks all workers but this one to accept waiting clients, and calls `wake` with each that has
    /// a permit in reserve.
    pub(crate) fn pass_on(&self, worker: u16, wake: impl Fn(usize)) {
        for (other, share) in self.workers.iter().enumerate() {
            if other == usize::from(worker) {
                continue;
            }
            share.accept.store(true, Ordering::SeqCst);
            if share.has_reserve.load(Ordering::SeqCst) {
                wake(other);
            }
        }
    }

    /// Returns whether another worker has asked this one, which has a permit in reserve, to accept
    /// waiting clients, and resets that.
    pub(crate) fn takes_accept_request(&self, worker: u16) -> bool {
        let accept = &self.share(worker).accept;
        accept.load(Ordering::SeqCst) && accept.swap(false, Ordering::SeqCst)
    }

    /// Gives the permit that the worker has in reserve to a connection.
    pub(crate) fn fill(&self, worker: u16) {
        let share = self.share(worker);
        debug_assert!(
            share.has_reserve.load(Ordering::Relaxed),
            "a worker accepts with a permit in reserve"
        );
        share.has_reserve.store(false, Ordering::Relaxed);
        share.connections.store(self.connections_of(worker) + 1, Ordering::Relaxed);
    }

    /// Frees the permit that the worker has in reserve, if it has one.
    pub(crate) fn put_back(&self, worker: u16) {
        if self.share(worker).has_reserve.swap(false, Ordering::Relaxed) {
            self.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Frees the permit of a closed connection of the worker.
    pub(crate) fn leave(&self, worker: u16) {
        let rest = self.connections_of(worker) - 1;
        self.share(worker).connections.store(rest, Ordering::Relaxed);
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Frees all permits of a worker that has ended.
    pub(crate) fn leave_all(&self, worker: u16) {
        self.put_back(worker);
        let gone = self.share(worker).connections.swap(0, Ordering::Relaxed);
        self.taken.fetch_sub(gone, Ordering::Relaxed);
    }

    /// Returns whether the worker has so many more connections than the others that they should
    /// accept the next.
    pub(crate) fn has_enough(&self, worker: u16) -> bool {
        self.has_more_than_others(worker, ACCEPT_SLACK_CONNECTIONS)
    }

    /// Returns whether the worker has so many more connections that it accepts none even if no
    /// other worker does.
    pub(crate) fn has_plenty(&self, worker: u16) -> bool {
        self.has_more_than_others(worker, ACCEPT_SLACK_CONNECTIONS + ACCEPT_EXTRA_CONNECTIONS)
    }

    fn has_more_than_others(&self, worker: u16, by: usize) -> bool {
        let mean = self.connections() / self.workers.len();
        self.connections_of(worker) > mean + mean / 4 + by
    }

    /// Returns how many connections should be closed so that newcomers find permits; 0 while enough
    /// are free.
    pub(crate) fn wanted(&self) -> usize {
        let reserve = (self.all / PERMIT_RESERVE_DIVISOR).max(1);
        let free = self.all.saturating_sub(self.connections());
        if free >= reserve { 0 } else { reserve - free + self.batch() }
    }

    /// Returns how many connections are closed at once beyond the need, so that a survey of all
    /// connections serves several newcomers.
    pub(crate) fn batch(&self) -> usize {
        self.all / PERMIT_BATCH_DIVISOR
    }

    /// Asks all workers but this one to close connections, and calls `wake` with each.
    pub(crate) fn ask_for_relief(&self, worker: u16, wake: impl Fn(usize)) {
        for (other, share) in self.workers.iter().enumerate() {
            if other != usize::from(worker) {
                share.relieve.store(true, Ordering::Release);
                wake(other);
            }
        }
    }

    /// Returns whether another worker has asked this one to close connections, and resets that.
    pub(crate) fn is_asked_for_relief(&self, worker: u16) -> bool {
        self.share(worker).relieve.swap(false, Ordering::Acquire)
    }

    /// Returns the number of connections of all workers.
    pub(crate) fn connections(&self) -> usize {
        self.workers.iter().map(|share| share.connections.load(Ordering::Relaxed)).sum()
    }

    fn connections_of(&self, worker: u16) -> usize {
        self.share(worker).connections.load(Ordering::Relaxed)
    }

    fn share(&self, worker: u16) -> &Share {
        &self.workers[usize::from(worker)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unproven_handshakes_leave_most_permits() {
        assert_eq!(ConnectionPermits::new(100_000, 4).unproven_max(), QUIC_RETRY_HANDSHAKES);
        for (all, workers) in [(200, 2), (1000, 4), (7, 2), (10, 16)] {
            let permits = ConnectionPermits::new(all, workers);
            assert!(permits.unproven_max() * workers <= all / QUIC_UNPROVEN_DIVISOR);
        }
    }

    #[test]
    fn a_permit_is_reserved_then_held_by_a_connection_then_free() {
        let permits = ConnectionPermits::new(2, 2);
        assert!(permits.reserve(0) && permits.reserve(0), "one permit, asked for twice");
        assert!(permits.reserve(1));
        permits.fill(1);
        assert!(!permits.reserve(1), "the other worker has the last one in reserve");
        permits.put_back(0);
        permits.put_back(0);
        assert!(permits.reserve(1) && !permits.reserve(0));
        permits.fill(1);
        assert_eq!(permits.connections(), 2);
        permits.leave(1);
        assert!(permits.reserve(0));
        permits.leave_all(1);
        permits.leave_all(0);
        assert_eq!((permits.connections(), permits.taken.into_inner()), (0, 0));
    }

    #[test]
    fn a_worker_has_enough_at_a_quarter_and_some_above_the_mean() {
        let permits = ConnectionPermits::new(1000, 2);
        let take = |worker| {
            assert!(permits.reserve(worker));
            permits.fill(worker);
        };
        (0..100).for_each(|_| take(1));
        assert!(permits.has_enough(1) && !permits.has_enough(0));
        // 100 of 152: the mean is 76, and 76 × 5/4 + 8 are 103.
        (0..52).for_each(|_| take(0));
        assert!(!permits.has_enough(1) && !permits.has_enough(0));
        // 500 of 552: 276 × 5/4 + 8 + 256 are 609; 746 of 798: 399 × 5/4 + 264 are 762.
        (0..400).for_each(|_| take(1));
        assert!(permits.has_enough(1) && !permits.has_plenty(1));
        (0..446).for_each(|_| take(1));
        assert!(permits.has_plenty(1));
    }

    #[test]
    fn a_sixteenth_of_the_permits_and_at_least_one_is_kept_for_newcomers() {
        for (all, connections, wanted) in [
            (1, 0, 0),
            (1, 1, 1),
            (15, 14, 0),
            (15, 15, 1),
            (160, 150, 0),
            (160, 151, 1 + 2),
            (160, 160, 10 + 2),
            (65_536, 61_440, 0),
            (65_536, 61_441, 1 + 1024),
        ] {
            let permits = ConnectionPermits::new(all, 2);
            for number in 0..connections {
                assert!(permits.reserve(number as u16 % 2));
                permits.fill(number as u16 % 2);
            }
            assert_eq!(permits.wanted(), wanted, "{connections} of {all}");
        }
    }

    #[test]
    fn threads_never_hold_more_permits_than_there_are() {
        const ALL: usize = 3;
        let permits = ConnectionPermits::new(ALL, 4);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let permits = &permits;
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        if permits.reserve(worker) {
                            permits.fill(worker);
                            assert!(permits.connections() <= ALL);
                            permits.leave(worker);
                        }
                    }
                });
            }
        });
        assert_eq!(permits.taken.into_inner(), 0);
    }
}
