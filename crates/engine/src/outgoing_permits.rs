//! Permits for connections that the server opens: as many as it may hold at once, regardless of the
//! number of its workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The permits of a server, and how many of them one worker holds.
pub(crate) struct OutgoingPermits {
    all: usize,
    taken: Arc<AtomicUsize>,
    own: usize,
}

impl OutgoingPermits {
    /// Creates `all` permits, of which the workers of a server share the count `taken`.
    pub(crate) fn new(all: usize, taken: Arc<AtomicUsize>) -> Self {
        Self { all, taken, own: 0 }
    }

    /// Takes a permit; returns false if none is free.
    pub(crate) fn take(&mut self) -> bool {
        let one_more = |taken| (taken < self.all).then_some(taken + 1);
        let relaxed = Ordering::Relaxed;
        let is_taken = self.taken.fetch_update(relaxed, relaxed, one_more).is_ok();
        self.own += usize::from(is_taken);
        is_taken
    }

    /// Frees the permit of a connection that has ended.
    pub(crate) fn leave(&mut self) {
        self.own -= 1;
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for OutgoingPermits {
    /// Frees all permits of the worker: one that panics loses all its connections.
    fn drop(&mut self) {
        self.taken.fetch_sub(self.own, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_permits_and_one_that_ends_frees_its_own() {
        let taken = Arc::new(AtomicUsize::new(0));
        let mut one = OutgoingPermits::new(3, Arc::clone(&taken));
        let mut other = OutgoingPermits::new(3, Arc::clone(&taken));
        assert!(one.take() && one.take() && other.take());
        assert!(!one.take() && !other.take());
        other.leave();
        assert!(one.take() && !other.take());
        drop(one);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
        assert!(other.take());
    }
}
