//! Buffers under one memory budget: output chunks that are reused, and input buffers for incomplete
//! input.
//!
//! All buffers of a worker are counted against its share of `--memory-budget`. Part of that is a
//! reserve: when it is touched, the worker closes connections that hold buffers without progress
//! (`memory_pressure.rs`). If the whole budget is spent nevertheless, allocations return `None` and
//! the connection that asked fails (with 503 or a close).

use std::collections::hash_map::Entry;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::limits::{
    CHUNK_BYTES, INPUT_BUFFER_MIN_BYTES, RESERVE_DIVISOR, RESERVE_MIN_BYTES, SPARE_CHUNKS,
};

/// The buffers of one worker.
pub(crate) struct Pool {
    spare: Vec<Vec<u8>>,
    /// A chunk for the time when the system gives no memory: one client after the other gets its
    /// response from it.
    last: Option<Vec<u8>>,
    used_bytes: usize,
    budget_bytes: usize,
    /// Bytes that are to stay free.
    reserve_bytes: usize,
    /// The use in bytes above which the worker has to release memory.
    alarm_bytes: usize,
    /// The number of queues that hold bytes that may be shared, by address and length.
    shared: FxHashMap<(usize, usize), usize>,
}

/// Bytes of memory that shared bytes take besides themselves, in their table.
const SHARED_ENTRY_BYTES: usize = 2 * size_of::<((usize, usize), usize)>();

impl Pool {
    pub(crate) fn new(budget_bytes: usize) -> Self {
        let spare = Vec::with_capacity(SPARE_CHUNKS);
        let reserve_bytes = (budget_bytes / RESERVE_DIVISOR).max(RESERVE_MIN_BYTES);
        let reserve_bytes = reserve_bytes.min(budget_bytes / 4);
        let alarm_bytes = budget_bytes - reserve_bytes;
        let mut chunk = Vec::new();
        let last = chunk.try_reserve_exact(CHUNK_BYTES).ok().map(|()| chunk);
        let shared = FxHashMap::default();
        Self { spare, last, used_bytes: 0, budget_bytes, reserve_bytes, alarm_bytes, shared }
    }

    /// Returns whether the reserve is touched, and the worker has not reacted to that yet.
    #[inline]
    pub(crate) fn is_low(&self) -> bool {
        self.used_bytes > self.alarm_bytes
    }

    /// Returns the bytes that must come back before the reserve counts as whole. Twice as much is
    /// free then, so that memory is released once in a while and not for each buffer.
    pub(crate) fn missing_bytes(&self) -> usize {
        let wanted = self.budget_bytes.saturating_sub(2 * self.reserve_bytes);
        self.used_bytes.saturating_sub(wanted)
    }

    /// Silences the alarm: it goes off again when the reserve is touched deeper.
    pub(crate) fn silence(&mut self) {
        self.alarm_bytes = self.alarm_bytes.max(self.used_bytes + self.reserve_bytes / 4);
    }

    /// Arms the alarm: it goes off when the reserve is touched, or deeper than it is now.
    pub(crate) fn arm(&mut self) {
        let low = self.budget_bytes - self.reserve_bytes;
        let deeper = self.used_bytes + self.reserve_bytes / 4;
        self.alarm_bytes = low.max(self.alarm_bytes.min(deeper));
    }

    /// Frees the chunks that are kept for reuse.
    pub(crate) fn drop_spares(&mut self) {
        self.used_bytes -= self.spare.len() * CHUNK_BYTES;
        self.spare.clear();
    }

    /// Returns an empty output chunk of [`CHUNK_BYTES`], or of `room` bytes if that is more, or
    /// `None` if the budget is spent.
    #[inline]
    pub(crate) fn take_chunk(&mut self, room: usize) -> Option<Vec<u8>> {
        if room <= CHUNK_BYTES
            && let Some(chunk) = self.spare.pop()
        {
            return Some(chunk);
        }
        self.fresh_chunk(room.max(CHUNK_BYTES))
    }

    /// Returns an empty chunk of at least `room` bytes, and not many more; `None` if the budget is
    /// spent.
    pub(crate) fn take_small(&mut self, room: usize) -> Option<Vec<u8>> {
        self.fresh_chunk(room)
    }

    fn fresh_chunk(&mut self, bytes: usize) -> Option<Vec<u8>> {
        if !self.reserve(bytes) {
            return None;
        }
        let mut chunk = Vec::new();
        if chunk.try_reserve_exact(bytes).is_err() {
            let last = self.last.take_if(|_| bytes == CHUNK_BYTES);
            if last.is_none() {
                self.release(bytes);
            }
            return last;
        }
        // The allocator may give more than requested; the held size counts.
        self.count(chunk.capacity() - bytes);
        Some(chunk)
    }

    /// Takes a chunk back. One that was made for an outsized head is not kept.
    #[inline]
    pub(crate) fn give_chunk(&mut self, mut chunk: Vec<u8>) {
        let usual = chunk.capacity() == CHUNK_BYTES;
        if usual && self.last.is_none() {
            chunk.clear();
            self.used_bytes -= CHUNK_BYTES;
            self.last = Some(chunk);
        } else if usual && self.spare.len() < SPARE_CHUNKS {
            chunk.clear();
            self.spare.push(chunk);
        } else {
            self.used_bytes -= chunk.capacity();
        }
    }

    /// Appends to a buffer, which grows in powers of two up to `max_bytes`. Returns false, and
    /// leaves the buffer unchanged, if the budget or the limit does not allow it.
    pub(crate) fn keep_input(
        &mut self,
        buffer: &mut Vec<u8>,
        input: &[u8],
        max_bytes: usize,
    ) -> bool {
        let wanted = buffer.len() + input.len();
        if wanted > buffer.capacity() {
            if wanted > max_bytes {
                return false;
            }
            let capacity = wanted.next_power_of_two().clamp(INPUT_BUFFER_MIN_BYTES, max_bytes);
            if !self.reserve(capacity - buffer.capacity()) {
                return false;
            }
            let before = buffer.capacity();
            if buffer.try_reserve_exact(capacity - buffer.len()).is_err() {
                self.used_bytes -= capacity - before;
                return false;
            }
            // The allocator may give more than requested; the held size counts.
            self.used_bytes += buffer.capacity() - capacity;
        }
        buffer.extend_from_slice(input);
        true
    }

    /// Frees a buffer.
    pub(crate) fn drop_input_buffer(&mut self, buffer: Vec<u8>) {
        self.used_bytes -= buffer.capacity();
        drop(buffer);
    }

    /// Returns the bytes of buffers in use or kept for reuse.
    #[cfg(test)]
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Returns the bytes of buffers in use.
    #[cfg(feature = "sim")]
    pub(crate) fn lent_bytes(&self) -> usize {
        self.used_bytes - self.spare_bytes()
    }

    /// Returns the bytes of chunks that are kept for reuse, at most [`SPARE_CHUNKS`] of them.
    #[cfg(feature = "sim")]
    pub(crate) fn spare_bytes(&self) -> usize {
        self.spare.len() * CHUNK_BYTES
    }

    /// Counts bytes that are allocated already, without a check; the next allocation notices them.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.used_bytes += bytes;
    }

    /// Counts `bytes` of a buffer that lives elsewhere; returns false if the budget is spent.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = self.used_bytes.saturating_add(bytes) <= self.budget_bytes;
        if fits {
            self.used_bytes += bytes;
        }
        fits
    }

    /// Counts as [`Self::reserve`] does, for optional buffers: the reserve stays whole.
    pub(crate) fn reserve_outside_reserve(&mut self, bytes: usize) -> bool {
        let most = self.budget_bytes - self.reserve_bytes;
        self.used_bytes.saturating_add(bytes) <= most && self.reserve(bytes)
    }

    /// Counts bytes that a queue holds, once for all queues; returns false if the budget is spent.
    pub(crate) fn share(&mut self, bytes: &Bytes) -> bool {
        if let Some(holders) = self.shared.get_mut(&key(bytes)) {
            *holders += 1;
            return true;
        }
        let own_bytes = bytes.len() + SHARED_ENTRY_BYTES;
        if self.shared.try_reserve(1).is_err() || !self.reserve(own_bytes) {
            return false;
        }
        self.shared.insert(key(bytes), 1);
        true
    }

    /// Ends the hold of a queue that [`Self::share`] counted.
    pub(crate) fn unshare(&mut self, bytes: &Bytes) {
        let Entry::Occupied(mut holders) = self.shared.entry(key(bytes)) else {
            unreachable!("it was counted")
        };
        *holders.get_mut() -= 1;
        if *holders.get() == 0 {
            holders.remove();
            self.release(bytes.len() + SHARED_ENTRY_BYTES);
        }
    }

    /// Releases bytes that [`Self::reserve`] counted.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.used_bytes -= bytes;
    }
}

/// Returns the key that distinguishes shared bytes from others, as long as they are held.
fn key(bytes: &Bytes) -> (usize, usize) {
    (bytes.as_ptr() as usize, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::INPUT_OVERRUN_MAX_BYTES;

    #[test]
    fn a_spent_budget_gives_nothing_and_a_returned_chunk_is_reused() {
        let mut pool = Pool::new(2 * CHUNK_BYTES);
        let first = pool.take_chunk(1).expect("within budget");
        let _second = pool.take_chunk(1).expect("within budget");
        assert!(pool.take_chunk(1).is_none());
        let mut buffer = Vec::new();
        assert!(!pool.keep_input(&mut buffer, b"x", CHUNK_BYTES), "the budget is spent");
        pool.give_chunk(first);
        assert!(pool.take_chunk(1).is_some());
        assert_eq!(pool.used_bytes(), 2 * CHUNK_BYTES);
    }

    #[test]
    fn bytes_that_many_queues_hold_count_once() {
        let mut pool = Pool::new(10_000);
        let (frame, other) = (Bytes::from(vec![0; 4000]), Bytes::from(vec![0; 4000]));
        assert!((0..10_000).all(|_| pool.share(&frame.clone())));
        let used_bytes = pool.used_bytes();
        assert!((4000..4100).contains(&used_bytes), "{used_bytes}");
        assert!(pool.share(&other), "another, with the same content");
        assert!(!pool.share(&Bytes::from(vec![0; 4000])), "the budget is spent");
        assert!(pool.share(&frame), "it is counted already");
        (0..10_001).for_each(|_| pool.unshare(&frame));
        assert_eq!(pool.used_bytes(), used_bytes);
        pool.unshare(&other);
        assert_eq!((pool.used_bytes(), pool.shared.len()), (0, 0));
    }

    #[test]
    fn the_alarm_goes_off_once_for_each_step_into_the_reserve() {
        let budget_bytes = 64 * RESERVE_MIN_BYTES;
        let mut pool = Pool::new(budget_bytes);
        let reserve_bytes = budget_bytes / RESERVE_DIVISOR;
        pool.count(budget_bytes - reserve_bytes);
        assert!(!pool.is_low());
        pool.count(1);
        assert!(pool.is_low());
        assert_eq!(pool.missing_bytes(), reserve_bytes + 1);
        pool.silence();
        assert!(!pool.is_low());
        pool.count(reserve_bytes / 4 + 1);
        assert!(pool.is_low(), "deeper");
        pool.release(reserve_bytes);
        assert!(!pool.is_low());
        pool.arm();
        pool.count(reserve_bytes);
        assert!(pool.is_low(), "again");
    }

    #[test]
    fn spare_chunks_do_not_count_as_used() {
        let mut pool = Pool::new(2 * CHUNK_BYTES);
        let chunks = [(); 2].map(|()| pool.take_chunk(1).expect("within budget"));
        chunks.into_iter().for_each(|chunk| pool.give_chunk(chunk));
        pool.drop_spares();
        assert_eq!(pool.used_bytes(), 0);
    }

    #[test]
    fn an_oversized_chunk_is_counted_and_not_kept() {
        let mut pool = Pool::new(10 * CHUNK_BYTES);
        let chunk = pool.take_chunk(3 * CHUNK_BYTES).expect("within budget");
        assert!(chunk.capacity() >= 3 * CHUNK_BYTES);
        assert_eq!(pool.used_bytes(), chunk.capacity());
        pool.give_chunk(chunk);
        assert_eq!(pool.used_bytes(), 0);
        assert!(pool.take_chunk(11 * CHUNK_BYTES).is_none(), "beyond the budget");
        assert_eq!(pool.used_bytes(), 0);
    }

    #[test]
    fn an_input_buffer_is_bounded_and_counted() {
        let mut pool = Pool::new(10 * INPUT_OVERRUN_MAX_BYTES);
        let mut buffer = Vec::new();
        while pool.keep_input(&mut buffer, &[7; 1000], INPUT_OVERRUN_MAX_BYTES) {}
        assert!(
            buffer.len() > INPUT_OVERRUN_MAX_BYTES - 1000
                && buffer.len() <= INPUT_OVERRUN_MAX_BYTES
        );
        assert_eq!(pool.used_bytes(), buffer.capacity());
        pool.drop_input_buffer(buffer);
        assert_eq!(pool.used_bytes(), 0);
    }
}
