//! The functions of the host for work beside requests: tasks, schedules, messages, and values that
//! are kept across reloads.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, Lua, LuaString, Result, Table, Value};
use pinion_client::http_client::RequestId;
use pinion_engine::address::Address;
use pinion_jobs::byte_quota::ByteQuota;
use pinion_jobs::folders::Folders;
use pinion_programs::program_run::RunId;

use super::FunctionOrigin;
use super::host::{Host, Outcome, or_why};
use crate::channel_message::ChannelMessage;
use crate::copied_value::Plain;
use crate::fetch::WorkerClient;
use crate::limits::{
    CACHED_MAX, CHANNELS_MAX, SCHEDULES_MAX, SENT_MAX, SENT_MAX_BYTES, SPAWNED_MAX,
};
use crate::lua_job::LuaJob;
use crate::pages::LinkKey;
use crate::programs::WorkerPrograms;
use crate::schedule::Schedule;
use crate::site::WorkerSite;
use crate::task::{Bond, TaskId, Waits, WorkKind};

/// The work that a script has requested and the owner of the VM has to do.
#[derive(Default)]
pub(crate) struct PendingWork {
    /// Whether one of the following lists is not empty.
    pub(crate) has_news: Cell<bool>,
    /// The task that runs.
    pub(crate) current: Cell<TaskId>,
    /// Tasks without a request that can go on.
    pub(crate) ready: RefCell<Vec<TaskId>>,
    /// Requests that can go on.
    pub(crate) woken: RefCell<Vec<Address>>,
    /// Messages for all workers.
    pub(crate) sent: RefCell<Vec<ChannelMessage>>,
    /// The bytes of these messages, while there are any.
    sent_bytes: Cell<usize>,
    /// The quota of all messages that wait, in any worker.
    pub(crate) messages: RefCell<Arc<ByteQuota>>,
    /// The functions that make the VM drop values that can be made again.
    forget_cached: RefCell<Vec<Function>>,
    /// The schedules of the script.
    pub(crate) schedules: RefCell<Vec<Schedule>>,
    /// The handlers of messages, by channel.
    pub(crate) channels: RefCell<HashMap<String, Function>>,
    /// The job of the next operation, which runs outside of the worker.
    pub(crate) job: RefCell<Option<LuaJob>>,
    /// The folders of its files.
    pub(crate) folders: RefCell<Folders>,
    /// The key from which other keys are derived, where the site has one.
    pub(crate) key: RefCell<Option<LinkKey>>,
    /// The client that sends requests to other servers; none where a script is only proven.
    pub(crate) client: RefCell<Option<Rc<WorkerClient>>>,
    /// Requests to other servers that have begun, and then requests that were ended.
    pub(crate) begun_fetches: RefCell<Vec<RequestId>>,
    pub(crate) ended_fetches: RefCell<Vec<RequestId>>,
    /// The runner of programs; none where a script is only proven.
    pub(crate) programs: RefCell<Option<Rc<WorkerPrograms>>>,
    /// Programs that have begun, and then programs that were ended.
    pub(crate) begun_runs: RefCell<Vec<RunId>>,
    pub(crate) ended_runs: RefCell<Vec<RunId>>,
    /// The site and worker of the script, and the state that outlives the script.
    pub(crate) place: RefCell<WorkerSite>,
}

impl Host {
    /// Wakes a task, now or as soon as it waits for that.
    pub(crate) fn wake(&self, id: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        let Some(task) = tasks.get(id) else { return };
        task.is_woken = true;
        if !matches!(task.waits, Waits::Wake | Waits::WakeUntil(_)) {
            return;
        }
        match task.address {
            Some(address) => self.work.woken.borrow_mut().push(address),
            None => self.work.ready.borrow_mut().push(id),
        }
        self.work.has_news.set(true);
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

    /// Begins work beside requests.
    ///
    /// # Errors
    /// Fails when there is too much work beside requests.
    pub(crate) fn spawn(
        &self,
        lua: &Lua,
        work: Function,
        kind: WorkKind,
        message: Option<Arc<ChannelMessage>>,
    ) -> Result<Outcome<TaskId>> {
        let origin = FunctionOrigin::of(&work);
        let work = match &*self.beside.borrow() {
            Some(beside) => beside.call(work)?,
            None => work,
        };
        let coroutine = self.coroutine(lua, work)?;
        let by = self.work.current.get();
        let mut tasks = self.tasks.borrow_mut();
        let is_after = kind.bond() == Bond::After && tasks.get(by).is_some();
        let Some(id) = tasks.spawn(by, kind.bond()) else {
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
        if let Some(task) = tasks.get(id) {
            (task.message, task.origin, task.kind) = (message, origin, kind);
        }
        if !is_after {
            self.work.ready.borrow_mut().push(id);
            self.work.has_news.set(true);
        }
        Ok((Some(id), None))
    }
}

const STARTED: &str =
    "call pinion.every, pinion.cron and pinion.on while the main script starts, not in a handler";

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    for (name, kind) in [
        ("child", WorkKind::Gather),
        ("block", WorkKind::Block),
        ("after", WorkKind::Spawn),
        ("own", WorkKind::Cached),
    ] {
        let of = Rc::clone(host);
        let spawn = move |lua: &Lua, work: Function| of.spawn(lua, work, kind, None);
        table.raw_set(name, lua.create_function(spawn)?)?;
    }
    let of = Rc::clone(host);
    table.raw_set("current", lua.create_function(move |_, ()| Ok(of.work.current.get()))?)?;
    table.raw_set("CACHE_MAX", CACHED_MAX)?;
    let of = Rc::clone(host);
    let on_shortage = move |_: &Lua, forget: Function| {
        of.work.forget_cached.borrow_mut().push(forget);
        Ok(())
    };
    table.raw_set("on_shortage", lua.create_function(on_shortage)?)?;
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
    let watch = move |_: &Lua, id: TaskId| {
        let watcher = of.work.current.get();
        Ok(of.tasks.borrow_mut().watch(id, watcher))
    };
    table.raw_set("watch", lua.create_function(watch)?)?;
    let chunk = lua.load(include_str!("../background_work.lua")).set_name("=pinion");
    table.raw_set("work", chunk.into_function()?)?;
    schedules(lua, host, table)?;
    messages(lua, host, table)?;
    kept(lua, host, table)
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

fn messages(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let send = move |_: &Lua, (channel, value): (LuaString, Value)| {
        let value = match Plain::of(&value) {
            Ok(value) => value,
            Err(why) => return Ok(Some(why)),
        };
        let (channel, mut sent) = (channel.to_string_lossy(), of.work.sent.borrow_mut());
        let before = if sent.is_empty() { 0 } else { of.work.sent_bytes.get() };
        let bytes = size_of::<ChannelMessage>() + channel.len() + value.bytes();
        if sent.len() >= SENT_MAX || before + bytes > SENT_MAX_BYTES {
            let mib = SENT_MAX_BYTES >> 20;
            return Ok(Some(format!(
                "at most {SENT_MAX} messages with {mib} MiB are sent at once; call \
                 pinion.sleep(0) in between"
            )));
        }
        let reservation = of.work.messages.borrow().try_reserve(bytes);
        let Some(reservation) = reservation else {
            return Ok(Some(format!(
                "more than {} MiB of messages wait for their listeners; send less, or try again \
                 later",
                of.work.messages.borrow().max_bytes() >> 20
            )));
        };
        of.work.sent_bytes.set(before + bytes);
        sent.push(ChannelMessage { channel: channel.into(), value, _reservation: reservation });
        of.work.has_news.set(true);
        Ok(None)
    };
    table.raw_set("send", lua.create_function(send)?)?;
    let of = Rc::clone(host);
    let on = move |_: &Lua, (channel, work): (LuaString, Function)| {
        if of.has_started() {
            return Ok(Some(STARTED.to_owned()));
        }
        let mut channels = of.work.channels.borrow_mut();
        if channels.len() >= CHANNELS_MAX {
            return Ok(Some(format!(
                "a script listens to at most {CHANNELS_MAX} channels; send several kinds of \
                 messages on one"
            )));
        }
        match channels.insert(channel.to_string_lossy(), work) {
            Some(_) => Ok(Some(format!(
                "the channel {:?} has a listener already; call both functions from one",
                channel.to_string_lossy()
            ))),
            None => Ok(None),
        }
    };
    table.raw_set("on", lua.create_function(on)?)
}

fn kept(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let keep = move |_: &Lua, (name, value): (LuaString, Value)| {
        let place = of.work.place.borrow();
        let outcome =
            Plain::of(&value).and_then(|value| place.keep(&name.to_string_lossy(), value));
        Ok(outcome.err())
    };
    table.raw_set("keep", lua.create_function(keep)?)?;
    let of = Rc::clone(host);
    let count = move |_: &Lua, (name, by): (LuaString, f64)| {
        let place = of.work.place.borrow();
        Ok(or_why(place.site.counters().add(&name.as_bytes(), by as i64)))
    };
    table.raw_set("count", lua.create_function(count)?)?;
    let of = Rc::clone(host);
    let kept = move |lua: &Lua, name: LuaString| {
        let place = of.work.place.borrow();
        let kept = place.kept();
        kept.get(&name.to_string_lossy()).map_or(Ok(Value::Nil), |value| value.to_lua(lua))
    };
    table.raw_set("kept", lua.create_function(kept)?)
}
