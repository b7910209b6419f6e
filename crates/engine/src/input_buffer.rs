//! Input of one connection that cannot be used yet: an incomplete head, or input after a response
//! that is not ready.

use crate::buffer_pool::Pool;
use crate::limits::INPUT_OVERRUN_MAX_BYTES;

/// Bytes that were kept, of which the first have been used since.
#[derive(Default)]
pub(crate) struct InputBuffer {
    bytes: Vec<u8>,
    used: usize,
}

impl InputBuffer {
    /// Returns the bytes that wait to be used.
    #[inline]
    pub(crate) fn unused(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Returns the number of bytes that wait to be used.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.used
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps `input` after the rest. Returns false, and keeps nothing, if the memory budget for
    /// buffers or the limit of the buffer does not allow it.
    pub(crate) fn keep(&mut self, pool: &mut Pool, input: &[u8]) -> bool {
        self.keep_up_to(pool, input, INPUT_OVERRUN_MAX_BYTES)
    }

    /// Keeps `input` as [`Self::keep`] does, for a buffer with a limit of its own.
    pub(crate) fn keep_up_to(&mut self, pool: &mut Pool, input: &[u8], max_bytes: usize) -> bool {
        // Used bytes are removed only now that their room is needed: moving the rest for each of
        // many small requests would cost the square of their number.
        if self.used > 0 && self.bytes.len() + input.len() > self.bytes.capacity() {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        pool.keep_input(&mut self.bytes, input, max_bytes)
    }

    /// Marks the first `bytes` of the rest as used; the last of it frees the memory.
    pub(crate) fn advance(&mut self, bytes: usize, pool: &mut Pool) {
        self.used += bytes;
        if self.is_empty() {
            std::mem::take(self).give_back(pool);
        }
    }

    /// Frees the memory.
    pub(crate) fn give_back(self, pool: &mut Pool) {
        pool.drop_input_buffer(self.bytes);
    }

    /// Returns the bytes of memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumed_input_frees_space_and_is_moved_only_when_needed() {
        let mut pool = Pool::new(1 << 20);
        let mut input = InputBuffer::default();
        assert!(input.keep(&mut pool, &[1; INPUT_OVERRUN_MAX_BYTES]));
        assert!(!input.keep(&mut pool, &[2; 10]), "it is full");
        let first = input.unused().as_ptr();
        input.advance(10, &mut pool);
        assert_eq!(input.unused().as_ptr(), first.wrapping_add(10));
        assert!(input.keep(&mut pool, &[2; 10]), "the room of what was used");
        assert_eq!(input.len(), INPUT_OVERRUN_MAX_BYTES);
        assert!(input.unused().ends_with(&[1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]));
        input.advance(INPUT_OVERRUN_MAX_BYTES, &mut pool);
        assert!(input.is_empty() && input.held_bytes() == 0);
        assert_eq!(pool.used_bytes(), 0);
    }
}
