//! Processes that keep the protocol or break it, drawn from a seed: any frames in any order, cut at
//! any byte, and ends of their connections.
//!
//! 1. A client gets one response to each request: the response of its process, if that is
//!    complete; or a response of the gateway itself; or its connection is reset. It never gets a
//!    response that looks complete and is not.
//! 2. Requests to processes that keep the protocol are responded to.
//! 3. At the end nothing is held: no request, no place of a process, no connection, no buffer.

use std::collections::HashMap;

use pinion_engine::backend::sim::{Faults, Network, Random};
use pinion_engine::settings::WorkerSettings;
use pinion_engine::stepped_worker::{Holdings, Stepped};
use pinion_gateway::python::python_app::PythonInterface;

use crate::http1_client::{Actor, Content, Leaving, Outcome, Request};
use crate::http1_reader::Message;
use crate::python_application_and_process::{
    ABORT, CONTENT, END, FAILED, GIVEN_BACK, GONE, HEAD, HINTS, Link, PythonApplication, READY,
    REQUESTS, RESPONSE, WANT, WANT_CHANNEL, frame, python_app, read_batch,
};
use crate::seeded_runs::number;
use crate::upstream::content_of;

/// Seeds of an ordinary run, each in both forms of the kernel.
const SEEDS: u64 = 300;
/// Requests of a run.
const REQUESTS_OF_RUN: u64 = 16;
/// Simulated milliseconds after which nothing may be left of a run.
const RUN_MAX_MS: u64 = 10 * 60 * 1000;
/// The most bytes of content that a process sends: fewer than its buffer can contain.
const CONTENT_MAX_BYTES: usize = 200_000;
/// Most bytes of content in a frame.
const PIECE_MAX_BYTES: usize = 64 * 1024;
/// A field of responses of processes.
const OF_PROCESS: &str = "x-id";

/// How well processes follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manners {
    Good,
    Bad,
}

/// The meaning of the frames about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Meaning {
    has_head: bool,
    /// `Content-Length`, if there is one.
    length: Option<usize>,
    content: Vec<u8>,
    is_whole: bool,
    /// A frame has come that is not allowed, or the request is complete.
    is_over: bool,
}

impl Meaning {
    fn head(&mut self, head: &[u8]) {
        if std::mem::replace(&mut self.has_head, true) {
            self.is_over = true;
            return;
        }
        let text = String::from_utf8_lossy(head);
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        self.length = length.and_then(|length| length.parse().ok());
        // The gateway responds itself if the rest is malformed.
        self.is_over |= !text.starts_with("200 OK");
    }

    fn add(&mut self, kind: u32, content: &[u8]) {
        if self.is_over {
            return;
        }
        match kind {
            RESPONSE => {
                let (length, rest) = content.split_first_chunk::<4>().unwrap_or((&[0; 4], b""));
                let length = u32::from_le_bytes(*length) as usize;
                let Some((head, body)) = rest.split_at_checked(length) else {
                    self.is_over = true;
                    return;
                };
                self.head(head);
                if !self.is_over {
                    self.content(body);
                    self.end();
                }
            }
            HEAD => self.head(content),
            CONTENT if self.has_head => self.content(content),
            END if self.has_head => self.end(),
            WANT | HINTS | WANT_CHANNEL => {}
            _ => self.is_over = true,
        }
    }

    /// Adds content. For its client a response is complete when it has all content that the head
    /// announces, also if more of it is on the way, which the gateway refuses.
    fn content(&mut self, content: &[u8]) {
        let free = self.length.map_or(usize::MAX, |length| length - self.content.len());
        self.content.extend_from_slice(&content[..content.len().min(free)]);
        self.is_whole = !self.is_over && self.length == Some(self.content.len());
        self.is_over |= content.len() > free;
    }

    fn end(&mut self) {
        self.is_whole |=
            !self.is_over && self.length.is_none_or(|length| length == self.content.len());
        self.is_over = true;
    }
}

/// Kinds and contents of frames, by the connection and the number of the request there.
type SentFrames = HashMap<(u32, u32), Vec<(u32, Vec<u8>)>>;

/// A process of a run. It has one connection at a time.
struct Process {
    manners: Manners,
    link: Option<Link>,
    /// The frames to send, each part with its request.
    output: Vec<u8>,
    /// Connections before this one.
    generation: u32,
    /// The frames about each request, by the connection and its number there.
    sent: SentFrames,
    /// Under which numbers each request has come, by its target.
    numbers: HashMap<String, Vec<(u32, u32)>>,
    /// It closes its connection when everything is sent.
    closes: bool,
}

impl Process {
    fn new(manners: Manners) -> Self {
        let (sent, numbers) = (HashMap::new(), HashMap::new());
        let (link, output) = (None, Vec::new());
        Self { manners, link, output, generation: 0, sent, numbers, closes: false }
    }

    /// Queues a frame, and notes it.
    fn push(&mut self, kind: u32, request: u32, content: &[u8]) {
        self.output.extend_from_slice(&frame(kind, request, content));
        let sent = self.sent.entry((self.generation, request)).or_default();
        sent.push((kind, content.to_vec()));
    }

    /// Returns the meanings of the frames that it has sent for a request. The server ignores frames
    /// that it has read before it has sent the request, so the first ones may have no effect.
    fn meanings(&self, target: &str) -> Vec<Meaning> {
        let numbers = self.numbers.get(target).into_iter().flatten();
        let sent = numbers.filter_map(|number| self.sent.get(number));
        let suffixes = sent.flat_map(|frames| (0..frames.len()).map(move |from| &frames[from..]));
        let meaning = |frames: &[(u32, Vec<u8>)]| {
            let mut meaning = Meaning::default();
            frames.iter().for_each(|(kind, content)| meaning.add(*kind, content));
            meaning
        };
        suffixes.map(meaning).collect()
    }

    /// Responds as it should: in one frame, or in several.
    fn respond(&mut self, request: u32, target: &str, random: &mut Random) {
        let id = target.rsplit('/').next().unwrap_or_default();
        let bytes = *random.pick(&[0, 1, 1000, 60_000, CONTENT_MAX_BYTES]);
        let content = content_of(id, bytes);
        let mut head = format!("200 OK\n{OF_PROCESS}: {id}\ncontent-type: text/plain\n");
        if random.chance(500) {
            head += &format!("content-length: {bytes}\n");
        }
        if bytes <= PIECE_MAX_BYTES && random.chance(500) {
            let length = (head.len() as u32).to_le_bytes();
            return self.push(RESPONSE, request, &[&length, head.as_bytes(), &content].concat());
        }
        self.push(HEAD, request, head.as_bytes());
        for piece in content.chunks(random.between(500, PIECE_MAX_BYTES as u64) as usize) {
            self.push(CONTENT, request, piece);
        }
        self.push(END, request, b"");
    }

    /// Sends some frames that a process could send, for this request or another one.
    fn misbehave(&mut self, request: u32, random: &mut Random) {
        for _ in 0..random.between(1, 6) {
            let request = match random.below(10) {
                0 => 0,
                1 => request.wrapping_add(random.below(3) as u32),
                _ => request,
            };
            let any = random.bytes::<40>();
            let some = &any[..random.below(40) as usize];
            let head = *random.pick(&[
                &b"200 OK\nx-id: 7\n"[..],
                b"200 OK\nx-id: 7\ncontent-length: 3\n",
                b"099 x\n",
                b"200 OK\nx-id: a\r\nb: c\n",
                b"200 OK",
                b"",
            ]);
            match random.below(14) {
                0 | 1 => self.push(HEAD, request, head),
                2 | 3 => self.push(CONTENT, request, some),
                4 => self.push(END, request, b""),
                5 => self.push(ABORT, request, b"why not"),
                6 => self.push(FAILED, request, b"no luck"),
                7 => self.push(WANT, request, &(random.below(100_000) as u32).to_le_bytes()),
                8 => {
                    let length = random.below(30) as u32;
                    self.push(RESPONSE, request, &[&length.to_le_bytes(), head, some].concat());
                }
                9 => self.push(HINTS, request, b"link: </a>\n"),
                10 => self.push(GIVEN_BACK, 0, &request.to_le_bytes()),
                11 => self.push(random.between(26, 30) as u32, request, some),
                12 => self.push(random.below(120) as u32, request, some),
                _ => self.output.extend_from_slice(some),
            }
        }
        self.closes |= random.chance(200);
    }

    /// Performs all possible actions. Returns whether there was any.
    fn act(&mut self, network: &Network, random: &mut Random, pieces: u32) -> bool {
        let Some(mut link) = self.link.take() else { return false };
        let frames = link.frames(network);
        let mut has_moved = !frames.is_empty();
        for one in frames.iter().filter(|one| one.kind == GONE) {
            // Its last frame, unless that was sent: a process without manners ends so, too.
            self.output.extend_from_slice(&frame(END, one.request, b""));
        }
        for one in frames.iter().filter(|one| one.kind == REQUESTS) {
            for request in read_batch(&one.content) {
                let number = (self.generation, request.number);
                self.numbers.entry(request.path.clone()).or_default().push(number);
                if request.content.is_none() && random.chance(700) {
                    self.push(WANT, request.number, &60_000_u32.to_le_bytes());
                }
                if self.manners == Manners::Good || random.chance(400) {
                    self.respond(request.number, &request.path, random);
                } else if random.chance(900) {
                    self.misbehave(request.number, random);
                }
            }
        }
        let bytes = random.part_of(self.output.len(), pieces);
        let sent = network.send(link.connection, &self.output[..bytes]);
        self.output.drain(..sent);
        has_moved |= sent > 0;
        if link.is_over || self.closes && self.output.is_empty() {
            network.leave(link.connection);
            return true;
        }
        self.link = Some(link);
        has_moved
    }

    fn open(&mut self, link: Link, network: &Network) {
        if let Some(before) = self.link.take() {
            network.leave(before.connection);
        }
        self.generation += 1;
        self.closes = false;
        self.output = frame(READY, 0, b"{}");
        self.link = Some(link);
    }
}

fn request(id: u64, random: &mut Random) -> Request {
    let bytes = *random.pick(&[1, 100, 20_000, 150_000]);
    let request = match random.below(4) {
        0 => Request::new(id, "app", "POST").with(Content::Length(bytes)),
        _ => Request::new(id, "app", "GET"),
    };
    let leaves = random.chance(150).then(|| {
        let bytes = random.between(1, request.wire().len() as u64) as usize;
        (bytes, *random.pick(&[Leaving::Reset, Leaving::Close, Leaving::End]))
    });
    Request { leaves, ..request }
}

/// Runs a seed.
///
/// # Errors
/// The law that was broken.
fn run<const READINESS: bool>(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let manners = if random.chance(300) { Manners::Good } else { Manners::Bad };
    let interface = match random.below(3) {
        0 => PythonInterface::Asgi,
        threads => PythonInterface::Wsgi { threads: threads as usize },
    };
    let pieces = *random.pick(&[0, 300, 900]);
    let mut ids = 1..;
    let mut clients: Vec<Actor> = (0..4)
        .map(|_| {
            let ids = ids.by_ref().take(REQUESTS_OF_RUN as usize / 4);
            let requests = ids.map(|id| request(id, &mut random)).collect();
            Actor::new(requests).over(*random.pick(&[2_000, 64 * 1024]))
        })
        .collect();
    let settings = WorkerSettings { outgoing: 64, ..WorkerSettings::default() };
    let faults = Faults { short: *random.pick(&[0, 400]), ..Faults::default() };
    let network = Network::new(random.number(), faults, settings.listeners.len());
    let app = python_app(interface);
    let make_app = |poster| PythonApplication::new(poster, app);
    let mut worker = Stepped::<READINESS, _>::new(network.clone(), settings, make_app);
    let mut process = Process::new(manners);
    let until_ms = network.now().monotonic_ms + RUN_MAX_MS;
    loop {
        let mut has_moved = false;
        while let Some((connection, _)) = network.next_opened() {
            process.open(Link::accept(connection, &network), &network);
            has_moved = true;
        }
        for client in &mut clients {
            has_moved |= client.act(&network, &mut random, pieces)?;
        }
        has_moved |= process.act(&network, &mut random, pieces);
        let is_used = worker.app().app.is_used() || worker.app().open() > 0;
        if clients.iter().all(Actor::is_over) && !is_used {
            // Connections to processes end with the server.
            worker.drain();
            if worker.holdings() == Holdings::default() {
                break;
            }
        }
        let now_ms = network.now().monotonic_ms;
        network.act_at(has_moved.then_some(now_ms));
        worker.pass().map_err(|error| error.to_string())?;
        if network.is_stuck() || now_ms > until_ms {
            let (holdings, app) = (worker.holdings(), worker.app());
            let open = app.open();
            return Err(format!("never over: {holdings:?}, {open} open, {:?}", app.app));
        }
    }
    for (request, outcome) in clients.iter().flat_map(Actor::results) {
        check(manners, request, outcome, &process.meanings(&request.target()))
            .map_err(|why| format!("{request:?}: {why}\n{:?}", outcome.reading))?;
    }
    Ok(())
}

fn check(
    manners: Manners,
    request: &Request,
    outcome: &Outcome,
    meanings: &[Meaning],
) -> Result<(), &'static str> {
    let reading = &outcome.reading;
    if reading.is_malformed {
        return Err("a malformed response");
    }
    let is_whole = reading.end.is_some() && reading.has_all_content;
    if manners == Manners::Good && request.leaves.is_none() {
        let status = reading.message.as_ref().map(Message::status);
        if !is_whole || status != Some(200) {
            return Err("a process that does as it should has no response");
        }
    }
    let Some(message) = reading.message.as_ref().filter(|_| is_whole) else { return Ok(()) };
    if message.field("Own").is_some() {
        let is_known = matches!(message.status(), 500 | 502 | 503 | 504);
        return if is_known { Ok(()) } else { Err("another status of the gateway") };
    }
    let is_meant = |meaning: &Meaning| meaning.is_whole && meaning.content == message.content;
    if meanings.iter().any(is_meant) { Ok(()) } else { Err("a response that no process has sent") }
}

#[test]
fn python_processes() {
    let seeds = number("PINION_SIM_SEEDS").unwrap_or(SEEDS);
    let only = number("PINION_SIM_SEED");
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        let outcome = run::<true>(seed).and_then(|()| run::<false>(seed));
        outcome.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
