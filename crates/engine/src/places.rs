//! Places for connections: as many as the server may hold, whatever the number of its workers and
//! listeners.
//!
//! A worker that accepts has a place in hand, for whoever comes next. So no connection is without a
//! place. Nor does a place stay free while somebody waits: whoever has it in hand accepts, and sees
//! to clients that another worker has heard of and has no place for; the others try again soon.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::limits::{
    ACCEPT_EXTRA_CONNECTIONS, ACCEPT_SLACK_CONNECTIONS, QUIC_RETRY_HANDSHAKES,
    QUIC_UNPROVEN_DIVISOR,
};

/// See the module's head.
pub(crate) struct Places {
    /// How many there are.
    all: usize,
    /// How many connections and hands have.
    taken: AtomicUsize,
    workers: Box<[Share]>,
}

/// What one worker has; only its own thread changes it.
#[derive(Default)]
struct Share {
    connections: AtomicUsize,
    in_hand: AtomicBool,
    /// It is to see whether somebody waits of whom another worker was told.
    look: AtomicBool,
}

impl Places {
    pub(crate) fn new(all: usize, workers: usize) -> Self {
        let workers = (0..workers).map(|_| Share::default()).collect();
        Self { all, taken: AtomicUsize::new(0), workers }
    }

    /// Handshakes of QUIC in progress on one worker from which on newcomers prove their address.
    pub(crate) fn unproven_max(&self) -> usize {
        QUIC_RETRY_HANDSHAKES.min(self.all / QUIC_UNPROVEN_DIVISOR / self.workers.len())
    }

    /// Takes a place into the worker's hand, unless it has one; false when there is none.
    pub(crate) fn reserve(&self, worker: u16) -> bool {
        let share = self.share(worker);
        if share.in_hand.load(Ordering::Relaxed) {
            return true;
        }
        let one_more = |taken| (taken < self.all).then_some(taken + 1);
        let relaxed = Ordering::Relaxed;
        let got = self.taken.fetch_update(relaxed, relaxed, one_more).is_ok();
        // Either who passes a client on sees the hand, or who has the hand sees that.
        share.in_hand.store(got, Ordering::SeqCst);
        got
    }

    /// Has all workers but this one see whether somebody waits, and calls `wake` with those that
    /// have a place in hand.
    pub(crate) fn pass_on(&self, worker: u16, wake: impl Fn(usize)) {
        for (other, share) in self.workers.iter().enumerate() {
            if other == usize::from(worker) {
                continue;
            }
            share.look.store(true, Ordering::SeqCst);
            if share.in_hand.load(Ordering::SeqCst) {
                wake(other);
            }
        }
    }

    /// Whether the worker, which has a place in hand, is to see whether somebody waits; asked once.
    pub(crate) fn is_to_look(&self, worker: u16) -> bool {
        let look = &self.share(worker).look;
        look.load(Ordering::SeqCst) && look.swap(false, Ordering::SeqCst)
    }

    /// Gives the place in the worker's hand to a connection.
    pub(crate) fn fill(&self, worker: u16) {
        let share = self.share(worker);
        debug_assert!(share.in_hand.load(Ordering::Relaxed), "who accepts has a place in hand");
        share.in_hand.store(false, Ordering::Relaxed);
        share.connections.store(self.connections_of(worker) + 1, Ordering::Relaxed);
    }

    /// Puts the place in the worker's hand back, if it has one.
    pub(crate) fn put_back(&self, worker: u16) {
        if self.share(worker).in_hand.swap(false, Ordering::Relaxed) {
            self.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A connection of the worker is gone.
    pub(crate) fn leave(&self, worker: u16) {
        let rest = self.connections_of(worker) - 1;
        self.share(worker).connections.store(rest, Ordering::Relaxed);
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// The worker is gone, with all that it had.
    pub(crate) fn leave_all(&self, worker: u16) {
        self.put_back(worker);
        let gone = self.share(worker).connections.swap(0, Ordering::Relaxed);
        self.taken.fetch_sub(gone, Ordering::Relaxed);
    }

    /// Whether the worker has so many more than the others that they should take the next (design
    /// §4.2).
    pub(crate) fn has_enough(&self, worker: u16) -> bool {
        self.has_more_than_others(worker, ACCEPT_SLACK_CONNECTIONS)
    }

    /// Whether it has so many more that it takes none even if nobody else does.
    pub(crate) fn has_plenty(&self, worker: u16) -> bool {
        self.has_more_than_others(worker, ACCEPT_SLACK_CONNECTIONS + ACCEPT_EXTRA_CONNECTIONS)
    }

    fn has_more_than_others(&self, worker: u16, by: usize) -> bool {
        let mean = self.connections() / self.workers.len();
        self.connections_of(worker) > mean + mean / 4 + by
    }

    /// Connections of all workers.
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
    fn handshakes_of_nobody_leave_most_places() {
        assert_eq!(Places::new(100_000, 4).unproven_max(), QUIC_RETRY_HANDSHAKES);
        for (all, workers) in [(200, 2), (1000, 4), (7, 2), (10, 16)] {
            let places = Places::new(all, workers);
            assert!(places.unproven_max() * workers <= all / QUIC_UNPROVEN_DIVISOR);
        }
    }

    #[test]
    fn a_place_goes_from_the_store_to_a_hand_to_a_connection_and_back() {
        let places = Places::new(2, 2);
        assert!(places.reserve(0) && places.reserve(0), "one place, asked for twice");
        assert!(places.reserve(1));
        places.fill(1);
        assert!(!places.reserve(1), "the other is in the hand of somebody else");
        places.put_back(0);
        places.put_back(0);
        assert!(places.reserve(1) && !places.reserve(0));
        places.fill(1);
        assert_eq!(places.connections(), 2);
        places.leave(1);
        assert!(places.reserve(0));
        places.leave_all(1);
        places.leave_all(0);
        assert_eq!((places.connections(), places.taken.into_inner()), (0, 0));
    }

    #[test]
    fn who_has_a_quarter_and_some_more_than_the_mean_has_enough() {
        let places = Places::new(1000, 2);
        let take = |worker| {
            assert!(places.reserve(worker));
            places.fill(worker);
        };
        (0..100).for_each(|_| take(1));
        assert!(places.has_enough(1) && !places.has_enough(0));
        // 100 of 152: the mean is 76, and 76 × 5/4 + 8 are 103.
        (0..52).for_each(|_| take(0));
        assert!(!places.has_enough(1) && !places.has_enough(0));
        // 500 of 552: 276 × 5/4 + 8 + 256 are 609; 746 of 798: 399 × 5/4 + 264 are 762.
        (0..400).for_each(|_| take(1));
        assert!(places.has_enough(1) && !places.has_plenty(1));
        (0..446).for_each(|_| take(1));
        assert!(places.has_plenty(1));
    }

    #[test]
    fn threads_never_have_more_places_than_there_are() {
        const ALL: usize = 3;
        let places = Places::new(ALL, 4);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let places = &places;
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        if places.reserve(worker) {
                            places.fill(worker);
                            assert!(places.connections() <= ALL);
                            places.leave(worker);
                        }
                    }
                });
            }
        });
        assert_eq!(places.taken.into_inner(), 0);
    }
}
