//! The buffers into which a ring receives: a provided-buffer ring of fixed-size buffers.
//!
//! The memory for all of them is reserved at start and touched only when a buffer is first lent, so
//! a quiet worker holds little; the number of lent buffers grows when receives find none.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::super::Lent;
use crate::limits::INPUT_TURN_BYTES;

/// Bytes of one buffer: larger input comes in pieces.
pub(super) const BUFFER_BYTES: usize = INPUT_TURN_BYTES;
/// The maximum number of lent buffers: 4 MiB (a power of two, as the kernel wants).
const BUFFERS_MAX: u16 = 1024;
/// Buffers lent at first, and added whenever receives found none.
const BUFFERS_STEP: u16 = 128;
/// The divisor of a worker's memory budget for buffers: a ring takes at most this fraction of it,
/// or as much as it lends at first.
const BUDGET_DIVISOR: usize = 8;

/// Returns the maximum number of buffers that a ring lends: a power of two, as the kernel wants.
const fn buffers_max(budget_bytes: usize) -> u16 {
    let mut buffers = BUFFERS_MAX;
    while buffers > BUFFERS_STEP && buffers as usize * BUFFER_BYTES > budget_bytes / BUDGET_DIVISOR
    {
        buffers /= 2;
    }
    buffers
}

/// Returns the bytes of a ring and all its buffers, for a worker with this budget for buffers.
pub(super) const fn ring_bytes(budget_bytes: usize) -> usize {
    buffers_max(budget_bytes) as usize * (BUFFER_BYTES + size_of::<BufRingEntry>())
}

/// The lent buffers of one ring.
pub(super) struct LentRing {
    memory: NonNull<u8>,
    bytes: usize,
    /// Buffers that may be lent.
    buffers: u16,
    entries: NonNull<BufRingEntry>,
    tail: u16,
    given: u16,
}

impl LentRing {
    /// Reserves the memory and registers it with the kernel as `group`. The worker has this budget
    /// for buffers, which does not include the ring.
    pub(super) fn register(ring: &IoUring, group: u16, budget_bytes: usize) -> io::Result<Self> {
        let (buffers, bytes) = (buffers_max(budget_bytes), ring_bytes(budget_bytes));
        // SAFETY: a fresh private mapping touches no memory of ours.
        let memory = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let entries = memory.cast::<BufRingEntry>();
        let mut lent = Self { memory, bytes, buffers, entries, tail: 0, given: 0 };
        let address = entries.as_ptr() as u64;
        // SAFETY: page-aligned memory of the stated size that outlives the ring (the ring is
        // dropped first, see `Uring`).
        unsafe {
            ring.submitter().register_buf_ring_with_flags(address, buffers, group, 0)?;
        }
        lent.grow();
        Ok(lent)
    }

    /// Lends the kernel more buffers, up to the maximum.
    pub(super) fn grow(&mut self) {
        let until = self.given.saturating_add(BUFFERS_STEP).min(self.buffers);
        for buffer in self.given..until {
            self.give_back(Lent { buffer, bytes: 0 });
        }
        self.given = until;
    }

    /// Returns the filled part of a buffer.
    #[inline]
    pub(super) fn bytes(&self, lent: &Lent) -> &[u8] {
        assert!(lent.buffer < self.given && lent.bytes as usize <= BUFFER_BYTES);
        // SAFETY: within the mapping by the assertion; the kernel does not touch a buffer between
        // its completion and `give_back`, which takes the `Lent`.
        unsafe { std::slice::from_raw_parts(self.start_of(lent.buffer), lent.bytes as usize) }
    }

    /// Lends the buffer to the kernel again.
    #[inline]
    #[allow(clippy::needless_pass_by_value, reason = "taking it is what forbids a second use")]
    pub(super) fn give_back(&mut self, lent: Lent) {
        let place = usize::from(self.tail & (self.buffers - 1));
        // SAFETY: `place` is below the number of entries; the kernel reads an entry only after the
        // tail has moved past it.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            entry.set_addr(self.start_of(lent.buffer) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(lent.buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry, as the kernel defines it, and is only ever
        // written here.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    pub(super) fn give_back_if(&mut self, lent: Option<Lent>) {
        if let Some(lent) = lent {
            self.give_back(lent);
        }
    }

    fn start_of(&self, buffer: u16) -> *mut u8 {
        let entries_bytes = usize::from(self.buffers) * size_of::<BufRingEntry>();
        // SAFETY: buffers lie after the entries within the one mapping.
        unsafe { self.memory.as_ptr().add(entries_bytes + usize::from(buffer) * BUFFER_BYTES) }
    }
}

impl Drop for LentRing {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `register` mapped; the ring that wrote to it is gone.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping our own range cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_a_share_of_the_budget_and_at_least_its_first_buffers() {
        for (budget_bytes, buffers) in
            [(0, 128), (4 << 20, 128), (8 << 20, 256), (31 << 20, 512), (32 << 20, 1024)]
        {
            assert_eq!(buffers_max(budget_bytes), buffers, "of {budget_bytes}");
        }
        assert_eq!(buffers_max(usize::MAX), BUFFERS_MAX);
    }
}
