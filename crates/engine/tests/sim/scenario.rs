//! The scenario of a seed: the form of the backend, faults, settings, and clients with their plans.

use pinion_engine::backend::sim::{Connect, Faults, Network, Random};
use pinion_engine::limits::IDLE_TIMEOUT_MS;
use pinion_engine::quic::config::QuicConfig;
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_engine::stepped_worker::SimulatedQuic;

use crate::client::{Ending, Pace, Plan};
use crate::http2_client;
use crate::http3_client;
use crate::request_model::{Body, Kind, Request, Response, Version, page, pattern};
use crate::response_comparison::{Allowed, Reader};

/// Indices of the listeners: for HTTP/1, for byte streams, for HTTP/1 and HTTP/2, and for QUIC.
const HTTP: usize = 0;
const RAW: usize = 1;
pub(crate) const HTTP2: usize = 2;
const QUIC: u16 = 3;
/// Datagrams of a thousand that may be lost without causing a missed deadline.
const LOSS_MAX: u32 = 10;
/// The most milliseconds by which the wall clock may be set at once: hours.
pub(crate) const SET_MAX_MS: u64 = 5 * 60 * 60 * 1000;

/// The parameters of a run.
pub(crate) struct Scenario {
    pub(crate) readiness: bool,
    pub(crate) faults: Faults,
    pub(crate) settings: WorkerSettings,
    /// The first is the canary: it behaves well, and nothing breaks its connection.
    pub(crate) plans: Vec<Plan>,
    /// Clients with HTTP/2.
    pub(crate) multiplexing: Vec<http2_client::Plan>,
    /// Clients with HTTP/3; the first is a canary as well.
    pub(crate) quic: Vec<http3_client::Plan>,
    pub(crate) endpoint: Endpoint,
    /// The start of the drain, in milliseconds from the start of the run.
    pub(crate) drain_after_ms: Option<u64>,
    /// The grace period of the drain, in milliseconds.
    pub(crate) grace_ms: u64,
    /// Whether missing responses can only be caused by clients, or by faults of their own
    /// connections.
    pub(crate) calm: bool,
}

/// The server's endpoint of QUIC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) seed: u64,
    /// Bytes in place of a certificate.
    pub(crate) flight_bytes: usize,
    /// Datagrams into which one send may be split.
    pub(crate) segments_max: usize,
}

impl Endpoint {
    fn draw(random: &mut Random) -> Endpoint {
        Endpoint {
            seed: random.number(),
            flight_bytes: *random.pick(&[0, 1000, 4000]),
            segments_max: *random.pick(&[1, 10, 64]),
        }
    }

    /// Returns the listener for a worker.
    pub(crate) fn listener(&self, network: &Network) -> SimulatedQuic {
        let Endpoint { seed, flight_bytes, segments_max } = *self;
        let clock = network.shared_clock();
        let config = QuicConfig::simulated(seed, IDLE_TIMEOUT_MS, flight_bytes, clock);
        SimulatedQuic { config, listener: QUIC, segments_max }
    }
}

/// More than the clients of any scenario, and the permits that are reserved for new connections.
const CLIENTS_MAX: usize = 50;

impl Scenario {
    /// Returns the scenario of a seed.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let leaps = random.chance(100);
        let poor = random.chance(150);
        let drain_after_ms = random.chance(200).then(|| random.between(0, 8000));
        let settings = settings(random, poor);
        let faults = faults(random, leaps);
        // Where permits or descriptors run short, connections between two requests are closed.
        let is_crowded = settings.connections < CLIENTS_MAX || faults.accept > 0;
        let mut scenario = Self {
            readiness: random.chance(500),
            faults,
            settings,
            plans: Vec::new(),
            multiplexing: Vec::new(),
            quic: Vec::new(),
            endpoint: Endpoint::draw(random),
            drain_after_ms,
            grace_ms: random.between(0, 40_000),
            calm: !leaps && !poor && !is_crowded && drain_after_ms.is_none(),
        };
        for index in 0..random.between(1, 10) {
            let plan = scenario.plan(random, index);
            scenario.plans.push(plan);
        }
        for index in 20..20 + random.below(4) {
            scenario.multiplexing.push(http2_client::Plan::draw(random, index * 1000));
        }
        let clients = random.below(4);
        scenario.draw_quic(random, clients);
        scenario
    }

    /// Returns a fixed scenario for sweeps: clients with many behaviours, no chance, and optionally
    /// a limit of buffer bytes.
    pub(crate) fn fixed(readiness: bool, faults: Faults, buffer_bytes: Option<usize>) -> Self {
        let mut random = Random::new(20);
        let mut scenario = Self::story(readiness, faults, Vec::new());
        if let Some(bytes) = buffer_bytes {
            scenario.settings.buffer_bytes = bytes;
            scenario.calm = false;
        }
        for index in 0..8 {
            let plan = scenario.plan(&mut random, index);
            scenario.plans.push(plan);
        }
        for index in 20..22 {
            scenario.multiplexing.push(http2_client::Plan::draw(&mut random, index * 1000));
        }
        scenario.draw_quic(&mut random, 2);
        scenario
    }

    /// Returns a scenario of only these clients and these faults.
    pub(crate) fn story(readiness: bool, faults: Faults, plans: Vec<Plan>) -> Self {
        Self {
            readiness,
            faults,
            settings: settings_of_listeners(),
            plans,
            multiplexing: Vec::new(),
            quic: Vec::new(),
            endpoint: Endpoint { seed: 1, flight_bytes: 1000, segments_max: 10 },
            drain_after_ms: None,
            grace_ms: 0,
            calm: true,
        }
    }

    /// Adds this many clients of HTTP/3.
    fn draw_quic(&mut self, random: &mut Random, clients: u64) {
        for index in 30..30 + clients {
            let draw =
                if index == 30 { http3_client::Plan::canary } else { http3_client::Plan::draw };
            self.quic.push(draw(random, index * 1000));
        }
    }

    /// Returns the parameters of the laws for clients of HTTP/3.
    pub(crate) fn expectations(&self) -> http3_client::Expectations {
        let Faults { loss, damage, fail_at, .. } = self.faults;
        let lossy = loss + damage > LOSS_MAX;
        // One lost datagram is sent again.
        http3_client::Expectations { calm: self.calm, lossy: lossy && fail_at.is_none() }
    }

    fn plan(&self, random: &mut Random, index: u64) -> Plan {
        let id = index * 1000;
        if index == 0 {
            let mut plan = self.orderly(random, id, Ending::Leaves, &KEEPING);
            plan.connect.protected = true;
            return plan;
        }
        match random.below(14) {
            0..=3 => self.orderly(random, id, Ending::Leaves, &ALL),
            4 | 5 => self.orderly(random, id, Ending::HalfCloses, &ALL),
            6 => self.orderly(random, id, Ending::Stays, &ALL),
            7 => self.raw(random, id),
            8 => self.refused(random, id),
            9 => self.too_slow(random, id),
            _ => self.disorderly(random, id),
        }
    }

    fn connect(random: &mut Random, response_bytes: usize) -> Connect {
        let few = response_bytes < 3000;
        Connect {
            listener: HTTP,
            window_bytes: *random.pick(&[if few { 1 } else { 200 }, 3000, 64_000, 400_000]),
            local: random.chance(200),
            protected: false,
        }
    }

    /// Returns a plan of whole requests, one after the other.
    fn orderly(&self, random: &mut Random, id: u64, ending: Ending, kinds: &[Kind]) -> Plan {
        let pace = pace(random);
        let mut script = Script::default();
        for n in 0..random.between(1, 8) {
            let mut request = Request::draw(random, kinds, id + n);
            let pace_is_fast = pace.gap_ms == 0;
            if matches!(request.kind, Kind::Unread | Kind::Hasty) && !pace_is_fast {
                // The last response could be overtaken by the reset of a connection that still gets
                // content two seconds later.
                request.expects = false;
                request.version = Version::Stays;
            }
            if script.add(&request, &self.settings) {
                break;
            }
        }
        let upgraded = script.last == Some(Kind::Upgrade);
        let ending = if upgraded { Ending::HalfCloses } else { ending };
        self.plan_of(random, script, ending, pace, Vec::new())
    }

    /// Returns the same plan, but the client fails somewhere.
    fn disorderly(&self, random: &mut Random, id: u64) -> Plan {
        let mut plan = self.orderly(random, id, Ending::Leaves, &ALL);
        let after_bytes = random.below(plan.wire.len() as u64 + 1) as usize;
        plan.ending = match random.below(5) {
            0 => Ending::Resets { after_bytes },
            1 => Ending::Quits { after_bytes },
            2 | 3 => Ending::Freezes { after_bytes },
            _ => Ending::StopsReading { after_bytes: random.below(2000) as usize },
        };
        plan
    }

    /// Returns a plan of a byte stream from the first byte on.
    fn raw(&self, random: &mut Random, id: u64) -> Plan {
        let content = pattern(id, random.part_of(20_000, 700));
        let mut script = Script { wire: content.clone(), ..Script::default() };
        script.ends.push(content.len());
        script.responses.push(Response {
            start: b"".to_vec(),
            connection: b"".to_vec(),
            body: Body::Stream(content),
            closes: true,
        });
        let pace = pace(random);
        let mut plan = self.plan_of(random, script, Ending::HalfCloses, pace, Vec::new());
        plan.connect.listener = RAW;
        plan
    }

    /// Returns a few requests that leave the connection open, unless it has reached its limit of
    /// requests.
    fn good_requests(&self, random: &mut Random, id: u64) -> Script {
        let mut script = Script::default();
        for n in 0..random.below(3) {
            if script.add(&Request::draw(random, &KEEPING, id + n), &self.settings) {
                break;
            }
        }
        script
    }

    /// Returns a plan of good requests, then bytes that must be refused.
    fn refused(&self, random: &mut Random, id: u64) -> Plan {
        let mut script = self.good_requests(random, id);
        if !script.is_over() {
            let (bytes, status) = random.pick(REFUSED);
            script.wire.extend_from_slice(bytes);
            script.ends.push(script.wire.len());
            script.responses.push(page(*status));
        }
        let pace = pace(random);
        self.plan_of(random, script, Ending::Stays, pace, Vec::new())
    }

    /// Returns a plan of good requests, then one that stops in the middle and gets 408 after its
    /// deadline.
    fn too_slow(&self, random: &mut Random, id: u64) -> Plan {
        let mut script = self.good_requests(random, id);
        if !script.is_over() {
            let mut request = Request::draw(random, &[Kind::Sum, Kind::Small], id + 9);
            request.expects = false;
            let (head, content) = request.wire();
            let keep = if content.is_empty() {
                random.between(1, head.len() as u64 - 1) as usize
            } else {
                head.len() + random.below(content.len() as u64) as usize
            };
            let sent = &[head, content].concat()[..keep];
            script.wire.extend_from_slice(sent);
            script.ends.push(script.wire.len());
            let page = page(408);
            script.responses.push(if sent.starts_with(b"HEAD ") { page.of_head() } else { page });
        }
        let pace = pace(random);
        self.plan_of(random, script, Ending::Stays, pace, Vec::new())
    }

    fn plan_of(
        &self,
        random: &mut Random,
        script: Script,
        ending: Ending,
        pace: Pace,
        mut pages: Vec<u16>,
    ) -> Plan {
        if !self.calm {
            pages.extend([408, 503]);
        }
        let any_may_close = self.drain_after_ms.is_some();
        let allowed = Allowed { pages, any_may_close };
        let response_bytes = script.responses.iter().map(Response::bytes).sum();
        Plan {
            connect: Self::connect(random, response_bytes),
            starts_after_ms: random.part_of(5000, 900) as u64,
            wire: script.wire,
            ends: script.ends,
            in_turn: random.chance(400),
            pace,
            ending,
            drip: None,
            closed_within_ms: None,
            reader: Reader::new(script.responses, allowed),
        }
    }
}

/// Kinds that leave the connection open.
const KEEPING: [Kind; 15] = [
    Kind::Small,
    Kind::Mapped,
    Kind::Echo,
    Kind::Sum,
    Kind::Sip,
    Kind::Exact,
    Kind::Nagged,
    Kind::Fill,
    Kind::Pieces,
    Kind::Posted,
    Kind::Missed,
    Kind::Deadline,
    Kind::Alarmed,
    Kind::Relayed,
    Kind::Hints,
];

pub(crate) const ALL: [Kind; 23] = [
    Kind::Small,
    Kind::Mapped,
    Kind::Echo,
    Kind::Sum,
    Kind::Sip,
    Kind::Late,
    Kind::Exact,
    Kind::Nagged,
    Kind::Unread,
    Kind::Hasty,
    Kind::Fill,
    Kind::Pieces,
    Kind::Posted,
    Kind::Missed,
    Kind::Deadline,
    Kind::Alarmed,
    Kind::Relayed,
    Kind::Hints,
    Kind::Nothing,
    Kind::Abort,
    Kind::Cut,
    Kind::Short,
    Kind::Upgrade,
];

/// Bytes that no server may accept as a request, and the status of the response.
const REFUSED: &[(&[u8], u16)] = &[
    (b"\0\x01\x02garbage\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"POST /sum/1/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"POST /sum/1/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n", 413),
    (
        b"POST /sum/1/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx\r\n",
        400,
    ),
];

/// The bytes of a client and the expected responses, under construction.
#[derive(Default)]
struct Script {
    wire: Vec<u8>,
    ends: Vec<usize>,
    responses: Vec<Response>,
    last: Option<Kind>,
}

impl Script {
    /// Adds a request; returns true when nothing may follow it.
    fn add(&mut self, request: &Request, settings: &WorkerSettings) -> bool {
        let (head, content) = request.wire();
        self.wire.extend_from_slice(&head);
        self.wire.extend_from_slice(&content);
        self.ends.push(self.wire.len());
        self.responses.push(request.response(self.responses.len() as u32 + 1, settings));
        self.last = Some(request.kind);
        self.is_over()
    }

    fn is_over(&self) -> bool {
        self.responses.last().is_some_and(|response| response.closes)
    }
}

pub(crate) fn pace(random: &mut Random) -> Pace {
    let (send_bytes, gap_ms) = *random.pick(&[
        (usize::MAX, 0),
        (usize::MAX, 0),
        (usize::MAX, 50),
        (1, 2),
        (7, 20),
        (100, 50),
        (1500, 200),
    ]);
    let read_bytes = *random.pick(&[usize::MAX, 30_000, 3000, 700]);
    Pace { send_bytes, read_bytes, gap_ms }
}

fn faults(random: &mut Random, leaps: bool) -> Faults {
    let mut some = |per_mille: &[u32]| *random.pick(per_mille);
    Faults {
        open_at_once: 0,
        short: some(&[0, 300, 900]),
        late: some(&[0, 200, 700]),
        late_ms: u64::from(some(&[1, 5, 40])),
        interrupt: some(&[0, 0, 50, 300]),
        accept: some(&[0, 0, 0, 100, 500]),
        attach: some(&[0, 0, 50]),
        connect: 0,
        broken: some(&[0, 0, 0, 5, 50]),
        shortage: some(&[0, 0, 0, 50, 300]),
        disarm: some(&[0, 100, 500]),
        buffers: some(&[0, 0, 1, 3, 10]) as u16,
        batch: some(&[0, 0, 1, 3]) as u16,
        leap: if leaps { 30 } else { 0 },
        leap_ms: 100_000,
        set: some(&[0, 0, 20, 100]),
        set_ms: SET_MAX_MS,
        loss: some(&[0, 0, 10, 50, 200]),
        duplicate: some(&[0, 0, 20, 200]),
        damage: some(&[0, 0, 0, 20]),
        congested: some(&[0, 0, 20, 500]),
        full: some(&[0, 0, 50, 500]),
        path_ms: u64::from(some(&[0, 1, 20, 100])),
        jitter_ms: u64::from(some(&[0, 1, 10, 50])),
        path_bytes: some(&[1200, 1400, 1472, 9000]) as usize,
        fail_at: None,
    }
}

fn settings(random: &mut Random, poor: bool) -> WorkerSettings {
    let settings = settings_of_listeners();
    WorkerSettings {
        connections: *random.pick(&[1, 2, 4, 100, 100, 100]),
        requests_per_connection: random.chance(200).then(|| random.between(1, 6) as u32),
        buffer_bytes: if poor { random.between(1000, 200_000) as usize } else { 64 << 20 },
        ..settings
    }
}

pub(crate) fn settings_of_listeners() -> WorkerSettings {
    let listener = |protocol| ListenerSettings::plain(protocol);
    WorkerSettings {
        listeners: vec![
            listener(Protocol::Http(Protocols { http1: true, http2: false })),
            listener(Protocol::ByteStream),
            listener(Protocol::Http(Protocols::ALL)),
            listener(Protocol::Http(Protocols::ALL)),
        ],
        ..WorkerSettings::default()
    }
}
