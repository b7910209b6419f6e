//! Simulated servers of HTTP/1, one state for each connection.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use pinion_brotli::{BrotliEncoder, EncoderMemory, EncoderOperation};
use pinion_engine::backend::sim::{Client, Network, Random, Read};
use rustix::io::Errno;

/// The behaviour of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Length,
    Chunked,
    /// Content until it closes.
    UntilClose,
    /// Each response closes its connection.
    Close,
    Interim,
    /// The response is sent byte by byte.
    Slow,
    /// A few bytes at a time, or many.
    Pieces,
    Gzip,
    /// Brotli if the request accepts it, otherwise gzip.
    Brotli,
    /// Redirects to [`Self::Length`].
    Redirect,
    /// Responds, and closes at once without announcing it.
    CloseKept,
    /// Sends more than it has announced.
    More,
    Refuse,
    /// Its system never responds.
    Hang,
    /// Accepts, and sends nothing.
    Silent,
    /// Stops in the middle.
    Stall,
    /// Resets in the middle.
    Reset,
    /// Ends in the middle.
    Short,
    Garbage,
    EndlessHead,
    Loop,
    /// Redirects to a forbidden address.
    Astray,
    Bomb,
}

const BASE_PORT: u16 = 8000;

/// The error of other requests while some wait for a slow server.
const NONE_FREE: &str = "no connection became free";

impl Behaviour {
    pub(crate) const ALL: [Self; 23] = [
        Self::Length,
        Self::Chunked,
        Self::UntilClose,
        Self::Close,
        Self::Interim,
        Self::Slow,
        Self::Pieces,
        Self::Gzip,
        Self::Brotli,
        Self::Redirect,
        Self::CloseKept,
        Self::More,
        Self::Refuse,
        Self::Hang,
        Self::Silent,
        Self::Stall,
        Self::Reset,
        Self::Short,
        Self::Garbage,
        Self::EndlessHead,
        Self::Loop,
        Self::Astray,
        Self::Bomb,
    ];

    pub(crate) fn port(self) -> u16 {
        BASE_PORT + self as u16
    }

    fn of(port: u16) -> Self {
        Self::ALL[usize::from(port - BASE_PORT)]
    }

    /// Returns whether a request to it can get its response.
    pub(crate) fn can_complete(self) -> bool {
        (self as u16) < Self::Refuse as u16
    }

    /// Returns whether a kept connection may be closed when it is used again.
    pub(crate) fn closes_kept(self) -> bool {
        matches!(self, Self::CloseKept | Self::More)
    }

    /// Returns parts of the errors with which a request to it may fail.
    pub(crate) fn reasons(self) -> &'static [&'static str] {
        match self {
            Self::Refuse => &["connection refused"],
            Self::Hang => &["no response in time", "no connection within", NONE_FREE],
            Self::Silent => &["no response within", NONE_FREE],
            Self::Slow | Self::Pieces => &[NONE_FREE],
            Self::Stall => &["sent nothing for", "no response within", NONE_FREE],
            Self::Reset => &["closed with", "connection failed"],
            Self::Short => &["closed within the response's"],
            Self::Garbage => &["no HTTP", "status line", "malformed", "not HTTP"],
            Self::EndlessHead => &["head is longer", "more than 200 fields"],
            Self::Loop => &["more than 10 redirects"],
            Self::Astray => &["refused (loopback)"],
            Self::Bomb => &["grows more than"],
            _ => &[],
        }
    }
}

/// Returns the content of a response to this request.
pub(crate) fn content_of(number: u64) -> Vec<u8> {
    let bytes = [0, 1, 10, 1000, 70_000, 300_000][(number % 6) as usize];
    (0..bytes).map(|at| (at as u64 * 31 + number) as u8).collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).expect("into memory");
    encoder.finish().expect("into memory")
}

fn brotli(content: &[u8]) -> Vec<u8> {
    let mut encoder = BrotliEncoder::new(&EncoderMemory::new(3), 3, 18, content.len());
    let mut data = vec![0; content.len() + 1000];
    let step = encoder.step(EncoderOperation::Finish, content, &mut data).expect("an encoder");
    assert!(step.is_done);
    data.truncate(step.written);
    data
}

/// One connection of a server.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    behaviour: Behaviour,
    is_accepted: bool,
    /// Received bytes that are not processed yet.
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Its action after all output has been sent.
    then: Then,
    is_over: bool,
    /// The delay between sends of slow servers.
    pub(crate) delay_ms: u64,
    due_ms: u64,
    /// Whether it has received credentials that are not for it.
    has_credentials: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    End,
    Reset,
    Wait,
}

impl Server {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            behaviour: Behaviour::of(address.port()),
            is_accepted: false,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            then: Then::GoOn,
            is_over: false,
            delay_ms: 0,
            due_ms: 0,
            has_credentials: false,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Checks the conditions at the end.
    pub(crate) fn check(&self) {
        // Another port is another origin.
        let is_redirected_to = self.address.ip().to_string() == "192.0.2.9";
        assert!(!(is_redirected_to && self.has_credentials), "{self:?}");
    }

    /// Performs the actions that are possible now.
    pub(crate) fn act(&mut self, network: &Network, client: Client, random: &mut Random) {
        if self.is_over {
            return;
        }
        if !self.is_accepted {
            match self.behaviour {
                Behaviour::Hang => return self.is_over = true,
                Behaviour::Refuse => {
                    network.refuse(client, Errno::CONNREFUSED);
                    return self.is_over = true;
                }
                _ => network.establish(client, random.between(1, 30_000) as usize),
            }
            self.is_accepted = true;
        }
        let read = network.read(client, random.between(1, 20_000) as usize, &mut self.input);
        if read == Read::Reset {
            return self.is_over = true;
        }
        let now_ms = network.now().monotonic_ms;
        if self.sent == self.output.len() && self.then == Then::GoOn {
            self.respond(now_ms);
        }
        if now_ms >= self.due_ms {
            self.send(network, client, random);
        }
        if read == Read::Ended && self.sent == self.output.len() {
            network.end(client);
            self.is_over = true;
        }
    }

    fn send(&mut self, network: &Network, client: Client, random: &mut Random) {
        let rest = &self.output[self.sent..];
        let bytes = match self.behaviour {
            Behaviour::Slow => 40,
            Behaviour::Pieces => {
                let most = *random.pick(&[100, 3000, 30_000]);
                random.between(1, most) as usize
            }
            _ => rest.len(),
        };
        self.sent += network.send(client, &rest[..bytes.min(rest.len())]);
        if self.behaviour == Behaviour::EndlessHead && self.sent == self.output.len() {
            if !self.output.is_empty() {
                self.output = b"A: b\r\n".repeat(1000);
                self.sent = 0;
            }
            return;
        }
        if self.sent < self.output.len() {
            return;
        }
        match self.then {
            Then::GoOn | Then::Wait => {}
            Then::End => {
                network.leave(client);
                self.is_over = true;
            }
            Then::Reset => {
                network.reset(client);
                self.is_over = true;
            }
        }
    }

    /// Removes a whole request from the input, and creates its response.
    fn respond(&mut self, now_ms: u64) {
        let Some(end) = self.input.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            return;
        };
        let head = String::from_utf8(self.input[..end].to_vec()).expect("text");
        let field = |name: &str| {
            let value = head.lines().find_map(|line| line.strip_prefix(name));
            value.map_or(0, |text| text.parse::<usize>().expect("a number"))
        };
        let rest = &self.input[end + 4..];
        let content = if head.contains("\r\nTransfer-Encoding: chunked") {
            chunked(rest)
        } else {
            let length = field("Content-Length: ");
            rest.get(..length).map(|content| (content.to_vec(), length))
        };
        let Some((content, used)) = content else { return };
        self.input.drain(..end + 4 + used);
        // A redirect has changed the method to GET.
        if !head.starts_with("GET ") {
            assert_eq!(content.len(), field("Body-Bytes: "), "{head}");
        }
        assert!(content.iter().all(|byte| *byte == b'b'), "{head}");
        self.has_credentials |= head.contains("Authorization: ");
        let mut words = head.split(' ');
        let (method, path) = (words.next().expect("a method"), words.next().expect("a path"));
        let number = path.trim_start_matches('/').parse().expect("a number");
        (self.output, self.then) = self.response(&head, method == "HEAD", number);
        self.sent = 0;
        self.due_ms = now_ms + self.delay_ms;
    }

    fn response(&self, request: &str, is_head: bool, number: u64) -> (Vec<u8>, Then) {
        let content = content_of(number);
        let with = |head: &str, content: &[u8]| {
            let content = if is_head { &[][..] } else { content };
            [head.as_bytes(), b"\r\n\r\n", content].concat()
        };
        let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}", content.len());
        let location = |to: String| {
            with(&format!("HTTP/1.1 302 Found\r\nContent-Length: 4\r\nLocation: {to}"), b"gone")
        };
        match self.behaviour {
            Behaviour::Chunked => {
                let mut chunks = Vec::new();
                for chunk in content.chunks(1 + number as usize * 100) {
                    chunks.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    chunks.extend_from_slice(chunk);
                    chunks.extend_from_slice(b"\r\n");
                }
                chunks.extend_from_slice(b"0\r\n\r\n");
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked";
                (with(head, &chunks), Then::GoOn)
            }
            Behaviour::UntilClose => (with("HTTP/1.0 200 OK", &content), Then::End),
            Behaviour::Close => (with(&(length + "\r\nConnection: close"), &content), Then::End),
            Behaviour::Interim => {
                let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(3);
                (with(&(hints + &length), &content), Then::GoOn)
            }
            Behaviour::Gzip | Behaviour::Brotli => {
                let accepts = request.contains("\r\nAccept-Encoding: gzip, br");
                let is_brotli = accepts && self.behaviour == Behaviour::Brotli;
                let content = if is_brotli { brotli(&content) } else { gzip(&content) };
                let (length, coding) = (content.len(), if is_brotli { "br" } else { "gzip" });
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {length}"
                );
                (with(&head, &content), Then::GoOn)
            }
            Behaviour::Redirect => {
                let port = Behaviour::Length.port();
                (location(format!("http://192.0.2.9:{port}/{number}")), Then::GoOn)
            }
            Behaviour::CloseKept => (with(&length, &content), Then::End),
            Behaviour::More => {
                let more = if is_head { Vec::new() } else { b"HTTP/1.1 200 OK\r\n\r\nno".to_vec() };
                ([with(&length, &content), more].concat(), Then::GoOn)
            }
            Behaviour::Silent => (Vec::new(), Then::Wait),
            Behaviour::Stall | Behaviour::Reset | Behaviour::Short => {
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 9000";
                let then = match self.behaviour {
                    Behaviour::Stall => Then::Wait,
                    Behaviour::Reset => Then::Reset,
                    _ => Then::End,
                };
                // A response to HEAD would be complete, so the head is cut.
                let cut = if is_head { head.as_bytes().to_vec() } else { with(head, b"some") };
                (cut, then)
            }
            Behaviour::Garbage => (b"\0\xff garbage".to_vec(), Then::End),
            Behaviour::EndlessHead => (b"HTTP/1.1 200 OK\r\n".to_vec(), Then::GoOn),
            Behaviour::Loop => (location(format!("/{number}")), Then::GoOn),
            Behaviour::Astray => (location(format!("http://127.0.0.1:80/{number}")), Then::GoOn),
            Behaviour::Bomb => {
                static BOMB: OnceLock<Vec<u8>> = OnceLock::new();
                let content = BOMB.get_or_init(|| gzip(&vec![0; 12 << 20]));
                let length = content.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {length}"
                );
                (with(&head, content), Then::GoOn)
            }
            _ => (with(&length, &content), Then::GoOn),
        }
    }
}

/// Returns the content of a chunked body, and its length with the framing; `None` if it is
/// incomplete.
fn chunked(body: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut content, mut used) = (Vec::new(), 0);
    loop {
        let rest = &body[used..];
        let line = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
        let text = std::str::from_utf8(&rest[..line]).expect("a length");
        let length = usize::from_str_radix(text, 16).expect("a length");
        let end = line + 2 + length + 2;
        content.extend_from_slice(rest.get(line + 2..end)?.strip_suffix(b"\r\n").expect("an end"));
        used += end;
        if length == 0 {
            return Some((content, used));
        }
    }
}
