//! Outgoing connections, to simulated servers that respond, refuse, are silent, reset, end early or
//! send garbage. One of them must not affect the others.

use std::collections::{BTreeMap, HashMap, HashSet};

use pinion_engine::Poster;
use pinion_engine::app::{App, ByteStreamEvent, Event, Gone, Message};
use pinion_engine::backend::sim::{Client, Faults, Network, Random, Read};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{ContentRoom, Exchange, Slice};
use pinion_engine::exchange_address::Address;
use pinion_engine::outgoing_connect::{Connect, ConnectError, NotConnected, RemoteAddress};
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::{Holdings, Stepped};
use rustix::io::Errno;

/// Seeds of an ordinary run, each with both backends.
const SEEDS: u64 = 400;
/// Connections of one run, and the limit of open ones.
const CONNECTIONS: u64 = 24;
const OUTGOING_MAX: usize = 10;
/// Milliseconds until a connection must be open, and for all that follows.
const CONNECT_TIMEOUT_MS: u64 = 3_000;
const STREAM_TIMEOUT_MS: u64 = 60_000;
/// Simulated milliseconds after which nothing may be left of a run.
const RUN_MAX_MS: u64 = 60 * 60 * 1000;
const WORKER: u16 = 0;

/// The behaviour of a server on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    /// Sends back its input, and ends when the other side does.
    Echo,
    Refuse,
    /// Its system never responds.
    Hang,
    /// Accepts, and sends nothing.
    Silent,
    /// Resets the connection after this many bytes of input.
    Reset(usize),
    /// Ends its side after this many bytes of input, and continues to read.
    EndAfter(usize),
    /// Sends unexpected bytes, and closes.
    Garbage,
}

const GARBAGE: &[u8] = b"\0\xff garbage";

impl Behaviour {
    fn draw(random: &mut Random) -> Self {
        let bytes = random.below(40_000) as usize;
        match random.below(12) {
            0..=4 => Self::Echo,
            5 => Self::Refuse,
            6 => Self::Hang,
            7 => Self::Silent,
            8 | 9 => Self::Reset(bytes),
            10 => Self::EndAfter(bytes),
            _ => Self::Garbage,
        }
    }

    /// Returns whether the connection is accepted.
    fn accepts(self) -> bool {
        !matches!(self, Self::Refuse | Self::Hang)
    }
}

/// The action of the application after it has sent all content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Ends its side and reads to the end of the other.
    Finish,
    /// Closes after it has received all content back.
    Close,
    /// Aborts at once.
    Abort,
}

/// A message that opens this connection.
struct Open {
    number: u64,
    content: Vec<u8>,
    ending: Ending,
    /// Whether content is written before the connection is open.
    is_early: bool,
    /// Whether the connection is ended before the engine has begun to open it.
    is_withdrawn: bool,
}

/// A message that sends one more byte on the connection with this number, from outside of its
/// events.
struct Nudge(u64);

/// One connection, from the view of the application.
struct Job {
    address: Address,
    content: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    ending: Ending,
    nudges: usize,
    is_open: bool,
    has_ended: bool,
}

/// How a connection ended for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// The application has ended it; with the received bytes, and whether they were all of the
    /// other side.
    Ended {
        received: Vec<u8>,
        is_whole: bool,
    },
    Gone {
        why: Gone,
        received: Vec<u8>,
        was_open: bool,
    },
    TooMany,
    /// The application has ended it before the engine had begun to open it.
    Withdrawn,
}

#[derive(Default)]
struct Dialler {
    jobs: HashMap<u64, Job>,
    outcomes: HashMap<u64, Outcome>,
    contents: HashMap<u64, Vec<u8>>,
    /// Connections that hold a permit; a closed connection keeps it until all of its output has
    /// been sent.
    held: HashSet<Address>,
}

impl Dialler {
    fn over(&mut self, number: u64, outcome: Outcome) {
        assert!(self.outcomes.insert(number, outcome).is_none(), "{number} has ended twice");
    }

    fn open(&mut self, order: Open, connections: &mut Connections<'_>) {
        let Open { number, content, ending, is_early, is_withdrawn } = order;
        let remote = match number % 3 {
            0 => RemoteAddress::Unix(format!("/run/{number}").into()),
            _ => RemoteAddress::Tcp(([192, 0, 2, 1], number as u16 + 1).into()),
        };
        let connect = Connect { remote, tls: None, timeout_ms: CONNECT_TIMEOUT_MS, tag: number };
        self.contents.insert(number, content.clone());
        let address = match connections.connect(connect) {
            Ok(address) => address,
            Err(error) => {
                assert_eq!(error, ConnectError::TooMany);
                assert_eq!(self.held.len(), OUTGOING_MAX, "there were permits");
                return self.over(number, Outcome::TooMany);
            }
        };
        assert!(self.held.len() < OUTGOING_MAX, "more than there are permits");
        self.held.insert(address);
        let mut job = Job {
            address,
            content,
            sent: 0,
            received: Vec::new(),
            ending,
            nudges: 0,
            is_open: false,
            has_ended: false,
        };
        if is_early {
            let mut stream = connections.stream(address).expect("it was opened just now");
            assert_eq!(stream.tag(), Some(number));
            job.send(&mut stream);
        }
        if is_withdrawn {
            connections.stream(address).expect("it was opened just now").abort();
            return self.over(number, Outcome::Withdrawn);
        }
        self.jobs.insert(number, job);
    }

    fn nudge(&mut self, number: u64, connections: &mut Connections<'_>) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let Some(mut stream) = connections.stream(job.address) else {
            panic!("{number} is open and has no stream")
        };
        if job.sent == job.content.len() && job.ending == Ending::Close {
            job.content.push(b'!');
            job.nudges += 1;
            job.send(&mut stream);
        }
        self.contents.insert(number, job.content.clone());
    }
}

impl Job {
    /// Sends the rest, as the output queue allows.
    fn send(&mut self, stream: &mut ByteStreamHandle<'_>) {
        while self.sent < self.content.len() {
            let until = self.content.len().min(self.sent + 5_000);
            let room = stream.write(Slice::Copied(&self.content[self.sent..until]));
            if room == ContentRoom::Gone {
                return;
            }
            self.sent = until;
            if room == ContentRoom::Full {
                return;
            }
        }
        if self.ending == Ending::Finish {
            stream.finish();
        }
    }

    /// Returns whether the application has received all content back.
    fn is_done(&self) -> bool {
        self.ending == Ending::Close && self.received.len() >= self.content.len()
    }
}

impl App for Dialler {
    fn exchange(&mut self, _: Event<'_>, exchange: &mut Exchange<'_>) {
        exchange.abort();
    }

    fn byte_stream_event(&mut self, event: ByteStreamEvent<'_>, stream: &mut ByteStreamHandle<'_>) {
        let number = stream.tag().expect("the server has opened it");
        let job = self.jobs.get_mut(&number);
        let job = job.unwrap_or_else(|| panic!("an event behind the end of {number}"));
        assert_eq!(stream.address(), job.address);
        match event {
            ByteStreamEvent::Open => {
                assert!(!std::mem::replace(&mut job.is_open, true), "{number} is open twice");
                stream.wait(Some(STREAM_TIMEOUT_MS));
                stream.want(7_000);
                job.send(stream);
                if job.ending == Ending::Abort {
                    stream.abort();
                    return self.end(number);
                }
            }
            ByteStreamEvent::Bytes(bytes) => {
                assert!(job.is_open && !job.has_ended);
                job.received.extend_from_slice(bytes);
                stream.want(7_000);
            }
            ByteStreamEvent::End => {
                assert!(job.is_open && !std::mem::replace(&mut job.has_ended, true));
                stream.close();
                return self.end(number);
            }
            ByteStreamEvent::Writable => job.send(stream),
            ByteStreamEvent::Posted(_) | ByteStreamEvent::Stopping => {}
            ByteStreamEvent::Deadline => {
                stream.abort();
                return self.end(number);
            }
            ByteStreamEvent::Gone(why) => {
                let job = self.jobs.remove(&number).expect("looked up");
                let Job { received, is_open: was_open, .. } = job;
                return self.over(number, Outcome::Gone { why, received, was_open });
            }
        }
        if self.jobs.get(&number).is_some_and(Job::is_done) {
            stream.close();
            self.end(number);
        }
    }

    fn pass(&mut self, _: &mut Connections<'_>) {}

    fn closed(&mut self, connection: Address, _unsent_bytes: u64) {
        assert!(self.held.remove(&connection), "{connection:?} is closed twice");
    }

    fn posted(&mut self, message: Message, connections: &mut Connections<'_>) {
        match message.downcast::<Open>() {
            Ok(order) => self.open(*order, connections),
            Err(message) => {
                let Nudge(number) = *message.downcast().expect("an order");
                self.nudge(number, connections);
            }
        }
    }
}

impl Dialler {
    /// Records that the application has ended a connection.
    fn end(&mut self, number: u64) {
        let job = self.jobs.remove(&number).expect("it was open");
        let outcome = Outcome::Ended { received: job.received, is_whole: job.has_ended };
        self.over(number, outcome);
    }
}

/// A server's side of one connection.
struct Server {
    behaviour: Behaviour,
    accepted: bool,
    had: Vec<u8>,
    sent: usize,
    is_over: bool,
}

impl Server {
    /// Performs the actions that are possible now.
    fn act(&mut self, network: &Network, client: Client, random: &mut Random) {
        if self.is_over {
            return;
        }
        if !self.accepted {
            match self.behaviour {
                Behaviour::Hang => return self.is_over = true,
                Behaviour::Refuse => {
                    network.refuse(client, Errno::CONNREFUSED);
                    return self.is_over = true;
                }
                _ => network.establish(client, random.between(1, 30_000) as usize),
            }
            self.accepted = true;
        }
        let read = network.read(client, random.between(1, 20_000) as usize, &mut self.had);
        match (self.behaviour, read) {
            (_, Read::Reset) => self.is_over = true,
            (Behaviour::Reset(after), _) if self.had.len() >= after => {
                network.reset(client);
                self.is_over = true;
            }
            (Behaviour::EndAfter(after), _) if self.had.len() >= after => {
                network.end(client);
                // It continues to read, so that nothing is left when the other side closes.
                self.behaviour = Behaviour::Silent;
            }
            (Behaviour::Garbage, _) => {
                network.send(client, GARBAGE);
                network.leave(client);
                self.is_over = true;
            }
            (Behaviour::Echo, read) => {
                self.sent += network.send(client, &self.had[self.sent..]);
                if read == Read::Ended && self.sent == self.had.len() {
                    network.end(client);
                    self.is_over = true;
                }
            }
            (_, Read::Ended) => self.is_over = true,
            _ => {}
        }
    }
}

fn faults(random: &mut Random) -> Faults {
    let open_at_once = 500;
    if random.chance(300) {
        return Faults { open_at_once, ..Faults::default() };
    }
    Faults {
        open_at_once,
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

/// Checks whether an outcome is possible with the behaviour of the server and the faults of the
/// kernel.
fn check(number: u64, behaviour: Behaviour, server: &Server, outcome: &Outcome, faulty: bool) {
    let case = format!("{number}, {behaviour:?}: {outcome:?}");
    let echoed = |received: &[u8]| server.had.starts_with(received);
    match (behaviour, outcome) {
        (_, Outcome::TooMany | Outcome::Withdrawn) => panic!("a server has seen {case}"),
        (Behaviour::Refuse, Outcome::Gone { why, received, was_open }) => {
            assert_eq!(*why, Gone::NotConnected(NotConnected::Refused), "{case}");
            assert!(received.is_empty() && !was_open, "{case}");
        }
        (Behaviour::Hang, Outcome::Gone { why, received, was_open }) => {
            assert_eq!(*why, Gone::NotConnected(NotConnected::TimedOut), "{case}");
            assert!(received.is_empty() && !was_open, "{case}");
        }
        (Behaviour::Refuse | Behaviour::Hang, _) => panic!("{case}"),
        (Behaviour::Reset(_), Outcome::Gone { why, .. }) => {
            // A reset may arrive before the report that the connection is open.
            let failed = Gone::NotConnected(NotConnected::Failed);
            assert!([Gone::Peer, failed].contains(why), "{case}");
        }
        (Behaviour::Echo, Outcome::Ended { received, .. }) => assert!(echoed(received), "{case}"),
        (Behaviour::Echo, Outcome::Gone { received, .. }) => {
            assert!(faulty && echoed(received), "{case}");
        }
        (Behaviour::Garbage, Outcome::Ended { received, .. }) => {
            assert!(GARBAGE.starts_with(received), "{case}");
        }
        (Behaviour::Silent | Behaviour::EndAfter(_), Outcome::Ended { received, .. }) => {
            assert!(received.is_empty(), "{case}");
        }
        // Bytes that are sent to a closed server cause a reset.
        _ => {}
    }
}

struct Run<const READINESS: bool> {
    network: Network,
    worker: Stepped<READINESS, Dialler>,
    random: Random,
    faulty: bool,
    servers: BTreeMap<Client, (u64, Behaviour, Server)>,
}

impl<const READINESS: bool> Run<READINESS> {
    fn new(seed: u64) -> (Self, Poster) {
        let mut random = Random::new(seed);
        let faults = faults(&mut random);
        let faulty = faults.short > 0;
        let settings = WorkerSettings { outgoing: OUTGOING_MAX, ..WorkerSettings::default() };
        let network = Network::new(random.number(), faults, settings.listeners.len());
        let mut poster = None;
        let worker = Stepped::new(network.clone(), settings, |own| {
            poster = Some(own);
            Dialler::default()
        });
        let run = Self { network, worker, random, faulty, servers: BTreeMap::new() };
        (run, poster.expect("the application was made"))
    }

    fn accept_and_act(&mut self) {
        while let Some((client, remote)) = self.network.next_opened() {
            let number = match remote {
                RemoteAddress::Tcp(address) => u64::from(address.port()) - 1,
                RemoteAddress::Unix(path) => {
                    let name = path.file_name().and_then(|name| name.to_str());
                    name.and_then(|name| name.parse().ok()).expect("a number")
                }
            };
            let mut behaviour = Behaviour::draw(&mut self.random);
            while self.network.is_established(client) && !behaviour.accepts() {
                behaviour = Behaviour::draw(&mut self.random);
            }
            let (had, sent) = (Vec::new(), 0);
            let server = Server { behaviour, accepted: false, had, sent, is_over: false };
            self.servers.insert(client, (number, behaviour, server));
        }
        let mut clients: Vec<_> = self.servers.keys().copied().collect();
        self.random.shuffle(&mut clients);
        for client in clients {
            let (_, _, server) = self.servers.get_mut(&client).expect("listed");
            if !self.random.chance(300) {
                server.act(&self.network, client, &mut self.random);
            }
        }
    }

    fn order(&mut self, number: u64) -> Message {
        if number > 0 && self.random.chance(300) {
            return Box::new(Nudge(self.random.below(number)));
        }
        let bytes = self.random.below(50_000) as usize;
        let content = (0..bytes).map(|at| (at as u64 * 7 + number) as u8).collect();
        let ending = *self.random.pick(&[Ending::Finish, Ending::Close, Ending::Abort]);
        let [is_early, is_withdrawn] = [300, 50].map(|chance| self.random.chance(chance));
        Box::new(Open { number, content, ending, is_early, is_withdrawn })
    }

    fn finish(mut self, poster: &Poster) {
        let begun_ms = self.network.now().monotonic_ms;
        let mut number = 0;
        loop {
            if number < CONNECTIONS && self.random.chance(400) {
                let order = self.order(number);
                number += u64::from(order.is::<Open>());
                assert!(poster.post_to_app(WORKER, order).is_ok(), "room in the inbox");
            }
            self.accept_and_act();
            let now_ms = self.network.now().monotonic_ms;
            assert!(now_ms - begun_ms < RUN_MAX_MS, "{:?} are left", self.left());
            let is_over = self.worker.app().outcomes.len() as u64 == CONNECTIONS;
            if is_over && self.worker.holdings() == Holdings::default() {
                break;
            }
            let soon = now_ms + self.random.below(50);
            self.network.act_at(Some(soon));
            self.worker.pass().expect("a pass");
        }
        self.check();
    }

    fn left(&mut self) -> Vec<u64> {
        self.worker.app().jobs.keys().copied().collect()
    }

    fn check(&mut self) {
        let app = self.worker.app();
        assert_eq!(app.outcomes.len() as u64, CONNECTIONS);
        let mut seen = HashSet::new();
        for (client, (number, behaviour, server)) in &self.servers {
            assert!(seen.insert(*number), "{number} was opened twice");
            assert!(self.network.is_closed(*client), "{number} is still open");
            let outcome = &app.outcomes[number];
            check(*number, *behaviour, server, outcome, self.faulty);
            let content = &app.contents[number];
            assert!(content.starts_with(&server.had), "{number}: another content");
            if let Outcome::Ended { received, is_whole: true } = outcome
                && *behaviour == Behaviour::Echo
            {
                assert_eq!(received, content, "{number}: all of it comes back");
            }
        }
        for (number, outcome) in &app.outcomes {
            let was_seen = seen.contains(number);
            let Outcome::Gone { why: Gone::NotConnected(_), .. } = outcome else {
                let is_unseen = matches!(outcome, Outcome::TooMany | Outcome::Withdrawn);
                assert!(was_seen || is_unseen, "{number}: {outcome:?}");
                continue;
            };
        }
    }
}

/// Runs one seed and returns the digest of all events.
fn run<const READINESS: bool>(seed: u64) -> u64 {
    let (run, poster) = Run::<READINESS>::new(seed);
    let network = run.network.clone();
    run.finish(&poster);
    network.digest()
}

/// Every opened connection ends once for the application, whatever its server does, and nothing of
/// it is left.
#[test]
fn opened_connections_end_once_and_leak_nothing() {
    let seeds = crate::number("PINION_SIM_SEEDS").unwrap_or(SEEDS);
    let only = crate::number("PINION_SIM_SEED");
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        let outcome = std::panic::catch_unwind(|| (run::<true>(seed), run::<false>(seed)));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

#[test]
fn the_same_seed_opens_the_same_connections() {
    for seed in 0..10 {
        assert_eq!(run::<true>(seed), run::<true>(seed), "seed {seed}");
        assert_eq!(run::<false>(seed), run::<false>(seed), "seed {seed}");
    }
}
