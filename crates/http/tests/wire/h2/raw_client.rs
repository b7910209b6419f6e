//! A client that writes correct and wrong frames without an encoder, and reads the responses. It
//! shares no code with the crate except the tested machine itself.

use pinion_http::field_section::FieldSection;
use pinion_http::h2::event::Event;
use pinion_http::h2::session::{Session, SessionSettings};

use crate::event_format;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const PRIORITY_UPDATE: u8 = 0x10;

pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

/// Returns a frame with any payload.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// Returns a field block of literals that are not added to a table (RFC 7541 §6.2.2), without
/// Huffman coding.
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            // The prefix has seven bits, and longer numbers continue in groups of seven.
            match text.len() {
                short @ 0..=126 => block.push(short as u8),
                long => {
                    block.push(127);
                    let mut rest = long - 127;
                    while rest >= 128 {
                        block.push(rest as u8 | 128);
                        rest >>= 7;
                    }
                    block.push(rest as u8);
                }
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

pub(super) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
pub(super) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
/// An extended CONNECT.
pub(super) const TUNNEL: [(&str, &str); 5] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "https"),
    (":path", "/chat"),
    (":authority", "a"),
];

pub(super) fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

pub(super) fn get(stream: u32) -> Vec<u8> {
    headers(stream, END_STREAM, &GET)
}

pub(super) fn post(stream: u32) -> Vec<u8> {
    headers(stream, 0, &POST)
}

pub(super) fn data(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, flags, stream, bytes)
}

pub(super) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(super) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(super) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// A connection: the machine, and the bytes that it has written.
pub(super) struct Peer {
    pub(super) session: Session<u32>,
    pub(super) out: Vec<u8>,
    pub(super) section: FieldSection,
    pub(super) now_ms: u64,
    /// Whether received content is returned to the window at once.
    pub(super) consumes: bool,
    /// Received bytes that are not processed yet.
    input: Vec<u8>,
}

impl Peer {
    /// Opens a connection on which nothing was received.
    pub(super) fn new(settings: &SessionSettings) -> Peer {
        let mut session = Session::new(settings);
        let mut out = Vec::new();
        session.open(&mut out);
        let section = FieldSection::new();
        Peer { session, out, section, now_ms: 1_000_000, consumes: true, input: Vec::new() }
    }

    /// Opens a connection on which both sides have exchanged their settings.
    pub(super) fn open_with(ours: &SessionSettings) -> Peer {
        let mut peer = Peer::new(ours);
        peer.send(&[PREFACE, &settings(&[]), &frame(SETTINGS, ACK, 0, b"")].concat());
        peer.out.clear();
        peer
    }

    pub(super) fn open() -> Peer {
        Peer::open_with(&SessionSettings::default())
    }

    /// Sends bytes and returns the events of the machine, each in a few words.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let (mut at, mut seen) = (0, Vec::new());
        loop {
            let Peer { session, section, out, now_ms, .. } = self;
            let (rest, mut place) = (&input[at..], None);
            let step = session.step(rest, section, &mut place, *now_ms, out);
            let (used, waits) = (step.used, matches!(step.event, Event::NeedMore));
            let content = match &step.event {
                Event::Data { stream, bytes, .. } => Some((*stream, bytes.len())),
                _ => None,
            };
            seen.extend(words(&step.event));
            at += used;
            assert_eq!(used == 0, waits, "an event that uses nothing");
            if let Some((stream, bytes)) = content.filter(|_| self.consumes) {
                self.session.consumed(stream, bytes, &mut self.out);
            }
            if waits || at == input.len() {
                self.input = input[at..].to_vec();
                return seen;
            }
        }
    }

    /// Sends whole frames and returns the frames of the response, each in a few words.
    pub(super) fn ask(&mut self, bytes: &[u8]) -> Vec<String> {
        self.send(bytes);
        self.sent()
    }

    /// Returns the frames that were written since the last call.
    pub(super) fn sent(&mut self) -> Vec<String> {
        let out = std::mem::take(&mut self.out);
        frames(&out).iter().map(Frame::words).collect()
    }

    /// Responds with a head alone and closes the stream.
    pub(super) fn response(&mut self, stream: u32) {
        let Peer { session, out, .. } = self;
        assert!(session.head(stream, true, out, |_, block| block.push(0x88)));
        assert!(session.close(stream, out).is_some());
    }

    /// Ends responses that have begun.
    pub(super) fn respond_to_all(&mut self, streams: &[u32]) {
        for stream in streams {
            assert!(self.session.data(*stream, 0, true, &mut self.out));
            assert!(self.session.close(*stream, &mut self.out).is_some());
        }
    }

    /// Begins a response that has content.
    pub(super) fn begin(&mut self, stream: u32) {
        let Peer { session, out, .. } = self;
        assert!(session.head(stream, false, out, |_, block| block.push(0x88)));
        session.set_ready(stream, true);
    }

    /// Sends as much content as the windows allow, in one frame; returns its length.
    pub(super) fn content(&mut self, stream: u32) -> usize {
        let room = self.session.room(stream);
        assert!(self.session.data(stream, room, false, &mut self.out));
        self.out.resize(self.out.len() + room, b'x');
        room
    }
}

/// Returns an event in a few words; `None` for one without information.
pub(super) fn words(event: &Event<'_>) -> Option<String> {
    Some(match *event {
        Event::NeedMore | Event::Nothing => return None,
        Event::Head { stream, head, end } => {
            format!("head {stream} {}", event_format::head(head, end))
        }
        Event::HeadRefused { stream, refusal, fields, end } => {
            format!("refused {stream} {}", event_format::refused(refusal, &fields, end))
        }
        Event::Data { stream, bytes, end } => {
            format!("data {stream} {}{}", event_format::content(bytes), event_format::of_end(end))
        }
        Event::Trailers { stream, fields } => {
            format!("trailers {stream}{}", event_format::all(&fields))
        }
        Event::Reset { stream, code, by_peer } => {
            let who = if by_peer { "peer" } else { "us" };
            format!("reset {stream} {code:?} by {who}")
        }
        Event::Opened => "opened".to_owned(),
        Event::Fatal { code, budget: None } => format!("fatal {code:?}"),
        Event::Fatal { code, budget: Some(budget) } => format!("fatal {code:?} {budget:?}"),
    })
}

/// A frame as on the wire.
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// Splits the bytes of a connection into frames, all of which must be complete.
pub(super) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, d, e, f, g, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let stream = u32::from_be_bytes([*d, *e, *f, *g]);
        let payload = rest[..length].to_vec();
        frames.push(Frame { kind: *kind, flags: *flags, stream, payload });
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty(), "half a frame");
    frames
}

const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

impl Frame {
    pub(super) fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }

    fn words(&self) -> String {
        let Frame { kind, flags, stream, payload } = self;
        let end = if flags & END_STREAM != 0 { " end" } else { "" };
        match *kind {
            DATA => format!("DATA {stream} {}{end}", payload.len()),
            HEADERS => {
                let more = if flags & END_HEADERS == 0 { " …" } else { "" };
                format!("HEADERS {stream}{end}{more}")
            }
            RST_STREAM => format!("RST_STREAM {stream} {}", CODES[self.number(0) as usize]),
            SETTINGS if flags & ACK != 0 => "SETTINGS ack".to_owned(),
            SETTINGS => format!("SETTINGS {} bytes", payload.len()),
            PING if flags & ACK != 0 => format!("PING ack {}", payload.escape_ascii()),
            PING => format!("PING {}", payload.escape_ascii()),
            GOAWAY => format!("GOAWAY {} {}", self.number(0), CODES[self.number(4) as usize]),
            WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {}", self.number(0)),
            CONTINUATION => {
                let more = if flags & END_HEADERS == 0 { " …" } else { "" };
                format!("CONTINUATION {stream}{more}")
            }
            kind => panic!("a server sends no frame of type {kind}"),
        }
    }
}
