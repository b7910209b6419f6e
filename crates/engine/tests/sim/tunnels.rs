//! Tunnels over streams of HTTP/2 and HTTP/3 (RFC 8441, RFC 9220): with any cuts and windows, each
//! side gets exactly the bytes of the other, and no deadline of requests applies to them.

mod client;

use pinion_engine::app::{App, Event, Gone};
use pinion_engine::backend::sim::{Faults, Network, Random};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_engine::limits::{IDLE_TIMEOUT_MS, TICK_MS, WINDOW_STALL_MS};
use pinion_engine::quic::config::QuicConfig;
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_engine::stepped_worker::{Holdings, SimulatedQuic, Stepped};
use pinion_http::prepared_response::{Prepared, PreparedBody, SharedFields};
use std::collections::BTreeMap;

use crate::request_model::pattern;
use crate::strict::Manner;
use client::{Over, TunnelClient};

/// Seeds of the random test; a step of QUIC takes longer.
const SEEDS: u64 = 600;
const QUIC_SEEDS: u64 = 60;
/// Bytes that the application requests at a time.
const SIP_BYTES: u64 = 700;
/// Milliseconds that the application waits for any event.
const PATIENCE_MS: u64 = 4 * 3_600_000;

/// Opens a tunnel for each request for one. Its path determines the behaviour:
///
/// - `/echo` sends every byte back, and ends after the client;
/// - `/first` sends `bye` and its end at once, and continues to read;
/// - `/flood` sends as much as the output queue allows;
/// - `/cut` is aborted with the first byte.
#[derive(Default)]
struct Tunnels {
    open: BTreeMap<u32, Tunnel>,
    gone: Vec<Gone>,
    waited: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tunnel {
    Echo,
    First,
    Flood,
    Cut,
}

impl Tunnels {
    fn begin(&mut self, path: &[u8], id: u32, exchange: &mut Exchange<'_>) {
        exchange.open_tunnel(std::iter::empty());
        exchange.wait(Some(PATIENCE_MS));
        exchange.body_limit(u64::MAX);
        exchange.want(SIP_BYTES);
        let tunnel = match path {
            b"/first" => Tunnel::First,
            b"/flood" => Tunnel::Flood,
            b"/cut" => Tunnel::Cut,
            _ => Tunnel::Echo,
        };
        self.open.insert(id, tunnel);
        match tunnel {
            Tunnel::First => {
                exchange.write(Slice::Copied(b"bye"));
                exchange.finish();
                assert_eq!(exchange.write(Slice::Copied(b"more")), ContentRoom::Gone);
            }
            Tunnel::Flood => flood(exchange),
            Tunnel::Echo | Tunnel::Cut => {}
        }
    }
}

fn flood(exchange: &mut Exchange<'_>) {
    while exchange.write(Slice::Copied(&[b'x'; 5000])) == ContentRoom::Free {}
}

impl App for Tunnels {
    fn takes_extended_connect(&self) -> bool {
        true
    }

    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        let id = exchange.address().exchange;
        let tunnel = self.open.get(&id).copied();
        match (event, tunnel) {
            (Event::Head(head), _) if head.protocol.is_some() => {
                self.begin(head.target.path, id, exchange);
            }
            (Event::Head(_), _) => {
                let body = PreparedBody::Bytes(b"page");
                let shared = SharedFields::h1(b"");
                let page =
                    Prepared { shared, body, content_length: Some(4), ..Prepared::empty(200) };
                exchange.prepared(&page, None);
            }
            (Event::Body(_), Some(Tunnel::Cut)) => {
                self.open.remove(&id);
                exchange.abort();
            }
            (Event::Body(bytes), Some(tunnel)) => {
                let is_echo = tunnel == Tunnel::Echo;
                if !is_echo || exchange.write(Slice::Copied(bytes)) == ContentRoom::Free {
                    exchange.want(SIP_BYTES);
                }
            }
            (Event::Writable, Some(Tunnel::Flood)) => flood(exchange),
            (Event::Writable, Some(_)) => exchange.want(SIP_BYTES),
            (Event::BodyEnd(trailers), Some(_)) => {
                assert!(trailers.is_empty());
                self.open.remove(&id);
                exchange.end(std::iter::empty());
            }
            (Event::Deadline, Some(_)) => {
                self.waited += 1;
                self.open.remove(&id);
                exchange.end(std::iter::empty());
            }
            (Event::Gone(why), Some(_)) => {
                self.open.remove(&id);
                self.gone.push(why);
            }
            (Event::Stopping | Event::Posted(_) | Event::InputEnd, _) => {}
            (_, tunnel) => panic!("an event of {id}, a tunnel: {}", tunnel.is_some()),
        }
    }

    fn byte_stream_event(
        &mut self,
        _: pinion_engine::app::ByteStreamEvent<'_>,
        _: &mut ByteStreamHandle<'_>,
    ) {
        unreachable!("nothing is upgraded")
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

/// The protocol of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Http2,
    Http3,
}

/// A worker with one connection of a client.
struct Stage<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Tunnels>,
    client: TunnelClient,
}

impl<const READINESS: bool> Stage<READINESS> {
    fn new(speaks: Speaks, seed: u64, faults: Faults, link_bytes: usize, manner: Manner) -> Self {
        let protocol = Protocol::Http(Protocols { http1: false, ..Protocols::ALL });
        let settings = WorkerSettings {
            listeners: vec![ListenerSettings::plain(protocol)],
            ..WorkerSettings::default()
        };
        let network = Network::new(seed, faults, 1);
        let mut worker = Stepped::new(network.clone(), settings, |_| Tunnels::default());
        let client = match speaks {
            Speaks::Http2 => TunnelClient::http2(&network, link_bytes, manner),
            Speaks::Http3 => {
                let clock = network.shared_clock();
                let config = QuicConfig::simulated(seed, IDLE_TIMEOUT_MS, 0, clock);
                let quic = SimulatedQuic { config, listener: 0, segments_max: 10 };
                worker.listen_quic(&network, &quic);
                TunnelClient::http3(&network, seed, manner)
            }
        };
        let mut stage = Self { network, worker, client };
        stage.until(|stage| stage.client.is_connected());
        stage
    }

    fn tunnel(&mut self, path: &str) -> u64 {
        self.client.request("CONNECT", path, &[(":protocol", "echo")], false)
    }

    /// Sends and reads as much as possible, at most this many bytes at a time, and runs a pass of
    /// the server.
    fn step(&mut self, most_bytes: usize, at_ms: Option<u64>) {
        let Self { network, worker, client } = self;
        let acts_ms = client.act(network, most_bytes);
        network.act_at([acts_ms, at_ms].into_iter().flatten().min());
        worker.pass().expect("a pass");
    }

    /// Runs steps until the condition holds.
    #[track_caller]
    fn until(&mut self, is_so: impl Fn(&mut Self) -> bool) {
        while !is_so(self) {
            self.step(usize::MAX, None);
            assert!(!self.network.is_stuck(), "nobody goes on");
        }
    }

    /// Lets this many milliseconds pass.
    fn pass_time(&mut self, ms: u64) {
        let until_ms = self.network.now().monotonic_ms + ms;
        while self.network.now().monotonic_ms < until_ms {
            self.step(usize::MAX, Some(until_ms));
        }
    }

    /// Sends a few bytes as soon as the window allows.
    fn send(&mut self, id: u64, bytes: &[u8]) {
        self.until(|stage| stage.client.data(id, bytes, false) == bytes.len());
    }

    fn ends_clean(mut self) {
        self.client.leave(&self.network);
        while self.worker.holdings().connections > 0 {
            let acts_ms = match &self.client {
                TunnelClient::Http2(..) => None,
                TunnelClient::Http3(_) => self.client.act(&self.network, usize::MAX),
            };
            self.network.act_at(acts_ms);
            self.worker.pass().expect("a pass");
        }
        assert_eq!(self.worker.holdings(), Holdings::default());
    }
}

/// Tests tunnels that send back their input in any pieces, together with requests; some clients
/// reset one.
fn echoes<const READINESS: bool>(speaks: Speaks, seed: u64) {
    let random = &mut Random::new(seed);
    let faults = Faults {
        short: *random.pick(&[0, 300]),
        late: *random.pick(&[0, 200]),
        late_ms: 20,
        interrupt: *random.pick(&[0, 100]),
        shortage: *random.pick(&[0, 30]),
        disarm: *random.pick(&[0, 100]),
        path_ms: *random.pick(&[0, 30]),
        jitter_ms: *random.pick(&[0, 10]),
        ..Faults::default()
    };
    let window_bytes = *random.pick(&[1100, 3000, 65_535, 1 << 20]);
    let manner = Manner { window_bytes, gives_back: true };
    let link_bytes = *random.pick(&[3000, 64_000, 400_000]);
    let mut stage = Stage::<READINESS>::new(speaks, seed, faults, link_bytes, manner);
    let mut sent: Vec<(u64, Vec<u8>, usize)> = Vec::new();
    for tunnel in 0..random.between(1, 5) {
        let id = stage.tunnel("/echo");
        let most_bytes = *random.pick(&[10, 5000, 200_000]);
        let bytes = random.below(most_bytes) as usize;
        sent.push((id, pattern(seed + tunnel, bytes), 0));
    }
    let resets = random.chance(300).then(|| sent[0].0);
    let mut pages = Vec::new();
    loop {
        for (id, content, at) in &mut sent {
            let rest = &content[*at..];
            let piece = random.part_of(rest.len(), 500);
            let end = piece == rest.len();
            *at += stage.client.data(*id, &rest[..piece], end);
        }
        if resets.is_some() && random.chance(50) {
            stage.client.reset(sent[0].0);
        }
        if pages.len() < 20 && random.chance(100) {
            pages.push(stage.client.request("GET", "/page", &[], true));
        }
        let most_bytes = *random.pick(&[50, 100_000]);
        let most_bytes = random.between(1, most_bytes) as usize;
        let at_ms = stage.network.now().monotonic_ms + 10;
        stage.step(most_bytes, Some(at_ms));
        let mut streams = sent.iter().map(|(id, ..)| id).chain(&pages);
        if streams.all(|id| stage.client.end(*id).is_some()) && stage.client.has_sent_all() {
            break;
        }
    }
    for (id, content, _) in &sent {
        let (came, end) = (stage.client.content(*id), stage.client.end(*id));
        assert!(content.starts_with(came), "{id}: bytes that are not its own");
        if end == Some(Over::Left) {
            assert_eq!(Some(*id), resets);
            continue;
        }
        assert_eq!((stage.client.status(*id), end), (Some(200), Some(Over::Whole)), "{id}");
        assert!(came == content, "{id}: {} bytes of {}", came.len(), content.len());
    }
    assert!(pages.iter().all(|page| stage.client.content(*page) == b"page"));
    stage.ends_clean();
}

#[test]
fn each_side_of_a_tunnel_gets_the_bytes_of_the_other() {
    for (speaks, seeds) in [(Speaks::Http2, SEEDS), (Speaks::Http3, QUIC_SEEDS)] {
        for seed in 0..seeds {
            eprintln!("{speaks:?}, seed {seed}"); // Shown when it fails.
            if seed % 2 == 0 { echoes::<true>(speaks, seed) } else { echoes::<false>(speaks, seed) }
        }
    }
}

/// Neither side has to send anything before the time that the application sets, and both can send
/// afterwards.
fn stays_silent<const READINESS: bool>(speaks: Speaks) {
    let (faults, manner) = (Faults::default(), Manner::default());
    let mut stage = Stage::<READINESS>::new(speaks, 1, faults, 64_000, manner);
    let [first, second] = ["/echo", "/first"].map(|path| stage.tunnel(path));
    stage.until(|stage| stage.client.end(second).is_some());
    assert_eq!(stage.client.content(second), b"bye");
    let began_ms = stage.network.now().monotonic_ms;
    stage.pass_time(PATIENCE_MS / 2);
    stage.send(first, b"still there");
    stage.until(|stage| stage.client.content(first) == b"still there");
    stage.until(|stage| stage.worker.app().waited == 2);
    let waited_ms = stage.network.now().monotonic_ms - began_ms;
    assert!((PATIENCE_MS..=PATIENCE_MS + 2 * TICK_MS).contains(&waited_ms), "{waited_ms} ms");
    assert_eq!(stage.worker.app().gone, []);
    stage.ends_clean();
}

#[test]
fn a_silent_tunnel_lasts_for_the_timeout_of_the_application() {
    for speaks in [Speaks::Http2, Speaks::Http3] {
        stays_silent::<true>(speaks);
        stays_silent::<false>(speaks);
    }
}

/// A client that reads nothing of a tunnel keeps it as long as the application allows, and can use
/// all other streams.
fn is_not_in_the_way<const READINESS: bool>(speaks: Speaks) {
    let manner = Manner { window_bytes: 20_000, gives_back: false };
    let mut stage = Stage::<READINESS>::new(speaks, 1, Faults::default(), 64_000, manner);
    let [flood, cut, echo] = ["/flood", "/cut", "/echo"].map(|path| stage.tunnel(path));
    stage.client.stop_reading(flood);
    stage.send(cut, b"x");
    stage.until(|stage| stage.client.end(cut).is_some());
    assert_eq!(stage.client.end(cut), Some(Over::Cancelled));
    for number in 1..=10 {
        stage.pass_time(2 * WINDOW_STALL_MS);
        stage.send(echo, b"hello");
        stage.until(|stage| stage.client.content(echo).len() == 5 * number);
        let page = stage.client.request("GET", "/page", &[], true);
        stage.until(|stage| stage.client.content(page) == b"page");
    }
    assert!(!stage.client.has_received_goaway() && stage.client.end(flood).is_none());
    assert_eq!(stage.worker.app().gone, []);
    stage.ends_clean();
}

#[test]
fn a_tunnel_with_a_stalled_client_does_not_block_others() {
    for speaks in [Speaks::Http2, Speaks::Http3] {
        is_not_in_the_way::<true>(speaks);
        is_not_in_the_way::<false>(speaks);
    }
}
