//! A simulated worker with the clients of a store, and the jobs that its threads would run.

use super::simulated_client::Actor;
use crate::server::site_roster::SiteId;
use crate::server::store::clients::{StoreClients, StoreShared};
use crate::server::store::jobs::{JobOwner, StoreJob, StoreJobs};
use crate::server::store::pages::{FoundValue, StoreMount, StoredPages};
use crate::server::store::waiting_pages::{WaitEnd, WaitingPage};
use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event};
use pinion_engine::backend::sim::{Faults, Network, Random};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::Exchange;
use pinion_engine::exchange_address::Address;
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_engine::stepped_worker::{Holdings, Stepped};
use pinion_http::owned_head::OwnedRequestHead;
use pinion_http::prepared_response::{Prepared, PreparedBody};
use pinion_store::job::{LockedJob, ShardSet};
use pinion_store::settings::Settings as StoreSettings;
use pinion_store::store::Store;
use std::collections::HashMap;
use std::sync::Arc;

/// Jobs that run at once: as many as there are threads for them.
const RUNNING_MAX: usize = 2;

/// How long a job takes at most, in milliseconds.
const JOB_MAX_MS: u64 = 50;

/// Simulated milliseconds after which nothing may be left of a run.
const RUN_MAX_MS: u64 = 10 * 60 * 1000;

/// The listeners of the store and of pages.
pub(super) const STORE: usize = 0;
pub(super) const PAGES: usize = 1;

/// The plan of a run.
pub(super) struct RunPlan {
    pub(super) seed: u64,
    pub(super) faults: Faults,
    /// How often clients send and read less than they could, per mille.
    pub(super) pieces: u32,
    /// Most work of a command that the worker executes, in elements.
    pub(super) work_max: usize,
    /// Memory of the worker for buffers, in bytes.
    pub(super) buffer_bytes: usize,
    pub(super) actors: Vec<Actor>,
}

/// Returns an empty store.
pub(super) fn store(work_max: usize) -> Arc<Store> {
    Arc::new(Store::new(StoreSettings::default(), [7; 24], 0).with_work_max(work_max))
}

/// The application of a worker that serves the store and nothing else.
pub(super) struct StoreApp {
    pub(super) clients: StoreClients,
    pub(super) poster: Poster,
    /// Whose the tags of streams are.
    owners: HashMap<u64, Address>,
    /// A stream had an event with the tag of another one.
    pub(super) has_mixed_up: bool,
}

impl App for StoreApp {
    /// Handles an exchange: the path of a request is a key.
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        let waiting = self.clients.pages().waiting;
        let text = match &event {
            Event::Head(head) => {
                let page = || WaitingPage {
                    head: OwnedRequestHead::new(head),
                    site: SiteId(1),
                    mount: StoreMount::new(b"/", b""),
                    began: None,
                };
                if waiting.hold(head.target.path.to_vec(), page, exchange) {
                    return;
                }
                "too many"
            }
            event => {
                match waiting.event(event, exchange).expect("an event of a request that waits") {
                    None => return,
                    Some((_, WaitEnd::Found(FoundValue::Nothing))) => "nothing",
                    Some((_, WaitEnd::Found(_))) => "found",
                    Some((_, WaitEnd::TimedOut)) => "timed out",
                    Some((_, WaitEnd::ClientLeft)) => return,
                }
            }
        };
        let body = PreparedBody::Bytes(text.as_bytes());
        let content_length = Some(text.len() as u64);
        exchange.prepared(&Prepared { body, content_length, ..Prepared::empty(200) }, None);
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        let Some(tag) = stream.tag() else {
            // One whose worker is about to close it has no event but its end.
            if matches!(event, ByteStreamEvent::Open) {
                assert!(self.clients.open(stream), "it came by the listener of the store");
                self.owners.insert(stream.tag().expect("a tag"), stream.address());
            }
            return;
        };
        assert!(StoreClients::is_of_store(tag));
        self.has_mixed_up |= self.owners.get(&tag) != Some(&stream.address());
        self.clients.byte_stream_event(event, stream);
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

/// A job that a thread runs.
struct RunningJob<'s> {
    shards: ShardSet,
    owner: JobOwner,
    work: RunningWork<'s>,
    /// When it ends, in milliseconds.
    due_ms: u64,
}

enum RunningWork<'s> {
    Command(Box<LockedJob<'s>>),
    Look(Vec<u8>),
}

/// A worker, its network and the threads for jobs.
pub(super) struct Simulation<'s, const READINESS: bool> {
    pub(super) network: Network,
    pub(super) worker: Stepped<READINESS, StoreApp>,
    pub(super) shared: StoreShared,
    store: &'s Arc<Store>,
    running: Vec<RunningJob<'s>>,
    random: Random,
}

impl<'s, const READINESS: bool> Simulation<'s, READINESS> {
    pub(super) fn new(store: &'s Arc<Store>, seed: u64, faults: Faults) -> Self {
        Self::with_buffers(store, seed, faults, WorkerSettings::default().buffer_bytes)
    }

    fn with_buffers(store: &'s Arc<Store>, seed: u64, faults: Faults, buffer_bytes: usize) -> Self {
        let mut random = Random::new(seed);
        let shared = StoreShared {
            store: Arc::clone(store),
            pages: Arc::new(StoredPages::new(Arc::clone(store))),
            jobs: Arc::new(StoreJobs::new(store)),
            kills: Arc::default(),
            listeners: Arc::new([true, false]),
        };
        let protocols = [Protocol::ByteStream, Protocol::Http(Protocols::ALL)];
        let settings = WorkerSettings {
            listeners: protocols.map(ListenerSettings::plain).into(),
            connections: 2048,
            buffer_bytes,
            ..WorkerSettings::default()
        };
        let network = Network::new(random.number(), faults, settings.listeners.len());
        let for_app = shared.clone();
        let worker = Stepped::new(network.clone(), settings, |poster| StoreApp {
            clients: StoreClients::new(for_app, poster.clone()),
            poster,
            owners: HashMap::new(),
            has_mixed_up: false,
        });
        Self { network, worker, shared, store, running: Vec::new(), random }
    }

    /// Starts jobs, and ends those that are due. Returns when the next one is.
    pub(super) fn run_jobs(&mut self) -> Option<u64> {
        let now_ms = self.network.now().monotonic_ms;
        loop {
            self.start_jobs(now_ms);
            let no_shards = ShardSet::default();
            let are_locked = self.running.iter().any(|job| job.shards != no_shards);
            // One without shards locks one after the other, so it runs when no other job has any.
            let due = self
                .running
                .iter()
                .position(|job| job.due_ms <= now_ms && (job.shards != no_shards || !are_locked));
            let Some(index) = due else { break };
            let job = self.running.remove(index);
            self.end(job);
        }
        self.running.iter().map(|job| job.due_ms).filter(|due_ms| *due_ms > now_ms).min()
    }

    fn start_jobs(&mut self, now_ms: u64) {
        while self.running.len() < RUNNING_MAX
            && let Some((shards, job)) = self.shared.jobs.start_one()
        {
            let (work, owner) = match job {
                StoreJob::Command { job, owner } => {
                    let locked = job.lock(self.store, self.network.now().unix_ms);
                    (RunningWork::Command(Box::new(locked)), owner)
                }
                StoreJob::Look { key, owner } => (RunningWork::Look(key), owner),
                StoreJob::Script { .. } => unreachable!("there are no scripts"),
            };
            let due_ms = now_ms + self.random.below(JOB_MAX_MS);
            self.running.push(RunningJob { shards, owner, work, due_ms });
        }
    }

    fn end(&mut self, RunningJob { shards, owner, work, .. }: RunningJob<'s>) {
        let jobs = &self.shared.jobs;
        let end = match work {
            RunningWork::Command(job) => jobs.command_end(job.run()),
            RunningWork::Look(key) => {
                let now_ms = self.network.now().unix_ms;
                jobs.look_end(Some(FoundValue::look_as_job(self.store, &key, now_ms)))
            }
        };
        jobs.end(shards, &owner, end);
    }

    /// Runs one pass of the worker, if something happens by a time or has happened.
    ///
    /// # Errors
    /// The worker waits without end.
    pub(super) fn pass(&mut self, next_ms: Option<u64>) -> Result<(), String> {
        self.network.act_at(next_ms);
        self.worker.pass().map_err(|error| error.to_string())?;
        if self.network.is_stuck() {
            return Err("nothing wakes the worker".to_owned());
        }
        Ok(())
    }

    /// # Errors
    /// Something is left, although all clients are gone.
    pub(super) fn check_empty(&mut self) -> Result<(), String> {
        // The end of a job whose client is gone may be on its way.
        self.pass(Some(self.network.now().monotonic_ms))?;
        let holdings = self.worker.holdings();
        let (clients, memory) =
            (self.worker.app().clients.len(), self.store.clients_memory_bytes());
        if holdings != Holdings::default() || clients > 0 || memory > 0 {
            return Err(format!("left: {holdings:?}, {clients} clients, {memory} bytes"));
        }
        if self.worker.app().has_mixed_up {
            return Err("a client had an event of another one".to_owned());
        }
        Ok(())
    }

    /// Returns whether no thread runs a job.
    pub(super) fn runs_no_job(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns whether nothing is going on any more.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.runs_no_job() && self.worker.holdings() == Holdings::default()
    }
}

/// Runs a plan.
///
/// # Errors
/// The law that was broken.
pub(super) fn run<const READINESS: bool>(plan: RunPlan) -> Result<(), String> {
    let RunPlan { seed, faults, pieces, work_max, buffer_bytes, mut actors } = plan;
    let (store, other) = (store(work_max), store(usize::MAX));
    let mut simulation = Simulation::<READINESS>::with_buffers(&store, seed, faults, buffer_bytes);
    let network = simulation.network.clone();
    actors.iter_mut().for_each(|actor| actor.begin(&network, &other));
    let mut random = Random::new(seed ^ 1);
    let until_ms = network.now().monotonic_ms + RUN_MAX_MS;
    loop {
        let mut has_moved = false;
        for (number, actor) in actors.iter_mut().enumerate() {
            let acted = actor.act(&network, &mut random, pieces);
            has_moved |= acted.map_err(|why| format!("client {number}: {why}"))?;
        }
        let job_ms = simulation.run_jobs();
        if actors.iter().all(Actor::is_over) && simulation.is_quiet() {
            break;
        }
        let now_ms = network.now().monotonic_ms;
        let thaw_ms = actors.iter().filter_map(Actor::thaws_ms).min();
        let next_ms = [has_moved.then_some(now_ms), job_ms, thaw_ms].into_iter().flatten().min();
        let left = || actors.iter().map(|actor| format!("\n{}", actor.shown())).collect::<String>();
        simulation.pass(next_ms).map_err(|why| format!("{why}:{}", left()))?;
        if now_ms > until_ms {
            return Err(format!("never over:{}", left()));
        }
    }
    simulation.check_empty()
}
