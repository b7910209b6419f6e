//! Commands of the store that take long: the scripts that wait for them.

use std::rc::{Rc, Weak};

use super::Scripts;
use crate::store_access::StoreJobEnd;
use crate::vm::Vm;

impl Scripts {
    /// Records the jobs of the store that a VM has begun.
    pub(super) fn note_store_jobs(&mut self, vm: &Rc<Vm>) {
        for number in vm.host().store.begun_jobs.take() {
            self.store_jobs.insert(number, Rc::downgrade(vm));
        }
    }

    /// Resumes the script that waits for a job of the store, which has ended.
    pub(super) fn store_job_has_ended(&mut self, end: StoreJobEnd) {
        let StoreJobEnd { number, finished } = end;
        let Some(vm) = self.store_jobs.remove(&number).as_ref().and_then(Weak::upgrade) else {
            return;
        };
        if let Some(waiter) = vm.host().store.end_job(number, finished) {
            vm.host().wake(waiter);
            self.settle(&vm);
        }
    }
}
