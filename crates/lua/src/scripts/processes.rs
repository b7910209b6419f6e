//! Programs of scripts: the work on their streams, and the notification of tasks.

use std::rc::{Rc, Weak};

use pinion_engine::app::RawEvent;
use pinion_engine::connections::Connections;
use pinion_engine::raw::RawStream;

use super::Scripts;
use crate::task::TaskId;
use crate::vm::Vm;

impl Scripts {
    /// Handles an event of a stream of a program.
    pub(super) fn raw_of_program(&mut self, event: &RawEvent<'_>, stream: &mut RawStream<'_>) {
        match self.programs.used() {
            Some(runner) => runner.borrow_mut().raw(event, stream),
            // A worker without a runner has no such stream.
            None => stream.abort(),
        }
    }

    /// Does the work on streams that scripts have requested, and wakes the tasks whose programs
    /// have news.
    pub(super) fn flush_programs(&mut self, connections: &mut Connections<'_>) {
        let programs = Rc::clone(&self.programs);
        let Some(runner) = programs.used() else { return };
        runner.borrow_mut().flush(connections);
        loop {
            let news = runner.borrow_mut().next_news();
            let Some(id) = news else { return };
            let Some(vm) = self.runs.get(&id).and_then(Weak::upgrade) else { continue };
            let waiter = vm.host().processes.borrow().get(id).map(|owned| owned.waiter);
            if let Some(waiter) = waiter {
                vm.host().wake(waiter);
                self.settle(&vm);
            }
        }
    }

    /// Does the work for programs that is due.
    pub(super) fn pass_programs(&mut self, connections: &mut Connections<'_>) {
        if let Some(runner) = self.programs.used() {
            runner.borrow_mut().pass(connections);
        }
    }

    /// Records the programs that a VM has begun and ended. If the client of a request has left
    /// before it began a program, the request is notified, which ends it.
    pub(super) fn note_runs(&mut self, vm: &Rc<Vm>) {
        let work = &vm.host().work;
        for id in work.begun_runs.take() {
            self.runs.insert(id, Rc::downgrade(vm));
            let owner = vm.host().processes.borrow().owner_of(id);
            let left = owner.and_then(|owner| {
                let mut tasks = vm.tasks();
                tasks.request(owner).filter(|task| task.is_input_over).map(|task| task.address)
            });
            left.into_iter().for_each(|address| self.wake_later(address));
        }
        for id in work.ended_runs.take() {
            self.runs.remove(&id);
        }
    }

    /// Ends all programs of a VM.
    pub(super) fn end_runs(&mut self, vm: &Rc<Vm>) {
        let ids = vm.host().processes.borrow().keys();
        vm.host().close_processes(&ids);
        self.note_runs(vm);
    }
}

/// Returns whether the client of a request sends no more while programs of the request run, so that
/// no client reads their further output. A handler without a program may respond.
pub(super) fn is_left_with_programs(vm: &Vm, id: TaskId) -> bool {
    vm.tasks().request(id).is_some_and(|task| task.is_input_over)
        && vm.host().processes.borrow().count_of(id) > 0
}
