//! The functions of the host for the store of the server: commands in, values of Lua out.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use pinion_store::ReplyOutput;
use pinion_store::job::{FinishedJob, Job};
use pinion_store::local_client::{LocalClient, LocalCommand, LocalExecution, has_command};
use pinion_store::read_set::ReadSet;
use pinion_store::settings::{LiveSettings, Settings};
use pinion_store::store::Store;

use super::host_functions::{Host, relaxed};
use super::store_reads::{self, ScriptReads};
use super::store_values::{add_arguments, add_packed, pack, value_of};
use crate::limits::{
    STORE_ARGUMENTS_MAX, STORE_COMMAND_MAX_BYTES, STORE_JOB_BYTES, TRIAL_STORE_MAX_BYTES,
};
use crate::operation_id::OperationId;
use crate::store_access::{ScriptStoreChoice, StoreAccess, StoreWorker, job_number};
use crate::task::TaskId;
use crate::task_resources::TaskOwned;

/// The store as the scripts of a VM use it.
#[derive(Default)]
pub(crate) struct ScriptStore {
    /// The client, from the first command on.
    client: RefCell<Option<StoreClient>>,
    /// Jobs that have not ended, or whose replies were not taken.
    jobs: RefCell<TaskOwned<u64, JobReply>>,
    /// The reads of the store for values that the script keeps.
    pub(super) reads: ScriptReads,
    /// The worker, from the start of the VM on.
    pub(crate) worker: RefCell<Option<Rc<StoreWorker>>>,
}

/// The state of a client of the store; its buffers are reused by the next command.
pub(super) struct StoreClient {
    store: Arc<Store>,
    /// Access to the store of the server; `None` for a script that runs on trial.
    access: Option<StoreAccess>,
    client: LocalClient,
    command: LocalCommand,
    output: ReplyOutput,
    packed: Vec<u8>,
}

enum JobReply {
    /// The script has not said yet that it can wait.
    Held {
        job: Job,
        /// The bytes of its arguments.
        bytes: usize,
    },
    /// The job is wanted as long as this value lives.
    Pending { _wanted: Arc<()> },
    /// The result; `None` if the job has failed.
    Ended(Option<FinishedJob>),
}

/// The result of a command: a value, or why there is none, or the number of a job that has it
/// later.
pub(super) type Called = (Value, Option<String>, Option<u64>);

const NO_STORE: &str = "there is no store: start the server with --store-memory MIB, or with \
                        --store ADDRESS if clients of Redis are to use it too";

const RECURSIVE: &str = "the store is called by a finalizer during another call";

const FAILED: &str = "internal error, see the log of the server";

const BLOCKED: &str = "the store executes a command that takes long, and the main script cannot \
                       wait for it: call the store in a handler or in pinion.spawn";

const CANNOT_WAIT: &str = "the command has to wait, because it takes long or another one does, and \
                           here the script cannot wait: it is called by a function that is not \
                           written in Lua, such as table.sort";

const TOO_MANY_JOBS: &str = "too many commands of the store that take long wait; try again later";

/// Memory of a packed command that is kept for the next one: the size of a usual one.
const PACKED_KEPT_BYTES: usize = 64 * 1024;

fn failed(why: impl Into<String>) -> Called {
    (Value::Nil, Some(why.into()), None)
}

impl ScriptStore {
    /// Stores the result of a job, if a task still wants it.
    pub(crate) fn end_job(&self, number: u64, finished: Option<FinishedJob>) {
        if let Some(job) = self.jobs.borrow_mut().get_mut(number) {
            job.value = JobReply::Ended(finished);
        }
    }

    /// Returns the task that waits for a job.
    pub(super) fn waiter_of(&self, number: u64) -> Option<TaskId> {
        self.jobs.borrow().get(number).map(|job| job.waiter)
    }

    /// Drops the replies of a task that has ended.
    pub(crate) fn forget_task(&self, task: TaskId) {
        if self.reads.recorder.get() == Some(task) {
            self.reads.recorder.set(None);
            drop(self.recorded_reads());
        }
        let mut jobs = self.jobs.borrow_mut();
        for number in jobs.owned_by(task) {
            jobs.remove(number);
        }
    }

    /// Ends the record of reads, and returns them.
    pub(super) fn recorded_reads(&self) -> Option<ReadSet> {
        let mut client = self.client.try_borrow_mut().ok()?;
        client.as_mut()?.client.recorded_reads()
    }
}

impl StoreClient {
    /// Begins to record reads; returns false if that has begun already.
    pub(super) fn record_reads(&mut self) -> bool {
        self.client.record_reads(&self.store)
    }
}

impl Host {
    /// Calls a function with the client of the VM, which is made for the first command.
    pub(super) fn with_store(
        &self,
        call: impl FnOnce(&mut StoreClient) -> Result<Called>,
    ) -> Result<Called> {
        let Ok(mut client) = self.store.client.try_borrow_mut() else {
            return Ok(failed(RECURSIVE));
        };
        let client = match &mut *client {
            Some(client) => client,
            none => match self.store_client() {
                Ok(client) => none.insert(client),
                Err(why) => return Ok(failed(why)),
            },
        };
        call(client)
    }

    fn store_client(&self) -> std::result::Result<StoreClient, String> {
        let now_ms = self.clock.now().unix_ms;
        let (store, access) = match self.work.worker_site.borrow().store() {
            ScriptStoreChoice::Absent => return Err(NO_STORE.to_owned()),
            ScriptStoreChoice::OfServer(access) => {
                (Arc::clone(&access.store), Some(access.clone()))
            }
            ScriptStoreChoice::Trial => {
                let mut random = [0; 24];
                getrandom::fill(&mut random).map_err(|error| error.to_string())?;
                let live =
                    LiveSettings { memory_max_bytes: TRIAL_STORE_MAX_BYTES, ..Default::default() };
                let settings = Settings { live, ..Settings::default() };
                (Arc::new(Store::new(settings, random, now_ms)), None)
            }
        };
        let client = LocalClient::new("lua", now_ms);
        let (command, output, packed) = Default::default();
        Ok(StoreClient { store, access, client, command, output, packed })
    }

    /// Returns the most bytes of a command, and of a reply: a script could hold no more.
    fn store_max_bytes(&self) -> usize {
        self.tasks.borrow().allowance.memory_bytes.min(STORE_COMMAND_MAX_BYTES)
    }

    fn store_call(&self, lua: &Lua, arguments: &MultiValue) -> Result<Called> {
        let max_bytes = self.store_max_bytes();
        self.with_store(|client| {
            let StoreClient { store, command, output, .. } = client;
            if let Err(why) = add_arguments(command, arguments, max_bytes) {
                return Ok(failed(why));
            }
            let (now_ms, bytes) = (self.clock.now().unix_ms, command.byte_len());
            match client.client.execute(store, command, now_ms, output) {
                LocalExecution::Done => {
                    command.clear();
                    store_value(lua, store, output, max_bytes)
                }
                LocalExecution::Job(job) => self.store_job(lua, client, *job, bytes),
            }
        })
    }

    /// Checks a command of a transaction, and returns it as a string for [`Self::store_run`].
    fn store_pack(&self, lua: &Lua, arguments: &MultiValue) -> Result<Called> {
        let max_bytes = self.store_max_bytes();
        self.with_store(|client| {
            if let Err(why) = add_arguments(&mut client.command, arguments, max_bytes) {
                return Ok(failed(why));
            }
            pack(&client.command, &mut client.packed);
            let packed = lua.create_string(&client.packed);
            client.command.clear();
            client.packed.clear();
            client.packed.shrink_to(PACKED_KEPT_BYTES);
            Ok((Value::String(packed?), None, None))
        })
    }

    /// Executes packed commands at once.
    fn store_run(&self, lua: &Lua, queue: &Table) -> Result<Called> {
        let max_bytes = self.store_max_bytes();
        self.with_store(|client| {
            let StoreClient { store, command, output, .. } = client;
            let (now_ms, mut bytes) = (self.clock.now().unix_ms, 0);
            let mut transaction = client.client.transaction();
            for position in 1..=queue.raw_len() {
                let packed: LuaString = queue.raw_get(position)?;
                bytes += packed.as_bytes().len();
                if bytes > max_bytes || position > STORE_ARGUMENTS_MAX {
                    return Ok(failed(format!(
                        "a transaction has at most {STORE_ARGUMENTS_MAX} commands with {} KiB",
                        max_bytes >> 10
                    )));
                }
                if let Err(why) = add_packed(command, &packed.as_bytes()) {
                    return Ok(failed(why));
                }
                if let Err(why) = transaction.queue(store, command, now_ms) {
                    return Ok(failed(String::from_utf8_lossy(&why)));
                }
            }
            command.clear();
            match transaction.execute(store, now_ms, output) {
                LocalExecution::Done => store_value(lua, store, output, max_bytes),
                LocalExecution::Job(job) => self.store_job(lua, client, *job, bytes),
            }
        })
    }

    /// Keeps a command that may take long, or waits for a shard, until the script says that it can
    /// wait for it. While the main script starts, which cannot wait, this thread executes it.
    fn store_job(&self, lua: &Lua, client: &StoreClient, job: Job, bytes: usize) -> Result<Called> {
        let (task, store) = (self.work.current.get(), &client.store);
        if client.access.is_none() || task == TaskId::NONE {
            if job.is_blocked(store) {
                job.abandon(store);
                return Ok(failed(BLOCKED));
            }
            let finished = job.run(store, self.clock.now().unix_ms);
            return finished_value(lua, store, finished, self.store_max_bytes());
        }
        let number = job_number();
        self.store.jobs.borrow_mut().add(number, task, JobReply::Held { job, bytes });
        self.mark_owner(task);
        Ok((Value::Nil, None, Some(number)))
    }

    /// Passes a command that was kept to other threads. Returns the reason if that is not possible.
    fn store_begin(&self, number: u64, can_wait: bool) -> Result<Option<String>> {
        let (task, worker) = (self.work.current.get(), self.store.worker.borrow().clone());
        let held = self.store.jobs.borrow_mut().remove(number);
        let client = self.store.client.borrow();
        let (Some(JobReply::Held { job, bytes }), Some(client)) = (held, &*client) else {
            return Ok(Some(FAILED.to_owned()));
        };
        let (true, Some(access), Some(worker)) = (can_wait, &client.access, worker) else {
            job.abandon(&client.store);
            return Ok(Some(CANNOT_WAIT.to_owned()));
        };
        let waiting = Arc::clone(&self.work.messages.borrow());
        let bytes = bytes + STORE_JOB_BYTES;
        let fits = bytes <= waiting.max_bytes();
        let Some(reserved) = fits.then(|| waiting.try_reserve(bytes)).flatten() else {
            job.abandon(&client.store);
            return Ok(Some(format!(
                "messages and commands of the store that wait have at most {} MiB together; send \
                 less, or try again later",
                waiting.max_bytes() >> 20
            )));
        };
        let wanted = Arc::new(());
        if !worker.run(access, (number, job), Arc::downgrade(&wanted), reserved) {
            return Ok(Some(TOO_MANY_JOBS.to_owned()));
        }
        self.store.jobs.borrow_mut().add(number, task, JobReply::Pending { _wanted: wanted });
        self.mark_owner(task);
        self.work.begin_operation(OperationId::StoreJob(number), task);
        Ok(None)
    }

    /// Returns the result of a job; its number again while it has not ended.
    fn store_reply(&self, lua: &Lua, number: u64) -> Result<Called> {
        let mut jobs = self.store.jobs.borrow_mut();
        if jobs.get(number).is_some_and(|job| matches!(job.value, JobReply::Pending { .. })) {
            return Ok((Value::Nil, None, Some(number)));
        }
        match jobs.remove(number) {
            Some(JobReply::Ended(Some(finished))) => {
                drop(jobs);
                let client = self.store.client.borrow();
                let Some(client) = &*client else { return Ok(failed(FAILED)) };
                finished_value(lua, &client.store, finished, self.store_max_bytes())
            }
            _ => Ok(failed(FAILED)),
        }
    }
}

/// Returns the value of a reply, which is dropped afterwards.
fn store_value(
    lua: &Lua,
    store: &Store,
    output: &mut ReplyOutput,
    max_bytes: usize,
) -> Result<Called> {
    let value = value_of(lua, output, max_bytes);
    store.discard_output(output);
    Ok(match value? {
        Ok(value) => (value, None, None),
        Err(why) => failed(why),
    })
}

/// Returns the value of the reply of a job.
fn finished_value(
    lua: &Lua,
    store: &Store,
    mut finished: FinishedJob,
    max_bytes: usize,
) -> Result<Called> {
    if finished.has_failed() {
        return Ok(failed(FAILED));
    }
    store_value(lua, store, &mut finished.take_output(), max_bytes)
}

/// Adds these functions to the table that the prelude receives.
pub(super) fn install(lua: &Lua, host: &Rc<Host>, table: &Table) -> Result<()> {
    let of = Rc::clone(host);
    let call =
        move |lua: &Lua, arguments: MultiValue| relaxed(lua, || of.store_call(lua, &arguments));
    table.raw_set("store_call", lua.create_function(call)?)?;
    let of = Rc::clone(host);
    let pack =
        move |lua: &Lua, arguments: MultiValue| relaxed(lua, || of.store_pack(lua, &arguments));
    table.raw_set("store_pack", lua.create_function(pack)?)?;
    let of = Rc::clone(host);
    let run = move |lua: &Lua, queue: Table| relaxed(lua, || of.store_run(lua, &queue));
    table.raw_set("store_run", lua.create_function(run)?)?;
    let of = Rc::clone(host);
    let reply = move |lua: &Lua, number: u64| relaxed(lua, || of.store_reply(lua, number));
    table.raw_set("store_reply", lua.create_function(reply)?)?;
    let of = Rc::clone(host);
    let begin = move |lua: &Lua, (number, can_wait): (u64, bool)| {
        relaxed(lua, || of.store_begin(number, can_wait))
    };
    table.raw_set("store_begin", lua.create_function(begin)?)?;
    let has = |_: &Lua, name: LuaString| Ok(has_command(&name.as_bytes()));
    table.raw_set("store_has", lua.create_function(has)?)?;
    store_reads::install(lua, host, table)?;
    let chunk = lua.load(include_str!("../store.lua")).set_name("=pinion");
    table.raw_set("store", chunk.into_function()?)
}
