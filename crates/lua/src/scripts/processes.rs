//! Programs of scripts: what is done on their streams, and who hears of it.

use std::rc::{Rc, Weak};

use pinion_engine::app::RawEvent;
use pinion_engine::connections::Connections;
use pinion_engine::raw::RawStream;

use super::Scripts;
use crate::vm::Vm;

impl Scripts {
    /// Something has happened on a stream of a program.
    pub(super) fn raw_of_program(&mut self, event: &RawEvent<'_>, stream: &mut RawStream<'_>) {
        match self.programs.used() {
            Some(runner) => runner.borrow_mut().raw(event, stream),
            // A worker that has none has no such stream.
            None => stream.abort(),
        }
    }

    /// Does on streams what scripts have asked for, and wakes those whose programs have news.
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

    /// Does what is due for programs.
    pub(super) fn pass_programs(&mut self, connections: &mut Connections<'_>) {
        if let Some(runner) = self.programs.used() {
            runner.borrow_mut().pass(connections);
        }
    }

    /// Takes note of programs that a VM has begun and ended.
    pub(super) fn note_runs(&mut self, vm: &Rc<Vm>) {
        let work = &vm.host().work;
        for id in work.begun_runs.take() {
            self.runs.insert(id, Rc::downgrade(vm));
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
