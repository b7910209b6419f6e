//! The operations outside of the VMs that tasks wait for: requests to other servers, programs,
//! commands of the store that take long, and jobs. One table has all of them, and their news wake
//! the tasks that wait for them.

use std::collections::HashMap;
use std::rc::{Rc, Weak};

use pinion_client::http_client::NamesResolved;
use pinion_engine::app::{ByteStreamEvent, Message};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_jobs::job_queue::{CancelOnDrop, JobOwner};
use pinion_programs::program_runner::PROGRAM_TAG;

use super::Scripts;
use crate::lua_job::LuaJobDone;
use crate::operation_id::OperationId;
use crate::store_access::StoreJobEnd;
use crate::task::{TaskId, Waits};
use crate::vm::Vm;

/// The operations of a worker that have not ended.
#[derive(Default)]
pub(super) struct Operations {
    owners: HashMap<OperationId, OperationOwner>,
    /// The number of the last job.
    job_number: u64,
}

/// The task that has begun an operation. Its VM lives as long as the task.
struct OperationOwner {
    vm: Weak<Vm>,
    task: TaskId,
}

impl Operations {
    fn add(&mut self, id: OperationId, vm: &Rc<Vm>, task: TaskId) {
        self.owners.insert(id, OperationOwner { vm: Rc::downgrade(vm), task });
    }

    /// Returns the VM that has begun an operation, if it lives.
    fn vm(&self, id: OperationId) -> Option<Rc<Vm>> {
        self.owners.get(&id)?.vm.upgrade()
    }

    /// Removes an operation, and returns the VM and the task that have begun it, if the VM lives.
    fn remove(&mut self, id: OperationId) -> Option<(Rc<Vm>, TaskId)> {
        let OperationOwner { vm, task } = self.owners.remove(&id)?;
        Some((vm.upgrade()?, task))
    }

    /// Removes all operations of a VM.
    pub(super) fn forget(&mut self, vm: &Rc<Vm>) {
        self.owners.retain(|_, owner| !std::ptr::eq(owner.vm.as_ptr(), Rc::as_ptr(vm)));
    }

    /// Returns the number of jobs.
    #[cfg(feature = "sim")]
    pub(super) fn jobs(&self) -> usize {
        self.owners.keys().filter(|id| matches!(id, OperationId::Job(_))).count()
    }
}

impl Scripts {
    /// Handles an event of a connection that was opened for a script, or of a stream of a program.
    /// The caller calls [`Self::flush`] after it.
    pub fn byte_stream_event(
        &mut self,
        event: &ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let is_of_program = stream.tag().is_some_and(|tag| tag & PROGRAM_TAG != 0);
        match (self.client.used(), self.programs.used()) {
            (_, Some(runner)) if is_of_program => {
                runner.borrow_mut().byte_stream_event(event, stream);
            }
            (Some(client), _) if !is_of_program => {
                client.borrow_mut().byte_stream_event(event, stream);
            }
            // A worker without a client has opened no connection, and one without a runner has no
            // stream of a program.
            _ => stream.abort(),
        }
    }

    /// Does the work on connections and streams that scripts have requested, and wakes the tasks
    /// whose operations have news. Call it after everything that may run a script.
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
            self.wake_waiter(OperationId::Fetch(id));
        }
    }

    fn flush_programs(&mut self, connections: &mut Connections<'_>) {
        let programs = Rc::clone(&self.programs);
        let Some(runner) = programs.used() else { return };
        runner.borrow_mut().flush(connections);
        loop {
            let news = runner.borrow_mut().next_news();
            let Some(id) = news else { return };
            self.wake_waiter(OperationId::Program(id));
        }
    }

    /// Does the work for requests to other servers and for programs that is due.
    pub(super) fn pass_operations(&mut self, connections: &mut Connections<'_>) {
        self.pass_client(connections);
        if let Some(runner) = self.programs.used() {
            runner.borrow_mut().pass(connections);
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

    /// Wakes the task that waits for news of an operation.
    fn wake_waiter(&mut self, id: OperationId) {
        let Some(vm) = self.operations.vm(id) else { return };
        if let Some(waiter) = vm.host().waiter_of(id) {
            vm.host().wake(waiter);
            self.settle(&vm);
        }
    }

    /// Resumes the task that waits for a job of the store, which has ended.
    pub(super) fn store_job_has_ended(&mut self, end: StoreJobEnd) {
        let StoreJobEnd { number, finished } = end;
        let id = OperationId::StoreJob(number);
        if let Some(vm) = self.operations.vm(id) {
            vm.host().store.end_job(number, finished);
        }
        self.wake_waiter(id);
        self.operations.remove(id);
    }

    /// Queues the job that a task has made.
    pub(super) fn job(&mut self, vm: &Rc<Vm>, id: TaskId) -> Result<Waits, String> {
        let job = vm.host().work.job.borrow_mut().take();
        let job = job.ok_or_else(|| "there is no job".to_owned())?;
        self.operations.job_number += 1;
        let number = self.operations.job_number;
        let guard = CancelOnDrop::default();
        let owner = JobOwner { number, worker: self.worker, poster: self.poster.clone() };
        self.jobs.submit(job, &guard, owner)?;
        if let Some(task) = vm.tasks().get(id) {
            task.job_guard = Some(guard);
        }
        self.operations.add(OperationId::Job(number), vm, id);
        Ok(Waits::Job)
    }

    /// Resumes the task that waits for a job, which is done.
    pub(super) fn job_is_done(&mut self, done: LuaJobDone) {
        let Some((vm, id)) = self.operations.remove(OperationId::Job(done.number)) else { return };
        if let Some(task) = vm.tasks().get(id) {
            (task.job_guard, task.result) = (None, Some(done.result));
        }
        vm.host().make_ready(id);
        self.settle(&vm);
    }

    /// Records the operations that a VM has begun and ended. If the client of a request has left
    /// before the request began a program, the request is notified, which ends it.
    pub(super) fn note_operations(&mut self, vm: &Rc<Vm>) {
        let work = &vm.host().work;
        for (id, task) in work.begun_operations.take() {
            self.operations.add(id, vm, task);
            if let OperationId::Program(run) = id {
                let owner = vm.host().processes.borrow().owner_of(run);
                let left = owner.and_then(|owner| {
                    let mut tasks = vm.tasks();
                    tasks.request(owner).filter(|task| task.is_input_over).map(|task| task.address)
                });
                left.into_iter().for_each(|address| self.wake_later(address));
            }
        }
        for id in work.ended_operations.take() {
            self.operations.remove(id);
        }
    }

    /// Ends all requests to other servers and all programs of a VM.
    pub(super) fn end_operations(&mut self, vm: &Rc<Vm>) {
        let host = vm.host();
        let (fetches, processes) = (host.fetches.borrow().keys(), host.processes.borrow().keys());
        host.close_fetches(&fetches);
        host.close_processes(&processes);
        self.note_operations(vm);
    }
}

/// Returns whether the client of a request sends no more while programs of the request run, so that
/// no client reads their further output. A handler without a program may respond.
pub(super) fn is_left_with_programs(vm: &Vm, id: TaskId) -> bool {
    vm.tasks().request(id).is_some_and(|task| task.is_input_over)
        && vm.host().processes.borrow().count_of(id) > 0
}
