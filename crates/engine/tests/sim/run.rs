//! One run: clients and a worker take turns until all clients have disconnected and the worker has
//! freed everything. The laws are checked meanwhile and at the end.

use std::fs::File;
use std::sync::Arc;

use pinion_engine::backend::sim::{Facts, Network, Random, Read};
use pinion_engine::file_mapping::Mapping;
use pinion_engine::limits::{
    BODY_TIMEOUT_MS, ENOBUFS_RETRY_MS, IDLE_TIMEOUT_MS, LINGER_CONTENT_MS, SEND_STALL_MS, TICK_MS,
};
use pinion_engine::stepped_worker::{Holdings, Stepped};

use crate::client::{Actor, Ending, Plan, State};
use crate::handlers::Handlers;
use crate::http2_client;
use crate::http3_client;
use crate::request_model::mapped_file;
use crate::scenario::Scenario;

/// Simulated milliseconds after which nothing may be left of the longest script and all deadlines
/// that follow it.
const RUN_MAX_MS: u64 = 3 * 60 * 60 * 1000;

/// The results of a run that kept all laws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// A digest of all events.
    pub(crate) digest: u64,
    /// Fallible operations of the kernel.
    pub(crate) operations: u64,
    /// Responses that clients have read in full.
    pub(crate) responses: u64,
    /// Responses over HTTP/2 among them.
    pub(crate) multiplexed: u64,
    /// Responses over HTTP/3 among them.
    pub(crate) over_quic: u64,
    /// Connections that the server has ended as a flood.
    pub(crate) floods: u64,
}

/// Runs the scenario of a seed.
///
/// # Errors
/// Returns the law that was broken. Laws that the backend and the handlers check panic.
pub(crate) fn run_seed(seed: u64) -> Result<Summary, String> {
    let mut random = Random::new(seed);
    let scenario = Scenario::draw(&mut random);
    run(scenario, &mut random)
}

/// Runs a scenario.
///
/// # Errors
/// Returns the law that was broken.
pub(crate) fn run(scenario: Scenario, random: &mut Random) -> Result<Summary, String> {
    if scenario.readiness {
        Run::<true>::new(scenario, random).finish(random)
    } else {
        Run::<false>::new(scenario, random).finish(random)
    }
}

struct Run<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Handlers>,
    actors: Vec<Actor>,
    multiplexing: Vec<http2_client::Actor>,
    quic: Vec<http3_client::Actor>,
    expectations: http3_client::Expectations,
    calm: bool,
    leaps: bool,
    /// Milliseconds by which the kernel may be late.
    late_ms: u64,
    /// Milliseconds that a datagram and its response may be on their way.
    path_ms: u64,
    head_ms: u64,
    places: usize,
    drain_at_ms: Option<u64>,
    stop_at_ms: Option<u64>,
}

impl<const READINESS: bool> Run<READINESS> {
    fn new(scenario: Scenario, random: &mut Random) -> Self {
        let expectations = scenario.expectations();
        let Scenario { faults, settings, plans, calm, drain_after_ms, grace_ms, .. } = scenario;
        let Scenario { multiplexing, quic, endpoint, .. } = scenario;
        let listeners = settings.listeners.len();
        let (leaps, head_ms) = (faults.leap > 0, settings.head_ms);
        let short_ms = if faults.shortage > 0 { ENOBUFS_RETRY_MS } else { 0 };
        let late_ms = faults.late_ms + short_ms;
        let path_ms = 2 * (faults.path_ms + faults.jitter_ms);
        let places = settings.connections;
        let network = Network::new(random.number(), faults, listeners);
        let (mapping, file) = mapping();
        let make_app = |poster| Handlers::new(poster, mapping, file);
        let mut worker = Stepped::new(network.clone(), settings, make_app);
        if !quic.is_empty() {
            worker.listen_quic(&network, &endpoint.listener(&network));
        }
        let start_ms = network.now().monotonic_ms;
        let drain_at_ms = drain_after_ms.map(|after| start_ms + after);
        Self {
            network,
            worker,
            actors: plans.into_iter().map(|plan| Actor::new(plan, start_ms)).collect(),
            multiplexing: multiplexing
                .into_iter()
                .map(|plan| http2_client::Actor::new(plan, start_ms))
                .collect(),
            quic: quic.into_iter().map(|plan| http3_client::Actor::new(plan, start_ms)).collect(),
            expectations,
            calm,
            leaps,
            late_ms,
            path_ms,
            head_ms,
            places,
            drain_at_ms,
            stop_at_ms: drain_at_ms.map(|at| at + grace_ms),
        }
    }

    fn finish(mut self, random: &mut Random) -> Result<Summary, String> {
        let until_ms = self.network.now().monotonic_ms + RUN_MAX_MS;
        let mut going_on = true;
        while going_on && !self.is_over() {
            self.clients_act(random)?;
            self.outside_events();
            let next_ms = self.next_action_ms();
            self.network.act_at(next_ms);
            going_on = self.worker.pass().map_err(|error| error.to_string())?;
            self.check_silence()?;
            let connections = self.worker.holdings().connections;
            if connections > self.places {
                return Err(format!("{connections} connections in {} places", self.places));
            }
            let too_long = self.network.now().monotonic_ms > until_ms && !self.leaps;
            if too_long || self.network.is_stuck() {
                return Err(format!("never over: {:?}, {}", self.worker.holdings(), self.states()));
            }
        }
        self.check_clients()?;
        Ok(Summary {
            digest: self.network.digest(),
            operations: self.network.operations(),
            responses: self.actors.iter().map(|actor| actor.plan.reader.complete as u64).sum(),
            multiplexed: self.multiplexing.iter().map(http2_client::Actor::whole).sum(),
            over_quic: self.quic.iter().map(http3_client::Actor::whole).sum(),
            floods: self.worker.app().floods,
        })
    }

    /// Lets all clients perform the actions that are possible now.
    fn clients_act(&mut self, random: &mut Random) -> Result<(), String> {
        for (index, actor) in self.actors.iter_mut().enumerate() {
            actor.act(&self.network, random).map_err(|why| format!("client {index}: {why}"))?;
        }
        for (index, actor) in self.multiplexing.iter_mut().enumerate() {
            let acted = actor.act(&self.network, random);
            acted.map_err(|why| format!("HTTP/2 client {index}: {why}"))?;
        }
        for (index, actor) in self.quic.iter_mut().enumerate() {
            let acted = actor.act(&self.network, random);
            acted.map_err(|why| format!("HTTP/3 client {index}: {why}"))?;
        }
        Ok(())
    }

    /// Checks that a QUIC connection whose client does nothing ends in time.
    fn check_silence(&mut self) -> Result<(), String> {
        if self.leaps || self.quic.is_empty() {
            return Ok(());
        }
        let connected = self.worker.quic_clients();
        let slack_ms = self.slack_ms() + 20 * self.path_ms;
        for (index, actor) in self.quic.iter().enumerate() {
            if actor.address.is_some_and(|address| connected.contains(&address)) {
                let checked = actor.check_silence(&self.network, slack_ms);
                checked.map_err(|why| format!("HTTP/3 client {index}: {why}"))?;
            }
        }
        Ok(())
    }

    /// Returns the milliseconds by which a deadline may be late.
    fn slack_ms(&self) -> u64 {
        4 * TICK_MS + 20 * self.late_ms + 100
    }

    /// Checks the laws over the whole run, for each client.
    fn check_clients(&mut self) -> Result<(), String> {
        let slack_ms = self.slack_ms();
        // The clients read the last bytes, because the server has finished.
        for (index, actor) in self.actors.iter_mut().enumerate() {
            actor.read_rest(&self.network).map_err(|why| format!("client {index}: {why}"))?;
        }
        let is_calm = self.is_calm();
        for (index, actor) in self.multiplexing.iter_mut().enumerate() {
            let read = actor.read_rest(&self.network);
            let checked = read.and_then(|()| {
                actor.check(&self.network, is_calm, (!self.leaps).then_some(slack_ms))
            });
            checked.map_err(|why| format!("HTTP/2 client {index}: {why}"))?;
        }
        self.check_holdings()?;
        for index in 0..self.actors.len() {
            let client = self.actors[index].client;
            self.check_client(index).map_err(|why| format!("client {index}, {client:?}: {why}"))?;
        }
        for (index, actor) in self.quic.iter().enumerate() {
            let calm = self.expectations.calm && is_calm;
            let checked = actor.check(http3_client::Expectations { calm, ..self.expectations });
            checked.map_err(|why| format!("HTTP/3 client {index}: {why}"))?;
        }
        Ok(())
    }

    /// Returns whether every client has finished, and the server has freed everything of all of
    /// them.
    fn is_over(&self) -> bool {
        let over = |actor: &Actor| {
            actor.state == State::Gone
                || actor.state != State::NotYet && !actor.plan.ending.is_fair()
        };
        self.actors.iter().all(over)
            && self.multiplexing.iter().all(http2_client::Actor::is_over)
            && self.quic.iter().all(http3_client::Actor::is_over)
            && self.worker.holdings().connections == 0
            && self.network.waiting() == 0
    }

    /// Performs the actions of other threads: post messages, drain, stop.
    fn outside_events(&mut self) {
        let now_ms = self.network.now().monotonic_ms;
        let app = self.worker.app();
        let (due, later) =
            std::mem::take(&mut app.posts).into_iter().partition(|post| post.at_ms <= now_ms);
        app.posts = later;
        let due: Vec<_> = due;
        for post in due {
            app.poster.post(post.to, Box::new(post.to)).expect("room in the inbox");
        }
        if self.drain_at_ms.is_some_and(|at| at <= now_ms) {
            self.drain_at_ms = None;
            self.network.note(format_args!("drain"));
            self.worker.drain();
        }
        if self.stop_at_ms.is_some_and(|at| at <= now_ms) {
            self.stop_at_ms = None;
            self.network.note(format_args!("stop"));
            self.worker.stop();
        }
    }

    fn next_action_ms(&mut self) -> Option<u64> {
        let posts = self.worker.app().posts.iter().map(|post| post.at_ms).min();
        let actors = self.actors.iter().filter_map(|actor| actor.next_ms).min();
        let others = self.multiplexing.iter().filter_map(http2_client::Actor::wakes_at_ms).min();
        let quic = self.quic.iter().filter_map(|actor| actor.wakes_at_ms(&self.network)).min();
        [posts, actors, others, quic, self.drain_at_ms, self.stop_at_ms].into_iter().flatten().min()
    }

    /// Checks that nothing is held after the last client: no connection, buffer, timer, slice,
    /// exchange.
    fn check_holdings(&mut self) -> Result<(), String> {
        let holdings = self.worker.holdings();
        let app = self.worker.app();
        if holdings != Holdings::default() {
            return Err(format!("something is left: {holdings:?}"));
        }
        if app.begun != app.ended {
            return Err(format!("{} exchanges began, {} ended", app.begun, app.ended));
        }
        Ok(())
    }

    /// Returns whether missing responses can only be caused by clients, or by faults of their own
    /// connections. A server that runs out of descriptors closes connections between two requests.
    fn is_calm(&self) -> bool {
        self.calm && !self.network.ran_out_of_descriptors()
    }

    fn check_client(&self, index: usize) -> Result<(), String> {
        let actor = &self.actors[index];
        let Some(client) = actor.client else { return Ok(()) };
        let facts = self.network.facts(client);
        self.check_deadline(actor, &facts)?;
        if !self.is_calm() || facts.hurt || !actor.plan.ending.is_fair() {
            return Ok(());
        }
        let reader = &actor.plan.reader;
        if reader.complete < reader.needed(actor.plan.in_turn) {
            let (got, all) = (reader.complete, reader.expected());
            return Err(format!("got {got} of {all} answers and saw {:?}", actor.saw));
        }
        if reader.over && reader.complete == reader.expected() && actor.saw != Some(Read::Ended) {
            return Err(format!("after the last answer it saw {:?}", actor.saw));
        }
        Ok(())
    }

    /// Checks that a connection whose client does nothing ends in time.
    fn check_deadline(&self, actor: &Actor, facts: &Facts) -> Result<(), String> {
        let (Some(attached), Some(closed)) = (facts.attached_at_ms, facts.closed_at_ms) else {
            return Ok(());
        };
        if self.leaps {
            return Ok(());
        }
        let frozen = |within: fn(&Plan, usize) -> bool| {
            matches!(actor.plan.ending, Ending::Freezes { after_bytes }
                if within(&actor.plan, after_bytes))
        };
        let (in_head, in_content) = (frozen(Plan::in_head), frozen(Plan::in_content));
        // The acknowledged bytes of the client are checked once in the time of a send. The response
        // to a late request has that time in addition.
        let limit = match () {
            () if facts.stalled && in_head => self.head_ms + 2 * SEND_STALL_MS,
            () if facts.stalled && in_content => BODY_TIMEOUT_MS + 2 * SEND_STALL_MS,
            () if facts.stalled => 2 * SEND_STALL_MS,
            // A head is refused if there is no memory for it, and the server waits for the rest.
            () if in_head && !self.calm => self.head_ms.max(LINGER_CONTENT_MS),
            () if in_head => self.head_ms,
            () => IDLE_TIMEOUT_MS,
        };
        // Input after the last response is dropped for a while.
        let limit = if facts.lingered { limit.max(LINGER_CONTENT_MS) } else { limit };
        let quiet_since = [attached, facts.taken_at_ms, facts.given_at_ms, actor.acted_at_ms]
            .into_iter()
            .max()
            .unwrap_or(0);
        let slack = self.slack_ms();
        let open = closed - attached;
        if actor.plan.closed_within_ms.is_some_and(|limit| open > limit + slack) {
            return Err(format!("closed {open} ms after it was taken"));
        }
        let took = closed.saturating_sub(quiet_since);
        if took > limit + slack {
            return Err(format!("closed after {took} ms, allowed are {limit}"));
        }
        Ok(())
    }

    fn states(&self) -> String {
        let state = |actor: &Actor| {
            let facts = actor.client.map(|client| self.network.facts(client));
            let (sent, all) = (actor.sent, actor.plan.wire.len());
            let (complete, expected) = (actor.plan.reader.complete, actor.plan.reader.expected());
            format!(
                "\n  {:?} {:?} {:?}, sent {sent} of {all}, got {complete} of {expected}, {facts:?}",
                actor.client, actor.state, actor.plan.ending
            )
        };
        let left = |actor: &&Actor| {
            let closed = |client| self.network.facts(client).closed_at_ms.is_some();
            !actor.client.is_some_and(closed)
        };
        let others = self.multiplexing.iter().map(|actor| actor.state(&self.network));
        let quic = self.quic.iter().map(http3_client::Actor::state);
        self.actors.iter().filter(left).map(state).chain(others).chain(quic).collect()
    }
}

/// Returns the file of the mapped responses, which is mapped once.
pub(crate) fn mapping() -> (Arc<Mapping>, Arc<File>) {
    static MAPPING: std::sync::OnceLock<(Arc<Mapping>, Arc<File>)> = std::sync::OnceLock::new();
    let make = || {
        let memfd = rustix::fs::memfd_create("sim", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = File::from(memfd.expect("memfd"));
        std::io::Write::write_all(&mut file, mapped_file()).expect("write");
        let again = Arc::new(file.try_clone().expect("a second handle"));
        (Arc::new(Mapping::new(file, Vec::new()).expect("map")), again)
    };
    MAPPING.get_or_init(make).clone()
}
