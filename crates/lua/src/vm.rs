//! One VM: a script, the routes it has registered, and coroutines to answer requests in.

mod alone;
mod content;
mod files;
mod host;
mod jobs;
mod origin;
mod pace;
mod route_limits;
mod text;
mod thrown;
mod waiting;
mod work;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua::chunk::ChunkMode;
use mlua::{Error, Function, IntoLuaMulti, Lua, Thread as Coroutine};
use pinion_engine::clock::Now;

use crate::absent;
use crate::allowance::Allowance;
use crate::budget::{self, Budget, OVER_BUDGET};
use crate::limits::{CACHED_MEMORY_PARTS, IDLE_COROUTINES_MAX, START_CPU_MAX_MS};
use crate::pages::{self, Page};
use crate::pattern::limits::DEFAULT_STEPS;
use crate::pattern::{self, StepsLeft, TOO_MANY_STEPS};
use crate::problem::Problem;
use crate::program::Program;
use crate::require;
use crate::router::Router;
use crate::sandbox;
use crate::site::{Place, Site};
use crate::stack;
use crate::task::{Left, NOBODY, TaskId, Tasks};
use crate::unconfined;
pub(crate) use host::{Handler, Host, harmless, relaxed};
pub(crate) use origin::Origin;
use origin::{Begun, Origins};
use pace::Pace;
use route_limits::RouteLimits;
pub(crate) use text::Text;
pub(crate) use waiting::Ending;

/// See the module's head.
pub(crate) struct Vm {
    /// As its program is called.
    name: Arc<str>,
    is_old: Cell<bool>,
    is_ended: Cell<bool>,
    lua: Lua,
    /// The body of the coroutines that answer requests.
    strand: Function,
    idle: RefCell<Vec<Coroutine>>,
    host: Rc<Host>,
    /// What the functions that search strings count down.
    steps: StepsLeft,
    /// By which errors are told by the lines of templates.
    pages: Arc<[Page]>,
    allowance: Allowance,
    pace: Pace,
}

/// What compiled Lua begins with, whichever Lua it is of.
const BYTECODE: &[u8] = b"\x1b";

/// Where a coroutine has come to.
pub(crate) enum Step {
    /// The handler is through; this is what it has written and not sent.
    Done(Text),
    /// It waits.
    Waits(Operation),
    /// It has failed.
    Failed(Fault),
}

/// What a coroutine waits for.
pub(crate) enum Operation {
    /// So many seconds.
    Sleep(f64),
    /// Content of the request.
    Content,
    /// Another task to wake it.
    Wake,
    /// To be woken, or so many seconds.
    Await(f64),
    /// Work that is done elsewhere.
    Job,
    /// The file that it has opened to be sent.
    File,
    /// The text has been taken and there is room for more.
    Write(Text),
    /// The same, and it is on its way.
    Flush(Text),
}

/// Why a coroutine ends without an answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error, with what the stack was.
    Error(String),
    /// It has used up its CPU or its memory.
    OverBudget(String),
    /// It has taken too long in all.
    OverTime(String),
}

impl Fault {
    /// What a text says that knows no place, with the stack where it came to that.
    fn told(why: &str, stack: &str, pages: &[Page], origins: &Origins) -> String {
        let stack = pages::explained(stack, pages);
        let is_theirs = |line: &&str| !line.trim_start().starts_with(OURS);
        let lines: Vec<_> = stack.lines().filter(is_theirs).collect();
        origins.told(why, true, &lines)
    }

    /// An error as its script's author should see it: without the frames that are ours, and with
    /// the lines of templates.
    fn of(error: &Error, lua: &Lua, pages: &[Page], origins: &Origins) -> Self {
        let text = error.to_string();
        let described = thrown::described(lua, &text);
        let text = pages::explained(&text, pages);
        let text = text.strip_prefix("runtime error: ").unwrap_or(&text);
        let behind = text.find('\n').map_or("", |at| &text[at..]);
        let described = described.map(|content| format!("{content}{behind}"));
        let text = described.as_deref().unwrap_or(text);
        let mut lines = text.lines();
        let line = lines.next().unwrap_or_default();
        let first = without_our_place(line);
        // What a script throws without a place stays as it is.
        let needs_place = first.len() < line.len();
        let first = format!("{first}{}", absent::advice(first).unwrap_or_default());
        let is_theirs = |line: &&str| !line.trim_start().starts_with(OURS);
        let mut shown: Vec<_> = [&*first].into_iter().chain(lines.filter(is_theirs)).collect();
        let traces: Vec<_> = (0..shown.len()).filter(|&at| shown[at] == TRACE).collect();
        if let Some(&second) = traces.get(1) {
            let within = &shown[..second];
            let outermost = within.iter().rposition(|line| line.ends_with(OUTERMOST));
            shown.truncate(outermost.unwrap_or(second));
        }
        let (why, stack) = match traces.first() {
            Some(&at) => (&shown[..at], shown.get(at + 1..).unwrap_or_default()),
            None => (&shown[..], &[][..]),
        };
        Self::Error(origins.told(&why.join("\n"), needs_place, stack))
    }
}

/// What places in the part of the runtime that is written in Lua begin with.
const OURS: &str = "pinion:";

/// The line behind which the stack stands. A second one is that of the host's own body of the
/// coroutine, which passes the error on.
const TRACE: &str = "stack traceback:";

/// How the line ends of what that body calls the script by.
const OUTERMOST: &str = "xpcall'";

/// The file and line of a line of a stack, if it is one of a script.
fn place(line: &str) -> Option<&str> {
    let (place, _) = line.trim_start().split_once(": in ")?;
    let (file, number) = place.rsplit_once(':')?;
    (file != STRINGS && number.parse::<u32>().is_ok()).then_some(place)
}

/// What the part of the functions that search strings is called that is written in Lua.
const STRINGS: &str = "string";

/// A function that ends with a call of ours has left no place of its own.
fn without_our_place(line: &str) -> &str {
    let behind = line.strip_prefix(OURS).and_then(|rest| rest.split_once(": "));
    match behind {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => line,
    }
}

impl Vm {
    /// Runs a program's main script, which registers what it has, and adds its pages.
    ///
    /// # Errors
    /// What is wrong with the script or a page, and where.
    pub(crate) fn start(
        program: &Program,
        budget: &mut Budget,
        place: Place,
        now: Now,
    ) -> Result<Self, Problem> {
        let trouble = |error: Error| Problem::new(&error);
        let allowance = *program.allowance();
        let opened = if allowance.is_unsafe { unconfined::open() } else { sandbox::open() };
        let lua = opened.map_err(trouble)?;
        let host = Rc::new(Host::new(now));
        host.tasks.borrow_mut().allowance = allowance;
        host.work.place.replace(place);
        host.work.folders.replace(program.folders().clone());
        host.work.key.replace(program.key().cloned());
        let steps = StepsLeft::new(DEFAULT_STEPS);
        pattern::install(&lua, &steps).map_err(trouble)?;
        let extras =
            program.arguments().map(|arguments| alone::extras(&lua, program.name(), arguments));
        let extras = extras.transpose().map_err(trouble)?;
        let (strand, parts) = host::install(&lua, &host, extras.as_ref()).map_err(trouble)?;
        require::install(&lua, program.code()).map_err(trouble)?;
        let pages = Arc::clone(program.pages());
        let maker = match pages.is_empty() {
            true => None,
            false => {
                let key = program.key().cloned();
                Some(pages::prepare(&lua, &parts, key).map_err(trouble)?)
            }
        };
        let name = program.name().into();
        let (is_old, is_ended, idle) = (Cell::new(false), Cell::new(false), RefCell::default());
        let pace = Pace::default();
        let vm =
            Self { name, is_old, is_ended, lua, strand, idle, host, steps, pages, allowance, pace };
        if program.arguments().is_some() {
            // Its main script is a task.
            return Ok(vm);
        }
        if let Some(main) = program.main() {
            vm.run_main(program.name(), main, budget)?;
        }
        vm.host.started();
        if let Some(maker) = maker {
            maker.make(&vm.lua, &vm.pages, &mut vm.host.router.borrow_mut())?;
        }
        Ok(vm)
    }

    fn run_main(&self, name: &str, main: &[u8], budget: &mut Budget) -> Result<(), Problem> {
        let main = self.loaded(name, main)?;
        let coroutine = self.host.coroutine(&self.lua, main);
        let coroutine = coroutine.map_err(|error| Problem::new(&error))?;
        let cpu = Duration::from_millis(START_CPU_MAX_MS.max(self.allowance.cpu_ms));
        let memory_bytes = self.allowance.vm_memory_bytes;
        let mut left = Left { cpu, memory_bytes, ..Left::default() };
        match self.resume(NOBODY, &coroutine, (), budget, &mut left) {
            Step::Done(_) => Ok(()),
            Step::Waits(_) => Err(Problem::waits_at_start(name)),
            Step::Failed(Fault::Error(text) | Fault::OverBudget(text) | Fault::OverTime(text)) => {
                Err(Problem::of_text(&text))
            }
        }
    }

    /// The main script as a function.
    fn loaded(&self, name: &str, main: &[u8]) -> Result<Function, Problem> {
        let mode = match main.starts_with(BYTECODE) {
            false => ChunkMode::Text,
            true if self.allowance.is_unsafe => ChunkMode::Binary,
            true => return Err(Problem::bytecode(name)),
        };
        let chunk = self.lua.load(main).set_name(format!("@{name}"));
        chunk.set_mode(mode).into_function().map_err(|error| Problem::new(&error))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whose script it is.
    pub(crate) fn site(&self) -> Site {
        self.host.work.place.borrow().site.clone()
    }

    /// Nothing begins in it any more but what it has begun asks for.
    pub(crate) fn put_away(&self) {
        self.is_old.set(true);
    }

    /// Whether nothing is left to do in it and nothing comes.
    pub(crate) fn is_through(&self) -> bool {
        self.is_old.get() && self.tasks().live() == 0
    }

    /// What it has begun is not to go on.
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

    /// Whether the script has a handler of that name.
    pub(crate) fn has(&self, handler: Handler) -> bool {
        self.host.specials.get() & handler.bit() != 0
    }

    /// A coroutine that waits for a request.
    pub(crate) fn coroutine(&self) -> mlua::Result<Coroutine> {
        // A script that has kept one can have ended it meanwhile.
        while let Some(coroutine) = self.idle.borrow_mut().pop() {
            if coroutine.is_resumable() {
                return Ok(coroutine);
            }
        }
        self.host.coroutine(&self.lua, self.strand.clone())
    }

    /// Takes back one whose request is done.
    pub(crate) fn give_back(&self, coroutine: Coroutine) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_COROUTINES_MAX {
            idle.push(coroutine);
        }
    }

    /// Takes from `cached` what fills the VM.
    #[cold]
    fn relieve(&self) {
        if self.lua.used_memory() > self.allowance.vm_memory_bytes / CACHED_MEMORY_PARTS {
            self.host.forget_cached();
            let _collected = self.lua.gc_collect();
        }
    }

    /// A turn has used something up: the stack is the one where it did, or else where the coroutine
    /// has ended.
    #[cold]
    fn over_budget(&self, id: TaskId, why: &str, coroutine: &Coroutine) -> Fault {
        let stack = budget::struck().unwrap_or_else(|| budget::stack(coroutine));
        Fault::OverBudget(Fault::told(why, &stack, &self.pages, &self.origins(id)))
    }

    /// A task has taken too long, wherever it waits.
    #[cold]
    pub(crate) fn over_time(&self, id: TaskId, why: &str) -> Fault {
        let coroutine = self.tasks().coroutine(id);
        let stack = coroutine.as_ref().map(budget::stack).unwrap_or_default();
        Fault::OverTime(Fault::told(why, &stack, &self.pages, &self.origins(id)))
    }

    /// Where what a task runs begins.
    #[cold]
    fn origins(&self, id: TaskId) -> Origins {
        let mut tasks = self.tasks();
        let Some(task) = tasks.get(id) else { return Origins::default() };
        if task.is_background() {
            return Origins::of_work(task.origin.clone());
        }
        let begun = match task.request.route() {
            _ if task.is_failing => Begun::Special(Handler::OnError),
            Some(found) => Begun::Route(found.route),
            None => Begun::Special(Handler::NotFound),
        };
        let handlers = self.host.handlers.borrow();
        Origins::of_handler(handlers.get(&begun).map_or(&[], Vec::as_slice), &self.pages)
    }

    /// Lets a coroutine go on until it waits, is through, or has used up what is left, and charges
    /// what it has used.
    pub(crate) fn resume(
        &self,
        id: TaskId,
        coroutine: &Coroutine,
        values: impl IntoLuaMulti,
        budget: &mut Budget,
        left: &mut Left,
    ) -> Step {
        let before = self.lua.used_memory();
        let limit = before.saturating_add(left.memory_bytes).min(self.allowance.vm_memory_bytes);
        let _unlimited = self.lua.set_memory_limit(limit.max(1));
        self.steps.set(left.steps);
        self.host.work.current.set(id);
        stack::begin();
        budget.begin(coroutine, left.cpu);
        let outcome = coroutine.resume::<host::Yielded>(values);
        let spent = budget.end();
        self.host.work.current.set(NOBODY);
        let _limited = self.lua.set_memory_limit(0);
        left.cpu = left.cpu.saturating_sub(spent.cpu);
        left.steps = self.steps.get();
        let after = self.lua.used_memory();
        left.memory_bytes = match after.checked_sub(before) {
            Some(used) => left.memory_bytes.saturating_sub(used),
            // What was collected: a request that lets go of what it has had may run for long.
            None => (left.memory_bytes + (before - after)).min(self.allowance.memory_bytes),
        };
        self.pace.look(&self.lua, after, self.allowance.memory_bytes);
        if spent.is_over || left.cpu.is_zero() {
            return Step::Failed(self.over_budget(id, OVER_BUDGET, coroutine));
        }
        if left.steps == 0 {
            return Step::Failed(self.over_budget(id, TOO_MANY_STEPS, coroutine));
        }
        match outcome {
            Ok(yielded) => self.host.step(coroutine, yielded).unwrap_or_else(|| {
                let stack = budget::stack(coroutine);
                let origins = self.origins(id);
                Step::Failed(Fault::Error(Fault::told(YIELDS, &stack, &self.pages, &origins)))
            }),
            Err(error) if is_memory(&error) => {
                let why = format!(
                    "it has used up its memory ({} MiB)",
                    self.allowance.memory_bytes >> 20
                );
                let fault = self.over_budget(id, &why, coroutine);
                // What the request has left behind would fail the next one.
                let _collected = self.lua.gc_collect();
                self.relieve();
                Step::Failed(fault)
            }
            Err(error) => {
                let origins = self.origins(id);
                Step::Failed(Fault::of(&error, &self.lua, &self.pages, &origins))
            }
        }
    }
}

const YIELDS: &str = "a handler cannot yield; only a coroutine that it has made can";

/// Whether an error is that there was no memory, wherever it was met.
fn is_memory(error: &Error) -> bool {
    match error {
        Error::MemoryError(_) => true,
        Error::CallbackError { cause, .. } => is_memory(cause),
        Error::WithContext { cause, .. } => is_memory(cause),
        // LuaJIT has it as a text when it is thrown again.
        Error::RuntimeError(text) => text.starts_with("not enough memory"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
