//! One run: clients, a worker with the gateway, and upstream servers take turns until all clients
//! have disconnected and the worker has freed everything.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use pinion_engine::backend::sim::{Faults, Network, Random};
use pinion_engine::outgoing_connect::RemoteAddress;
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::{Holdings, Stepped};
use pinion_gateway::balancing::Balance;
use pinion_gateway::fastcgi_scgi_variables::{ProgramOptions, ProgramTarget};
use pinion_gateway::path_prefix::PathPrefix;
use pinion_gateway::proxy::{Ended, ProxyHoldings};
use pinion_gateway::server_health::PassiveChecks;
use pinion_gateway::upstream::{Upstream as UpstreamUrl, UpstreamProtocol};
use pinion_gateway::upstream_group::{UpstreamGroup, UpstreamOptions};

use crate::application::Application;
use crate::fastcgi_scgi_records::Spoken;
use crate::http1_client::{Actor, Outcome, Request};
use crate::http2_client::Http2Client;
use crate::upstream::{Behaviour, Shape, Upstream};

/// The timeout of a silent upstream server, in milliseconds.
const TIMEOUT_MS: u64 = 2_000;
/// Simulated milliseconds after which nothing may be left of a run.
const RUN_MAX_MS: u64 = 10 * 60 * 1000;
/// Unused connections to an application that are kept, if any are.
const KEPT_CONNECTIONS: usize = 4;
/// Most content without a length of a request to an application.
const UNKNOWN_LENGTH_MAX_BYTES: u64 = 1 << 20;
/// The port of the first server.
pub(crate) const BASE_PORT: u16 = 8000;
/// The mount with failing servers.
pub(crate) const FAILING: &str = "failing";
/// The mount with a server that does not fail.
pub(crate) const HEALTHY: &str = "healthy";

/// The parameters of a run.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) faults: Faults,
    /// How often clients and servers send and read less than possible, per mille.
    pub(crate) pieces: u32,
    pub(crate) clients: Vec<Actor>,
    pub(crate) http2_clients: Vec<Http2Client>,
    /// The behaviours of the servers of [`FAILING`] with their first requests.
    pub(crate) servers: Vec<Vec<Behaviour>>,
    /// The protocol of the servers of [`FAILING`].
    pub(crate) spoken: Spoken,
    /// Bytes of content that are stored before the request is forwarded.
    pub(crate) stored_upload_max_bytes: Option<u64>,
}

/// The result of a run.
pub(crate) struct Report {
    pub(crate) digest: u64,
    /// Fallible operations of the kernel.
    pub(crate) operations: u64,
    pub(crate) clients: Vec<Actor>,
    pub(crate) http2_clients: Vec<Http2Client>,
    pub(crate) servers: Vec<Upstream>,
    /// Whether each server of [`FAILING`] is out of use.
    pub(crate) out: Vec<bool>,
    pub(crate) ended: HashMap<String, Ended>,
    /// Whether content is stored before the request is forwarded.
    pub(crate) is_stored: bool,
}

struct Run<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Application>,
    random: Random,
    pieces: u32,
    clients: Vec<Actor>,
    http2_clients: Vec<Http2Client>,
    servers: Vec<Upstream>,
}

impl Report {
    /// Returns all requests with their outcomes.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&Request, &Outcome)> {
        let http2 = self.http2_clients.iter().flat_map(Http2Client::results);
        self.clients.iter().flat_map(Actor::results).chain(http2)
    }
}

/// Runs a plan in one form of the kernel. This checks that nothing is held at the end, and
/// [`laws`](crate::laws) checks the rest.
///
/// # Errors
/// Returns the law that was broken.
pub(crate) fn run<const READINESS: bool>(plan: Plan) -> Result<Report, String> {
    let is_stored = plan.stored_upload_max_bytes.is_some();
    let mut run = Run::<READINESS>::new(plan)?;
    run.finish()?;
    let app = run.worker.app();
    let group = &app.mounts[FAILING];
    let out = group.servers().map(|server| server.health.is_out()).collect();
    Ok(Report {
        digest: run.network.digest(),
        operations: run.network.operations(),
        out,
        is_stored,
        ended: std::mem::take(&mut app.ended),
        clients: run.clients,
        http2_clients: run.http2_clients,
        servers: run.servers,
    })
}

/// Runs a plan in either form of the kernel.
///
/// # Errors
/// Returns the same errors as [`run`].
pub(crate) fn run_over(readiness: bool, plan: Plan) -> Result<Report, String> {
    if readiness { run::<true>(plan) } else { run::<false>(plan) }
}

pub(crate) fn group(
    ports: std::ops::Range<u16>,
    spoken: Spoken,
    options: UpstreamOptions,
) -> Arc<UpstreamGroup> {
    let upstreams = ports.map(|port| {
        let address = format!("192.0.2.1:{port}");
        let upstream = match spoken {
            Spoken::Http => UpstreamUrl::parse(&format!("http://{address}")),
            Spoken::FastCgi { is_kept } => {
                let keep_connections = if is_kept { KEPT_CONNECTIONS } else { 0 };
                let protocol = UpstreamProtocol::FastCgi { keep_connections };
                UpstreamUrl::parse_application(&address, protocol)
            }
            Spoken::Scgi => UpstreamUrl::parse_application(&address, UpstreamProtocol::Scgi),
        };
        let mut upstream = upstream.expect("an address");
        upstream.timeout_ms = TIMEOUT_MS;
        upstream
    });
    Arc::new(UpstreamGroup::new(upstreams.collect(), options).expect("a group"))
}

impl<const READINESS: bool> Run<READINESS> {
    fn new(plan: Plan) -> Result<Self, String> {
        let Plan { seed, faults, pieces, clients, http2_clients, servers, spoken, .. } = plan;
        let mut random = Random::new(seed);
        let healthy_port = BASE_PORT + servers.len() as u16;
        let options = UpstreamOptions {
            // The same server is the first one in each run.
            balance: Balance::HeaderHash("Key".into()),
            passive: PassiveChecks { max_fails: 1, ..PassiveChecks::default() },
            stored_upload_max_bytes: plan.stored_upload_max_bytes,
            unknown_length_max_bytes: UNKNOWN_LENGTH_MAX_BYTES,
            program: (spoken != Spoken::Http).then(|| ProgramOptions {
                target: ProgramTarget::Application(PathPrefix::new(&format!("/{FAILING}"))),
                passes_authorization: false,
                variables: Vec::new(),
            }),
            ..UpstreamOptions::default()
        };
        let failing = group(BASE_PORT..healthy_port, spoken, options);
        let healthy = healthy_port..healthy_port + 1;
        let healthy = group(healthy, Spoken::Http, UpstreamOptions::default());
        let mounts = HashMap::from([(FAILING, failing), (HEALTHY, healthy)]);
        let settings = WorkerSettings { outgoing: 64, ..WorkerSettings::default() };
        let network = Network::new(random.number(), faults, settings.listeners.len());
        let make_app = |poster| Application::new(poster, mounts);
        let worker = Stepped::new(network.clone(), settings, make_app);
        let otherwise = Behaviour::good(Shape::Length, 20);
        let mut servers: Vec<Upstream> = servers
            .into_iter()
            .map(|behaviours| Upstream::new(spoken, otherwise).first(behaviours))
            .collect();
        servers.push(Upstream::new(Spoken::Http, Behaviour::good(Shape::Chunked, 300)));
        Ok(Self { network, worker, random, pieces, clients, http2_clients, servers })
    }

    fn finish(&mut self) -> Result<(), String> {
        let until_ms = self.network.now().monotonic_ms + RUN_MAX_MS;
        while !self.is_over() {
            let has_moved = self.act()?;
            let now_ms = self.network.now().monotonic_ms;
            self.network.act_at(has_moved.then_some(now_ms));
            self.worker.pass().map_err(|error| error.to_string())?;
            if self.network.is_stuck() || now_ms > until_ms {
                return Err(format!("never over: {}", self.left()));
            }
        }
        let app = self.worker.app();
        let is_free = app.uploads.memory.bytes() == 0 && app.open() == 0;
        let has_no_requests =
            |group: &Arc<UpstreamGroup>| group.servers().all(|server| server.requests == 0);
        if !is_free || !app.mounts.values().all(has_no_requests) {
            return Err(format!("something is held: {}", self.left()));
        }
        Ok(())
    }

    /// Performs the actions of clients and servers that are possible now.
    fn act(&mut self) -> Result<bool, String> {
        let Self { network, random, pieces, clients, http2_clients, servers, .. } = self;
        let mut has_moved = false;
        while let Some((client, remote)) = network.next_opened() {
            let RemoteAddress::Tcp(address) = remote else { unreachable!("no sockets here") };
            assert_eq!(address, SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), address.port())));
            servers[usize::from(address.port() - BASE_PORT)].opened(client);
        }
        for (index, client) in clients.iter_mut().enumerate() {
            let acted = client.act(network, random, *pieces);
            has_moved |= acted.map_err(|why| format!("client {index}: {why}"))?;
        }
        for (index, client) in http2_clients.iter_mut().enumerate() {
            let acted = client.act(network, random, *pieces);
            has_moved |= acted.map_err(|why| format!("HTTP/2 client {index}: {why}"))?;
        }
        let mut open = clients.iter().filter_map(Actor::open).filter(|one| one.mount == FAILING);
        let first = open.next().map(Request::target);
        let open = first.filter(|_| open.next().is_none());
        for server in servers {
            has_moved |= server.act(network, random, *pieces, open.as_deref());
        }
        Ok(has_moved)
    }

    fn is_over(&mut self) -> bool {
        let Self { network, clients, http2_clients, servers, worker, .. } = self;
        clients.iter().all(Actor::is_over)
            && http2_clients.iter().all(Http2Client::is_over)
            && servers.iter().all(|server| server.is_quiet(network))
            && worker.holdings() == Holdings::default()
            && worker.app().proxy.holdings() == ProxyHoldings::default()
    }

    fn left(&mut self) -> String {
        let clients: Vec<_> = self.clients.iter().map(|one| one.outcomes.len()).collect();
        let holdings = self.worker.holdings();
        let app = self.worker.app();
        format!("{clients:?} responses, {holdings:?}, {:?}", app.proxy.holdings())
    }
}
