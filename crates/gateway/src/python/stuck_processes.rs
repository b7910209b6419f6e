//! Processes that do nothing any more: all threads hang in requests that are over their time, or
//! the event loop is blocked. Others get their requests, and the server, which runs the processes,
//! hears of it.

use std::fmt;
use std::sync::OnceLock;

use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::python::frame_writer::write_take_back;

use super::Python;
use super::limits::BLOCKED_MS;
use super::process_link::ProcessLink;
use super::python_app::{AppProcess, PythonApp};
use super::python_request::RequestStage;

/// The function that is called when a process does nothing any more.
#[derive(Default)]
pub(super) struct StuckHook(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for StuckHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StuckHook")
    }
}

impl PythonApp {
    /// Sets the function that is called, on any thread, when a process does nothing any more. The
    /// [figures](Self::figures) show which one.
    pub fn when_stuck(&self, call: impl Fn() + Send + Sync + 'static) {
        // The first one stays: all do the same.
        let _ = self.stuck_hook.0.set(Box::new(call));
    }

    fn report_stuck(&self) {
        if let Some(call) = self.stuck_hook.0.get() {
            call();
        }
    }
}

impl Python {
    /// Records that a request of a process is over its time, and its client gets no response.
    pub(super) fn note_overdue(&mut self, address: Address, exchange: &mut Exchange<'_>) {
        let Some(request) = self.requests.get(&address) else { return };
        let RequestStage::Sent { link: link_number, number } = request.stage else { return };
        let Some(link) = self.links.get_mut(&link_number) else { return };
        let Some(known) = link.requests.get_mut(&number) else { return };
        let app = &link.process.app;
        if !app.is_asgi() {
            known.is_overdue = true;
            if app.queue.add_overdue(link.process.number) {
                app.report_stuck();
            }
            return;
        }
        // A running event loop answers at once, with any number of requests that hang.
        let now_ms = exchange.now().monotonic_ms;
        if link.asked_ms.is_none() {
            link.asked_ms = Some(now_ms);
            self.blocked_checks.push_back((link_number, now_ms + BLOCKED_MS));
            self.send_frame(address, exchange, |number, out| write_take_back(out, &[number]));
        }
    }

    /// Checks whether event loops that were asked have answered.
    pub(super) fn blocked_pass(&mut self, now_ms: u64) {
        while let Some((link, due_ms)) = self.blocked_checks.front().copied()
            && due_ms <= now_ms
        {
            self.blocked_checks.pop_front();
            let Some(link) = self.links.get(&link) else { continue };
            let is_unanswered =
                link.asked_ms.is_some_and(|asked_ms| asked_ms + BLOCKED_MS <= now_ms);
            if is_unanswered && link.process.app.queue.set_blocked(link.process.number) {
                link.process.app.report_stuck();
            }
        }
    }

    /// Records that the event loop of a process has answered.
    pub(super) fn note_response(&mut self, link: &mut ProcessLink) {
        if link.asked_ms.take().is_some() {
            let AppProcess { app, number } = &link.process;
            app.queue.set_unblocked(*number);
            self.grant(app);
        }
    }

    /// Returns the time when an event loop must have answered.
    pub(super) fn blocked_check_ms(&self) -> Option<u64> {
        self.blocked_checks.front().map(|(_, due_ms)| *due_ms)
    }
}
