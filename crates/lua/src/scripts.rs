//! What a worker does with the requests that scripts answer: events of the engine in, actions on
//! the exchange out.

mod alone;
mod background;
mod ending;
mod fetches;
mod fields;
mod files;
#[cfg(feature = "sim")]
mod holdings;
mod messages;
mod processes;
mod requests;
mod room;
mod store_jobs;
mod unsent;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use mlua::{IntoLuaMulti, Thread as Coroutine};
use pinion_client::http_client::RequestId;
use pinion_client::resolver::{Resolver, ResolverSettings};
use pinion_engine::Poster;
use pinion_engine::address::Address;
use pinion_engine::app::Message;
use pinion_engine::clock::Now;
use pinion_engine::connections::Connections;
use pinion_engine::exchange::Exchange;
use pinion_http::request::RequestHead;
use pinion_jobs::byte_quota::ByteQuota;
use pinion_jobs::job_queue::JobQueues;
use pinion_jobs::task_thread::TaskThread;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_programs::program_run::RunId;
use pinion_programs::spawner_access::SpawnerAccess;

use crate::budget::{Budget, Guard};
use crate::fetch::WorkerClient;
use crate::library::passwords::PasswordLimits;
use crate::problem::ScriptProblem;
use crate::program::SiteProgram;
use crate::programs::WorkerPrograms;
use crate::request;
use crate::require;
use crate::router::{FoundRoute, Match};
use crate::sandbox;
use crate::script_memory::ScriptMemory;
use crate::site::ScriptSite;
use crate::stock::Stock;
use crate::store_access::{ScriptStoreChoice, StoreAccess, StoreWorker};
use crate::task::TaskId;
use crate::vm::{CoroutineStep, Handler, PieceList, ScriptFault, Vm, harmless};
use alone::StandaloneProgram;
use background::Background;
#[cfg(feature = "sim")]
pub use holdings::Holdings;

/// What all workers share for their scripts.
#[derive(Clone)]
pub struct SharedByScripts {
    /// Watches what they take.
    pub guard: Arc<Guard>,
    /// Run work that blocks.
    pub jobs: Arc<JobQueues>,
    /// Of the messages that wait.
    messages: Arc<ByteQuota>,
    /// How much memory they may take.
    memory: ScriptMemory,
    /// What uploads take in files.
    uploads: Arc<UploadQuota>,
    /// Resolves the names of servers that scripts send requests to.
    resolver: Resolver,
    /// Starts programs for scripts.
    spawner: SpawnerAccess,
    store: ScriptStoreChoice,
}

impl SharedByScripts {
    /// Makes it for so many workers, whose uploads take from this quota and whose scripts have so
    /// much memory.
    #[must_use]
    pub fn new(workers: usize, uploads: UploadQuota, memory: ScriptMemory) -> Self {
        Self {
            uploads: Arc::new(uploads),
            guard: Arc::new(Guard::new(workers)),
            jobs: Arc::new(JobQueues::new(&memory.jobs)),
            messages: Arc::new(ByteQuota::new(memory.messages_bytes)),
            memory,
            resolver: Resolver::with_thread(ResolverSettings::default(), &TaskThread::default()),
            spawner: SpawnerAccess::default(),
            store: ScriptStoreChoice::Absent,
        }
    }

    /// Returns what hashes of passwords may cost.
    #[must_use]
    pub fn password_limits(&self) -> PasswordLimits {
        self.memory.passwords
    }

    /// Returns what resolves names, which others may share.
    #[must_use]
    pub fn resolver(&self) -> Resolver {
        self.resolver.clone()
    }

    /// Returns what all uploads may take of the folder for temporary files, which others may share.
    #[must_use]
    pub fn uploads(&self) -> Arc<UploadQuota> {
        Arc::clone(&self.uploads)
    }

    /// The same with a process that starts programs.
    #[must_use]
    pub fn with_spawner(self, spawner: SpawnerAccess) -> Self {
        Self { spawner, ..self }
    }

    /// The same with a store, which all scripts of the server share.
    #[must_use]
    pub fn with_store(self, store: StoreAccess) -> Self {
        Self { store: ScriptStoreChoice::OfServer(store), ..self }
    }
}

/// The scripts of one worker.
pub struct Scripts {
    guard: Arc<Guard>,
    jobs: Arc<JobQueues>,
    messages: Arc<ByteQuota>,
    memory: ScriptMemory,
    worker: u16,
    poster: Poster,
    /// From the first script on.
    budget: Option<Budget>,
    background: Background,
    /// What sends requests to other servers.
    client: Rc<WorkerClient>,
    /// The VMs of these requests.
    fetches: HashMap<RequestId, Weak<Vm>>,
    /// What runs programs.
    programs: Rc<WorkerPrograms>,
    /// The VMs of these programs.
    runs: HashMap<RunId, Weak<Vm>>,
    store: ScriptStoreChoice,
    store_worker: Rc<StoreWorker>,
    /// The VMs of jobs of the store, by their numbers.
    store_jobs: HashMap<u64, Weak<Vm>>,
    /// The program that runs here without requests.
    alone: Option<StandaloneProgram>,
    /// What of the content of requests is kept here.
    stock: Rc<Stock>,
    /// No upload is given up before this time, in monotonic milliseconds.
    upload_relief_after_ms: u64,
    /// The requests that wait for something.
    waiting: HashMap<Address, (Rc<Vm>, TaskId)>,
    /// Room for a decoded path, for the lines of a head, and for content that goes out at once.
    path: Vec<u8>,
    lines: Vec<u8>,
    gathered: Vec<u8>,
    pieces: PieceList,
    ids: Ids,
}

/// The script of one site, started.
#[derive(Clone)]
pub struct SiteScript(Rc<Vm>);

/// What a script has for a request.
#[derive(Debug)]
pub enum Offer {
    /// A handler.
    Handler(Match),
    /// Handlers of other methods: these.
    Methods(Vec<String>),
    /// Nothing.
    Nothing,
}

/// What has become of a request with an event.
#[derive(Debug)]
pub enum RequestOutcome {
    /// It is none of a script.
    NotOurs,
    /// Its answer stands in the queue, or has been cut off.
    Answered {
        /// Its status.
        status: u16,
        /// Bytes of its content.
        body_bytes: u64,
    },
    /// It waits.
    Waits,
    /// Nothing was answered: the site's own page has to be.
    Failed(ScriptFailure),
    /// Its client is gone.
    Gone,
}

/// Why a script has not answered.
#[derive(Debug)]
pub struct ScriptFailure {
    /// The status that fits.
    pub status: u16,
    /// What the page says in place of the reason.
    pub id: String,
    /// What happened, with the request, and what the stack was: for the log, and for a page that
    /// only the developer sees.
    pub report: String,
    /// It is the server that had no room: the same request can do well in
    /// [`RETRY_AFTER_S`](crate::limits::RETRY_AFTER_S).
    pub can_retry: bool,
}

/// Where an answer goes and what it has by default.
pub struct Outlet<'a, 'w> {
    /// The exchange.
    pub exchange: &'a mut Exchange<'w>,
    /// Lines of the fields that answers of the site have.
    pub defaults: &'a [u8],
    /// What stands at the end of every page of HTML.
    pub page_end: &'a [u8],
}

impl SiteScript {
    /// Whether there is a handler for what neither a route nor the site has.
    #[must_use]
    pub fn has_not_found(&self) -> bool {
        self.0.has(Handler::NotFound)
    }
}

/// Starts a program and lets it go again: what is wrong with it shows before anybody is answered
/// by it. Modules that it has yet to require are compiled too. It finds a copy of what earlier
/// scripts of its site have kept. Returns warnings about what its author may not have meant, each
/// with file and line.
///
/// # Errors
/// As [`Scripts::start`].
pub fn prove(
    program: &SiteProgram,
    site: &ScriptSite,
    now: Now,
) -> Result<Vec<String>, ScriptProblem> {
    let guard = Guard::new(1);
    let vm = Vm::start(program, &mut guard.budget(0)?, site.as_in_a_worker(), now)?;
    require::prove(vm.lua(), program)?;
    let warnings = vm.host().warnings.take();
    Ok(warnings.iter().map(|warning| program.sources().explained(warning)).collect())
}

/// Compiles all Lua files of a program and runs none of them. Returns what is wrong, with file and
/// line, also where something else keeps the program from starting.
///
/// # Errors
/// Out of memory.
pub fn syntax_errors(program: &SiteProgram) -> Result<Vec<ScriptProblem>, ScriptProblem> {
    let lua = sandbox::open().map_err(|error| ScriptProblem::new(&error))?;
    Ok(require::wrong(&lua, program).collect())
}

impl Scripts {
    /// For the worker that this thread is, without a script yet.
    #[must_use]
    pub fn new(shared: &SharedByScripts, worker: u16, poster: Poster) -> Self {
        Self {
            guard: Arc::clone(&shared.guard),
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
            fetches: HashMap::new(),
            programs: Rc::new(WorkerPrograms::new(shared.spawner.clone())),
            runs: HashMap::new(),
            store: shared.store.clone(),
            store_worker: Rc::new(StoreWorker::new(poster.clone(), worker)),
            store_jobs: HashMap::new(),
            poster,
            budget: None,
            background: Background::default(),
            alone: None,
            stock: Rc::new(Stock::new(shared.memory.content_bytes, &shared.uploads)),
            upload_relief_after_ms: 0,
            waiting: HashMap::new(),
            path: Vec::new(),
            lines: Vec::new(),
            gathered: Vec::new(),
            pieces: PieceList::default(),
            ids: Ids::default(),
        }
    }

    /// Starts a program of a site, and what it repeats.
    ///
    /// # Errors
    /// What is wrong with the program, or that there is no thread to watch it.
    pub fn start(
        &mut self,
        program: &SiteProgram,
        site: &ScriptSite,
        now: Now,
    ) -> Result<SiteScript, ScriptProblem> {
        let budget = match &mut self.budget {
            Some(budget) => budget,
            None => self.budget.insert(self.guard.budget(usize::from(self.worker))?),
        };
        let place = site.in_worker(self.worker, self.memory, self.store.clone());
        let vm = Rc::new(Vm::start(program, budget, place, now)?);
        vm.host().store.worker.replace(Some(Rc::clone(&self.store_worker)));
        vm.host().work.messages.replace(Arc::clone(&self.messages));
        vm.host().work.client.replace(Some(Rc::clone(&self.client)));
        vm.host().work.programs.replace(Some(Rc::clone(&self.programs)));
        self.take_up(&vm, now);
        Ok(SiteScript(vm))
    }

    /// A script answers no more. What waits in it goes on there, unless too many such scripts of
    /// its site are there already.
    pub fn retire(&mut self, script: &SiteScript) {
        self.put_away(&script.0);
    }

    /// Does what is due beside requests.
    #[inline]
    pub fn pass(&mut self, connections: &mut Connections<'_>) {
        let now = connections.now();
        if self.alarm_ms().is_some_and(|at_ms| at_ms <= now.monotonic_ms) {
            self.pass_client(connections);
            self.pass_programs(connections);
            self.work(now);
            self.flush(connections);
        }
    }

    /// When [`Self::pass`] has something to do, in monotonic milliseconds.
    #[inline]
    #[must_use]
    pub fn alarm_ms(&self) -> Option<u64> {
        let client = self.client.used().and_then(|client| client.borrow().alarm_ms());
        let programs = self.programs.used().and_then(|runner| runner.borrow().alarm_ms());
        client.into_iter().chain(programs).chain(self.background.alarm_ms()).min()
    }

    /// Somebody has posted to this worker.
    pub fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        if Self::is_of_client(&message) {
            self.pass_client(connections);
        } else {
            self.take_message(message);
        }
        self.flush(connections);
    }

    /// Whether requests wait for something.
    #[inline]
    #[must_use]
    pub fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What a script has for a request.
    pub fn offer(&mut self, script: &SiteScript, head: &RequestHead<'_>) -> Offer {
        let Some(path) = request::path(head, &mut self.path) else { return Offer::Nothing };
        match script.0.router().find(head.method_token, path) {
            FoundRoute::Route(found) => Offer::Handler(found),
            FoundRoute::Methods(methods) => Offer::Methods(methods),
            FoundRoute::Nothing => Offer::Nothing,
        }
    }

    /// Lets a coroutine go on, at the expense of whoever pays for its task.
    fn resume(
        &mut self,
        vm: &Vm,
        id: TaskId,
        coroutine: &Coroutine,
        values: impl IntoLuaMulti,
        now: Now,
    ) -> CoroutineStep {
        let over = || CoroutineStep::Failed(ScriptFault::Error("the request has ended".to_owned()));
        let Some(account) = vm.tasks().get(id).map(|task| task.account.unwrap_or(id)) else {
            return over();
        };
        let Some(mut left) = vm.tasks().get(account).map(|task| task.left) else { return over() };
        let Some(budget) = &mut self.budget else {
            return CoroutineStep::Failed(ScriptFault::Error(
                "the thread that limits scripts is missing".to_owned(),
            ));
        };
        vm.host().clock.set(now);
        let step = vm.resume(id, coroutine, values, budget, &mut left);
        if let Some(task) = vm.tasks().get(account) {
            task.left = left;
        }
        step
    }
}

/// What has happened, for the log: the first line says it, those of the stack follow.
#[cold]
fn tell(id: &str, report: &str) {
    pinion_engine::stderr::line(log_entry(id, report));
}

/// All lines of a report, to be written at once: those of two workers must not be mixed.
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

/// Names for failures that nobody can guess anything from, and that are hardly ever the same.
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
    fn an_entry_of_the_log_is_one_text_with_a_mark_on_each_line() {
        let report = "GET /a: main.lua:3: why\u{1b}[31m\nstack traceback:\n\tmain.lua:3: in x";
        let expected = "pinion: lua: GET /a: main.lua:3: why [31m (id 1)\npinion: lua:   stack \
                        traceback:\npinion: lua:   main.lua:3: in x";
        assert_eq!(log_entry("1", report), expected);
    }
}
