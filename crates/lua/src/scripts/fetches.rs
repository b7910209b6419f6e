//! Requests of scripts to other servers: the work on connections, and the notification of tasks.

use std::rc::Rc;

use pinion_client::http_client::NamesResolved;
use pinion_engine::app::{Message, RawEvent};
use pinion_engine::connections::Connections;
use pinion_engine::raw::RawStream;
use pinion_programs::program_runner::PROGRAM_TAG;

use super::Scripts;
use crate::vm::Vm;

impl Scripts {
    /// Handles an event of a connection that was opened for a script. The caller calls
    /// [`Self::flush`] after it.
    pub fn raw(&mut self, event: &RawEvent<'_>, stream: &mut RawStream<'_>) {
        if stream.tag().is_some_and(|tag| tag & PROGRAM_TAG != 0) {
            return self.raw_of_program(event, stream);
        }
        match self.client.used() {
            Some(client) => client.borrow_mut().raw(event, stream),
            // A worker without a client has opened no connection.
            None => stream.abort(),
        }
    }

    /// Does the work on connections that scripts have requested, and wakes the tasks whose requests
    /// have news. Call it after everything that may run a script.
    #[inline]
    pub fn flush(&mut self, connections: &mut Connections<'_>) {
        if self.client.used().is_some_and(|client| client.borrow().has_work()) {
            self.flush_client(connections);
        }
        if self.programs.used().is_some_and(|runner| runner.borrow().has_work()) {
            self.flush_programs(connections);
        }
    }

    fn flush_client(&mut self, connections: &mut Connections<'_>) {
        let client = Rc::clone(&self.client);
        let Some(client) = client.used() else { return };
        client.borrow_mut().flush(connections);
        loop {
            let news = client.borrow_mut().next_news();
            let Some(id) = news else { return };
            let Some(vm) = self.fetches.get(&id).and_then(std::rc::Weak::upgrade) else { continue };
            let waiter = vm.host().fetches.borrow().get(id).map(|fetch| fetch.waiter);
            if let Some(waiter) = waiter {
                vm.host().wake(waiter);
                self.settle(&vm);
            }
        }
    }

    /// Does the work for requests to other servers that is due.
    pub(super) fn pass_client(&mut self, connections: &mut Connections<'_>) {
        if let Some(client) = self.client.used() {
            client.borrow_mut().pass(connections);
        }
    }

    /// Returns whether a message reports that names were resolved, which the next pass handles.
    pub(super) fn is_of_client(message: &Message) -> bool {
        message.is::<NamesResolved>()
    }

    /// Records the requests that a VM has begun and ended.
    pub(super) fn note_fetches(&mut self, vm: &Rc<Vm>) {
        let work = &vm.host().work;
        for id in work.begun_fetches.take() {
            self.fetches.insert(id, Rc::downgrade(vm));
        }
        for id in work.ended_fetches.take() {
            self.fetches.remove(&id);
        }
    }

    /// Ends all requests of a VM.
    pub(super) fn end_fetches(&mut self, vm: &Rc<Vm>) {
        let ids = vm.host().fetches.borrow().keys();
        vm.host().close_fetches(&ids);
        self.note_fetches(vm);
    }
}
