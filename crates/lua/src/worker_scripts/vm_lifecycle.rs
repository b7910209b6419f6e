//! The VMs of a worker from their start to their end. A reload retires a VM. Its running tasks go
//! on and are notified, as they are when the server stops, so that streams end properly.

use std::rc::{Rc, Weak};

use pinion_engine::clock::Now;

use super::Scripts;
use crate::limits::OLD_VMS_MAX;
use crate::vm::{self, EndingReason, Vm};

impl Scripts {
    /// Adds a VM that answers requests from now on, and begins its schedules.
    pub(super) fn activate_vm(&mut self, vm: &Rc<Vm>, now: Now) {
        self.background.current.push(Rc::downgrade(vm));
        if self.background.is_stopping {
            self.announce_end(vm, EndingReason::Stopping);
        }
        self.begin_schedules(vm, 0, now);
        self.settle(vm);
    }

    /// Retires a VM: its tasks go on, and its schedules begin no more. If its site has too many
    /// retired VMs, the oldest one ends at once.
    pub(super) fn retire_vm(&mut self, vm: &Rc<Vm>) {
        vm.retire();
        self.announce_end(vm, EndingReason::Reloaded);
        let background = &mut self.background;
        background.current.retain(|of| !std::ptr::eq(of.as_ptr(), Rc::as_ptr(vm)));
        background.timers.drop_schedules_of(vm);
        if vm.is_finished() {
            // The VM has no task left: it goes at once, and takes no other's place.
            return self.forget(vm);
        }
        background.retired.retain(|of| of.strong_count() > 0);
        background.retired.push_back(Rc::downgrade(vm));
        let site = vm.site();
        let of_site = background.retired.iter().filter_map(Weak::upgrade);
        let of_site: Vec<_> = of_site.filter(|vm| vm.site() == site).collect();
        if let (true, Some(oldest)) = (of_site.len() > OLD_VMS_MAX, of_site.first()) {
            self.end_vm(oldest);
        }
    }

    /// Drops the background work of a VM and its operations.
    pub(super) fn forget(&mut self, vm: &Rc<Vm>) {
        self.background.forget(vm);
        self.operations.forget(vm);
    }

    /// Ends a VM with all its tasks, and notifies the requests that wait for its responses.
    fn end_vm(&mut self, vm: &Rc<Vm>) {
        self.background.retired.retain(|of| !std::ptr::eq(of.as_ptr(), Rc::as_ptr(vm)));
        self.forget(vm);
        self.end_operations(vm);
        vm.end();
        let of_it = self.waiting.iter().filter(|(_, (of, _))| Rc::ptr_eq(of, vm));
        self.background.unnotified.extend(of_it.map(|(address, _)| *address));
        let pieces = vm.tasks().background();
        if pieces > 0 {
            let why = vm::replaced("the background work of a script");
            let lost = format!("{}: {why} (pieces lost: {pieces})", vm.name());
            self.log_background("background work", &lost);
        }
        self.notify_woken();
    }

    /// Begins to stop: schedules begin no more, and running work goes on.
    pub fn stop(&mut self) {
        self.background.is_stopping = true;
        self.client.stop();
        self.programs.stop();
        self.background.timers.drop_schedules();
        let vms = self.background.current.iter().chain(&self.background.retired);
        for vm in vms.filter_map(Weak::upgrade).collect::<Vec<_>>() {
            self.announce_end(&vm, EndingReason::Stopping);
        }
    }

    /// Notifies handlers and work of a VM that they should end.
    pub(super) fn announce_end(&mut self, vm: &Rc<Vm>, ending: EndingReason) {
        vm.host().announce_end(ending);
        self.settle(vm);
    }
}

impl Drop for Scripts {
    /// Work that is lost with the end of the server is logged.
    fn drop(&mut self) {
        let pieces = self.background.pieces();
        if self.background.is_stopping && pieces > 0 {
            self.log_background("background work", &format!(
                "stopped before all work was done (pieces left: {pieces}); a longer --grace gives \
                 it more time"
            ));
        }
    }
}
