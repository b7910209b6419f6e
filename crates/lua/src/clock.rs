//! The time for the functions of a VM: the time of the worker's pass, which the owner of the VM
//! sets.

use std::cell::Cell;
use std::rc::Rc;

use pinion_engine::clock::Now;

/// The time of the turn that runs. Copies share it.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Rc<Cell<Now>>);

impl Clock {
    pub(crate) fn new(now: Now) -> Self {
        Self(Rc::new(Cell::new(now)))
    }

    /// Sets the time at the begin of a turn.
    pub(crate) fn set(&self, now: Now) {
        self.0.set(now);
    }

    pub(crate) fn now(&self) -> Now {
        self.0.get()
    }
}
