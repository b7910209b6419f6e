//! One VM: a script, the routes it has registered, and coroutines to answer requests in.
//!
//! | module | contents |
//! |---|---|
//! | `host_functions` | the state of a VM outside of Lua, and the installation of all functions |
//! | `handler_registration` | `pinion.get`, `pinion.use` and others, which register handlers |
//! | `request_head`, `response_head` | `req` and `res` |
//! | `pending_work` | operations that functions have recorded for the owner of the VM |
//! | `background_work` | tasks that begin, wake and end, and schedules |
//! | `request_content` | `req:body`, `req:form` and others |
//! | `files`, `blocking_jobs` | files and passwords, on other threads |
//! | `fetches`, `processes` | `pinion.fetch` and `pinion.process` |
//! | `store`, `store_reads`, `store_values` | `pinion.store` |
//! | `worker_messages`, `event_subscriptions` | `pinion.send`, `pinion.on` and `pinion.subscribe` |
//! | `kept_values` | `pinion.keep` and `pinion.count` |
//! | `sessions` | `pinion.session` |
//! | `command_line_script` | a main script that runs as a program at the command line |
//! | `response_text`, `response_pieces` | the output of a handler |
//! | `route_limits`, `limit_messages` | the limits of a route, and the messages of all limits |
//! | `error_traceback`, `task_faults` | errors for the author of a script |
//! | `function_origin`, `thrown_tables` | parts of these errors |
//! | `garbage_collection` | how fast garbage is collected |

mod background_work;
mod blocking_jobs;
mod command_line_script;
mod error_traceback;
mod event_subscriptions;
mod fetches;
mod files;
mod function_origin;
mod garbage_collection;
mod handler_registration;
mod host_functions;
mod kept_values;
mod limit_messages;
mod pending_work;
mod processes;
mod request_content;
mod request_head;
mod response_head;
mod response_pieces;
mod response_text;
mod route_limits;
mod sessions;
mod store;
mod store_reads;
mod store_values;
mod task_faults;
mod thrown_tables;
mod worker_messages;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::chunk::ChunkMode;
use mlua::{Error, Function, IntoLuaMulti, Lua, Thread as Coroutine};
use pinion_engine::clock::Now;
use pinion_jobs::byte_quota::ByteQuota;

use crate::cpu_watchdog::{self, CpuWatchdog};
use crate::limits::{CACHED_MEMORY_PARTS, IDLE_COROUTINES_MAX};
use crate::native_stack_depth;
use crate::pages;
use crate::pattern::limits::DEFAULT_STEPS;
use crate::pattern::{self, StepsLeft};
use crate::require;
use crate::router::Router;
use crate::sandbox;
use crate::script_load_error::ScriptProblem;
use crate::script_quotas::Allowance;
use crate::shared_site_state::{ScriptSite, WorkerSite};
use crate::site_program::SiteProgram;
use crate::source_names::Sources;
use crate::task::{TaskBudget, TaskId, Tasks};
use crate::unsandboxed_vm;
pub(crate) use error_traceback::ScriptFault;
use error_traceback::{OURS, TRACE, place};
pub(crate) use event_subscriptions::EndingReason;
pub(crate) use function_origin::{FunctionOrigin, HandlerId};
use garbage_collection::CollectorPace;
pub(crate) use host_functions::{Handler, Host, harmless, relaxed};
pub(crate) use limit_messages::{
    TimeLimitKind, background_time, background_wall_ms, replaced, time,
};
pub(crate) use response_pieces::{PieceList, WrittenPieces, in_memory};
pub(crate) use response_text::WrittenText;
use route_limits::RouteLimits;

/// A VM with a script, the routes it has registered, and its coroutines.
pub(crate) struct Vm {
    /// The name of its program.
    name: Arc<str>,
    is_retired: Cell<bool>,
    is_ended: Cell<bool>,
    /// Whether it is a program at the command line.
    is_program: bool,
    lua: Lua,
    /// The body of the coroutines that respond to requests.
    request_loop: Function,
    idle: RefCell<Vec<Coroutine>>,
    host: Rc<Host>,
    /// The steps that the functions that search strings have left.
    steps: StepsLeft,
    /// The files and lines of the site, for the texts of errors.
    sources: Arc<Sources>,
    allowance: Allowance,
    pace: CollectorPace,
}

/// The first byte of compiled Lua, of any version.
const BYTECODE: &[u8] = b"\x1b";

/// The state of a coroutine after a turn.
pub(crate) enum CoroutineStep {
    /// The handler has returned; this text has been written and not sent.
    Done(Unsent),
    /// The coroutine waits.
    Waits(WaitOperation),
    /// The coroutine has failed.
    Failed(ScriptFault),
}

/// The output of a handler that has not been sent.
pub(crate) enum Unsent {
    /// One string.
    Text(WrittenText),
    /// Many pieces.
    Pieces(WrittenPieces),
}

/// The operation that a coroutine waits for.
pub(crate) enum WaitOperation {
    /// A time, in seconds.
    Sleep(f64),
    /// Content of the request.
    Content,
    /// A wake-up by another task.
    Wake,
    /// A wake-up, or a time in seconds.
    Await(f64),
    /// The result of a job.
    Job,
    /// The file that the handler has opened as the content of its response.
    File,
    /// The text has been queued and the output queue has room.
    Write(WrittenText),
    /// The text has been queued and sent.
    Flush(WrittenText),
}

impl WaitOperation {
    /// Returns the functions that wait in this way, as scripts call them.
    const fn function(&self) -> &'static str {
        match self {
            Self::Sleep(_) => "pinion.sleep",
            Self::Wake => "pinion.gather, pinion.cached or pinion.fetch",
            Self::Await(_) => "pinion.wait or subscription:wait",
            Self::Job => "a function of pinion.fs or pinion.password",
            Self::Content | Self::File | Self::Write(_) | Self::Flush(_) => {
                "a function of req or res"
            }
        }
    }
}

impl Vm {
    /// Runs a program's main script, which registers its routes, and adds its pages.
    ///
    /// # Errors
    /// Returns the error of the script or a page, and its position.
    pub(crate) fn start(
        program: &SiteProgram,
        watchdog: &mut CpuWatchdog,
        place: WorkerSite,
        now: Now,
    ) -> Result<Self, ScriptProblem> {
        let trouble = |error: Error| ScriptProblem::new(&error);
        let allowance = program.allowance().with_machine_defaults(place.memory());
        let opened = if allowance.is_unsafe { unsandboxed_vm::open() } else { sandbox::open() };
        let lua = opened.map_err(trouble)?;
        let host = Rc::new(Host::new(now));
        {
            let mut tasks = host.tasks.borrow_mut();
            (tasks.allowance, tasks.tasks_max) = (allowance, place.memory().tasks_max);
        }
        let messages = ByteQuota::new(place.memory().messages_bytes);
        host.work.messages.replace(Arc::new(messages));
        host.work.worker_site.replace(place);
        host.work.folders.replace(program.folders().clone());
        host.work.key.replace(program.key().cloned());
        let steps = StepsLeft::new(DEFAULT_STEPS);
        pattern::install(&lua, &steps).map_err(trouble)?;
        let extras = program
            .arguments()
            .map(|arguments| command_line_script::extras(&lua, program.name(), arguments));
        let extras = extras.transpose().map_err(trouble)?;
        let (request_loop, parts) =
            host_functions::install(&lua, &host, extras.as_ref()).map_err(trouble)?;
        require::install(&lua, program).map_err(trouble)?;
        let maker = if program.pages().is_empty() {
            None
        } else {
            let key = program.key().cloned();
            Some(pages::prepare(&lua, &parts, key).map_err(trouble)?)
        };
        let name = program.name().into();
        let (is_retired, is_ended, idle) = (Cell::new(false), Cell::new(false), RefCell::default());
        let (pace, sources) = (CollectorPace::default(), Arc::clone(program.sources()));
        host.sources.replace(Arc::clone(&sources));
        let vm = Self {
            name,
            is_retired,
            is_ended,
            is_program: program.arguments().is_some(),
            lua,
            request_loop,
            idle,
            host,
            steps,
            sources,
            allowance,
            pace,
        };
        if vm.is_program {
            // The main script of such a program runs as a task.
            return Ok(vm);
        }
        if let Some(main) = program.main() {
            vm.run_main(program.name(), main, watchdog)?;
        }
        vm.host.started();
        if let Some(maker) = maker {
            maker.make(&vm.lua, program.pages(), &vm.sources, &mut vm.host.router.borrow_mut())?;
        }
        Ok(vm)
    }

    fn run_main(
        &self,
        name: &str,
        main: &[u8],
        watchdog: &mut CpuWatchdog,
    ) -> Result<(), ScriptProblem> {
        let main = self.loaded(name, main)?;
        let coroutine = self.host.coroutine(&self.lua, main);
        let coroutine = coroutine.map_err(|error| self.problem(&error))?;
        let cpu = Duration::from_millis(limit_messages::start_cpu_ms(&self.allowance));
        let memory_bytes = self.allowance.vm_memory_bytes;
        let mut left = TaskBudget { cpu, memory_bytes, ..TaskBudget::default() };
        match self.resume(TaskId::NONE, &coroutine, (), watchdog, &mut left) {
            CoroutineStep::Done(_) => Ok(()),
            CoroutineStep::Waits(operation) => {
                let stack = self.sources.explained(&cpu_watchdog::stack(&coroutine));
                let place = stack.lines().find_map(place).unwrap_or(name);
                Err(ScriptProblem::waits_at_start(place, operation.function()))
            }
            CoroutineStep::Failed(fault) => {
                let problem = ScriptProblem::of_text(fault.text());
                // LuaJIT does not always know the line where memory ran out.
                let has_place = problem.stack().any(|line| place(line).is_some());
                let is_limit = matches!(fault, ScriptFault::OverBudget(_));
                Err(if is_limit && !has_place { problem.of_file(name) } else { problem })
            }
        }
    }

    /// Loads the main script as a function.
    fn loaded(&self, name: &str, main: &[u8]) -> Result<Function, ScriptProblem> {
        let mode = match main.starts_with(BYTECODE) {
            false => ChunkMode::Text,
            true if self.allowance.is_unsafe => ChunkMode::Binary,
            true => return Err(ScriptProblem::bytecode(name)),
        };
        let chunk = self.lua.load(main).set_name(format!("@{name}"));
        chunk.set_mode(mode).into_function().map_err(|error| self.problem(&error))
    }

    /// Returns the problem of an error, with the names of the script's files.
    fn problem(&self, error: &Error) -> ScriptProblem {
        ScriptProblem::new(error).explained(&self.sources)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the site of the script.
    pub(crate) fn site(&self) -> ScriptSite {
        self.host.work.worker_site.borrow().site.clone()
    }

    /// Retires the VM: nothing begins in it any more except at the request of its living tasks.
    pub(crate) fn retire(&self) {
        self.is_retired.set(true);
    }

    /// Returns whether the VM has been retired and has no task left.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_retired.get() && self.tasks().live() == 0
    }

    /// Ends the VM: its tasks do not go on.
    pub(crate) fn end(&self) {
        self.is_ended.set(true);
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.get()
    }

    pub(crate) fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn lua(&self) -> &Lua {
        &self.lua
    }

    pub(crate) fn router(&self) -> std::cell::Ref<'_, Router> {
        self.host.router.borrow()
    }

    pub(crate) fn tasks(&self) -> std::cell::RefMut<'_, Tasks> {
        self.host.tasks.borrow_mut()
    }

    /// Returns `FILE:LINE` where a handler begins; `None` for one that no script has written.
    pub(crate) fn handler_position(&self, begun: HandlerId) -> Option<String> {
        let handlers = self.host.handlers.borrow();
        let origin = handlers.get(&begun)?.first()?.clone();
        Some(origin.explained(&self.sources).source_position())
    }

    /// Returns whether the script has registered this handler.
    pub(crate) fn has(&self, handler: Handler) -> bool {
        self.host.specials.get() & handler.bit() != 0
    }

    /// Returns a coroutine that waits for a request.
    pub(crate) fn coroutine(&self) -> mlua::Result<Coroutine> {
        // A script that has kept a reference to one can have ended it meanwhile.
        while let Some(coroutine) = self.idle.borrow_mut().pop() {
            if coroutine.is_resumable() {
                return Ok(coroutine);
            }
        }
        self.host.coroutine(&self.lua, self.request_loop.clone())
    }

    /// Adds a coroutine whose request has ended to the idle ones.
    pub(crate) fn give_back(&self, coroutine: Coroutine) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_COROUTINES_MAX {
            idle.push(coroutine);
        }
    }

    /// Empties `cached` if the VM is too full.
    #[cold]
    fn relieve(&self) {
        if self.lua.used_memory() > self.allowance.vm_memory_bytes / CACHED_MEMORY_PARTS {
            self.host.forget_cached();
            let _collected = self.lua.gc_collect();
        }
    }

    /// Resumes a coroutine until it waits, returns, or has used up its budget, and charges the task
    /// for its use.
    pub(crate) fn resume(
        &self,
        id: TaskId,
        coroutine: &Coroutine,
        values: impl IntoLuaMulti,
        watchdog: &mut CpuWatchdog,
        left: &mut TaskBudget,
    ) -> CoroutineStep {
        let before = self.lua.used_memory();
        let asked = before.saturating_add(left.memory_bytes);
        let limit = asked.min(self.allowance.vm_memory_bytes);
        let _unlimited = self.lua.set_memory_limit(limit.max(1));
        self.steps.set(left.steps);
        self.host.work.current.set(id);
        native_stack_depth::begin();
        watchdog.begin(coroutine, left.cpu);
        let outcome = coroutine.resume::<host_functions::Yielded>(values);
        let spent = watchdog.end();
        self.host.work.current.set(TaskId::NONE);
        let _limited = self.lua.set_memory_limit(0);
        left.cpu = left.cpu.saturating_sub(spent.cpu);
        left.steps = self.steps.get();
        let after = self.lua.used_memory();
        left.memory_bytes = match after.checked_sub(before) {
            Some(used) => left.memory_bytes.saturating_sub(used),
            // The turn has freed memory: a request that frees its memory may run for long.
            None => (left.memory_bytes + (before - after)).min(self.allowance.memory_bytes),
        };
        self.pace.adjust(&self.lua, after, self.allowance.memory_bytes);
        if spent.is_over || left.cpu.is_zero() {
            let why = limit_messages::cpu(self.payer(id), &self.allowance);
            return CoroutineStep::Failed(self.over_budget(id, &why, coroutine));
        }
        if left.steps == 0 {
            let why = limit_messages::steps(self.payer(id), &self.allowance);
            return CoroutineStep::Failed(self.over_budget(id, &why, coroutine));
        }
        match outcome {
            Ok(yielded) => self.host.step(coroutine, yielded).unwrap_or_else(|| {
                let stack = cpu_watchdog::stack(coroutine);
                CoroutineStep::Failed(ScriptFault::Error(self.fault_text(id, YIELDS, &stack)))
            }),
            Err(error) if is_memory(&error) => {
                let is_vm = limit < asked;
                let why = limit_messages::memory(self.payer(id), is_vm, &self.allowance);
                let fault = self.over_budget(id, &why, coroutine);
                // The garbage of this request would fail the next one.
                let _collected = self.lua.gc_collect();
                self.relieve();
                CoroutineStep::Failed(fault)
            }
            Err(error) => {
                let origins = self.origins(id);
                CoroutineStep::Failed(ScriptFault::of(&error, &self.lua, &self.sources, &origins))
            }
        }
    }
}

const YIELDS: &str = "coroutine.yield in a handler: only coroutines that the script has made can \
                      yield; wait with pinion.sleep";

/// Returns whether an error means that memory ran out, wherever that happened.
fn is_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } => is_memory(cause),
        Error::WithContext { cause, .. } => is_memory(cause),
        // LuaJIT has the error as a text when it is thrown again.
        Error::RuntimeError(text) => text.starts_with("not enough memory"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
