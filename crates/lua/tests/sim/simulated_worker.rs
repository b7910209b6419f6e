//! A worker with scripts on the simulated network. Its application is that of a server with nothing
//! but scripts, which replace each other.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Message};
use pinion_engine::backend::sim::{Faults, Network};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::clock::Now;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_engine::stepped_worker::Stepped;
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::prepared_response::{Prepared, PreparedBody};
use pinion_http::request_head::RequestHead;
use pinion_jobs::job_queue::JobQueues;
use pinion_jobs::upload_quota::UploadQuota;
use pinion_lua::script_memory_limits::ScriptMemory;
use pinion_lua::shared_site_state::ScriptSite as LuaSite;
use pinion_lua::site_program::SiteProgram;
use pinion_lua::worker_scripts::{
    self, Offer, Outlet, RequestOutcome, Scripts, SharedByScripts, SiteScript,
};

/// Only one stage exists at a time, because descriptors and memory are counted for the whole
/// process.
static ALONE: Mutex<()> = Mutex::new(());

/// Passes of a worker within which a response that waits for nothing arrives.
const PASSES: u32 = 30;

/// An application that consists of one script, which can be replaced.
pub(crate) struct ScriptSite {
    pub(crate) scripts: Scripts,
    /// The version of the current script, counted from 1.
    pub(crate) version: u32,
    script: Option<SiteScript>,
    /// The scripts that replace it, one in each pass.
    next: VecDeque<SiteProgram>,
    /// The settings that all versions share.
    common: LuaSite,
    /// The version that has begun to respond to each path.
    pub(crate) begun: HashMap<String, u32>,
}

/// A worker, its network, and the queues of its jobs.
pub(crate) struct Stage<const READINESS: bool> {
    pub(crate) network: Network,
    pub(crate) worker: Stepped<READINESS, ScriptSite>,
    pub(crate) jobs: Arc<JobQueues>,
    _alone: MutexGuard<'static, ()>,
}

impl ScriptSite {
    fn new(shared: &SharedByScripts, poster: Poster) -> Self {
        Self {
            scripts: Scripts::new(shared, 0, poster),
            version: 0,
            script: None,
            next: VecDeque::new(),
            common: LuaSite::default(),
            begun: HashMap::new(),
        }
    }

    /// Replaces the current script by a program if it starts. Returns whether it does.
    pub(crate) fn reload(&mut self, program: SiteProgram, now: Now) -> bool {
        // The program is checked on a thread of its own, as in a server.
        let proving = || worker_scripts::prove(&program, &self.common, now).is_ok();
        let is_well = thread::scope(|scope| scope.spawn(proving).join().expect("no panic"));
        self.next.extend(is_well.then_some(program));
        is_well
    }

    fn begin(&mut self, head: &RequestHead<'_>, exchange: &mut Exchange<'_>) {
        let path = String::from_utf8_lossy(head.target.path).into_owned();
        self.begun.insert(path, self.version);
        let Some(script) = self.script.clone() else { return };
        let found = match self.scripts.offer(&script, head) {
            Offer::Handler(found) => Some(found),
            Offer::Methods(_) | Offer::Nothing => None,
        };
        if found.is_none() && !script.has_not_found() {
            return response(404, exchange);
        }
        let client = ClientIdentity { peer: exchange.peer(), is_secured: exchange.is_secured() };
        let mut outlet = Outlet { exchange: &mut *exchange, defaults: b"", page_end: b"" };
        let outcome = self.scripts.begin(&script, found, head, &client, &mut outlet);
        complete(&outcome, exchange);
    }
}

/// Responds if the script has failed to.
fn complete(outcome: &RequestOutcome, exchange: &mut Exchange<'_>) {
    if let RequestOutcome::Failed(failure) = outcome {
        response(failure.status, exchange);
    }
}

fn response(status: u16, exchange: &mut Exchange<'_>) {
    let (body, content_length) = (PreparedBody::Bytes(b"no answer"), Some(9));
    exchange.prepared(&Prepared { body, content_length, ..Prepared::empty(status) }, None);
}

impl App for ScriptSite {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        match event {
            Event::Head(head) => self.begin(head, exchange),
            event => {
                let mut outlet = Outlet { exchange: &mut *exchange, defaults: b"", page_end: b"" };
                let outcome = self.scripts.event(&event, &mut outlet);
                complete(&outcome, exchange);
            }
        }
        self.scripts.flush(&mut exchange.connections());
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        self.scripts.byte_stream_event(&event, stream);
        self.scripts.flush(&mut stream.connections());
    }

    fn pass(&mut self, connections: &mut Connections<'_>) {
        let now = connections.now();
        if let Some(program) = self.next.pop_front() {
            let script = self.scripts.start(&program, &self.common, now).expect("proven");
            if let Some(old) = self.script.replace(script) {
                self.scripts.retire(&old);
            }
            self.version += 1;
        }
        self.scripts.pass(connections);
    }

    fn alarm_ms(&self) -> Option<u64> {
        self.scripts.alarm_ms()
    }

    fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        self.scripts.posted(message, connections);
    }
}

impl<const READINESS: bool> Stage<READINESS> {
    /// Creates a stage with a first script.
    pub(crate) fn new(seed: u64, faults: Faults, program: SiteProgram) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let protocol = Protocol::Http(Protocols { http1: true, http2: false });
        let listeners = vec![ListenerSettings::plain(protocol)];
        let settings = WorkerSettings { listeners, ..WorkerSettings::default() };
        let network = Network::new(seed, faults, settings.listeners.len());
        let jobs = Arc::new(JobQueues::without_threads());
        let mut shared = SharedByScripts::new(1, UploadQuota::default(), ScriptMemory::default());
        shared.jobs = Arc::clone(&jobs);
        let make_app = |poster| ScriptSite::new(&shared, poster);
        let mut worker = Stepped::new(network.clone(), settings, make_app);
        assert!(worker.app().reload(program, network.now()), "the first script starts");
        worker.pass().expect("a pass");
        Self { network, worker, jobs, _alone: alone }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.network.now().monotonic_ms
    }

    /// Replaces the current script by a program if it starts. Returns whether it does.
    pub(crate) fn reload(&mut self, program: SiteProgram) -> bool {
        let now = self.network.now();
        self.worker.app().reload(program, now)
    }

    /// Runs one pass, in which time passes until something happens, at the latest at `until_ms`.
    pub(crate) fn pass(&mut self, until_ms: u64) {
        let now_ms = self.now_ms();
        // The network does not know work other than requests, so a worker with due work does not
        // wait. A worker that never completes such work exceeds the number of waits of one time.
        let is_due = self.worker.app().alarm_ms().is_some_and(|at_ms| at_ms <= now_ms);
        self.network.act_at(Some(if is_due { now_ms } else { until_ms }));
        self.worker.pass().expect("a pass");
    }

    /// Runs only the worker and its jobs for so long.
    pub(crate) fn rest(&mut self, ms: u64) {
        let until_ms = self.now_ms() + ms;
        while self.now_ms() < until_ms {
            let has_done = self.jobs.run_one();
            self.pass(if has_done { self.now_ms() } else { until_ms });
        }
        self.settle();
    }

    /// Runs all work that waits for nothing.
    pub(crate) fn settle(&mut self) {
        for _ in 0..PASSES {
            let now_ms = self.now_ms();
            self.pass(now_ms);
        }
    }
}
