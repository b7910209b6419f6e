//! Tunnels over streams of HTTP/2 (RFC 8441): whatever the cuts and the windows, each side gets
//! exactly the bytes of the other, and no deadline of requests holds for them.

use pinion_engine::app::{App, Event, Gone};
use pinion_engine::backend::sim::{Client as Connection, Connect, Faults, Network, Random, Read};
use pinion_engine::connections::Connections;
use pinion_engine::exchange::{Exchange, Room, Slice};
use pinion_engine::limits::{TICK_MS, WINDOW_STALL_MS};
use pinion_engine::raw::RawStream;
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, Settings};
use pinion_engine::stepped::{Holdings, Stepped};
use pinion_http::prepared::{Prepared, PreparedBody, SharedFields};
use std::collections::BTreeMap;

use crate::ask::pattern;
use crate::strict::{Client, End, Manner};

/// Seeds of the test of chance.
const SEEDS: u64 = 1000;
/// Bytes that the application asks for at a time.
const SIP_BYTES: u64 = 700;
/// How long the application waits for anything to happen, in milliseconds.
const PATIENCE_MS: u64 = 4 * 3_600_000;
const CANCEL: u32 = 8;

/// Opens a tunnel for each request that asks for one. What it does there is the path:
///
/// - `/echo` sends every byte back, and ends behind the client;
/// - `/first` sends `bye` and its end at once, and goes on to read;
/// - `/flood` sends as much as there is room for;
/// - `/cut` is aborted with the first byte.
#[derive(Default)]
struct Tunnels {
    open: BTreeMap<u32, Tunnel>,
    /// Bytes that came on the tunnels, by stream.
    came: BTreeMap<u32, Vec<u8>>,
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
                assert_eq!(exchange.write(Slice::Copied(b"more")), Room::Gone);
            }
            Tunnel::Flood => flood(exchange),
            Tunnel::Echo | Tunnel::Cut => {}
        }
    }
}

fn flood(exchange: &mut Exchange<'_>) {
    while exchange.write(Slice::Copied(&[b'x'; 5000])) == Room::Free {}
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
                self.came.entry(id).or_default().extend_from_slice(bytes);
                let is_echo = tunnel == Tunnel::Echo;
                if !is_echo || exchange.write(Slice::Copied(bytes)) == Room::Free {
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

    fn raw(&mut self, _: pinion_engine::app::RawEvent<'_>, _: &mut RawStream<'_>) {
        unreachable!("nothing is upgraded")
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

/// A worker with one connection of a client.
struct Stage<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Tunnels>,
    connection: Connection,
    client: Client,
}

impl<const READINESS: bool> Stage<READINESS> {
    fn new(seed: u64, faults: Faults, window_bytes: usize, manner: Manner) -> Self {
        let protocol = Protocol::Http(Protocols { http1: false, ..Protocols::ALL });
        let settings =
            Settings { listeners: vec![ListenerSettings::plain(protocol)], ..Settings::default() };
        let network = Network::new(seed, faults, 1);
        let worker = Stepped::new(network.clone(), settings, |_| Tunnels::default());
        let connect = Connect { listener: 0, window_bytes, local: false, protected: true };
        let connection = network.connect(connect);
        Self { network, worker, connection, client: Client::new(manner) }
    }

    fn tunnel(&mut self, path: &str) -> u32 {
        self.client.request("CONNECT", path, &[(":protocol", "echo")], false)
    }

    /// Sends and reads what can be, at most so many bytes at a time, and has the server go on.
    fn step(&mut self, most_bytes: usize, at_ms: Option<u64>) {
        let Self { network, worker, connection, client } = self;
        let bytes = client.out.len().min(most_bytes);
        let taken = network.send(*connection, &client.out[..bytes]);
        client.out.drain(..taken);
        let mut came = Vec::new();
        if let Read::Bytes(_) = network.read(*connection, most_bytes, &mut came) {
            client.take(&came).expect("a server that keeps to the rules");
        }
        let goes_on = taken > 0 || !came.is_empty();
        let now_ms = network.now().monotonic_ms;
        network.act_at(if goes_on { Some(now_ms) } else { at_ms });
        worker.pass().expect("a pass");
    }

    /// Goes on until so.
    fn until(&mut self, is_so: impl Fn(&mut Self) -> bool) {
        while !is_so(self) {
            self.step(usize::MAX, None);
            assert!(!self.network.is_stuck(), "{:?}", self.client.streams);
        }
    }

    fn get_works(&mut self) {
        let page = self.client.get("/page");
        self.until(|stage| stage.client.streams[&page].end.is_some());
        assert_eq!(self.client.streams[&page].content, b"page");
    }

    fn ends_clean(mut self) {
        self.network.leave(self.connection);
        while self.worker.holdings().connections > 0 {
            self.network.act_at(None);
            self.worker.pass().expect("a pass");
        }
        assert_eq!(self.worker.holdings(), Holdings::default());
    }
}

/// Tunnels that send back what comes, in any pieces, beside requests; some clients reset one.
fn echoes<const READINESS: bool>(seed: u64) {
    let random = &mut Random::new(seed);
    let faults = Faults {
        short: *random.pick(&[0, 300]),
        late: *random.pick(&[0, 200]),
        late_ms: 20,
        interrupt: *random.pick(&[0, 100]),
        shortage: *random.pick(&[0, 30]),
        disarm: *random.pick(&[0, 100]),
        ..Faults::default()
    };
    let window_bytes = *random.pick(&[1100, 3000, 65_535, 1 << 20]);
    let manner = Manner { window_bytes, gives_back: true };
    let link_bytes = *random.pick(&[3000, 64_000, 400_000]);
    let mut stage = Stage::<READINESS>::new(seed, faults, link_bytes, manner);
    let mut sent: Vec<(u32, Vec<u8>, usize)> = Vec::new();
    for tunnel in 0..random.between(1, 5) {
        let id = stage.tunnel("/echo");
        let most_bytes = *random.pick(&[10, 5000, 200_000]);
        let bytes = random.below(most_bytes) as usize;
        sent.push((id, pattern(seed + tunnel, bytes), 0));
    }
    let resets = random.chance(300).then(|| sent[0].0);
    let (mut pages, mut is_over) = (Vec::new(), false);
    while !is_over {
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
            pages.push(stage.client.get("/page"));
        }
        let most_bytes = *random.pick(&[50, 100_000]);
        let most_bytes = random.between(1, most_bytes) as usize;
        let at_ms = stage.network.now().monotonic_ms + 10;
        stage.step(most_bytes, Some(at_ms));
        is_over = stage.client.is_answered() && stage.client.out.is_empty();
    }
    for (id, content, _) in &sent {
        let stream = &stage.client.streams[id];
        assert!(content.starts_with(&stream.content), "{id}: bytes that are not its own");
        if stream.end == Some(End::Left) {
            assert_eq!(Some(*id), resets);
            continue;
        }
        assert_eq!((stream.status, stream.end), (Some(200), Some(End::Whole)), "{id}");
        assert!(stream.content == *content, "{id}: {} bytes", stream.content.len());
        assert!(stage.worker.app().came.get(id).is_none_or(|came| came == content), "{id}");
    }
    for page in pages {
        assert_eq!(stage.client.streams[&page].content, b"page");
    }
    stage.ends_clean();
}

#[test]
fn each_side_of_a_tunnel_gets_the_bytes_of_the_other() {
    for seed in 0..SEEDS {
        eprintln!("seed {seed}"); // Shown when it fails.
        if seed % 2 == 0 { echoes::<true>(seed) } else { echoes::<false>(seed) }
    }
}

/// Neither side has to send anything before the time that the application sets, and then both can.
fn stays_silent<const READINESS: bool>() {
    let mut stage = Stage::<READINESS>::new(1, Faults::default(), 64_000, Manner::default());
    let [first, second] = ["/echo", "/first"].map(|path| stage.tunnel(path));
    stage.until(|stage| stage.client.streams[&second].end.is_some());
    assert_eq!(stage.client.streams[&second].content, b"bye");
    let began_ms = stage.network.now().monotonic_ms;
    stage.until(|stage| stage.network.now().monotonic_ms > began_ms + PATIENCE_MS / 2);
    stage.client.data(first, b"still there", false);
    stage.until(|stage| stage.client.streams[&first].content.len() == 11);
    stage.until(|stage| stage.worker.app().waited == 2);
    let waited_ms = stage.network.now().monotonic_ms - began_ms;
    assert!((PATIENCE_MS..=PATIENCE_MS + 2 * TICK_MS).contains(&waited_ms), "{waited_ms} ms");
    assert_eq!(stage.worker.app().gone, []);
    stage.ends_clean();
}

#[test]
fn a_silent_tunnel_lasts_as_long_as_the_application_wants() {
    stays_silent::<true>();
    stays_silent::<false>();
}

/// A client that takes nothing of a tunnel loses it, and none of the other streams.
fn is_reset_alone<const READINESS: bool>() {
    let manner = Manner { window_bytes: 20_000, gives_back: false };
    let mut stage = Stage::<READINESS>::new(1, Faults::default(), 64_000, manner);
    let [flood, cut, echo] = ["/flood", "/cut", "/echo"].map(|path| stage.tunnel(path));
    stage.client.data(cut, b"x", false);
    stage.until(|stage| stage.client.streams[&cut].end == Some(End::Reset(CANCEL)));
    stage.until(|stage| stage.client.streams[&flood].content.len() == 20_000);
    let began_ms = stage.network.now().monotonic_ms;
    stage.until(|stage| stage.client.streams[&flood].end.is_some());
    assert_eq!(stage.client.streams[&flood].end, Some(End::Reset(CANCEL)));
    let waited_ms = stage.network.now().monotonic_ms - began_ms;
    let allowed = WINDOW_STALL_MS..=WINDOW_STALL_MS + 2 * TICK_MS;
    assert!(allowed.contains(&waited_ms), "{waited_ms} ms");
    assert_eq!(stage.worker.app().gone, [Gone::Stalled]);
    stage.client.data(echo, b"hello", false);
    stage.until(|stage| stage.client.streams[&echo].content == b"hello");
    stage.get_works();
    assert_eq!(stage.client.leaves, []);
    stage.ends_clean();
}

#[test]
fn a_tunnel_whose_client_takes_nothing_is_reset_alone() {
    is_reset_alone::<true>();
    is_reset_alone::<false>();
}
