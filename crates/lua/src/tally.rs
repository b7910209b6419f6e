//! Bytes that stand outside of the VMs for scripts: counted as long as they are there, so that what
//! no VM's limit of memory sees has a bound too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes there are of one kind, in all workers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    bytes: AtomicUsize,
}

/// Some of these bytes. They are counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    tally: Arc<Tally>,
    bytes: usize,
}

impl Tally {
    /// How many there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Counts more of them.
    pub(crate) fn count(self: &Arc<Self>, bytes: usize) -> Counted {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        Counted { tally: Arc::clone(self), bytes }
    }

    /// Counts more of them, unless that makes more than `max_bytes`. What is larger than that by
    /// itself has room while nothing else is there.
    pub(crate) fn count_up_to(self: &Arc<Self>, max_bytes: usize, bytes: usize) -> Option<Counted> {
        let more = |before: usize| {
            let sum = before.checked_add(bytes)?;
            (before == 0 || sum <= max_bytes).then_some(sum)
        };
        self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Counted { tally: Arc::clone(self), bytes })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.tally.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_counted_until_it_goes() {
        let tally = Arc::new(Tally::default());
        let large = tally.count_up_to(10, 11).expect("nothing else is there");
        assert!(tally.count_up_to(10, 1).is_none());
        drop(large);
        let some = tally.count_up_to(10, 7).expect("room");
        assert!(tally.count_up_to(10, 4).is_none());
        let rest = tally.count_up_to(10, 3).expect("room");
        let beyond = tally.count(5);
        assert_eq!(tally.bytes(), 15);
        drop((some, rest, beyond));
        assert_eq!(tally.bytes(), 0);
        assert!(tally.count_up_to(10, usize::MAX).is_some());
    }
}
