//! The state that the functions of a VM and its owner share, and the installation of all functions
//! that the part of the runtime which is written in Lua calls.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, LightUserData, Lua, LuaString, Result, Table, Thread as Coroutine, Value};
use pinion_client::http_client::RequestId;
use pinion_engine::clock::Now;
use pinion_programs::program_run::RunId;

use super::event_subscriptions::{EndingReason, Subscriptions};
use super::pending_work::PendingWork;
use super::response_text::{PREFIXES, WrittenText};
use super::store::ScriptStore;
use super::{CoroutineStep, RouteLimits, Unsent, WaitOperation, WrittenPieces};
use super::{
    background_work, blocking_jobs, event_subscriptions, fetches, files, function_origin,
    handler_registration, kept_values, processes, request_content, request_head, response_head,
    route_limits, sessions, store, worker_messages,
};
use crate::clock::Clock;
use crate::fetch_client::Fetch;
use crate::library;
use crate::limits::{COROUTINES_DEPTH_MAX, FEW_PIECES, MANY_PIECES, RESPONSE_BUFFER_BYTES};
use crate::router::Router;
use crate::sandbox;
use crate::source_names::Sources;
use crate::task::Tasks;
use crate::task_resources::TaskOwned;

/// The state that the functions of a VM and its owner share.
pub(crate) struct Host {
    pub(crate) clock: Clock,
    pub(crate) router: RefCell<Router>,
    pub(crate) tasks: RefCell<Tasks>,
    /// The bits of the handlers without a route that the script has registered.
    pub(crate) specials: Cell<u8>,
    /// The positions of handlers in their files.
    pub(super) handlers: RefCell<function_origin::Handlers>,
    pub(crate) work: PendingWork,
    /// The limits of routes that set their own, by the numbers of the routes.
    pub(super) route_limits: RefCell<HashMap<usize, RouteLimits>>,
    /// The reason why running work should end.
    pub(super) ending: Cell<Option<EndingReason>>,
    pub(crate) subscriptions: RefCell<Subscriptions>,
    /// The requests to other servers that its scripts have sent.
    pub(crate) fetches: RefCell<TaskOwned<RequestId, Fetch>>,
    /// The programs that its scripts run.
    pub(crate) processes: RefCell<TaskOwned<RunId, Rc<str>>>,
    /// The store of the server.
    pub(crate) store: ScriptStore,
    /// The function that makes coroutines close their variables before they end (Lua 5.4).
    with_closed_variables: RefCell<Option<Function>>,
    /// The function that wraps background work.
    pub(super) background_task: RefCell<Option<Function>>,
    /// The names of the script's files, for log messages.
    pub(super) sources: RefCell<Arc<Sources>>,
    /// Likely mistakes of the main script, each with its position.
    pub(crate) warnings: RefCell<Vec<String>>,
    /// Whether the main script has run, so that its registrations are final.
    has_started: Cell<bool>,
    /// The number of routes that the script has registered; those with larger numbers are pages.
    pub(super) script_routes: Cell<usize>,
}

/// The handlers that have no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Handler {
    /// The handler of paths that neither a route nor the site has.
    NotFound,
    /// The handler of errors of other handlers.
    OnError,
}

impl Handler {
    pub(crate) const ALL: [Self; 2] = [Self::NotFound, Self::OnError];

    /// Returns the name of the handler in Lua.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::OnError => "on_error",
        }
    }

    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Returns an address that no value of a script has: the first value that a coroutine yields.
const fn mark(of: &'static u8) -> LightUserData {
    LightUserData(std::ptr::from_ref(of).cast_mut().cast::<c_void>())
}

static WAIT: u8 = 1;
static DONE: u8 = 2;

impl Host {
    /// Creates the host of a VM that starts at this time.
    pub(crate) fn new(now: Now) -> Self {
        Self {
            clock: Clock::new(now),
            router: RefCell::default(),
            tasks: RefCell::default(),
            specials: Cell::default(),
            handlers: RefCell::default(),
            work: PendingWork::default(),
            route_limits: RefCell::default(),
            ending: Cell::default(),
            subscriptions: RefCell::default(),
            fetches: RefCell::default(),
            processes: RefCell::default(),
            store: ScriptStore::default(),
            with_closed_variables: RefCell::default(),
            background_task: RefCell::default(),
            sources: RefCell::default(),
            warnings: RefCell::default(),
            has_started: Cell::default(),
            script_routes: Cell::default(),
        }
    }

    /// Records that the main script has run.
    pub(crate) fn started(&self) {
        self.has_started.set(true);
        self.script_routes.set(self.router.borrow().len());
    }

    pub(super) fn has_started(&self) -> bool {
        self.has_started.get()
    }

    /// Creates a coroutine of the host with this body.
    ///
    /// # Errors
    /// Fails when memory runs out.
    pub(crate) fn coroutine(&self, lua: &Lua, body: Function) -> Result<Coroutine> {
        let body = match &*self.with_closed_variables.borrow() {
            Some(with_closed_variables) => with_closed_variables.call(body)?,
            None => body,
        };
        lua.create_thread(body)
    }

    /// Returns the operation that a coroutine has requested by these yielded values, or its end.
    /// Returns none when the coroutine has to yield no such values.
    pub(crate) fn step(&self, coroutine: &Coroutine, yielded: Yielded) -> Option<CoroutineStep> {
        let (mark, value, third, fourth) = yielded;
        match (which(&mark), value) {
            (Some(Mark::Done), Value::String(text)) => {
                return Some(CoroutineStep::Done(Unsent::Text(WrittenText::new(text, false))));
            }
            (Some(Mark::Done), Value::Table(response)) => {
                let last = third.as_usize()?;
                return Some(CoroutineStep::Done(Unsent::Pieces(WrittenPieces::new(
                    response, last,
                ))));
            }
            (Some(Mark::Wait), Value::String(name)) => {
                if let Some(operation) = operation(&name.as_bytes(), &third, fourth) {
                    return Some(CoroutineStep::Waits(operation));
                }
            }
            _ if coroutine.is_finished() => {
                if let Ok(nothing) = coroutine.weak_lua().upgrade().create_string("") {
                    return Some(CoroutineStep::Done(Unsent::Text(WrittenText::new(
                        nothing, false,
                    ))));
                }
            }
            _ => {}
        }
        None
    }
}

/// The values that a coroutine yields: a mark, the operation, and its arguments.
pub(super) type Yielded = (Value, Value, Value, Value);

/// The meaning of the first yielded value.
enum Mark {
    Wait,
    Done,
}

fn which(value: &Value) -> Option<Mark> {
    let Value::LightUserData(pointer) = value else { return None };
    match pointer.0 {
        pointer if pointer == mark(&WAIT).0 => Some(Mark::Wait),
        pointer if pointer == mark(&DONE).0 => Some(Mark::Done),
        _ => None,
    }
}

fn operation(name: &[u8], third: &Value, fourth: Value) -> Option<WaitOperation> {
    match (name, fourth) {
        (b"sleep", _) => {
            let seconds = third.as_f64().or_else(|| third.as_i64().map(|seconds| seconds as f64));
            seconds.map(WaitOperation::Sleep)
        }
        (b"await", _) => {
            let seconds = third.as_f64().or_else(|| third.as_i64().map(|seconds| seconds as f64));
            seconds.map(WaitOperation::Await)
        }
        (b"content", _) => Some(WaitOperation::Content),
        (b"wake", _) => Some(WaitOperation::Wake),
        (b"job", _) => Some(WaitOperation::Job),
        (b"file", _) => Some(WaitOperation::File),
        (b"write", Value::String(text)) => Some(WaitOperation::Write(WrittenText::new(text, true))),
        (b"flush", Value::String(text)) => Some(WaitOperation::Flush(WrittenText::new(text, true))),
        _ => None,
    }
}

/// Returns LuaJIT's own function that makes a table with room for so many elements and fields.
/// LuaJIT keeps it where its `require` would look, which scripts do not have.
#[cfg(feature = "luajit")]
fn new_table(lua: &Lua) -> Result<Function> {
    let libraries: Table = lua.named_registry_value("_PRELOAD")?;
    let new_table: Function = libraries.raw_get::<Function>("table.new")?.call(())?;
    // It has put itself into the table that scripts see.
    lua.globals().raw_get::<Table>("table")?.raw_set("new", Value::Nil)?;
    Ok(new_table)
}

/// The chunks that `prelude.lua` calls, with their names in the table `host`.
const PRELUDE_PARTS: [(&str, &str); 3] = [
    ("coroutines", include_str!("../coroutines.lua")),
    ("responses", include_str!("../responses.lua")),
    ("routes", include_str!("../routes.lua")),
];

/// Installs the runtime in a VM: the body of the coroutines that respond to requests, and the
/// functions that other parts written in Lua need.
pub(super) fn install(
    lua: &Lua,
    host: &Rc<Host>,
    command_line: Option<&Table>,
) -> Result<(Function, Table)> {
    *host.router.borrow_mut() = Router::new();
    host.tasks.borrow_mut().park_in(lua.create_table()?);
    let table = lua.create_table()?;
    table.raw_set("WAIT", mark(&WAIT))?;
    table.raw_set("DONE", mark(&DONE))?;
    table.raw_set("RESPONSE_BUFFER_BYTES", RESPONSE_BUFFER_BYTES)?;
    table.raw_set("PREFIX_FIRST", PREFIXES.start)?;
    table.raw_set("PREFIX_COUNT", PREFIXES.len())?;
    table.raw_set("FEW_PIECES", FEW_PIECES)?;
    table.raw_set("MANY_PIECES", MANY_PIECES)?;
    #[cfg(feature = "luajit")]
    table.raw_set("new_table", new_table(lua)?)?;
    table.raw_set("COROUTINES_DEPTH_MAX", COROUTINES_DEPTH_MAX)?;
    table.raw_set("libraries", libraries(lua, host)?)?;
    table.raw_set("command_line", command_line)?;
    request_head::install(lua, host, &table)?;
    request_content::install(lua, host, &table)?;
    response_head::install(lua, host, &table)?;
    handler_registration::install(lua, host, &table)?;
    function_origin::install(lua, host, &table)?;
    function_origin::install_awaited(lua, host, &table)?;
    background_work::install(lua, host, &table)?;
    worker_messages::install(lua, host, &table)?;
    kept_values::install(lua, host, &table)?;
    event_subscriptions::install(lua, host, &table)?;
    route_limits::install(lua, host, &table)?;
    blocking_jobs::install(lua, host, &table)?;
    files::install(lua, host, &table)?;
    fetches::install(lua, host, &table)?;
    processes::install(lua, host, &table)?;
    store::install(lua, host, &table)?;
    sessions::install(lua, host, &table)?;
    #[cfg(not(feature = "luajit"))]
    {
        let (resume, close) = crate::cpu_watchdog::coroutines(lua)?;
        table.raw_set("resume", resume)?;
        table.raw_set("close", close)?;
    }
    let charge = lua.create_function(|lua, bytes: f64| sandbox::charge(lua, bytes as usize))?;
    table.raw_set("charge_cpu", charge)?;
    let of = Rc::clone(host);
    table.raw_set("record_thrown", lua.named_registry_value::<Function>(sandbox::THROWN)?)?;
    table.raw_set(
        "log",
        lua.create_function(move |_, text: LuaString| {
            // The text may be a message that the script has caught.
            log(&of.sources.borrow().explained(&text.to_string_lossy()));
            Ok(())
        })?,
    )?;
    for (name, source) in PRELUDE_PARTS {
        table.raw_set(name, lua.load(source).set_name("=pinion").into_function()?)?;
    }
    let prelude = lua.load(include_str!("../prelude.lua")).set_name("=pinion");
    let (request_loop, parts): (Function, Table) = prelude.call(&table)?;
    host.with_closed_variables.replace(parts.raw_get("with_closed_variables")?);
    host.background_task.replace(parts.raw_get("background_task")?);
    #[cfg(test)]
    lua.set_named_registry_value("pinion.classes", parts.raw_get::<Table>("classes")?)?;
    parts.raw_set("host", table)?;
    Ok((request_loop, parts))
}

/// Returns the library functions that need only their arguments, the time and the keys of the site.
fn libraries(lua: &Lua, host: &Host) -> Result<Table> {
    let libraries = lua.create_table()?;
    libraries.raw_set("version", env!("CARGO_PKG_VERSION"))?;
    library::install(lua, &libraries, &host.clock)?;
    let (site, key) = (host.work.worker_site.borrow().site.clone(), host.work.key.take());
    let crypto: Table = libraries.raw_get("crypto")?;
    crypto.raw_set("key", library::crypto::of_site(lua, site, key)?)?;
    Ok(libraries)
}

pub(super) const OVER: &str = "the request has ended; its req and res cannot be used any more";

pub(super) type Outcome<T> = (Option<T>, Option<String>);

pub(super) fn or_why<T>(result: std::result::Result<T, String>) -> Outcome<T> {
    match result {
        Ok(value) => (Some(value), None),
        Err(why) => (None, Some(why)),
    }
}

/// Runs `make`, which allocates values whose size is bounded otherwise, without the limit of
/// memory. Under that limit each such step is a protected call, with two functions made for it.
/// Here the memory is counted all the same, and the next allocation of the script meets the limit.
pub(crate) fn relaxed<T>(lua: &Lua, make: impl FnOnce() -> Result<T>) -> Result<T> {
    let limit = lua.set_memory_limit(0)?;
    let made = make();
    lua.set_memory_limit(limit)?;
    made
}

/// Writes one line to the log, whatever the script has put into it.
fn log(text: &str) {
    pinion_engine::stderr::line(format_args!("pinion: lua: {}", harmless(text)));
}

/// Replaces all control characters of a text, which could end its line or change the terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
