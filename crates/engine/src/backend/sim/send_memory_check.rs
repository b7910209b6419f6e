//! Memory that the engine has lent to the simulated kernel for a send, and the check that it kept
//! its promise: the bytes stay in place and unchanged until the completion.

use std::io::IoSlice;

/// The parts of one send in flight.
pub(super) struct Held {
    parts: Vec<(*const u8, usize)>,
    /// The content of the parts when they were handed over.
    copy: Vec<u8>,
}

impl Held {
    /// Remembers `parts`.
    ///
    /// # Safety
    /// The memory of `parts` must stay in place until this value is dropped.
    pub(super) unsafe fn new(parts: &[IoSlice<'_>]) -> Self {
        let mut copy = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| copy.extend_from_slice(part));
        Self { parts: parts.iter().map(|part| (part.as_ptr(), part.len())).collect(), copy }
    }

    /// Returns the number of all bytes of the send.
    pub(super) fn bytes(&self) -> usize {
        self.copy.len()
    }

    /// Returns the bytes from `from` to `until`, read now and not when the send began, as a kernel
    /// does.
    ///
    /// # Panics
    /// Panics if the engine has changed them meanwhile.
    pub(super) fn read(&self, from: usize, until: usize) -> &[u8] {
        self.check();
        &self.copy[from..until]
    }

    /// Compares the memory with its original content.
    ///
    /// # Panics
    /// Panics if it has changed.
    pub(super) fn check(&self) {
        let mut rest = &self.copy[..];
        for &(start, bytes) in &self.parts {
            let (expected, later) = rest.split_at(bytes);
            // SAFETY: the creator of this value promised that the memory stays in place. The test
            // runs fill freed memory with a pattern, so that a broken promise shows here.
            let now = unsafe { std::slice::from_raw_parts(start, bytes) };
            assert!(now == expected, "memory lent for a send was changed before its completion");
            rest = later;
        }
    }
}
