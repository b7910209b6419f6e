//! What the scripts of a worker hold, counted for tests.

use std::cmp::Reverse;
use std::rc::{Rc, Weak};

use super::Scripts;
use super::background::Due;
use crate::vm::Vm;

/// What the scripts of a worker hold. Without requests and work beside them all of it is 0 in time,
/// but for what the scripts are that answer now, and their schedules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Requests that wait for something.
    pub requests: usize,
    /// Requests and work beside them in the scripts that answer now.
    pub tasks: usize,
    /// The times of tasks. Those of tasks that are over go away by the time they name.
    pub timers: usize,
    /// The times of schedules.
    pub schedules: usize,
    /// Work that is done elsewhere, and that somebody waits for.
    pub jobs: usize,
    /// Tasks that could go on, and requests that could be told so.
    pub ready: usize,
    /// Scripts that answer.
    pub vms: usize,
    /// Earlier ones that have not ended.
    pub old_vms: usize,
}

impl Scripts {
    /// What is held now.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        let background = &self.background;
        let is_schedule = |what: &Due| matches!(what, Due::Schedule(_));
        let of_schedules = background.timers.iter();
        let of_schedules = of_schedules.filter(|Reverse(timer)| is_schedule(&timer.what)).count();
        let current: Vec<_> = self.current().collect();
        Holdings {
            requests: self.waiting.len(),
            tasks: current.iter().map(|vm| vm.tasks().live()).sum(),
            timers: background.timers.len() - of_schedules,
            schedules: of_schedules,
            jobs: background.jobs.len(),
            ready: background.ready.len() + background.untold.len(),
            vms: current.len(),
            old_vms: background.old.iter().filter(|vm| vm.strong_count() > 0).count(),
        }
    }

    /// Memory of the VMs that answer, in bytes, when their garbage is gone.
    ///
    /// # Panics
    /// When a finalizer of a script fails.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.current().map(|vm| used_bytes(&vm)).sum()
    }

    fn current(&self) -> impl Iterator<Item = Rc<Vm>> {
        self.background.current.iter().filter_map(Weak::upgrade)
    }
}

/// What has a finalizer goes with the second collection.
fn used_bytes(vm: &Vm) -> usize {
    for _ in 0..2 {
        vm.lua().gc_collect().expect("garbage is collected");
    }
    vm.lua().used_memory()
}
