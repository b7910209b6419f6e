//! The time as the functions of a VM have it: that of the worker's pass, which its owner hands in.

use std::cell::Cell;
use std::rc::Rc;

use pinion_engine::clock::Now;

/// The time of the turn that runs. Copies show the same.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Rc<Cell<Now>>);

impl Clock {
    pub(crate) fn new(now: Now) -> Self {
        Self(Rc::new(Cell::new(now)))
    }

    /// Another turn begins.
    pub(crate) fn set(&self, now: Now) {
        self.0.set(now);
    }

    pub(crate) fn now(&self) -> Now {
        self.0.get()
    }
}
