//! Memory for the content of requests: arriving content is counted, and when there is too much of
//! it some requests lose theirs, so that the others are answered.

use std::cmp::Reverse;
use std::rc::Rc;

use pinion_engine::app::Event;
use pinion_engine::exchange::Exchange;

use super::{Outlet, RequestOutcome, Scripts, log_failure};
use crate::body::body_memory::BodyMemoryRelief;
use crate::body::received_content;
use crate::limits::UPLOAD_RELIEF_PAUSE_MS;
use crate::task::TaskId;
use crate::vm::{ScriptFault, Vm};

/// Returns whether the body of a request is larger than its limit.
pub(super) fn is_body_too_large(vm: &Vm, id: TaskId) -> bool {
    vm.tasks().request(id).is_some_and(|task| task.content.exceeded().is_some())
}

impl Scripts {
    /// Handles a part or the end of a body. Returns the outcome of the request if it does not wait
    /// any more.
    pub(super) fn body_came(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        event: &Event<'_>,
        outlet: &mut Outlet<'_, '_>,
    ) -> Option<RequestOutcome> {
        let goes_on = self.content_came(vm, id, event, outlet.exchange);
        if is_body_too_large(vm, id) {
            let fault = vm.body_too_large(id, None);
            return Some(self.fail(vm, id, &fault, outlet));
        }
        goes_on.then(|| self.go_on(vm, id, true, outlet))
    }

    /// Logs that the engine has refused the body of a request because of its size.
    #[cold]
    pub(super) fn log_refused_body(&mut self, vm: &Vm, id: TaskId) {
        let Some(shown) = vm.tasks().request(id).map(|task| task.request.shown()) else { return };
        if let ScriptFault::BodyTooLarge(text) = vm.body_too_large(id, None) {
            let message = text.lines().next().unwrap_or_default();
            log_failure(&self.ids.next(), &format!("{shown}: {message}"));
        }
    }

    /// Adds content, or its end; returns whether a handler that waits for it can go on.
    fn content_came(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        event: &Event<'_>,
        exchange: &mut Exchange<'_>,
    ) -> bool {
        let now_ms = exchange.now().monotonic_ms;
        let held_bytes = vm.tasks().request(id).map_or(0, |task| {
            received_content::came(task, event, now_ms);
            task.content.held_bytes()
        });
        if let Some(relief) = self.body_memory.relief(held_bytes) {
            self.relieve(relief, now_ms);
        }
        if self.body_memory.uploads().is_short() && now_ms >= self.upload_relief_after_ms {
            self.upload_relief_after_ms = now_ms + UPLOAD_RELIEF_PAUSE_MS;
            self.give_up_stalled_uploads(now_ms);
        }
        vm.tasks().request(id).is_some_and(|task| received_content::goes_on(task, exchange))
    }

    /// Cancels the uploads of clients that have stalled, so that uploads which make progress find
    /// room.
    #[cold]
    fn give_up_stalled_uploads(&mut self, now_ms: u64) {
        let mut stalled = Vec::new();
        for (address, (vm, id)) in &self.waiting {
            let mut tasks = vm.tasks();
            let Some(content) = tasks.request(*id).map(|task| &mut task.content) else { continue };
            if content.is_coming() && content.is_stored() && content.is_stalled(now_ms) {
                content.give_up();
                stalled.push(*address);
            }
        }
        for address in stalled {
            self.wake_later(address);
        }
        self.notify_woken();
    }

    /// Drops the content of requests until there is room: first of requests whose clients are too
    /// slow, the largest before the others, then of the newest. Their handlers get an error like
    /// any other.
    #[cold]
    fn relieve(&mut self, relief: BodyMemoryRelief, now_ms: u64) {
        let mut holders = Vec::new();
        for (address, (vm, id)) in &self.waiting {
            let mut tasks = vm.tasks();
            let Some(content) = tasks.request(*id).map(|task| &task.content) else { continue };
            if content.is_coming() && content.held_bytes() >= relief.least_bytes {
                let rank = if content.is_stalled(now_ms) {
                    (false, Reverse(content.held_bytes() as u64))
                } else {
                    (true, Reverse(content.begun_ms()))
                };
                holders.push((rank, *address, Rc::clone(vm), *id));
            }
        }
        holders.sort_by_key(|(rank, ..)| *rank);
        for (_, address, vm, id) in holders {
            if self.body_memory.bytes() <= relief.left_bytes {
                break;
            }
            if let Some(task) = vm.tasks().request(id) {
                task.content.give_up();
                self.wake_later(address);
            }
        }
        self.notify_woken();
    }
}
