//! A simulated client of HTTP/1: it sends one request after the other, and reads the responses.

use pinion_engine::backend::sim::{Client, Connect, Network, Random, Read};

use crate::http1_reader::{Reading, read_response};
use crate::upstream::content_of;

/// A request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    /// The mount.
    pub(crate) mount: &'static str,
    pub(crate) content: Content,
    pub(crate) is_http10: bool,
    pub(crate) is_http2: bool,
    /// The number of sent bytes after which the client leaves, and how.
    pub(crate) leaves: Option<(usize, Leaving)>,
}

/// The content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    None,
    Length(usize),
    /// Chunked content with a trailer.
    Chunked(usize),
}

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    Reset,
    Close,
    /// It ends its side, and continues to read.
    End,
}

impl Request {
    pub(crate) fn new(id: u64, mount: &'static str, method: &'static str) -> Self {
        Self {
            id,
            method,
            mount,
            content: Content::None,
            is_http10: false,
            is_http2: false,
            leaves: None,
        }
    }

    pub(crate) fn with(self, content: Content) -> Self {
        Self { content, ..self }
    }

    pub(crate) fn target(&self) -> String {
        format!("/{}/{}", self.mount, self.id)
    }

    /// Returns its content.
    pub(crate) fn content(&self) -> Vec<u8> {
        match self.content {
            Content::None => Vec::new(),
            Content::Length(bytes) | Content::Chunked(bytes) => {
                content_of(&format!("request {}", self.id), bytes)
            }
        }
    }

    /// Returns whether it may be sent to a server more than once (RFC 9110 §9.2.1).
    pub(crate) fn is_repeatable(&self) -> bool {
        self.content == Content::None && matches!(self.method, "GET" | "HEAD" | "OPTIONS")
    }

    /// Returns whether a client that leaves has sent all of it before.
    pub(crate) fn is_whole_when_left(&self) -> bool {
        self.leaves.is_some_and(|(bytes, _)| bytes >= self.wire().len())
    }

    pub(crate) fn wire(&self) -> Vec<u8> {
        let (method, target, content) = (self.method, self.target(), self.content());
        let version = if self.is_http10 { "1.0" } else { "1.1" };
        let framing = match self.content {
            Content::None => String::new(),
            Content::Length(bytes) => format!("Content-Length: {bytes}\r\n"),
            Content::Chunked(_) => "Transfer-Encoding: chunked\r\n".to_owned(),
        };
        let head = format!("{method} {target} HTTP/{version}\r\nHost: a\r\nTE: trailers\r\n");
        let mut bytes = format!("{head}Key: 1\r\n{framing}\r\n").into_bytes();
        if let Content::Chunked(_) = self.content {
            for chunk in content.chunks(content.len().div_ceil(3).max(1)) {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(format!("0\r\nX-Sum: {}\r\n\r\n", self.id).as_bytes());
        } else {
            bytes.extend_from_slice(&content);
        }
        bytes
    }
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The parsed bytes of the response.
    pub(crate) reading: Reading,
    /// How the connection ended, if the response did not end before.
    pub(crate) saw: Option<Read>,
    /// Whether the client has left.
    pub(crate) has_left: bool,
}

/// A client.
pub(crate) struct Actor {
    requests: Vec<Request>,
    pub(crate) outcomes: Vec<Outcome>,
    connect: Connect,
    connection: Option<Client>,
    /// All connections so far.
    pub(crate) connections: Vec<Client>,
    /// The bytes of the current request.
    wire: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    has_ended_side: bool,
}

impl Actor {
    pub(crate) fn new(requests: Vec<Request>) -> Self {
        let window_bytes = 64 * 1024;
        let connect = Connect { listener: 0, window_bytes, local: false, protected: false };
        Self {
            requests,
            outcomes: Vec::new(),
            connect,
            connection: None,
            connections: Vec::new(),
            wire: Vec::new(),
            sent: 0,
            received: Vec::new(),
            has_ended_side: false,
        }
    }

    /// Sets the number of bytes that fit between the gateway and this client.
    pub(crate) fn over(self, window_bytes: usize) -> Self {
        Self { connect: Connect { window_bytes, ..self.connect }, ..self }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.outcomes.len() == self.requests.len()
    }

    /// Returns the current request.
    pub(crate) fn open(&self) -> Option<&Request> {
        self.requests.get(self.outcomes.len())
    }

    /// Returns its requests with their outcomes.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&Request, &Outcome)> {
        self.requests.iter().zip(&self.outcomes)
    }

    /// Performs the actions that are possible now. Returns whether there were any.
    ///
    /// # Errors
    /// Returns an error if it received something wrong.
    pub(crate) fn act(
        &mut self,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> Result<bool, String> {
        let Some(request) = self.requests.get(self.outcomes.len()) else { return Ok(false) };
        let (method, leaves) = (request.method, request.leaves);
        if self.wire.is_empty() {
            self.wire = request.wire();
        }
        let Some(client) = self.connection else {
            let client = network.connect(self.connect);
            self.connections.push(client);
            self.connection = Some(client);
            return Ok(true);
        };
        let has_sent = self.send(client, leaves, network, random, pieces);
        let most_bytes = random.part_of(64 * 1024, pieces);
        let read = network.read(client, most_bytes, &mut self.received);
        if read == Read::Nothing {
            return Ok(has_sent | self.leave(client, leaves, network));
        }
        let reading = read_response(&self.received, method, read == Read::Ended);
        let is_over = matches!(read, Read::Ended | Read::Reset);
        if let Some(end) = reading.end {
            if end < self.received.len() {
                return Err(format!("{} bytes behind a response", self.received.len() - end));
            }
            let is_open = !is_over && !self.has_ended_side;
            let is_kept = self.sent == self.wire.len() && is_kept(&reading) && is_open;
            self.next(Outcome { reading, saw: None, has_left: false }, network, is_kept);
        } else if is_over {
            let has_left = self.has_ended_side;
            self.next(Outcome { reading, saw: Some(read), has_left }, network, false);
        }
        Ok(true)
    }

    fn send(
        &mut self,
        client: Client,
        leaves: Option<(usize, Leaving)>,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> bool {
        let until = leaves.map_or(self.wire.len(), |(bytes, _)| bytes.min(self.wire.len()));
        let rest = &self.wire[self.sent..until];
        if rest.is_empty() {
            return false;
        }
        let taken = network.send(client, &rest[..random.part_of(rest.len(), pieces)]);
        self.sent += taken;
        taken > 0
    }

    /// Leaves when it is time. Returns whether it was.
    fn leave(
        &mut self,
        client: Client,
        leaves: Option<(usize, Leaving)>,
        network: &Network,
    ) -> bool {
        let is_time = |bytes: usize| self.sent == bytes.min(self.wire.len());
        let Some((_, leaving)) = leaves.filter(|(bytes, _)| is_time(*bytes)) else { return false };
        let reading = read_response(&self.received, "GET", false);
        match leaving {
            Leaving::End => {
                if !self.has_ended_side {
                    network.end(client);
                }
                return !std::mem::replace(&mut self.has_ended_side, true);
            }
            Leaving::Reset => network.reset(client),
            Leaving::Close => {}
        }
        self.next(Outcome { reading, saw: None, has_left: true }, network, false);
        true
    }

    /// Continues with the next request.
    fn next(&mut self, outcome: Outcome, network: &Network, is_kept: bool) {
        self.outcomes.push(outcome);
        (self.sent, self.has_ended_side) = (0, false);
        (self.wire, self.received) = (Vec::new(), Vec::new());
        if (!is_kept || self.is_over())
            && let Some(client) = self.connection.take()
        {
            network.leave(client);
        }
    }
}

/// Returns whether the connection serves another request (RFC 9112 §9.3). A client of HTTP/1.0 has
/// not requested that.
fn is_kept(reading: &Reading) -> bool {
    let message = reading.message.as_ref();
    message
        .is_some_and(|one| one.start.starts_with("HTTP/1.1") && one.field("Connection").is_none())
}
