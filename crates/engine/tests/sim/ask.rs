//! What simulated clients ask, and what a plain model says they must get. The model knows the
//! handlers and RFC 9112; it knows nothing of the engine.

use pinion_engine::backend::sim::Random;
use pinion_engine::settings::WorkerSettings;

/// Bytes of the mapped file behind [`Kind::Mapped`].
pub(crate) const MAPPED_BYTES: usize = 300_000;

/// What a request asks for; the first part of its path names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A prepared answer from memory.
    Small,
    /// A prepared answer from a mapping.
    Mapped,
    /// The content of the request, as it comes.
    Echo,
    /// Length and sum of the content, taken in sips of 700 bytes.
    Sum,
    /// The same, but each sip is wanted only after a message of another thread.
    Sip,
    /// The same, but nothing is wanted until a message of another thread, after some time.
    Late,
    /// The same, but never more is wanted than the content has.
    Exact,
    /// The same in one piece, and messages of another thread keep coming.
    Nagged,
    /// A prepared answer that leaves the content of the request unread.
    Unread,
    /// A prepared answer that waits for none of the content, although it was wanted.
    Hasty,
    /// A stream, as fast as there is room.
    Fill,
    /// A stream of shared bytes and ranges of files.
    Pieces,
    /// An answer after a message of another thread.
    Posted,
    /// An answer after a timer of the application.
    Alarmed,
    /// An answer after a message to the application.
    Relayed,
    /// An answer after many messages of another thread, posted at once.
    Showered,
    /// An answer after a deadline, before a message of another thread.
    Missed,
    /// An answer after a deadline.
    Deadline,
    /// An answer behind an interim one.
    Hints,
    /// A handler that forgets to answer.
    Nothing,
    /// An answer that is given up.
    Abort,
    /// An answer that ends in its middle, behind what was written.
    Cut,
    /// An answer that is shorter than announced.
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

    /// Whether the request carries content.
    pub(crate) fn has_content(self) -> bool {
        matches!(self, Self::Echo | Self::Unread | Self::Hasty) || self.sums()
    }

    /// Whether it answers a little, as soon as something has happened.
    pub(crate) fn waits(self) -> bool {
        let for_messages = matches!(self, Self::Posted | Self::Showered | Self::Relayed);
        for_messages || matches!(self, Self::Missed | Self::Deadline | Self::Alarmed)
    }

    /// Whether it answers length and sum of the content.
    pub(crate) fn sums(self) -> bool {
        matches!(self, Self::Sum | Self::Sip | Self::Late | Self::Exact | Self::Nagged)
    }
}

/// How a request speaks of its connection (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.1, and the connection stays.
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
    /// Decides what the content is.
    pub(crate) id: u64,
    /// Bytes of the answer, where its kind leaves that open; milliseconds that it waits.
    pub(crate) size: u64,
    pub(crate) head_only: bool,
    pub(crate) version: Version,
    pub(crate) content: Vec<u8>,
    /// Sizes of the chunks; none: the content goes with its length.
    pub(crate) chunks: Option<Vec<usize>>,
    pub(crate) expects: bool,
}

/// What must come back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Interim responses, then the final head up to where the connection is spoken of.
    pub(crate) start: Vec<u8>,
    /// What it says of the connection.
    pub(crate) connection: Vec<u8>,
    pub(crate) body: Body,
    /// The connection ends behind it.
    pub(crate) closes: bool,
}

impl Answer {
    /// The same to a HEAD request.
    pub(crate) fn of_head(self) -> Answer {
        Answer { body: Body::Plain(Vec::new()), ..self }
    }

    /// About how many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        let (Body::Plain(content)
        | Body::Stream(content)
        | Body::Chunked(content, _)
        | Body::Broken(content)
        | Body::BrokenChunks(content)) = &self.body;
        self.start.len() + content.len()
    }
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// Exactly this.
    Plain(Vec<u8>),
    /// Exactly this, behind a head without a date or none at all.
    Stream(Vec<u8>),
    /// This in chunks of any size, and this trailer section.
    Chunked(Vec<u8>, &'static [u8]),
    /// At most this, and never what was announced.
    Broken(Vec<u8>),
    /// At most this, in chunks, and never the last one.
    BrokenChunks(Vec<u8>),
}

/// The content that a handler makes for `id`.
pub(crate) fn pattern(id: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (id * 131 + at * 7 + at / 251) as u8).collect()
}

/// What [`Kind::Sum`] answers.
pub(crate) fn sum_of(content: &[u8], trailers: &str) -> String {
    let sum = content.iter().fold(7u64, |sum, &b| sum.wrapping_mul(31).wrapping_add(u64::from(b)));
    format!("{} {sum} {trailers}\n", content.len())
}

pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
pub(crate) const CLOSE: &[u8] = b"Connection: close\r\n";
pub(crate) const TRAILERS: &[u8] = b"Checked: yes\r\n";

impl Request {
    /// A request of chance.
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

    /// The bytes of the request: its head, then its content.
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

    /// What must come back when this is the `nth` request of its connection, counted from 1.
    pub(crate) fn answer(&self, nth: u32, settings: &WorkerSettings) -> Answer {
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
                // All that was written comes before the connection ends.
                let is_cut = self.kind == Kind::Cut;
                let body = if is_cut { Body::Plain } else { Body::Broken };
                Answer { start, connection, body: body(pattern(id, 9)), closes: true }
            }
            Kind::Upgrade => Answer {
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
    ) -> Answer {
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
        Answer { start, connection, body: Body::Plain(body), closes }
    }

    fn streamed(&self, body: Vec<u8>, nth: u32, settings: &WorkerSettings) -> Answer {
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
        Answer { start, connection, body, closes }
    }

    /// What the answer says of the connection, and whether it ends.
    fn connection(&self, nth: u32, settings: &WorkerSettings) -> (Vec<u8>, bool) {
        let last = settings.requests_per_connection.is_some_and(|most| nth >= most);
        // Whether content follows that was announced and never asked for is uncertain.
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

/// What a connection gets that the server gives up: an error page, and the end.
pub(crate) fn page(status: u16) -> Answer {
    let page = pinion_http::page::page(status, pinion_http::page::ErrorFormat::Html);
    let reason = pinion_http::status::reason(status);
    let mut start = format!("HTTP/1.1 {status} {reason}\r\n").into_bytes();
    start.extend_from_slice(pinion_http::page::BUILT_IN_FIELDS);
    start.extend_from_slice(b"Content-Type: ");
    start.extend_from_slice(page.content_type);
    start.extend_from_slice(format!("\r\nContent-Length: {}\r\n", page.body.len()).as_bytes());
    Answer {
        start,
        connection: CLOSE.to_vec(),
        body: Body::Plain(page.body.to_vec()),
        closes: true,
    }
}

/// The range of the mapped file that `id` asks for.
pub(crate) fn mapped_offset(id: u64, bytes: usize) -> usize {
    (id as usize * 37) % (MAPPED_BYTES - bytes + 1)
}

/// The whole mapped file.
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
    // The second is not for a trailer section.
    wire.extend_from_slice(b"0\r\nChecked: in\r\nHost: other\r\n\r\n");
    wire
}
