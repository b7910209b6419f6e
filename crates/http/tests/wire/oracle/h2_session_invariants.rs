//! HTTP/2 connections: the same input in one piece and in pieces of a fixed size gives the same
//! events and frames. For any input, the events of each stream are in the order of a message (RFC
//! 9113 §8.1) and within the granted windows.
//!
//! The server responds to every request and returns every byte of content to the window.

use std::collections::{BTreeMap, VecDeque};

use pinion_http::field_section::FieldSection;
use pinion_http::h2::event::Event;
use pinion_http::h2::frame::ErrorCode;
use pinion_http::h2::session::{INPUT_MAX_BYTES, Session, SessionSettings};
use pinion_http::multiplexed_request_head::refused_request;

/// Checks a connection. The first byte determines the size of the pieces, and whether the preface
/// of a client is put before the rest, which is the input. Returns the events except content, in
/// words.
pub(crate) fn check(data: &[u8]) -> Vec<String> {
    let [how, rest @ ..] = data else { return Vec::new() };
    let mut bytes = Vec::new();
    if how & 1 == 0 {
        bytes.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    }
    bytes.extend_from_slice(rest);
    let whole = run(&bytes, usize::MAX);
    let cut = run(&bytes, usize::from(how >> 1) + 1);
    assert_eq!(whole.seen, cut.seen, "cut every {}", (how >> 1) + 1);
    assert!(whole.frames == cut.frames, "cut every {}", (how >> 1) + 1);
    let words = |seen| match seen {
        Seen::Content(..) => None,
        Seen::Other(words) => Some(words),
    };
    whole.seen.into_iter().filter_map(words).collect()
}

/// An event: content, or something else in words.
#[derive(Debug, PartialEq)]
enum Seen {
    Content(u32, Vec<u8>),
    Other(String),
}

struct Run {
    /// Consecutive content of one stream is joined.
    seen: Vec<Seen>,
    /// Written frames without WINDOW_UPDATE, because the times of window updates depend on the
    /// cuts.
    frames: Vec<Vec<u8>>,
}

/// The state of a stream that has begun.
#[derive(Default)]
struct Known {
    ended: bool,
    /// Whether it is an extended CONNECT.
    is_tunnel: bool,
    response_left: usize,
}

struct Server {
    session: Session<u8>,
    out: Vec<u8>,
    open: BTreeMap<u32, Known>,
    last_stream: u32,
    run: Run,
}

fn run(bytes: &[u8], cut: usize) -> Run {
    let mut server = Server {
        session: Session::new(&SessionSettings {
            streams: 4,
            extended_connect: true,
            ..SessionSettings::default()
        }),
        out: Vec::new(),
        open: BTreeMap::new(),
        last_stream: 0,
        run: Run { seen: Vec::new(), frames: Vec::new() },
    };
    server.session.open(&mut server.out);
    let mut section = FieldSection::new();
    let mut parts: VecDeque<&[u8]> = bytes.chunks(cut.min(bytes.len().max(1))).collect();
    let mut input = Vec::new();
    while let Some(part) = parts.pop_front() {
        input.extend_from_slice(part);
        let mut at = 0;
        while at < input.len() {
            let (rest, mut place) = (&input[at..], None);
            let step = server.session.step(rest, &mut section, &mut place, 1000, &mut server.out);
            at += step.used;
            assert!(at <= input.len());
            if matches!(step.event, Event::NeedMore) {
                assert_eq!(step.used, 0);
                assert!(input.len() - at < INPUT_MAX_BYTES, "a whole frame waits for more");
                break;
            }
            assert!(step.used > 0, "an event that uses nothing");
            server.event(&step.event);
            server.send_all();
            server.read();
        }
        input.drain(..at);
    }
    server.run
}

impl Server {
    fn event(&mut self, event: &Event<'_>) {
        let words = match *event {
            Event::NeedMore | Event::Nothing | Event::Opened => return,
            Event::Head { stream, head, end } => {
                self.begin(stream, end);
                if head.protocol.is_some() {
                    // RFC 8441 §4.
                    assert_eq!(head.method_token, b"CONNECT");
                    assert!(head.target.raw.starts_with(b"/") && head.target.scheme.is_some());
                }
                self.open.get_mut(&stream).expect("just begun").is_tunnel = head.protocol.is_some();
                assert!(head.authority.is_some() && head.keep_alive);
                format!("{stream} {head:?} {end}")
            }
            Event::HeadRefused { stream, refusal, fields, end } => {
                self.begin(stream, end);
                format!("{stream} {refusal:?} {:?} {end}", refused_request(&fields))
            }
            Event::Data { stream, bytes, end } => return self.data(stream, bytes, end),
            Event::Trailers { stream, fields } => {
                self.end(stream, true);
                assert!(!self.open[&stream].is_tunnel, "trailers in a tunnel");
                self.ready(stream);
                format!("{stream} {fields:?}")
            }
            Event::Reset { stream, code, by_peer, .. } => {
                self.open.remove(&stream).expect("a reset of no stream");
                format!("{stream} reset {code:?} {by_peer}")
            }
            Event::Fatal { code, budget } => {
                assert!(self.session.is_finished());
                format!("fatal {code:?} {budget:?}")
            }
        };
        self.run.seen.push(Seen::Other(words));
    }

    fn begin(&mut self, stream: u32, end: bool) {
        assert!(stream % 2 == 1 && stream > self.last_stream, "streams go up");
        self.last_stream = stream;
        assert!(self.open.len() < 4, "too many are open");
        self.open.insert(
            stream,
            Known { ended: end, is_tunnel: false, response_left: stream as usize * 3000 % 50_000 },
        );
        assert!(self.session.head(stream, false, &mut self.out, |_, block| block.push(0x88)));
        // Some responses wait for the end of the request.
        if end || stream % 4 == 1 {
            self.ready(stream);
        }
        assert_eq!(self.session.open_streams(), self.open.len());
    }

    fn ready(&mut self, stream: u32) {
        self.session.set_ready(stream, true);
    }

    fn end(&mut self, stream: u32, end: bool) {
        let known = self.open.get_mut(&stream).expect("content of no stream");
        assert!(!known.ended, "content behind the end");
        known.ended = end;
    }

    fn data(&mut self, stream: u32, bytes: &[u8], end: bool) {
        self.end(stream, end);
        assert!(!bytes.is_empty() || end);
        // Some content is read, and some is not.
        if !stream.is_multiple_of(3) {
            self.session.consumed(stream, bytes.len(), &mut self.out);
        }
        match self.run.seen.last_mut() {
            Some(Seen::Content(last, content)) if *last == stream => {
                content.extend_from_slice(bytes);
            }
            _ => self.run.seen.push(Seen::Content(stream, bytes.to_vec())),
        }
        if end {
            self.run.seen.push(Seen::Other(format!("{stream} end")));
            self.ready(stream);
        }
    }

    /// Sends everything that can be sent, so that the result does not depend on the number of
    /// calls.
    fn send_all(&mut self) {
        while let Some(stream) = self.session.next_ready() {
            self.send(stream);
        }
    }

    fn send(&mut self, stream: u32) {
        let Some(known) = self.open.get_mut(&stream) else { panic!("ready and not open") };
        let now = self.session.room(stream).min(known.response_left);
        assert!(self.session.room(stream) > 0, "ready without room");
        known.response_left -= now;
        let end = known.response_left == 0;
        assert!(self.session.data(stream, now, end, &mut self.out));
        self.out.resize(self.out.len() + now, 0);
        if end {
            self.open.remove(&stream);
            assert!(self.session.close(stream, &mut self.out).is_some());
        } else if stream.is_multiple_of(7) && now > 0 {
            self.open.remove(&stream);
            assert!(self.session.reset(stream, ErrorCode::Cancel, &mut self.out).is_some());
        }
    }

    /// Splits the written bytes into frames, all of which must be complete.
    fn read(&mut self) {
        let mut rest = &self.out[..];
        while let [a, b, c, kind, ..] = rest {
            let bytes = 9 + u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if *kind != 8 {
                self.run.frames.push(rest[..bytes].to_vec());
            }
            rest = &rest[bytes..];
        }
        assert!(rest.is_empty(), "half a frame");
        self.out.clear();
    }
}
