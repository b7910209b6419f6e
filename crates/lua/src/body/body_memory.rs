//! The content of requests that a worker keeps for its scripts, outside of the memory of their VMs.
//! It is counted, so that it has a bound however many clients send content and stop half way.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use pinion_engine::release_memory;
use pinion_jobs::upload_quota::UploadQuota;

use crate::limits::{CONTENT_PIECE_MAX_BYTES, CONTENT_RESERVE_DIVISOR, CONTENT_TRIM_BYTES};

/// The memory that the requests of one worker keep together.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    max_bytes: usize,
    bytes: Cell<usize>,
    /// The peak since memory was returned to the system.
    peak_bytes: Cell<usize>,
    /// The quota of the uploads of all workers in files.
    uploads: Arc<UploadQuota>,
}

/// The memory that one request keeps. It is counted until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct BodyMemoryShare {
    memory: Option<Rc<BodyMemory>>,
    bytes: usize,
}

/// The request to free memory: which requests are affected, and how much may be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyMemoryRelief {
    /// The requests that keep at least so much.
    pub(crate) least_bytes: usize,
    /// The memory that all of them together may keep afterwards.
    pub(crate) left_bytes: usize,
}

impl BodyMemory {
    /// Creates the quota, of at most so many bytes, with the quota of uploads in files.
    pub(crate) fn new(max_bytes: usize, uploads: &Arc<UploadQuota>) -> Self {
        let (bytes, peak_bytes) = Default::default();
        Self { max_bytes, bytes, peak_bytes, uploads: Arc::clone(uploads) }
    }

    /// Returns the quota of uploads.
    pub(crate) fn uploads(&self) -> &Arc<UploadQuota> {
        &self.uploads
    }

    /// Returns how much is kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Returns the request to free memory if a request that keeps so much exceeds the quota. The
    /// reserve is for requests that keep little, so that they are answered while others fill all
    /// the rest. More is freed than is missing, so that the search for it is rare and not for each
    /// piece.
    pub(crate) fn relief(&self, share_bytes: usize) -> Option<BodyMemoryRelief> {
        let reserve_bytes = self.max_bytes / CONTENT_RESERVE_DIVISOR;
        let for_large = self.max_bytes - reserve_bytes;
        let (least_bytes, most_bytes) = if share_bytes > CONTENT_PIECE_MAX_BYTES {
            (CONTENT_PIECE_MAX_BYTES + 1, for_large)
        } else {
            (1, self.max_bytes)
        };
        let left_bytes = most_bytes - reserve_bytes / 4;
        (self.bytes() > most_bytes).then_some(BodyMemoryRelief { least_bytes, left_bytes })
    }

    fn change(&self, from_bytes: usize, to_bytes: usize) {
        let bytes = self.bytes.get() - from_bytes + to_bytes;
        self.bytes.set(bytes);
        self.peak_bytes.set(self.peak_bytes.get().max(bytes));
        // An allocator keeps the memory between blocks that are in use.
        if self.peak_bytes.get() - bytes >= CONTENT_TRIM_BYTES && bytes < CONTENT_TRIM_BYTES {
            self.peak_bytes.set(bytes);
            release_memory::release_heap();
        }
    }
}

impl BodyMemoryShare {
    /// Counts the share in this quota, unless another one counts it already.
    pub(crate) fn belong_to(&mut self, memory: &Rc<BodyMemory>) {
        if self.memory.is_none() {
            self.memory = Some(Rc::clone(memory));
        }
    }

    /// Sets how much is kept now.
    pub(crate) fn set(&mut self, bytes: usize) {
        if let Some(memory) = &self.memory
            && bytes != self.bytes
        {
            memory.change(self.bytes, bytes);
            self.bytes = bytes;
        }
    }

    /// Returns how much is kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the most that all requests of the worker may keep, in bytes.
    pub(crate) fn max_bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.max_bytes)
    }
}

impl Drop for BodyMemoryShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: usize = 1 << 20;

    fn memory() -> Rc<BodyMemory> {
        Rc::new(BodyMemory::new(MAX_BYTES, &Arc::default()))
    }

    fn share(memory: &Rc<BodyMemory>, bytes: usize) -> BodyMemoryShare {
        let mut share = BodyMemoryShare::default();
        share.belong_to(memory);
        share.set(bytes);
        share
    }

    #[test]
    fn body_memory_counts_each_share_until_it_is_dropped() {
        let memory = memory();
        let mut one = share(&memory, 10);
        let two = share(&memory, 5);
        assert_eq!((memory.bytes(), one.bytes()), (15, 10));
        one.set(3);
        assert_eq!(memory.bytes(), 8);
        drop(two);
        one.belong_to(&self::memory());
        assert_eq!(memory.bytes(), 3, "a share stays with its memory");
        drop(one);
        assert_eq!(memory.bytes(), 0);
        let mut none = BodyMemoryShare::default();
        none.set(7);
        assert_eq!(none.bytes(), 0, "of no memory yet");
    }

    #[test]
    fn small_bodies_have_a_memory_reserve() {
        let memory = memory();
        let large = CONTENT_PIECE_MAX_BYTES + 1;
        let for_large = MAX_BYTES - MAX_BYTES / CONTENT_RESERVE_DIVISOR;
        let mut rest = share(&memory, for_large);
        assert_eq!(memory.relief(large), None);
        rest.set(for_large + 1);
        let relief = memory.relief(large).expect("too much");
        assert_eq!(relief.least_bytes, large);
        assert!(relief.left_bytes < for_large);
        assert_eq!(memory.relief(large - 1), None);
        rest.set(MAX_BYTES);
        assert_eq!(memory.relief(large - 1), None);
        rest.set(MAX_BYTES + 1);
        assert_eq!(memory.relief(large - 1).expect("too much").least_bytes, 1);
    }
}
