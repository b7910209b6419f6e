//! Counts of the objects that the scripts of a worker hold, for tests.

use std::rc::{Rc, Weak};

use super::Scripts;
use crate::vm::Vm;

/// The numbers of objects that the scripts of a worker hold. Without requests and background work
/// all of them become 0 in time, except the current scripts and their schedules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// Requests that wait.
    pub requests: usize,
    /// Requests and background work in the current scripts.
    pub tasks: usize,
    /// The timers of tasks. Those of tasks that have ended are dropped by the time they name.
    pub timers: usize,
    /// The timers of schedules.
    pub schedules: usize,
    /// Jobs that run elsewhere and that a task waits for.
    pub jobs: usize,
    /// Tasks that could go on, and requests that could be notified of that.
    pub ready: usize,
    /// Current scripts.
    pub vms: usize,
    /// Retired scripts that have not ended.
    pub old_vms: usize,
}

impl Scripts {
    /// Returns the current numbers.
    #[must_use]
    pub fn object_counts(&self) -> ObjectCounts {
        let background = &self.background;
        let (timers, schedules) = background.timers.counts();
        let current: Vec<_> = self.current().collect();
        ObjectCounts {
            requests: self.waiting.len(),
            tasks: current.iter().map(|vm| vm.tasks().live()).sum(),
            timers,
            schedules,
            jobs: self.operations.jobs(),
            ready: background.ready.len() + background.unnotified.len(),
            vms: current.len(),
            old_vms: background.retired.iter().filter(|vm| vm.strong_count() > 0).count(),
        }
    }

    /// Returns the memory of the current VMs, in bytes, after a collection of their garbage.
    ///
    /// # Panics
    /// Panics when a finalizer of a script fails.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.current().map(|vm| used_bytes(&vm)).sum()
    }

    fn current(&self) -> impl Iterator<Item = Rc<Vm>> {
        self.background.current.iter().filter_map(Weak::upgrade)
    }
}

/// Objects with a finalizer are freed by the second collection.
fn used_bytes(vm: &Vm) -> usize {
    for _ in 0..2 {
        vm.lua().gc_collect().expect("garbage is collected");
    }
    vm.lua().used_memory()
}
