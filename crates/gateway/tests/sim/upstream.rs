//! A simulated upstream server: its responses, the number of bytes after which it fails, and the
//! kind of failure.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use pinion_engine::backend::sim::{Client, Network, Random, Read};
use rustix::io::Errno;

use crate::fastcgi_scgi_records::Spoken;
use crate::http1_reader::Reading;

/// The default window of a server.
const WINDOW_BYTES: usize = 64 * 1024;

/// How the content of a response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Length,
    /// The same, and the connection ends with the response.
    LengthClose,
    Empty,
    /// Chunked coding with a chunk extension and trailers.
    Chunked,
    UntilClose,
    Http10,
    NoContent,
    NotModified,
    /// A response after 100 and 103.
    Interim,
}

impl Shape {
    pub(crate) const ALL: [Self; 9] = [
        Self::Length,
        Self::LengthClose,
        Self::Empty,
        Self::Chunked,
        Self::UntilClose,
        Self::Http10,
        Self::NoContent,
        Self::NotModified,
        Self::Interim,
    ];

    /// Returns whether the connection ends with the response.
    pub(crate) fn closes(self) -> bool {
        matches!(self, Self::LengthClose | Self::UntilClose | Self::Http10)
    }

    /// Returns the response to a request with this content.
    pub(crate) fn response(self, id: &str, method: &str, content: &[u8]) -> Vec<u8> {
        let own = format!("X-Id: {id}\r\nConnection: X-Hop\r\nX-Hop: 1\r\n");
        let head = match self {
            Self::Length => format!("HTTP/1.1 200 OK\r\n{own}Content-Length: {}", content.len()),
            Self::LengthClose => {
                let length = content.len();
                format!(
                    "HTTP/1.1 200 OK\r\nX-Id: {id}\r\nConnection: close\r\nContent-Length: {length}"
                )
            }
            Self::Empty => format!("HTTP/1.1 201 Created\r\n{own}Content-Length: 0"),
            Self::Chunked => format!("HTTP/1.1 200 OK\r\n{own}Transfer-Encoding: chunked"),
            Self::UntilClose => format!("HTTP/1.1 200 OK\r\n{own}X-Form: until-close"),
            Self::Http10 => format!("HTTP/1.0 200 OK\r\nX-Id: {id}"),
            Self::NoContent => format!("HTTP/1.1 204 No Content\r\nX-Id: {id}"),
            Self::NotModified => format!("HTTP/1.1 304 Not Modified\r\nX-Id: {id}\r\nETag: \"a\""),
            Self::Interim => format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                 HTTP/1.1 200 OK\r\n{own}Content-Length: {}",
                content.len()
            ),
        };
        let mut bytes = [head.as_bytes(), b"\r\n\r\n"].concat();
        let has_none = matches!(self, Self::Empty | Self::NoContent | Self::NotModified);
        if has_none || method == "HEAD" {
            return bytes;
        }
        if self != Self::Chunked {
            bytes.extend_from_slice(content);
            return bytes;
        }
        for chunk in content.chunks(content.len().div_ceil(2).max(1)) {
            bytes.extend_from_slice(format!("{:x};a=b\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("0\r\nX-Sum: {id}\r\n\r\n").as_bytes());
        bytes
    }
}

/// The kinds of failures of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Ends its side, and continues to read.
    End,
    /// Closes its socket.
    Leave,
    /// Resets the connection after the gateway has read all sent bytes.
    Reset,
    /// Resets the connection at once, so that sent bytes may be lost.
    HastyReset,
    /// Sends nothing any more, and reads nothing.
    Silence,
    /// Sends bytes that are no response, and ends its side.
    Garbage,
}

impl Way {
    pub(crate) const ALL: [Self; 6] =
        [Self::End, Self::Leave, Self::Reset, Self::HastyReset, Self::Silence, Self::Garbage];
}

/// The behaviour of a server with one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    pub(crate) shape: Shape,
    pub(crate) content_bytes: usize,
    /// The number of bytes after which it responds, and before which it reads no more; `None` if it
    /// reads the whole request.
    pub(crate) reads_bytes: Option<usize>,
    /// The number of bytes of its response after which it fails.
    pub(crate) failure: Option<(usize, Way)>,
    /// Bytes that fit between the gateway and the server before it reads.
    pub(crate) window_bytes: usize,
    /// Whether it refuses the connection.
    pub(crate) is_refusing: bool,
}

impl Behaviour {
    /// Returns a correct behaviour.
    pub(crate) fn good(shape: Shape, content_bytes: usize) -> Self {
        Self {
            shape,
            content_bytes,
            reads_bytes: None,
            failure: None,
            window_bytes: WINDOW_BYTES,
            is_refusing: false,
        }
    }
}

/// A request that a server has begun to read, and its result.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The number in the order of the first bytes of requests.
    pub(crate) number: u64,
    pub(crate) spoken: Spoken,
    pub(crate) behaviour: Behaviour,
    /// The target of the only open request when the first byte arrived, if there was only one.
    pub(crate) open: Option<String>,
    /// All bytes that were sent to the server, including unprocessed ones.
    pub(crate) input: Vec<u8>,
    /// The bytes that the server has sent.
    pub(crate) sent: Vec<u8>,
    /// Whether the server has ended its side in an orderly way.
    pub(crate) has_ended: bool,
    /// Whether bytes that the server has sent may be lost.
    pub(crate) is_lossy: bool,
}

impl Attempt {
    fn new(spoken: Spoken, behaviour: Behaviour) -> Self {
        let (input, sent) = (Vec::new(), Vec::new());
        let (number, open) = (0, None);
        Self { number, spoken, behaviour, open, input, sent, has_ended: false, is_lossy: false }
    }

    /// Records the first byte.
    fn begin(&mut self, open: Option<&str>) {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        if self.number == 0 && !self.input.is_empty() {
            self.number = COUNT.fetch_add(1, Ordering::Relaxed);
            self.open = open.map(str::to_owned);
        }
    }

    /// Returns the request to the server.
    pub(crate) fn request(&self) -> Reading {
        self.spoken.read_request(&self.input)
    }

    /// Returns whether this is the given request. `is_alone` says that no other one can have begun
    /// like this.
    pub(crate) fn is_for(&self, method: &str, target: &str, is_alone: bool) -> bool {
        let line = format!("{method} {target} ");
        if self.spoken != Spoken::Http {
            let is_open = is_alone && self.open.as_deref() == Some(target);
            let message = self.request().message;
            return message.map_or(is_open && !self.input.is_empty(), |message| {
                message.start.starts_with(&line)
            });
        }
        let there = self.input.get(..line.len()).unwrap_or(&self.input);
        let is_known = there.len() == line.len() || is_alone && !there.is_empty();
        is_known && line.as_bytes().starts_with(there)
    }

    /// Returns whether its server knows the request, as it must unless it never responds.
    fn is_known(&self) -> bool {
        let is_mute = self.behaviour.failure.is_some_and(|(bytes, _)| bytes == 0);
        is_mute || self.spoken == Spoken::Http || !self.id().is_empty()
    }

    /// Returns the last segment of the path.
    fn id(&self) -> String {
        let line = self.line();
        let target = line.split(' ').nth(1).unwrap_or_default();
        target.split('/').next_back().unwrap_or_default().to_owned()
    }

    pub(crate) fn method(&self) -> String {
        self.line().split(' ').next().unwrap_or_default().to_owned()
    }

    /// Returns the method and the target, as far as they have arrived.
    fn line(&self) -> String {
        if self.spoken != Spoken::Http {
            return self.request().message.map(|message| message.start).unwrap_or_default();
        }
        let line = self.input.split(|byte| *byte == b'\r').next().unwrap_or_default();
        String::from_utf8_lossy(line).into_owned()
    }

    /// Returns the response of the server.
    pub(crate) fn response(&self) -> Reading {
        self.spoken.read_response(&self.sent, &self.method(), self.has_ended)
    }
}

/// Returns the content of every response to a request.
pub(crate) fn content_of(id: &str, bytes: usize) -> Vec<u8> {
    let sum = id.bytes().fold(7, |sum: u64, byte| sum * 31 + u64::from(byte));
    (0..bytes as u64).map(|at| b'a' + ((at * 7 + sum) % 26) as u8).collect()
}

/// A server with all connections to it.
pub(crate) struct Upstream {
    spoken: Spoken,
    /// The behaviour with the next requests; `otherwise` applies to all others.
    behaviours: VecDeque<Behaviour>,
    otherwise: Behaviour,
    pub(crate) attempts: Vec<Attempt>,
    connections: Vec<ServerConnection>,
}

struct ServerConnection {
    client: Client,
    stage: Stage,
    /// The current attempt.
    attempt: Option<usize>,
    output: Vec<u8>,
    /// Input of the next request.
    ahead: Vec<u8>,
    has_responded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opened,
    Open,
    /// The server has ended its side, and reads further input.
    Ended,
    /// The connection has ended.
    Over,
}

impl Upstream {
    pub(crate) fn new(spoken: Spoken, otherwise: Behaviour) -> Self {
        let (attempts, connections) = (Vec::new(), Vec::new());
        Self { spoken, behaviours: VecDeque::new(), otherwise, attempts, connections }
    }

    /// Sets the behaviour with the first requests.
    pub(crate) fn first(self, behaviours: Vec<Behaviour>) -> Self {
        Self { behaviours: behaviours.into(), ..self }
    }

    /// Opens a connection.
    pub(crate) fn opened(&mut self, client: Client) {
        self.connections.push(ServerConnection {
            client,
            stage: Stage::Opened,
            attempt: None,
            output: Vec::new(),
            ahead: Vec::new(),
            has_responded: false,
        });
    }

    /// Returns whether the gateway has closed all connections.
    pub(crate) fn is_quiet(&self, network: &Network) -> bool {
        self.connections.iter().all(|one| network.is_closed(one.client))
    }

    /// Performs the actions that are possible now. Returns whether there were any. `open` is the
    /// target of the open request, if there is only one.
    pub(crate) fn act(
        &mut self,
        network: &Network,
        random: &mut Random,
        pieces: u32,
        open: Option<&str>,
    ) -> bool {
        let Self { spoken, behaviours, otherwise, attempts, connections } = self;
        let mut has_moved = false;
        for connection in connections.iter_mut().filter(|one| one.stage != Stage::Over) {
            if connection.attempt.is_none() {
                let behaviour = behaviours.pop_front().unwrap_or(*otherwise);
                connection.begin(Attempt::new(*spoken, behaviour), attempts, network);
            }
            let Some(attempt) = connection.attempt.and_then(|index| attempts.get_mut(index)) else {
                continue;
            };
            has_moved |= connection.act(attempt, network, random, pieces);
            attempt.begin(open);
        }
        has_moved
    }
}

impl ServerConnection {
    /// Begins with the next request.
    fn begin(&mut self, attempt: Attempt, attempts: &mut Vec<Attempt>, network: &Network) {
        let behaviour = attempt.behaviour;
        self.attempt = Some(attempts.len());
        (self.output, self.has_responded) = (Vec::new(), false);
        attempts.push(attempt);
        if self.stage == Stage::Opened {
            if behaviour.is_refusing {
                network.refuse(self.client, Errno::CONNREFUSED);
                self.stage = Stage::Over;
                return;
            }
            network.establish(self.client, behaviour.window_bytes);
            self.stage = Stage::Open;
        }
    }

    fn act(
        &mut self,
        attempt: &mut Attempt,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> bool {
        if self.stage == Stage::Over {
            return true;
        }
        let mut has_moved = self.read(attempt, network, random, pieces);
        if self.stage == Stage::Open {
            has_moved |= self.respond(attempt);
            has_moved |= self.send(attempt, network, random, pieces);
        }
        has_moved
    }

    fn read(
        &mut self,
        attempt: &mut Attempt,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> bool {
        if !self.ahead.is_empty() {
            attempt.input.append(&mut self.ahead);
        }
        let behaviour = attempt.behaviour;
        let is_silent =
            self.has_responded && behaviour.failure.is_some_and(|(_, way)| way == Way::Silence);
        let most_bytes = match behaviour.reads_bytes {
            Some(_) if is_silent => 0,
            Some(bytes) if !self.has_responded => {
                let most_bytes = bytes.saturating_sub(attempt.input.len());
                most_bytes.max(usize::from(!attempt.is_known()))
            }
            _ => usize::MAX,
        };
        let most_bytes = random.part_of(most_bytes.min(WINDOW_BYTES), pieces);
        let read = network.read(self.client, most_bytes, &mut attempt.input);
        match read {
            Read::Bytes(_) => true,
            Read::Nothing => false,
            Read::Ended | Read::Reset => {
                network.leave(self.client);
                self.stage = Stage::Over;
                true
            }
        }
    }

    /// Makes the response, once it is time.
    fn respond(&mut self, attempt: &mut Attempt) -> bool {
        let behaviour = attempt.behaviour;
        let is_time = match behaviour.reads_bytes {
            Some(bytes) => {
                let is_read = attempt.input.len() >= bytes && attempt.is_known();
                is_read || attempt.request().end.is_some()
            }
            None => attempt.request().end.is_some(),
        };
        if self.has_responded || !is_time {
            return false;
        }
        self.has_responded = true;
        let id = attempt.id();
        let content = content_of(&id, behaviour.content_bytes);
        let (spoken, method) = (attempt.spoken, attempt.method());
        self.output = spoken.response(behaviour.shape, &id, &method, &content);
        if let Some((bytes, way)) = behaviour.failure {
            let is_whole = || spoken.read_response(&self.output, &method, false).end.is_some();
            if way == Way::Silence && bytes >= self.output.len() && is_whole() {
                // Silence after a complete response is the normal behaviour of a server.
                attempt.behaviour.failure = None;
            }
            self.output.truncate(bytes);
            if way == Way::Garbage {
                self.output.extend_from_slice(&spoken.garbage(bytes));
            }
        }
        true
    }

    fn send(
        &mut self,
        attempt: &mut Attempt,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> bool {
        if !self.has_responded {
            return false;
        }
        let rest = &self.output[attempt.sent.len()..];
        if !rest.is_empty() {
            let bytes = random.part_of(rest.len(), pieces);
            let taken = network.send(self.client, &rest[..bytes]);
            attempt.sent.extend_from_slice(&rest[..taken]);
            return taken > 0;
        }
        let way = match attempt.behaviour.failure {
            Some((_, way)) => way,
            None if attempt.spoken.closes(attempt.behaviour.shape) => Way::End,
            None => return self.go_on(attempt),
        };
        let untaken = network.facts(self.client).untaken_bytes;
        match way {
            Way::Silence => {
                if attempt.behaviour.window_bytes == WINDOW_BYTES {
                    self.drain(attempt, network);
                }
                return false;
            }
            Way::Reset if untaken > 0 => return false,
            Way::Reset | Way::HastyReset => {
                self.drain(attempt, network);
                attempt.is_lossy = untaken > 0;
                network.reset(self.client);
                self.stage = Stage::Over;
            }
            Way::Leave => {
                self.drain(attempt, network);
                // Further input causes a reset, which may overtake the response.
                attempt.is_lossy = attempt.request().end.is_none();
                attempt.has_ended = true;
                network.leave(self.client);
                self.stage = Stage::Over;
            }
            Way::End | Way::Garbage => {
                attempt.has_ended = true;
                network.end(self.client);
                self.stage = Stage::Ended;
            }
        }
        true
    }

    /// Records bytes that were sent to the server and not processed.
    fn drain(&self, attempt: &mut Attempt, network: &Network) {
        network.read(self.client, usize::MAX, &mut attempt.input);
    }

    /// Waits for the next request after a complete response, once all of this request was read.
    fn go_on(&mut self, attempt: &mut Attempt) -> bool {
        let Some(end) = attempt.request().end else { return false };
        self.ahead = attempt.input.split_off(end);
        if self.ahead.is_empty() && attempt.input.is_empty() {
            return false;
        }
        self.attempt = None;
        true
    }
}
