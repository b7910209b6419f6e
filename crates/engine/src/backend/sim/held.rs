//! Memory that the engine has lent to the simulated kernel for a send, and the proof that it kept
//! its promise: the bytes stay where they are and what they are until the completion.

use std::io::IoSlice;

/// The parts of one send in flight.
pub(super) struct Held {
    parts: Vec<(*const u8, usize)>,
    /// What the parts held when they were handed over.
    copy: Vec<u8>,
}

impl Held {
    /// Takes note of `parts`.
    ///
    /// # Safety
    /// The memory of `parts` must stay in place until this value is dropped.
    pub(super) unsafe fn new(parts: &[IoSlice<'_>]) -> Self {
        let mut copy = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| copy.extend_from_slice(part));
        Self { parts: parts.iter().map(|part| (part.as_ptr(), part.len())).collect(), copy }
    }

    /// All bytes of the send.
    pub(super) fn bytes(&self) -> usize {
        self.copy.len()
    }

    /// The bytes from `from` to `until`, read now and not when the send began, as a kernel does.
    ///
    /// # Panics
    /// When the engine has changed them meanwhile.
    pub(super) fn read(&self, from: usize, until: usize) -> &[u8] {
        self.check();
        &self.copy[from..until]
    }

    /// Compares the memory with what it was.
    ///
    /// # Panics
    /// When it is not the same.
    pub(super) fn check(&self) {
        let mut rest = &self.copy[..];
        for &(start, bytes) in &self.parts {
            let (expected, later) = rest.split_at(bytes);
            // SAFETY: whoever made this value promised that the memory stays in place. The test
            // runs fill freed memory with a pattern, so that a broken promise shows here.
            let now = unsafe { std::slice::from_raw_parts(start, bytes) };
            assert!(now == expected, "memory lent for a send was changed before its completion");
            rest = later;
        }
    }
}
