//! The end of the server or of a script: what runs hears of it, so that streams come to a good one.

use std::cmp::Reverse;
use std::rc::{Rc, Weak};

use super::Scripts;
use super::background::Due;
use crate::vm::{EndingReason, Vm};

impl Scripts {
    /// The server has begun to stop: what is repeated begins no more, and what has begun goes on.
    pub fn stop(&mut self) {
        self.background.is_stopping = true;
        self.client.stop();
        self.programs.stop();
        self.background.timers.retain(|Reverse(timer)| !matches!(timer.what, Due::Schedule(_)));
        let vms = self.background.current.iter().chain(&self.background.old);
        for vm in vms.filter_map(Weak::upgrade).collect::<Vec<_>>() {
            self.announce_end(&vm, EndingReason::Stopping);
        }
    }

    /// Handlers and work of a VM hear that they should come to an end.
    pub(super) fn announce_end(&mut self, vm: &Rc<Vm>, ending: EndingReason) {
        vm.host().announce_end(ending);
        self.settle(vm);
    }
}

impl Drop for Scripts {
    /// What is lost with the end of the server does not go without a word.
    fn drop(&mut self) {
        let pieces = self.background.pieces();
        if self.background.is_stopping && pieces > 0 {
            self.tell_of("background work", &format!(
                "stopped before all work was done (pieces left: {pieces}); a longer --grace gives \
                 it more time"
            ));
        }
    }
}
