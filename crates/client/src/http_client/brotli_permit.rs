//! The limit of responses that are in brotli at the same time, because their decoders take much
//! memory.

use std::cell::Cell;
use std::rc::Rc;

/// The permits of the requests that may still ask for brotli.
#[derive(Debug)]
pub(super) struct BrotliPermits(Rc<Cell<usize>>);

/// A permit for one request to ask for brotli, and for its response to be decoded.
#[derive(Debug)]
pub(super) struct BrotliPermit(Rc<Cell<usize>>);

impl BrotliPermits {
    /// Creates so many permits.
    pub(super) fn new(count: usize) -> Self {
        Self(Rc::new(Cell::new(count)))
    }

    /// Returns a permit, which counts until it is dropped; `None` if there is none left.
    pub(super) fn take(&self) -> Option<BrotliPermit> {
        let left = self.0.get().checked_sub(1)?;
        self.0.set(left);
        Some(BrotliPermit(Rc::clone(&self.0)))
    }

    /// Returns how many are left.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.0.get()
    }
}

impl Drop for BrotliPermit {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}
