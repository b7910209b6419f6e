//! The assignment of requests to processes: a request goes to a process that has time, or waits
//! until one has; its place there becomes free for the next request at its end.

use std::sync::Arc;

use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::python::frame_writer::write_gone;

use super::Python;
use super::limits::{QUEUE_TIMEOUT_MS, WAITING_MAX};
use super::process_link::ProcessLink;
use super::process_request_queue::QueueEntry;
use super::python_app::{AppProcess, PythonApp};
use super::python_failure::PythonFailure;
use super::python_request::RequestStage;
use crate::proxy_error::ProxyError;

/// A message to an exchange of another worker that a process has time for now.
pub(super) struct ProcessIsFree;

impl Python {
    /// Sends a request to a process, or lets it wait.
    pub(super) fn enter(
        &mut self,
        address: Address,
        exchange: &mut Exchange<'_>,
    ) -> Result<(), ProxyError> {
        let Some(request) = self.requests.get_mut(&address) else { return Ok(()) };
        request.stage = RequestStage::Waiting;
        match request.app.queue.enter(address) {
            QueueEntry::Run(process) => {
                self.start(address, process, exchange);
                Ok(())
            }
            QueueEntry::Waits => {
                request.due_ms = exchange.now().monotonic_ms + QUEUE_TIMEOUT_MS;
                exchange.wait(Some(QUEUE_TIMEOUT_MS));
                Ok(())
            }
            QueueEntry::NotLoaded => Err(request.error(PythonFailure::NotLoaded)),
            QueueEntry::Full => Err(request.error(PythonFailure::QueueFull { max: WAITING_MAX })),
        }
    }

    /// Gives a request that has waited to a process that may have time for it.
    pub(super) fn turn(&mut self, address: Address, exchange: &mut Exchange<'_>) {
        let Some(request) = self.requests.get(&address) else { return };
        if request.stage == RequestStage::Waiting
            && let Some(process) = request.app.queue.take(address)
        {
            self.start(address, process, exchange);
        }
    }

    /// Sends a request to a process, which has a place for it.
    pub(super) fn start(&mut self, address: Address, process: u64, exchange: &mut Exchange<'_>) {
        let Some(request) = self.requests.get_mut(&address) else { return };
        let last_number = &mut self.last_number;
        let number = *self.numbers.entry(process).or_insert_with(|| {
            *last_number += 1;
            *last_number
        });
        let app = &request.app;
        let link = self.links.entry(number).or_insert_with(|| {
            ProcessLink::new(AppProcess { app: Arc::clone(app), number: process })
        });
        if !link.has_unsent() {
            self.unsent.push(number);
        }
        request.stage = RequestStage::Sent { link: number, number: link.add(address) };
        let timeout_ms = request.app.timeout_ms;
        request.due_ms = exchange.now().monotonic_ms + timeout_ms;
        exchange.wait(Some(timeout_ms));
    }

    /// Notifies the process that nothing of a request is needed any more, or takes it out of the
    /// queue.
    pub(super) fn give_up(&mut self, address: Address, exchange: &mut Exchange<'_>) {
        let Some(request) = self.requests.get(&address) else { return };
        let app = Arc::clone(&request.app);
        match request.stage {
            RequestStage::Storing => {}
            RequestStage::Waiting => {
                if let Some(process) = app.queue.take(address) {
                    self.release(&app, process, None);
                }
            }
            RequestStage::Sent { link, number } => {
                let Some(link) = self.links.get_mut(&link) else { return };
                let Some(known) = link.requests.get_mut(&number) else { return };
                if known.sent_ms.is_some() {
                    known.exchange = None;
                    self.send_frame(address, exchange, |number, out| write_gone(out, number));
                } else {
                    let process = link.process.number;
                    link.requests.remove(&number);
                    self.release(&app, process, None);
                }
            }
        }
    }

    /// Frees the place of a request for the waiting ones.
    pub(super) fn release(&mut self, app: &PythonApp, process: u64, service_ms: Option<u64>) {
        app.queue.release(process, service_ms);
        self.grant(app);
    }

    /// Notifies the requests whose turn has come.
    pub(super) fn grant(&mut self, app: &PythonApp) {
        while let Some(next) = app.queue.grant() {
            if self.requests.contains_key(&next) {
                self.turns.push(next);
            } else {
                // A message that cannot be sent is not needed at the deadline of the request.
                let _ = self.poster.post(next, Box::new(ProcessIsFree));
            }
        }
    }
}
