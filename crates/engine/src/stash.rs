//! Input of one connection that cannot be used yet: a head that is not whole, or what came behind
//! an answer that is not ready.

use crate::limits::STASH_OVERRUN_MAX_BYTES;
use crate::pool::Pool;

/// Bytes that were kept, of which the first have been used since.
#[derive(Default)]
pub(crate) struct Stash {
    bytes: Vec<u8>,
    used: usize,
}

impl Stash {
    /// What waits to be used.
    #[inline]
    pub(crate) fn unused(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// How many bytes that is.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.used
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps `input` behind the rest. False when the budget for buffers or the limit of a stash
    /// does not allow it; nothing is kept then.
    pub(crate) fn keep(&mut self, pool: &mut Pool, input: &[u8]) -> bool {
        self.keep_up_to(pool, input, STASH_OVERRUN_MAX_BYTES)
    }

    /// As [`Self::keep`], for a stash with a limit of its own.
    pub(crate) fn keep_up_to(&mut self, pool: &mut Pool, input: &[u8], max_bytes: usize) -> bool {
        // What was used goes only now that its room is needed: to move the rest for each of many
        // small requests would cost the square of their number.
        if self.used > 0 && self.bytes.len() + input.len() > self.bytes.capacity() {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        pool.stash(&mut self.bytes, input, max_bytes)
    }

    /// The first `bytes` of the rest are used; the last of it takes the memory along.
    pub(crate) fn advance(&mut self, bytes: usize, pool: &mut Pool) {
        self.used += bytes;
        if self.is_empty() {
            std::mem::take(self).give_back(pool);
        }
    }

    /// Hands the memory back.
    pub(crate) fn give_back(self, pool: &mut Pool) {
        pool.drop_stash(self.bytes);
    }

    /// Bytes of memory it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_makes_room_and_is_not_moved_before() {
        let mut pool = Pool::new(1 << 20);
        let mut stash = Stash::default();
        assert!(stash.keep(&mut pool, &[1; STASH_OVERRUN_MAX_BYTES]));
        assert!(!stash.keep(&mut pool, &[2; 10]), "it is full");
        let first = stash.unused().as_ptr();
        stash.advance(10, &mut pool);
        assert_eq!(stash.unused().as_ptr(), first.wrapping_add(10));
        assert!(stash.keep(&mut pool, &[2; 10]), "the room of what was used");
        assert_eq!(stash.len(), STASH_OVERRUN_MAX_BYTES);
        assert!(stash.unused().ends_with(&[1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]));
        stash.advance(STASH_OVERRUN_MAX_BYTES, &mut pool);
        assert!(stash.is_empty() && stash.held_bytes() == 0);
        assert_eq!(pool.used_bytes(), 0);
    }
}
