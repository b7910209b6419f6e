//! Limits how often a message is logged that clients can cause, so that they cannot fill a disk.

use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds between two messages of one kind.
pub(crate) const BETWEEN_LINES_MS: u64 = 10_000;

/// Decides for all workers together when a message of one kind is logged.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    /// The time at which the next message may be logged, in milliseconds of the monotonic clock; 0
    /// before the first.
    next_ms: AtomicU64,
    /// Messages since the last one that was logged.
    suppressed: AtomicU64,
}

impl LogThrottle {
    /// Returns how many messages were suppressed before this one if it is to be logged; `None`
    /// suppresses it.
    pub(crate) fn admit(&self, now_ms: u64) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let later_ms = now_ms + BETWEEN_LINES_MS;
        let is_admitted = now_ms >= next_ms
            && self
                .next_ms
                .compare_exchange(next_ms, later_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_admitted {
            Some(self.suppressed.swap(0, Ordering::Relaxed))
        } else {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }

    /// Returns whether the next message would be logged, with any earlier messages.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.next_ms.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_messages_is_a_line_now_and_then_with_a_count() {
        let throttle = LogThrottle::default();
        assert_eq!(throttle.admit(5_000), Some(0));
        for _ in 0..1000 {
            assert_eq!(throttle.admit(5_001), None);
        }
        assert_eq!(throttle.admit(5_000 + BETWEEN_LINES_MS), Some(1000));
        assert_eq!(throttle.admit(5_001 + BETWEEN_LINES_MS), None);
        assert!(!throttle.is_over(5_001 + BETWEEN_LINES_MS));
        assert!(throttle.is_over(5_000 + 2 * BETWEEN_LINES_MS));
        assert_eq!(throttle.admit(u64::MAX - BETWEEN_LINES_MS), Some(1));
    }
}
