//! The requests of simulated clients, and the responses that they must get according to a plain
//! model. The model implements the handlers and RFC 9112, and shares no code with the engine.

use pinion_engine::backend::sim::Random;
use pinion_engine::settings::WorkerSettings;

/// Bytes of the mapped file of [`Kind::Mapped`].
pub(crate) const MAPPED_BYTES: usize = 300_000;

/// The kind of a request; the first part of its path names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A prepared response from memory.
    Small,
    /// A prepared response from a mapping.
    Mapped,
    /// The content of the request, piece by piece.
    Echo,
    /// Length and sum of the content, which is read in parts of 700 bytes.
    Sum,
    /// The same, but each part is wanted only after a message of another thread.
    Sip,
    /// The same, but nothing is wanted until a message of another thread arrives after some time.
    Late,
    /// The same, but never more is wanted than the content has.
    Exact,
    /// The same in one part, while messages of another thread keep arriving.
    Nagged,
    /// A prepared response that leaves the content of the request unread.
    Unread,
    /// A prepared response that does not wait for the content, although it was wanted.
    Hasty,
    /// A stream, as fast as the output queue allows.
    Fill,
    /// A stream of shared bytes and ranges of files.
    Pieces,
    /// A response after a message of another thread.
    Posted,
    /// A response after a timer of the application.
    Alarmed,
    /// A response after a message to the application.
    Relayed,
    /// A response after many messages of another thread, posted at once.
    Showered,
    /// A response after a deadline, before a message of another thread.
    Missed,
    /// A response after a deadline.
    Deadline,
    /// A final response after an interim one.
    Hints,
    /// A handler that does not respond.
    Nothing,
    /// A response that is aborted.
    Abort,
    /// A response that ends in its middle, after the written bytes.
    Cut,
    /// A response that is shorter than announced.
    Short,
    /// A byte stream that echoes.
    Upgrade,
}

impl Kind {
    pub(crate) const NAMES: &[(Self, &'static str)] = &[
        (Self::Small, "small"),
        (Self::Mapped, "mapped"),
        (Self::Echo, "echo"),
        (Self::Sum, "sum"),
        (Self::Sip, "sip"),
        (Self::Late, "late"),
        (Self::Exact, "exact"),
        (Self::Nagged, "nagged"),
        (Self::Unread, "unread"),
        (Self::Hasty, "hasty"),
        (Self::Fill, "fill"),
        (Self::Pieces, "pieces"),
        (Self::Posted, "posted"),
        (Self::Alarmed, "alarmed"),
        (Self::Relayed, "relayed"),
        (Self::Showered, "showered"),
        (Self::Missed, "missed"),
        (Self::Deadline, "deadline"),
        (Self::Hints, "hints"),
        (Self::Nothing, "nothing"),
        (Self::Abort, "abort"),
        (Self::Cut, "cut"),
        (Self::Short, "short"),
        (Self::Upgrade, "upgrade"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).expect("every kind has a name").1
    }

    /// Returns whether the request has content.
    pub(crate) fn has_content(self) -> bool {
        matches!(self, Self::Echo | Self::Unread | Self::Hasty) || self.sums()
    }

    /// Returns whether the request gets a small response after some event.
    pub(crate) fn waits(self) -> bool {
        let for_messages = matches!(self, Self::Posted | Self::Showered | Self::Relayed);
        for_messages || matches!(self, Self::Missed | Self::Deadline | Self::Alarmed)
    }

    /// Returns whether the response has the length and sum of the content.
    pub(crate) fn sums(self) -> bool {
        matches!(self, Self::Sum | Self::Sip | Self::Late | Self::Exact | Self::Nagged)
    }
}

/// The version of a request and its connection option (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.1 with a persistent connection.
    Stays,
    /// HTTP/1.1 with `Connection: close`.
    Closes,
    /// HTTP/1.0.
    Old,
    /// HTTP/1.0 with `Connection: keep-alive`.
    OldStays,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// Determines the content.
    pub(crate) id: u64,
    /// Bytes of the response, if the kind leaves them open; or milliseconds of its delay.
    pub(crate) size: u64,
    pub(crate) head_only: bool,
    pub(crate) version: Version,
    pub(crate) content: Vec<u8>,
    /// Sizes of the chunks; with `None`, the content is sent with its length.
    pub(crate) chunks: Option<Vec<usize>>,
    pub(crate) expects: bool,
}

/// The expected response.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    /// Interim responses, then the final head up to the `Connection` field.
    pub(crate) start: Vec<u8>,
    /// The `Connection` field.
    pub(crate) connection: Vec<u8>,
    pub(crate) body: Body,
    /// Whether the connection ends after it.
    pub(crate) closes: bool,
}

impl Response {
    /// Returns the response to the same request with HEAD.
    pub(crate) fn of_head(self) -> Response {
        Response { body: Body::Plain(Vec::new()), ..self }
    }

    /// Returns the approximate length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let (Body::Plain(content)
        | Body::Stream(content)
        | Body::Chunked(content, _)
        | Body::Broken(content)
        | Body::BrokenChunks(content)) = &self.body;
        self.start.len() + content.len()
    }
}

/// The content of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// Exactly these bytes.
    Plain(Vec<u8>),
    /// Exactly these bytes, after a head without a date or without a head.
    Stream(Vec<u8>),
    /// These bytes in chunks of any size, and this trailer section.
    Chunked(Vec<u8>, &'static [u8]),
    /// At most these bytes, and never the announced length.
    Broken(Vec<u8>),
    /// At most these bytes, in chunks, and never the last chunk.
    BrokenChunks(Vec<u8>),
}

/// Returns the content that a handler makes for `id`.
pub(crate) fn pattern(id: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (id * 131 + at * 7 + at / 251) as u8).collect()
}

/// Returns the response of [`Kind::Sum`].
pub(crate) fn sum_of(content: &[u8], trailers: &str) -> String {
    let sum = content.iter().fold(7u64, |sum, &b| sum.wrapping_mul(31).wrapping_add(u64::from(b)));
    format!("{} {sum} {trailers}\n", content.len())
}

pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
pub(crate) const CLOSE: &[u8] = b"Connection: close\r\n";
pub(crate) const TRAILERS: &[u8] = b"Checked: yes\r\n";

impl Request {
    /// Returns a random request.
    pub(crate) fn draw(random: &mut Random, kinds: &[Kind], id: u64) -> Self {
        let kind = *random.pick(kinds);
        let size = match kind {
            Kind::Deadline | Kind::Alarmed => random.between(1, 3000),
            Kind::Mapped => random.part_of(200_000, 900) as u64,
            Kind::Fill | Kind::Pieces => random.part_of(120_000, 900) as u64,
            _ => random.part_of(4000, 800) as u64,
        };
        let version = match random.below(20) {
            0 => Version::Closes,
            1 => Version::Old,
            2 | 3 => Version::OldStays,
            _ => Version::Stays,
        };
        let old = matches!(version, Version::Old | Version::OldStays);
        let version = if kind == Kind::Upgrade { Version::Stays } else { version };
        let mut request = Self {
            kind,
            id,
            size,
            head_only: matches!(kind, Kind::Small | Kind::Mapped | Kind::Fill | Kind::Pieces)
                && random.chance(100),
            version,
            content: Vec::new(),
            chunks: None,
            expects: false,
        };
        if kind.has_content() || kind == Kind::Upgrade {
            let bytes = random.part_of(9000, 800);
            request.content = pattern(id + 1, bytes);
            if kind == Kind::Exact {
                request.size = bytes as u64;
            }
        }
        if kind.has_content() && !old {
            request.expects = random.chance(200);
            if random.chance(400) {
                request.chunks = Some(chunk_sizes(random, request.content.len()));
            }
        }
        request
    }

    /// Returns the bytes of the request: its head, then its content.
    pub(crate) fn wire(&self) -> (Vec<u8>, Vec<u8>) {
        let method = match (self.head_only, self.kind.has_content()) {
            (true, _) => "HEAD",
            (_, true) => "POST",
            _ => "GET",
        };
        let old = matches!(self.version, Version::Old | Version::OldStays);
        let version = if old { "HTTP/1.0" } else { "HTTP/1.1" };
        let name = self.kind.name();
        let (id, size) = (self.id, self.size);
        let mut head = format!("{method} /{name}/{id}/{size} {version}\r\nHost: sim\r\n");
        match self.version {
            Version::Closes => head.push_str("Connection: close\r\n"),
            Version::OldStays => head.push_str("Connection: keep-alive\r\n"),
            Version::Stays | Version::Old => {}
        }
        if self.expects {
            head.push_str("Expect: 100-continue\r\n");
        }
        let content = match (&self.chunks, self.kind.has_content()) {
            (Some(sizes), _) => {
                head.push_str("Transfer-Encoding: chunked\r\n");
                chunked(&self.content, sizes)
            }
            (None, true) => {
                head.push_str(&format!("Content-Length: {}\r\n", self.content.len()));
                self.content.clone()
            }
            (None, false) => self.content.clone(),
        };
        head.push_str("\r\n");
        (head.into_bytes(), content)
    }

    /// Returns the expected response if this is the `nth` request of its connection, counted from
    /// 1.
    pub(crate) fn response(&self, nth: u32, settings: &WorkerSettings) -> Response {
        let id = self.id;
        let bytes = self.size as usize;
        match self.kind {
            Kind::Small | Kind::Unread | Kind::Hasty => {
                self.prepared(b"", pattern(id, bytes), nth, settings)
            }
            Kind::Mapped => self.prepared(b"", mapped(id, bytes).to_vec(), nth, settings),
            Kind::Sum | Kind::Sip | Kind::Late | Kind::Exact | Kind::Nagged => {
                let trailers = if self.chunks.is_some() { "Checked: in" } else { "" };
                let text = sum_of(&self.content, trailers).into_bytes();
                self.prepared(b"", text, nth, settings)
            }
            Kind::Posted | Kind::Showered | Kind::Relayed => {
                self.prepared(b"", pattern(id, 20), nth, settings)
            }
            Kind::Missed | Kind::Deadline | Kind::Alarmed => {
                self.prepared(b"", pattern(id, 20), nth, settings)
            }
            Kind::Hints => {
                let hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
                self.prepared(hints, pattern(id, bytes), nth, settings)
            }
            Kind::Echo => self.streamed(self.content.clone(), nth, settings),
            Kind::Fill => self.streamed(pattern(id, bytes), nth, settings),
            Kind::Pieces => self.streamed(mapped(id, bytes).to_vec(), nth, settings),
            Kind::Nothing => page(500),
            Kind::Abort | Kind::Cut | Kind::Short => {
                let start = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n".to_vec();
                let connection = self.connection(nth, settings).0;
                // All written bytes are sent before the connection ends.
                let is_cut = self.kind == Kind::Cut;
                let body = if is_cut { Body::Plain } else { Body::Broken };
                Response { start, connection, body: body(pattern(id, 9)), closes: true }
            }
            Kind::Upgrade => Response {
                start: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\
                    Connection: upgrade\r\n\r\n"
                    .to_vec(),
                connection: Vec::new(),
                body: Body::Stream(self.content.clone()),
                closes: true,
            },
        }
    }

    fn prepared(
        &self,
        interim: &[u8],
        body: Vec<u8>,
        nth: u32,
        settings: &WorkerSettings,
    ) -> Response {
        let old = matches!(self.version, Version::Old | Version::OldStays);
        let mut start = Vec::new();
        if self.expects && (self.kind.sums() || self.kind == Kind::Hasty) {
            start.extend_from_slice(CONTINUE);
        }
        if !old {
            start.extend_from_slice(interim);
        }
        start.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n");
        start.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        let (connection, closes) = self.connection(nth, settings);
        let body = if self.head_only { Vec::new() } else { body };
        Response { start, connection, body: Body::Plain(body), closes }
    }

    fn streamed(&self, body: Vec<u8>, nth: u32, settings: &WorkerSettings) -> Response {
        let mut start = Vec::new();
        if self.expects {
            start.extend_from_slice(CONTINUE);
        }
        start.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        let old = matches!(self.version, Version::Old | Version::OldStays);
        let length = self.kind == Kind::Echo && self.chunks.is_none();
        let (mut connection, mut closes) = self.connection(nth, settings);
        if length {
            start.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        } else if old {
            // The end of the connection is the end of the content.
            (connection, closes) = (CLOSE.to_vec(), true);
        } else {
            start.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        let trailers = if self.kind == Kind::Echo { b"" } else { TRAILERS };
        let body = match () {
            () if self.head_only => Body::Plain(Vec::new()),
            () if length || old => Body::Plain(body),
            () => Body::Chunked(body, trailers),
        };
        Response { start, connection, body, closes }
    }

    /// Returns the `Connection` field of the response, and whether the connection ends.
    fn connection(&self, nth: u32, settings: &WorkerSettings) -> (Vec<u8>, bool) {
        let last = settings.requests_per_connection.is_some_and(|most| nth >= most);
        // It is uncertain whether announced content follows that was never requested by an interim
        // response.
        let uncertain = self.kind == Kind::Unread && self.expects;
        match self.version {
            Version::Closes | Version::Old => (CLOSE.to_vec(), true),
            _ if last || uncertain => (CLOSE.to_vec(), true),
            Version::Stays => (Vec::new(), false),
            Version::OldStays => {
                let seconds = settings.idle_ms / 1000;
                let max = settings.requests_per_connection.map(|most| most - nth);
                let max = max.map_or(String::new(), |max| format!(", max={max}"));
                let text =
                    format!("Connection: keep-alive\r\nKeep-Alive: timeout={seconds}{max}\r\n");
                (text.into_bytes(), false)
            }
        }
    }
}

/// Returns the last response of a connection that the server ends: an error page.
pub(crate) fn page(status: u16) -> Response {
    let page = pinion_http::error_page::page(status, pinion_http::error_page::ErrorFormat::Html);
    let reason = pinion_http::status::reason(status);
    let mut start = format!("HTTP/1.1 {status} {reason}\r\n").into_bytes();
    start.extend_from_slice(pinion_http::error_page::BUILT_IN_FIELDS);
    start.extend_from_slice(b"Content-Type: ");
    start.extend_from_slice(page.content_type);
    start.extend_from_slice(format!("\r\nContent-Length: {}\r\n", page.body.len()).as_bytes());
    Response {
        start,
        connection: CLOSE.to_vec(),
        body: Body::Plain(page.body.to_vec()),
        closes: true,
    }
}

/// Returns the offset in the mapped file for `id`.
pub(crate) fn mapped_offset(id: u64, bytes: usize) -> usize {
    (id as usize * 37) % (MAPPED_BYTES - bytes + 1)
}

/// Returns the whole mapped file.
pub(crate) fn mapped_file() -> &'static [u8] {
    static FILE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    FILE.get_or_init(|| (0..MAPPED_BYTES).map(|at| (at / 7 % 251 + at / 9000) as u8).collect())
}

pub(crate) fn mapped(id: u64, bytes: usize) -> &'static [u8] {
    let offset = mapped_offset(id, bytes);
    &mapped_file()[offset..offset + bytes]
}

fn chunk_sizes(random: &mut Random, bytes: usize) -> Vec<usize> {
    let mut left = bytes;
    let mut sizes = Vec::new();
    while left > 0 {
        let size = random.part_of(left, 700);
        sizes.push(size);
        left -= size;
    }
    sizes
}

fn chunked(mut content: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut wire = Vec::new();
    for &size in sizes {
        let (chunk, rest) = content.split_at(size);
        content = rest;
        wire.extend_from_slice(format!("{size:X};x=y\r\n").as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    // The second field is not allowed in a trailer section.
    wire.extend_from_slice(b"0\r\nChecked: in\r\nHost: other\r\n\r\n");
    wire
}
