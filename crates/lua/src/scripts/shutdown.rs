//! The end of the server or of a script: running tasks are notified, so that streams end properly.

use std::rc::{Rc, Weak};

use super::Scripts;
use crate::vm::{EndingReason, Vm};

impl Scripts {
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
