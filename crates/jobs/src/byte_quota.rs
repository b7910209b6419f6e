//! Counts bytes in memory that no other limit covers, such as the arguments of jobs and messages
//! between workers, for as long as they exist.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of bytes of one kind in all workers together, with a limit.
#[derive(Debug)]
pub struct ByteQuota {
    max_bytes: usize,
    bytes: AtomicUsize,
}

/// A reservation of bytes in a [`ByteQuota`]. The bytes count until the reservation is dropped.
#[derive(Debug)]
pub struct ByteReservation {
    quota: Arc<ByteQuota>,
    bytes: usize,
}

impl Default for ByteQuota {
    /// Creates a quota without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl ByteQuota {
    /// Creates a quota with this limit in bytes.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: AtomicUsize::new(0) }
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Returns whether the reserved bytes have reached the limit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.max_bytes
    }

    /// Returns how many bytes are reserved.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Reserves bytes unconditionally, even beyond the limit.
    #[must_use]
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> ByteReservation {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        ByteReservation { quota: Arc::clone(self), bytes }
    }

    /// Reserves bytes unless the total would exceed the limit. A reservation that alone is larger
    /// than the limit succeeds while there is no other.
    #[must_use]
    pub fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<ByteReservation> {
        let sum = |before: usize| {
            let sum = before.checked_add(bytes)?;
            (before == 0 || sum <= self.max_bytes).then_some(sum)
        };
        self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, sum).ok()?;
        Some(ByteReservation { quota: Arc::clone(self), bytes })
    }
}

impl ByteReservation {
    /// Returns how many bytes are reserved.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ByteReservation {
    fn drop(&mut self) {
        self.quota.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_counted_until_it_is_dropped() {
        let quota = Arc::new(ByteQuota::new(10));
        let large = quota.try_reserve(11).expect("nothing else is there");
        assert!(quota.try_reserve(1).is_none());
        drop(large);
        let some = quota.try_reserve(7).expect("room");
        assert!(quota.try_reserve(4).is_none());
        let rest = quota.try_reserve(3).expect("room");
        assert!(quota.is_full());
        let beyond = quota.reserve(5);
        assert_eq!(quota.bytes(), 15);
        drop((some, rest, beyond));
        assert_eq!(quota.bytes(), 0);
        assert!(quota.try_reserve(usize::MAX).is_some());
    }
}
