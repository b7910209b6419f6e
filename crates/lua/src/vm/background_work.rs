//! The functions of the host for background work: the begin and the end of tasks, and schedules.

use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, Lua, Result, Table, Value};

use super::FunctionOrigin;
use super::host_functions::{Host, Outcome, or_why};
use crate::channel_message::ChannelMessage;
use crate::limits::{CACHED_MAX, SCHEDULES_MAX, SPAWNED_MAX};
use crate::operation_id::OperationId;
use crate::schedule::Schedule;
use crate::task::{BackgroundTaskKind, Task, TaskId, TaskLifetime, Waits};

impl Host {
    /// Wakes a task, now or as soon as it waits for that.
    pub(crate) fn wake(&self, id: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        let Some(task) = tasks.get(id) else { return };
        task.is_woken = true;
        if !matches!(task.waits, Waits::Wake | Waits::WakeUntil(_)) {
            return;
        }
        drop(tasks);
        self.make_ready(id);
    }

    /// Records that a task can go on, because the event has come that it waits for.
    pub(crate) fn make_ready(&self, id: TaskId) {
        match self.tasks.borrow_mut().task(id) {
            Some(Task::Request(task)) => self.work.woken.borrow_mut().push(task.address),
            Some(Task::Background(_)) => self.work.ready.borrow_mut().push(id),
            None => return,
        }
        self.work.has_news.set(true);
    }

    /// Returns the task that waits for news of an operation.
    pub(crate) fn waiter_of(&self, id: OperationId) -> Option<TaskId> {
        match id {
            OperationId::Fetch(id) => self.fetches.borrow().get(id).map(|fetch| fetch.waiter),
            OperationId::Program(id) => self.processes.borrow().get(id).map(|run| run.waiter),
            OperationId::StoreJob(number) => self.store.waiter_of(number),
            // The result of a job goes to its task.
            OperationId::Job(_) => None,
        }
    }

    /// Makes the VM drop values that can be made again.
    pub(super) fn forget_cached(&self) {
        for forget in self.work.forget_cached.borrow().iter() {
            // A function that fails for want of memory is called again by the next request that
            // needs memory.
            let _forgotten = forget.call::<()>(());
        }
    }

    /// Ends a task: its watchers are notified, and the tasks that follow it begin.
    pub(crate) fn end(&self, id: TaskId) {
        let ended = self.tasks.borrow_mut().end(id);
        self.end_subscriptions(&ended.subscriptions);
        for task in &ended.owners {
            self.end_fetches_of(*task);
            self.end_processes_of(*task);
            self.store.forget_task(*task);
        }
        ended.watchers.into_iter().for_each(|watcher| self.wake(watcher));
        if !ended.after.is_empty() {
            self.work.ready.borrow_mut().extend(ended.after);
            self.work.has_news.set(true);
        }
    }

    /// Begins background work.
    ///
    /// # Errors
    /// Fails when there is too much background work.
    pub(crate) fn spawn(
        &self,
        lua: &Lua,
        work: Function,
        kind: BackgroundTaskKind,
        message: Option<Arc<ChannelMessage>>,
    ) -> Result<Outcome<TaskId>> {
        let origin = FunctionOrigin::of(&work);
        let work = match &*self.background_task.borrow() {
            Some(background_task) => background_task.call(work)?,
            None => work,
        };
        let coroutine = self.coroutine(lua, work)?;
        let by = self.work.current.get();
        let mut tasks = self.tasks.borrow_mut();
        let is_after = kind.lifetime() == TaskLifetime::AfterParent && tasks.get(by).is_some();
        let Some(id) = tasks.spawn(by, kind) else {
            let background_max = tasks.background_max();
            return Ok(or_why(Err(format!(
                "too much background work: one request, run of a schedule or message starts at \
                 most {SPAWNED_MAX} pieces, with those that its pieces start, and a script has at \
                 most {background_max} in a worker; start fewer, or use pinion.every"
            ))));
        };
        if let Err(error) = tasks.park(id, coroutine, Waits::No) {
            tasks.end(id);
            return Err(error);
        }
        if let Some(task) = tasks.background_task(id) {
            (task.message, task.origin) = (message, origin);
        }
        if !is_after {
            self.work.ready.borrow_mut().push(id);
            self.work.has_news.set(true);
        }
        Ok((Some(id), None))
    }
}

/// The error of a registration in a handler.
pub(super) const STARTED: &str =
    "call pinion.every, pinion.cron and pinion.on while the main script starts, not in a handler";

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    for (name, kind) in [
        ("spawn_child", BackgroundTaskKind::Gather),
        ("spawn_block", BackgroundTaskKind::Block),
        ("spawn_after_request", BackgroundTaskKind::Spawn),
        ("spawn_independent", BackgroundTaskKind::Cached),
    ] {
        let of = Rc::clone(host);
        let spawn = move |lua: &Lua, work: Function| of.spawn(lua, work, kind, None);
        table.raw_set(name, lua.create_function(spawn)?)?;
    }
    let of = Rc::clone(host);
    table.raw_set("current", lua.create_function(move |_, ()| Ok(of.work.current.get()))?)?;
    table.raw_set("CACHE_MAX", CACHED_MAX)?;
    let of = Rc::clone(host);
    let on_memory_pressure = move |_: &Lua, forget: Function| {
        of.work.forget_cached.borrow_mut().push(forget);
        Ok(())
    };
    table.raw_set("on_memory_pressure", lua.create_function(on_memory_pressure)?)?;
    let clock = host.clock.clone();
    let now_ms = move |_: &Lua, ()| Ok(clock.now().monotonic_ms);
    table.raw_set("now_ms", lua.create_function(now_ms)?)?;
    let of = Rc::clone(host);
    let wake = move |_: &Lua, id: TaskId| {
        of.wake(id);
        Ok(())
    };
    table.raw_set("wake", lua.create_function(wake)?)?;
    let of = Rc::clone(host);
    let wake_when_done = move |_: &Lua, id: TaskId| {
        let watcher = of.work.current.get();
        Ok(of.tasks.borrow_mut().watch(id, watcher))
    };
    table.raw_set("wake_when_done", lua.create_function(wake_when_done)?)?;
    let chunk = lua.load(include_str!("../background_work.lua")).set_name("=pinion");
    table.raw_set("background_work", chunk.into_function()?)?;
    schedules(lua, host, table)
}

fn schedules(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    type Arguments = (Value, Function, bool);
    let schedule = move |_: &Lua, (when, work, is_everywhere): Arguments| {
        if of.has_started() {
            return Ok(Some(STARTED.to_owned()));
        }
        let mut schedules = of.work.schedules.borrow_mut();
        if schedules.len() >= SCHEDULES_MAX {
            return Ok(Some(format!(
                "a script has at most {SCHEDULES_MAX} schedules; do several things in one"
            )));
        }
        let schedule = match &when {
            Value::String(text) => Schedule::cron(&text.to_string_lossy(), work, is_everywhere),
            other => {
                let seconds = other.as_f64().or_else(|| other.as_i64().map(|whole| whole as f64));
                Schedule::every(seconds.unwrap_or(f64::NAN), work, is_everywhere)
            }
        };
        Ok(schedule.map(|schedule| schedules.push(schedule)).err())
    };
    table.raw_set("schedule", lua.create_function(schedule)?)
}
