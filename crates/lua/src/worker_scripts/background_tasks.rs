//! Background work: the tasks that wait, and the schedules that are due.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Thread as Coroutine, Value};
use pinion_engine::clock::Now;
use pinion_engine::exchange_address::Address;

use super::timers::{TimerEvent, Timers};
use super::{Scripts, log_failure};
use crate::channel_message::ChannelMessage;
use crate::limits::{TASKS_PER_PASS, TASKS_PER_PASS_MAX_MS};
use crate::lua_job::LuaJobResult;
use crate::task::{BackgroundTask, BackgroundTaskKind, TaskId, Waits};
use crate::vm::{self, CoroutineStep, ScriptFault, Vm, WaitOperation};

/// The background work of a worker.
#[derive(Default)]
pub(super) struct Background {
    /// Tasks that can go on.
    pub(super) ready: VecDeque<(Rc<Vm>, TaskId)>,
    pub(super) timers: Timers,
    /// Requests that can go on and have not been notified, because the queue had no room.
    pub(super) unnotified: Vec<Address>,
    /// The VMs that respond to requests now, and the retired VMs, oldest first.
    pub(super) current: Vec<Weak<Vm>>,
    pub(super) retired: VecDeque<Weak<Vm>>,
    /// Whether the server stops, so that no schedule runs any more.
    pub(super) is_stopping: bool,
}

/// Notifies a request that it can go on.
#[derive(Debug)]
pub(super) struct Wake;

impl Background {
    /// Returns when the next event is due, in monotonic milliseconds.
    #[inline]
    pub(super) fn alarm_ms(&self) -> Option<u64> {
        if !self.ready.is_empty() || !self.unnotified.is_empty() {
            return Some(0);
        }
        self.timers.next_ms()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Returns the number of pieces of work that have begun, or will begin after a request, and
    /// have not ended.
    pub(super) fn pieces(&self) -> usize {
        let vms = self.current.iter().chain(&self.retired).filter_map(Weak::upgrade);
        vms.map(|vm| vm.tasks().background()).sum()
    }

    /// Drops all work of a VM beside its requests.
    pub(super) fn forget(&mut self, vm: &Rc<Vm>) {
        self.ready.retain(|(of, _)| !Rc::ptr_eq(of, vm));
        self.timers.drop_timers_of(vm);
    }
}

impl Scripts {
    /// Returns whether background work has not ended.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        // Unused connections to other servers have to be closed.
        let has_work = self.client.used().is_some_and(|client| client.borrow().has_work());
        let runs = self.programs.used().is_some_and(|runner| runner.borrow().has_work());
        has_work || runs || self.background.pieces() > 0
    }

    /// Begins the schedules of a VM, from a rank on.
    pub(super) fn begin_schedules(&mut self, vm: &Rc<Vm>, first: usize, now: Now) {
        if self.background.is_stopping {
            return;
        }
        for (rank, schedule) in vm.host().work.schedules.borrow().iter().enumerate().skip(first) {
            let is_here = schedule.is_everywhere || self.worker == 0;
            if let (true, Some(at_ms)) = (is_here, schedule.next_ms(now)) {
                self.background.timers.add(at_ms, vm, TimerEvent::Schedule(rank));
            }
        }
    }

    /// Does the work that is due.
    pub(super) fn work(&mut self, now: Now) {
        while let Some((vm, event)) = self.background.timers.pop_due(now.monotonic_ms) {
            match event {
                TimerEvent::Task(id) => self.due(&vm, id, now),
                TimerEvent::Schedule(rank) => self.repeat(&vm, rank, now),
            }
        }
        // Tasks that become ready meanwhile run in the next pass.
        let until_ms = Now::read().monotonic_ms + TASKS_PER_PASS_MAX_MS;
        for _ in 0..self.background.ready.len().min(TASKS_PER_PASS) {
            let Some((vm, id)) = self.background.ready.pop_front() else { break };
            self.resume_background(&vm, id, now);
            if Now::read().monotonic_ms >= until_ms {
                break;
            }
        }
        self.notify_woken();
    }

    /// Handles a task that has slept long enough, or taken too long.
    fn due(&mut self, vm: &Rc<Vm>, id: TaskId, now: Now) {
        let Some((waits, deadline_ms)) =
            vm.tasks().get(id).map(|task| (task.waits, task.deadline_ms))
        else {
            return;
        };
        if now.monotonic_ms >= deadline_ms {
            let why = vm::background_time(vm.allowance());
            let fault = vm.over_time(id, &why);
            return self.fail_background(vm, id, &fault);
        }
        if waits.until_ms().is_some_and(|at_ms| at_ms <= now.monotonic_ms) {
            self.background.ready.push_back((Rc::clone(vm), id));
        }
    }

    /// Runs a schedule that is due. The next run does not begin before the last one has ended.
    fn repeat(&mut self, vm: &Rc<Vm>, rank: usize, now: Now) {
        let (begun, kind) = {
            let schedules = vm.host().work.schedules.borrow();
            let Some(schedule) = schedules.get(rank) else { return };
            if let Some(at_ms) = schedule.next_ms(now) {
                self.background.timers.add(at_ms, vm, TimerEvent::Schedule(rank));
            }
            let is_running = vm.tasks().get(schedule.running).is_some();
            ((!is_running).then(|| schedule.work.clone()), schedule.kind())
        };
        let Some(work) = begun else { return };
        if let Some(id) = self.start_background(vm, work, kind, None)
            && let Some(schedule) = vm.host().work.schedules.borrow_mut().get_mut(rank)
        {
            schedule.running = id;
        }
    }

    /// Starts background work of a VM, which begins with a message if there is one. If that is not
    /// possible, the reason is logged.
    pub(super) fn start_background(
        &mut self,
        vm: &Rc<Vm>,
        work: Function,
        kind: BackgroundTaskKind,
        message: Option<Arc<ChannelMessage>>,
    ) -> Option<TaskId> {
        let (id, why) = match vm.host().spawn(vm.lua(), work, kind, message) {
            Ok(outcome) => outcome,
            Err(error) => (None, Some(error.to_string())),
        };
        if id.is_none() {
            self.log_background(kind.name(), &why.unwrap_or_default());
        }
        self.settle(vm);
        id
    }

    /// Resumes a task without a request.
    fn resume_background(&mut self, vm: &Rc<Vm>, id: TaskId, now: Now) {
        let (coroutine, values) = {
            let mut tasks = vm.tasks();
            let Some(BackgroundTask { state, message, .. }) = tasks.background_task(id) else {
                return;
            };
            let is_new = state.deadline_ms == 0;
            let can_go_on = match state.waits {
                Waits::No => is_new,
                Waits::Wake => state.is_woken,
                Waits::Until(at_ms) => at_ms <= now.monotonic_ms,
                Waits::WakeUntil(at_ms) => state.is_woken || at_ms <= now.monotonic_ms,
                Waits::Job => state.result.is_some(),
                Waits::Content | Waits::Room | Waits::File | Waits::FileRoom => false,
            };
            // The task may have been called twice.
            if !can_go_on {
                return;
            }
            if is_new {
                state.deadline_ms = now.monotonic_ms + vm::background_wall_ms(vm.allowance());
            }
            (state.waits, state.is_woken) = (Waits::No, false);
            let values = Resumed { result: state.result.take(), message: message.take(), is_new };
            let Some(coroutine) = tasks.take_coroutine(id) else { return };
            (coroutine, values)
        };
        let is_new = values.is_new;
        self.run_background(vm, id, coroutine, values, now);
        let mut tasks = vm.tasks();
        if let (true, Some(task)) = (is_new, tasks.get(id)) {
            let deadline_ms = task.deadline_ms;
            drop(tasks);
            self.background.timers.add(deadline_ms, vm, TimerEvent::Task(id));
        }
    }

    fn run_background(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        coroutine: Coroutine,
        values: Resumed,
        now: Now,
    ) {
        let mut step = self.resume(vm, id, &coroutine, values, now);
        loop {
            let waits = match step {
                CoroutineStep::Done(_) => return self.end_of(vm, id),
                CoroutineStep::Failed(fault) => return self.fail_background(vm, id, &fault),
                CoroutineStep::Waits(WaitOperation::Sleep(seconds)) => {
                    Ok(self.sleep(vm, id, seconds, now))
                }
                CoroutineStep::Waits(WaitOperation::Await(seconds)) => {
                    let waits = self.sleep(vm, id, seconds, now);
                    Ok(waits.until_ms().map_or(waits, Waits::WakeUntil))
                }
                CoroutineStep::Waits(WaitOperation::Wake) => Ok(Waits::Wake),
                CoroutineStep::Waits(WaitOperation::Job) => self.job(vm, id),
                CoroutineStep::Waits(_) => Err(ONLY_HANDLER.to_owned()),
            };
            match waits {
                Ok(waits) => {
                    let parked = vm.tasks().park(id, coroutine, waits);
                    if let Err(error) = parked {
                        return self.fail_background(
                            vm,
                            id,
                            &ScriptFault::Error(error.to_string()),
                        );
                    }
                    let is_woken = vm.tasks().get(id).is_some_and(|task| task.is_woken);
                    if matches!(waits, Waits::Wake | Waits::WakeUntil(_)) && is_woken {
                        self.background.ready.push_back((Rc::clone(vm), id));
                    }
                    return self.settle(vm);
                }
                Err(why) => step = self.resume(vm, id, &coroutine, (false, why), now),
            }
        }
    }

    fn sleep(&mut self, vm: &Rc<Vm>, id: TaskId, seconds: f64, now: Now) -> Waits {
        let at_ms = now.monotonic_ms.saturating_add((seconds * 1000.0) as u64).max(1);
        self.background.timers.add(at_ms, vm, TimerEvent::Task(id));
        Waits::Until(at_ms)
    }

    /// Ends a task without a request that has failed.
    fn fail_background(&mut self, vm: &Rc<Vm>, id: TaskId, fault: &ScriptFault) {
        let text = fault.text();
        if !self.has_failed_alone(id, text) {
            let kind =
                vm.tasks().background_task(id).map_or(BackgroundTaskKind::Spawn, |task| task.kind);
            self.log_background(kind.name(), text);
        }
        self.end_of(vm, id);
    }

    /// Logs an event of background work that `origin` has begun.
    pub(super) fn log_background(&mut self, origin: &str, text: &str) {
        log_failure(&self.ids.next(), &format!("{origin}: {text}"));
    }

    /// Ends a task.
    pub(super) fn end_of(&mut self, vm: &Rc<Vm>, id: TaskId) {
        vm.host().end(id);
        self.settle(vm);
        // Timers that its tasks did not need would keep the VM alive.
        if vm.is_finished() {
            self.forget(vm);
        }
    }

    /// Processes the work that a turn of a VM has requested beside its own outcome.
    #[inline]
    pub(super) fn settle(&mut self, vm: &Rc<Vm>) {
        if vm.host().work.has_news.take() {
            self.take_news(vm);
        }
    }

    #[cold]
    fn take_news(&mut self, vm: &Rc<Vm>) {
        self.note_operations(vm);
        let work = &vm.host().work;
        let ready = work.ready.take().into_iter().filter(|_| !vm.is_ended());
        self.background.ready.extend(ready.map(|id| (Rc::clone(vm), id)));
        self.background.unnotified.append(&mut work.woken.borrow_mut());
        for message in work.sent.take() {
            self.send(vm, message);
        }
        self.notify_woken();
    }

    /// Marks a request that can go on. [`Self::notify_woken`] notifies it.
    pub(super) fn wake_later(&mut self, address: Address) {
        self.background.unnotified.push(address);
    }

    pub(super) fn notify_woken(&mut self) {
        let poster = &self.poster;
        let is_full = |address: &Address| poster.post(*address, Box::new(Wake)).is_err();
        self.background.unnotified.retain(is_full);
    }
}

/// The error of background work that calls a function that only a handler has.
const ONLY_HANDLER: &str = "only the handler of a request can read its body and write its response";

/// The values with which a coroutine goes on: its arguments, or the result of its wait. They become
/// values of Lua in the coroutine's own turn, which pays for the memory.
pub(super) struct Resumed {
    pub(super) result: Option<LuaJobResult>,
    pub(super) message: Option<Arc<ChannelMessage>>,
    pub(super) is_new: bool,
}

impl IntoLuaMulti for Resumed {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        if let Some(message) = self.message {
            return message.value.to_lua(lua)?.into_lua_multi(lua);
        }
        match self.result {
            None if self.is_new => Ok(MultiValue::new()),
            None => true.into_lua_multi(lua),
            Some(LuaJobResult { outcome: Ok(value), .. }) => {
                (true, value.to_lua(lua)?).into_lua_multi(lua)
            }
            Some(LuaJobResult { outcome: Err(why), .. }) => {
                (true, Value::Nil, why).into_lua_multi(lua)
            }
        }
    }
}
