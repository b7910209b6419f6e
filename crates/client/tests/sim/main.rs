//! The HTTP client over simulated connections: servers that behave, and servers that violate the
//! protocol. Time is simulated, and a seed decides everything.

mod client_application;
mod concurrent_request_timing;
mod laws;
mod server;
mod sim_worker;

use std::collections::BTreeMap;

use client_application::{Asked, Asker, Outcome};
use pinion_client::connection_pool::PoolSettings;
use pinion_engine::Poster;
use pinion_engine::backend::sim::{Client, Faults, Network, Random};
use pinion_engine::outgoing_connect::RemoteAddress;
use pinion_engine::stepped_worker::{Holdings, Stepped};
use server::{Behaviour, Server, content_of};
use sim_worker::sim_worker;

/// Seeds of an ordinary run, each in both forms of the kernel.
const SEEDS: u64 = 150;
/// Requests of one run.
const REQUESTS: u64 = 40;
/// Connections that a pool has to one server at most.
const CONNECTIONS_MAX: usize = 3;
/// Simulated milliseconds after which nothing may be left of a run.
const RUN_MAX_MS: u64 = 30 * 60 * 1000;
const WORKER: u16 = 0;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

fn faults(random: &mut Random) -> Faults {
    if random.chance(400) {
        return Faults::default();
    }
    Faults {
        short: 400,
        late: 100,
        late_ms: 5,
        interrupt: 50,
        connect: 50,
        broken: 2,
        shortage: 20,
        disarm: 200,
        buffers: random.between(2, 20) as u16,
        batch: random.below(6) as u16,
        ..Faults::default()
    }
}

/// Calls `run` with this many seeds, or with those that the environment sets.
fn each_seed(seeds: u64, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let seeds = number("PINION_SIM_SEEDS").unwrap_or(seeds);
    let only = number("PINION_SIM_SEED");
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

/// A worker with a client, and the servers that it connects to.
struct Run<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Asker>,
    poster: Poster,
    random: Random,
    is_faulty: bool,
    servers: BTreeMap<Client, Server>,
    /// The most connections to a server that were open at the same time.
    most: usize,
}

impl<const READINESS: bool> Run<READINESS> {
    fn new(seed: u64, faults: Option<Faults>, pool: PoolSettings) -> Self {
        let mut random = Random::new(seed);
        let faults = faults.unwrap_or_else(|| crate::faults(&mut random));
        let is_faulty = faults.short > 0;
        let mut poster = None;
        let (network, worker) = sim_worker(random.number(), faults, |own| {
            poster = Some(own.clone());
            Asker::new(own, pool)
        });
        let poster = poster.expect("the application was made");
        let servers = BTreeMap::new();
        Self { network, worker, poster, random, is_faulty, servers, most: 0 }
    }

    fn ask(&mut self, asked: Asked) {
        let posted = self.poster.post_to_app(WORKER, Box::new(asked));
        assert!(posted.is_ok(), "room in the inbox");
    }

    /// Accepts connections, and lets servers act.
    fn serve(&mut self) {
        while let Some((client, remote)) = self.network.next_opened() {
            let RemoteAddress::Tcp(address) = remote else { panic!("no sockets here") };
            self.servers.insert(client, Server::new(address));
        }
        let mut clients: Vec<_> = self.servers.keys().copied().collect();
        self.random.shuffle(&mut clients);
        for client in clients {
            let server = self.servers.get_mut(&client).expect("it is listed");
            if !self.random.chance(200) {
                server.act(&self.network, client, &mut self.random);
            }
        }
        let mut open = BTreeMap::new();
        for (client, server) in &self.servers {
            if !self.network.is_closed(*client) {
                *open.entry(server.address()).or_insert(0) += 1;
            }
        }
        self.most = self.most.max(open.values().copied().max().unwrap_or(0));
    }

    /// Serves as [`Self::serve`] does, with servers that need `delay_ms` for each response.
    fn serve_after(&mut self, delay_ms: u64) {
        while let Some((client, remote)) = self.network.next_opened() {
            let RemoteAddress::Tcp(address) = remote else { panic!("no sockets here") };
            let mut server = Server::new(address);
            server.delay_ms = delay_ms;
            self.servers.insert(client, server);
        }
        self.servers.iter_mut().for_each(|(client, server)| {
            server.act(&self.network, *client, &mut self.random);
        });
    }

    fn pass(&mut self, soon_ms: u64) {
        sim_worker::pass(&self.network, &mut self.worker, soon_ms);
    }

    /// Lets all requests end, and unused connections close.
    fn finish(&mut self, requests: usize) {
        let begun_ms = self.network.now().monotonic_ms;
        loop {
            self.serve();
            let app = self.worker.app();
            let is_over = app.outcomes.len() == requests && app.client.holdings() == (0, 0);
            if is_over && self.worker.holdings() == Holdings::default() {
                break;
            }
            let now_ms = self.network.now().monotonic_ms;
            assert!(
                now_ms - begun_ms < RUN_MAX_MS,
                "{:?} are left, {:?}",
                self.worker.app().left(),
                self.worker.app().client.holdings()
            );
            let soon_ms = self.random.below(50);
            self.pass(soon_ms);
        }
    }
}

/// Returns whether a reason is that of a broken connection, which is independent of the server.
fn is_broken(reason: &str) -> bool {
    ["cannot connect: ", "the connection was closed w"]
        .iter()
        .any(|front| reason.starts_with(front))
}

/// Checks that an outcome fits the actions of the server and the possible actions of the kernel.
fn check(number: u64, asked: &Asked, outcome: &Outcome, is_faulty: bool) {
    let shown = || format!("{number}, {asked:?}: {outcome:?}");
    match outcome {
        Outcome::Closed => assert!(asked.is_closed_early, "{}", shown()),
        Outcome::Complete { status, content } => {
            assert!(asked.behaviour.can_complete(), "{}", shown());
            assert_eq!(*status, 200, "{}", shown());
            let expected = if asked.method == "HEAD" { Vec::new() } else { content_of(number) };
            assert!(*content == expected, "{}: another content", shown());
        }
        Outcome::Failed(reason) => {
            let is_of_server = asked.behaviour.reasons().iter().any(|text| reason.contains(text));
            let is_of_kernel = is_faulty && is_broken(reason);
            // A POST is not repeated when a kept connection turns out to be dead.
            let is_unrepeated = asked.method == "POST" && asked.behaviour.closes_kept();
            assert!(is_of_server || is_of_kernel || is_unrepeated, "{}", shown());
        }
    }
}

fn run<const READINESS: bool>(seed: u64) -> u64 {
    let pool = PoolSettings { connections_per_key_max: CONNECTIONS_MAX, ..PoolSettings::default() };
    let mut run = Run::<READINESS>::new(seed, None, pool);
    let mut all = BTreeMap::new();
    while (all.len() as u64) < REQUESTS {
        if run.random.chance(400) {
            let number = all.len() as u64;
            let asked = Asked::draw(number, &mut run.random);
            all.insert(number, asked.clone());
            run.ask(asked);
        }
        run.serve();
        let soon_ms = run.random.below(50);
        run.pass(soon_ms);
    }
    run.finish(all.len());
    // In the shape of io_uring a closed socket exists until its operations have ended, so it may
    // overlap with the next one. The client itself is checked at each step (`Asker::look`).
    let most = if READINESS { CONNECTIONS_MAX } else { 2 * CONNECTIONS_MAX };
    assert!(run.most <= most, "{} connections to one server", run.most);
    let is_faulty = run.is_faulty;
    for (number, outcome) in &run.worker.app().outcomes {
        check(*number, &all[number], outcome, is_faulty);
    }
    for (client, server) in &run.servers {
        assert!(run.network.is_closed(*client), "{server:?} is still open");
        server.check();
    }
    run.network.digest()
}

/// Every request ends once, with the response of its server or with a reason that its server has
/// caused, and leaves nothing behind.
#[test]
fn every_request_ends_once_and_leaks_nothing() {
    each_seed(SEEDS, |seed| {
        run::<true>(seed);
        run::<false>(seed);
    });
}

#[test]
fn the_same_seed_sends_the_same_requests() {
    for seed in 0..5 {
        assert_eq!(run::<true>(seed), run::<true>(seed), "seed {seed}");
        assert_eq!(run::<false>(seed), run::<false>(seed), "seed {seed}");
    }
}

/// Each behaviour alone, without faults, so that each has its reason.
#[test]
fn each_kind_of_server_has_its_outcome() {
    for behaviour in Behaviour::ALL {
        let mut run = Run::<true>::new(7, Some(Faults::default()), PoolSettings::default());
        let asked = (0..6).map(|number| Asked::get(number, behaviour)).collect::<Vec<_>>();
        asked.iter().for_each(|asked| run.ask(asked.clone()));
        run.finish(asked.len());
        for (number, outcome) in &run.worker.app().outcomes {
            check(*number, &asked[*number as usize], outcome, false);
            let is_complete = matches!(outcome, Outcome::Complete { .. });
            assert_eq!(is_complete, behaviour.can_complete(), "{behaviour:?}: {outcome:?}");
        }
    }
}
