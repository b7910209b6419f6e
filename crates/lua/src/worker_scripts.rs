//! Answers the requests of one worker that belong to scripts: it takes events of the engine and
//! returns actions on the exchange.
//!
//! | module | contents |
//! |---|---|
//! | `requests` | a request from its head to its response, and its errors |
//! | `content_memory` | events of the content of a request, and the limit of its memory |
//! | `sent_files` | a file as the content of a response |
//! | `finish_response` | the end of a response whose handler has returned |
//! | `field_lines` | the fields of a response |
//! | `background_tasks` | background work: tasks that can go on, and schedules |
//! | `timers` | tasks that sleep or may take too long, and schedules |
//! | `pending_operations` | requests to other servers, programs and jobs that tasks wait for |
//! | `worker_messages` | messages between workers |
//! | `vm_lifecycle` | VMs from their start to their end |
//! | `command_line_script` | a program at the command line |
//! | `object_counts` | the objects that scripts hold, for tests |

mod background_tasks;
mod command_line_script;
mod content_memory;
mod field_lines;
mod finish_response;
#[cfg(feature = "sim")]
mod object_counts;
mod pending_operations;
mod requests;
mod sent_files;
mod timers;
mod vm_lifecycle;
mod worker_messages;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use mlua::{IntoLuaMulti, Thread as Coroutine};
use pinion_client::resolver::{Resolver, ResolverSettings};
use pinion_engine::Poster;
use pinion_engine::app::Message;
use pinion_engine::clock::Now;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_http::request_head::RequestHead;
use pinion_jobs::async_thread::TaskThread;
use pinion_jobs::byte_quota::ByteQuota;
use pinion_jobs::job_queue::JobQueues;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_programs::spawner_access::SpawnerAccess;

use crate::body::body_memory::BodyMemory;
use crate::cpu_watchdog::{CpuWatchdog, CpuWatchdogs};
use crate::external_programs::WorkerPrograms;
use crate::fetch_client::WorkerClient;
use crate::library::passwords::PasswordLimits;
use crate::request;
use crate::require;
use crate::router::{FoundRoute, Match};
use crate::sandbox;
use crate::script_load_error::ScriptProblem;
use crate::script_memory_limits::ScriptMemory;
use crate::shared_site_state::ScriptSite;
use crate::site_program::SiteProgram;
use crate::store_access::{ScriptStoreChoice, StoreAccess, StoreWorker};
use crate::task::TaskId;
use crate::vm::{CoroutineStep, Handler, PieceList, ScriptFault, Vm, harmless};
use background_tasks::Background;
use command_line_script::StandaloneProgram;
#[cfg(feature = "sim")]
pub use object_counts::ObjectCounts;
use pending_operations::Operations;

/// The state that the scripts of all workers share.
#[derive(Clone)]
pub struct SharedByScripts {
    /// Watches the CPU that scripts take.
    pub watchdogs: Arc<CpuWatchdogs>,
    /// Runs jobs that block.
    pub jobs: Arc<JobQueues>,
    /// The quota of the messages that wait.
    messages: Arc<ByteQuota>,
    /// The limits of memory of all scripts.
    memory: ScriptMemory,
    /// The quota of uploads that are stored in files.
    uploads: Arc<UploadQuota>,
    /// Resolves the names of servers that scripts send requests to.
    resolver: Resolver,
    /// Starts programs for scripts.
    spawner: SpawnerAccess,
    store: ScriptStoreChoice,
}

impl SharedByScripts {
    /// Creates the shared state for `workers` workers, with the quota of their uploads and the
    /// memory of their scripts.
    #[must_use]
    pub fn new(workers: usize, uploads: UploadQuota, memory: ScriptMemory) -> Self {
        Self {
            uploads: Arc::new(uploads),
            watchdogs: Arc::new(CpuWatchdogs::new(workers)),
            jobs: Arc::new(JobQueues::new(&memory.jobs)),
            messages: Arc::new(ByteQuota::new(memory.messages_bytes)),
            memory,
            resolver: Resolver::with_thread(ResolverSettings::default(), &TaskThread::default()),
            spawner: SpawnerAccess::default(),
            store: ScriptStoreChoice::Absent,
        }
    }

    /// Returns the cost limits of password hashes.
    #[must_use]
    pub fn password_limits(&self) -> PasswordLimits {
        self.memory.passwords
    }

    /// Returns the resolver of host names, which other parts of the server may share.
    #[must_use]
    pub fn resolver(&self) -> Resolver {
        self.resolver.clone()
    }

    /// Returns the quota of all uploads in the folder for temporary files, which other parts of the
    /// server may share.
    #[must_use]
    pub fn uploads(&self) -> Arc<UploadQuota> {
        Arc::clone(&self.uploads)
    }

    /// Sets the process that starts programs.
    #[must_use]
    pub fn with_spawner(self, spawner: SpawnerAccess) -> Self {
        Self { spawner, ..self }
    }

    /// Sets the store, which all scripts of the server share.
    #[must_use]
    pub fn with_store(self, store: StoreAccess) -> Self {
        Self { store: ScriptStoreChoice::OfServer(store), ..self }
    }
}

/// The scripts of one worker.
pub struct Scripts {
    watchdogs: Arc<CpuWatchdogs>,
    jobs: Arc<JobQueues>,
    messages: Arc<ByteQuota>,
    memory: ScriptMemory,
    worker: u16,
    poster: Poster,
    /// Its watchdog, from the first script on.
    watchdog: Option<CpuWatchdog>,
    background: Background,
    /// The client that sends requests to other servers.
    client: Rc<WorkerClient>,
    /// The runner of programs.
    programs: Rc<WorkerPrograms>,
    store: ScriptStoreChoice,
    store_worker: Rc<StoreWorker>,
    operations: Operations,
    /// The program that runs in this worker without requests.
    alone: Option<StandaloneProgram>,
    /// The worker's quota for content of requests in memory.
    body_memory: Rc<BodyMemory>,
    /// No upload is cancelled for want of room before this time, in monotonic milliseconds.
    upload_relief_after_ms: u64,
    /// The requests that wait for something.
    waiting: HashMap<Address, (Rc<Vm>, TaskId)>,
    /// Buffers for a decoded path, for the lines of a head, and for content that is sent at once.
    path: Vec<u8>,
    lines: Vec<u8>,
    gathered: Vec<u8>,
    pieces: PieceList,
    ids: Ids,
}

/// The script of one site, after its start.
#[derive(Clone)]
pub struct SiteScript(Rc<Vm>);

/// The result of the search for a handler of a request.
#[derive(Debug)]
pub enum Offer {
    /// A handler was found.
    Handler(Match),
    /// Only other methods have a handler: these.
    Methods(Vec<String>),
    /// No handler was found.
    Nothing,
}

/// The state of a request after an event.
#[derive(Debug)]
pub enum RequestOutcome {
    /// The request belongs to no script.
    NotOurs,
    /// The response is in the output queue, or has been cut off.
    Answered {
        /// The status of the response.
        status: u16,
        /// The bytes of its content.
        body_bytes: u64,
    },
    /// The handler waits.
    Waits,
    /// The script has sent no response: the caller sends the site's error page.
    Failed(ScriptFailure),
    /// The client has left.
    Gone,
}

/// The reason why a script has sent no response.
#[derive(Debug)]
pub struct ScriptFailure {
    /// The status of the error page.
    pub status: u16,
    /// The identifier that the page shows in place of the reason.
    pub id: String,
    /// The error with the request and the stack, for the log and for a page that only the developer
    /// sees.
    pub report: String,
    /// The server had no room: the same request can succeed after
    /// [`RETRY_AFTER_S`](crate::limits::RETRY_AFTER_S).
    pub can_retry: bool,
}

/// The destination of a response, with the defaults of its site.
pub struct Outlet<'a, 'w> {
    /// The exchange.
    pub exchange: &'a mut Exchange<'w>,
    /// The default field lines of the site's responses.
    pub defaults: &'a [u8],
    /// The text at the end of every HTML page.
    pub page_end: &'a [u8],
}

impl SiteScript {
    /// Returns whether the script has a handler for paths that neither a route nor the site has.
    #[must_use]
    pub fn has_not_found(&self) -> bool {
        self.0.has(Handler::NotFound)
    }
}

/// Starts a program and drops it again, so that its errors show before it answers a request.
/// Modules that it has yet to require are compiled too. The program sees a copy of the values that
/// earlier scripts of its site have kept. Returns warnings about likely mistakes of its author,
/// each with file and line.
///
/// # Errors
/// Returns the errors of [`Scripts::start`].
pub fn prove(
    program: &SiteProgram,
    site: &ScriptSite,
    now: Now,
) -> Result<Vec<String>, ScriptProblem> {
    let watchdogs = CpuWatchdogs::new(1);
    let vm = Vm::start(program, &mut watchdogs.watchdog(0)?, site.as_in_a_worker(), now)?;
    require::prove(vm.lua(), program)?;
    let warnings = vm.host().warnings.take();
    Ok(warnings.iter().map(|warning| program.sources().explained(warning)).collect())
}

/// Compiles all Lua files of a program and runs none of them. Returns their errors, with file and
/// line, also where another error keeps the program from starting.
///
/// # Errors
/// Fails when memory runs out.
pub fn syntax_errors(program: &SiteProgram) -> Result<Vec<ScriptProblem>, ScriptProblem> {
    let lua = sandbox::open().map_err(|error| ScriptProblem::new(&error))?;
    Ok(require::wrong(&lua, program).collect())
}

impl Scripts {
    /// Creates the scripts of the worker whose thread calls this, without a script yet.
    #[must_use]
    pub fn new(shared: &SharedByScripts, worker: u16, poster: Poster) -> Self {
        Self {
            watchdogs: Arc::clone(&shared.watchdogs),
            jobs: Arc::clone(&shared.jobs),
            messages: Arc::clone(&shared.messages),
            memory: shared.memory,
            worker,
            client: Rc::new(WorkerClient::new(
                shared.resolver.clone(),
                poster.clone(),
                worker,
                shared.memory,
            )),
            programs: Rc::new(WorkerPrograms::new(shared.spawner.clone())),
            store: shared.store.clone(),
            store_worker: Rc::new(StoreWorker::new(poster.clone(), worker)),
            operations: Operations::default(),
            poster,
            watchdog: None,
            background: Background::default(),
            alone: None,
            body_memory: Rc::new(BodyMemory::new(shared.memory.content_bytes, &shared.uploads)),
            upload_relief_after_ms: 0,
            waiting: HashMap::new(),
            path: Vec::new(),
            lines: Vec::new(),
            gathered: Vec::new(),
            pieces: PieceList::default(),
            ids: Ids::default(),
        }
    }

    /// Starts a program of a site, and its schedules.
    ///
    /// # Errors
    /// Returns the error of the program, or fails if there is no thread to watch it.
    pub fn start(
        &mut self,
        program: &SiteProgram,
        site: &ScriptSite,
        now: Now,
    ) -> Result<SiteScript, ScriptProblem> {
        let watchdog = match &mut self.watchdog {
            Some(watchdog) => watchdog,
            None => self.watchdog.insert(self.watchdogs.watchdog(usize::from(self.worker))?),
        };
        let place = site.in_worker(self.worker, self.memory, self.store.clone());
        let vm = Rc::new(Vm::start(program, watchdog, place, now)?);
        vm.host().store.worker.replace(Some(Rc::clone(&self.store_worker)));
        vm.host().work.messages.replace(Arc::clone(&self.messages));
        vm.host().work.client.replace(Some(Rc::clone(&self.client)));
        vm.host().work.programs.replace(Some(Rc::clone(&self.programs)));
        self.activate_vm(&vm, now);
        Ok(SiteScript(vm))
    }

    /// Retires a script: it receives no more requests. Its waiting tasks go on, unless too many
    /// retired scripts of its site are there already.
    pub fn retire(&mut self, script: &SiteScript) {
        self.retire_vm(&script.0);
    }

    /// Does the background work that is due.
    #[inline]
    pub fn pass(&mut self, connections: &mut Connections<'_>) {
        let now = connections.now();
        if self.alarm_ms().is_some_and(|at_ms| at_ms <= now.monotonic_ms) {
            self.pass_operations(connections);
            self.work(now);
            self.flush(connections);
        }
    }

    /// Returns when [`Self::pass`] next has work, in monotonic milliseconds.
    #[inline]
    #[must_use]
    pub fn alarm_ms(&self) -> Option<u64> {
        let client = self.client.used().and_then(|client| client.borrow().alarm_ms());
        let programs = self.programs.used().and_then(|runner| runner.borrow().alarm_ms());
        client.into_iter().chain(programs).chain(self.background.alarm_ms()).min()
    }

    /// Handles a message that was posted to this worker.
    pub fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        if Self::is_of_client(&message) {
            self.pass_client(connections);
        } else {
            self.take_message(message);
        }
        self.flush(connections);
    }

    /// Returns whether any request waits.
    #[inline]
    #[must_use]
    pub fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Finds the handler of a request.
    pub fn offer(&mut self, script: &SiteScript, head: &RequestHead<'_>) -> Offer {
        let Some(path) = request::path(head, &mut self.path) else { return Offer::Nothing };
        match script.0.router().find(head.method_token, path) {
            FoundRoute::Route(found) => Offer::Handler(found),
            FoundRoute::Methods(methods) => Offer::Methods(methods),
            FoundRoute::Nothing => Offer::Nothing,
        }
    }

    /// Resumes a coroutine, at the expense of the task that pays for it.
    fn resume(
        &mut self,
        vm: &Vm,
        id: TaskId,
        coroutine: &Coroutine,
        values: impl IntoLuaMulti,
        now: Now,
    ) -> CoroutineStep {
        let over = || CoroutineStep::Failed(ScriptFault::Error("the request has ended".to_owned()));
        let Some(payer) = vm.tasks().budget_owner(id) else { return over() };
        let Some(mut left) = vm.tasks().get(payer).map(|task| task.left) else { return over() };
        let Some(watchdog) = &mut self.watchdog else {
            return CoroutineStep::Failed(ScriptFault::Error(
                "the thread that limits scripts is missing".to_owned(),
            ));
        };
        vm.host().clock.set(now);
        let step = vm.resume(id, coroutine, values, watchdog, &mut left);
        if let Some(task) = vm.tasks().get(payer) {
            task.left = left;
        }
        step
    }
}

/// Logs a failure: the message in the first line, then the lines of the stack.
#[cold]
fn log_failure(id: &str, report: &str) {
    pinion_engine::stderr::line(log_entry(id, report));
}

/// Formats all lines of a report as one log entry, so that the lines of two workers are never
/// mixed.
fn log_entry(id: &str, report: &str) -> String {
    let mut lines = report.lines().map(harmless);
    let first = lines.next().unwrap_or_default();
    let mut entry = format!("pinion: lua: {first} (id {id})");
    for line in lines {
        entry.push_str("\npinion: lua:   ");
        entry.push_str(line.trim_start());
    }
    entry
}

/// Generates identifiers of failures that disclose nothing and are hardly ever the same.
#[derive(Debug, Default)]
struct Ids {
    keys: RandomState,
    count: u64,
}

impl Ids {
    fn next(&mut self) -> String {
        self.count += 1;
        format!("{:012x}", self.keys.hash_one(self.count) >> 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_log_entry_has_its_prefix() {
        let report = "GET /a: main.lua:3: why\u{1b}[31m\nstack traceback:\n\tmain.lua:3: in x";
        let expected = "pinion: lua: GET /a: main.lua:3: why [31m (id 1)\npinion: lua:   stack \
                        traceback:\npinion: lua:   main.lua:3: in x";
        assert_eq!(log_entry("1", report), expected);
    }
}
