//! A client that writes correct and wrong frames without an encoder. It shares no code with the
//! crate except the tested machine itself.

use pinion_http::field_section::FieldSection;
use pinion_http::h3::event::{Fatal, RequestStreamEvent, StreamError, UniEvent};
use pinion_http::h3::request_stream::RequestStream;
use pinion_http::h3::session::{Session, SessionSettings};
use pinion_http::h3::unidirectional_streams::UniState;

use crate::event_format;

pub(super) const DATA: u64 = 0x0;
pub(super) const HEADERS: u64 = 0x1;
pub(super) const CANCEL_PUSH: u64 = 0x3;
pub(super) const SETTINGS: u64 = 0x4;
pub(super) const PUSH_PROMISE: u64 = 0x5;
pub(super) const GOAWAY: u64 = 0x7;
pub(super) const MAX_PUSH_ID: u64 = 0xd;
pub(super) const PRIORITY_UPDATE: u64 = 0xf0700;
pub(super) const PUSH_PRIORITY_UPDATE: u64 = 0xf0701;
/// An undefined type of frames and streams (RFC 9114 §7.2.8, §6.2.3).
pub(super) const UNKNOWN: u64 = 0x21 + 5 * 0x1f;

/// Returns a number (RFC 9000 §16) in the shortest possible form.
pub(super) fn number(value: u64) -> Vec<u8> {
    let form = (0..4).find(|form| value < 1 << ((8 << form) - 2)).expect("62 bits");
    let bytes = (value | form << ((8 << form) - 2)).to_be_bytes();
    bytes[8 - (1 << form)..].to_vec()
}

/// Returns a frame with any payload.
pub(super) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&front(kind, payload.len() as u64)[..], payload].concat()
}

/// Returns only the header of a frame.
pub(super) fn front(kind: u64, bytes: u64) -> Vec<u8> {
    [number(kind), number(bytes)].concat()
}

/// Returns a field section of literals (RFC 9204 §4.5.6), without Huffman coding.
pub(super) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        for (text, flags, prefix) in [(name, 0x20, 3), (value, 0, 7)] {
            let mask = (1usize << prefix) - 1;
            if text.len() < mask {
                section.push(flags | text.len() as u8);
            } else {
                section.push(flags | mask as u8);
                let mut rest = text.len() - mask;
                while rest >= 128 {
                    section.push(rest as u8 | 128);
                    rest >>= 7;
                }
                section.push(rest as u8);
            }
            section.extend_from_slice(text.as_bytes());
        }
    }
    section
}

pub(super) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")];
pub(super) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a")];

/// An extended CONNECT.
pub(super) const TUNNEL: [(&str, &str); 5] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "https"),
    (":path", "/chat"),
    (":authority", "a"),
];

pub(super) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, &section(fields))
}

pub(super) fn get() -> Vec<u8> {
    headers(&GET)
}

/// Returns a POST with a `Content-Length`.
pub(super) fn post(length: &str) -> Vec<u8> {
    headers(&[&POST[..], &[("content-length", length)]].concat())
}

pub(super) fn data(bytes: &[u8]) -> Vec<u8> {
    frame(DATA, bytes)
}

pub(super) fn settings(values: &[(u64, u64)]) -> Vec<u8> {
    let payload: Vec<u8> =
        values.iter().flat_map(|(name, value)| [number(*name), number(*value)].concat()).collect();
    frame(SETTINGS, &payload)
}

pub(super) fn priority_update(stream: u64, value: &str) -> Vec<u8> {
    frame(PRIORITY_UPDATE, &[&number(stream)[..], value.as_bytes()].concat())
}

/// A connection.
pub(super) struct Peer {
    pub(super) session: Session,
    pub(super) section: FieldSection,
    pub(super) now_ms: u64,
    next: u64,
}

impl Peer {
    pub(super) fn new() -> Peer {
        Peer::with(&SessionSettings::default())
    }

    pub(super) fn with(settings: &SessionSettings) -> Peer {
        let now_ms = 1_000_000;
        let session = Session::new(settings, now_ms);
        Peer { session, section: FieldSection::new(), now_ms, next: 0 }
    }

    /// Opens the next request stream.
    pub(super) fn begin(&mut self) -> RequestStream {
        self.next += 4;
        self.session.begin(self.next - 4, self.now_ms).expect("a stream")
    }

    /// Sends bytes on a request stream and returns the events of the machine, each in a few words.
    /// No earlier bytes may be unprocessed.
    pub(super) fn send(&mut self, on: &mut RequestStream, bytes: &[u8], fin: bool) -> Vec<String> {
        let (mut at, mut seen) = (0, Vec::new());
        loop {
            let Peer { session, section, now_ms, .. } = self;
            let (rest, mut place) = (&bytes[at..], None);
            let step = match on.step(rest, fin, session, section, &mut place, *now_ms) {
                Ok(step) => step,
                Err(error) => {
                    seen.push(failure(&error));
                    assert!(on.is_ended());
                    return seen;
                }
            };
            at += step.used;
            let (waits, end) = match step.event {
                RequestStreamEvent::NeedMore => (true, false),
                RequestStreamEvent::Head { end, .. }
                | RequestStreamEvent::HeadRefused { end, .. } => (false, end),
                RequestStreamEvent::End => (false, true),
                _ => (false, false),
            };
            assert!(step.used > 0 || waits || end, "an event that uses nothing");
            seen.extend(words(&step.event));
            assert!(on.is_ended() || !end);
            if waits || end || (at == bytes.len() && !fin) {
                return seen;
            }
        }
    }

    /// Sends a whole request stream.
    pub(super) fn request(&mut self, frames: &[&[u8]]) -> Vec<String> {
        let mut stream = self.begin();
        self.send(&mut stream, &frames.concat(), true)
    }

    /// Sends bytes on a unidirectional stream.
    pub(super) fn uni(&mut self, on: &mut UniState, bytes: &[u8], fin: bool) -> Vec<String> {
        let (mut at, mut seen) = (0, Vec::new());
        loop {
            let step = match self.session.uni(on, &bytes[at..], fin, self.now_ms) {
                Ok(step) => step,
                Err(fatal) => {
                    seen.push(failure(&fatal.into()));
                    return seen;
                }
            };
            assert!(step.used > 0 || at == bytes.len(), "nothing is used");
            at += step.used;
            match step.event {
                UniEvent::Nothing => {}
                UniEvent::Priority { stream, priority } => seen.push(format!(
                    "priority {stream} {} {}",
                    priority.urgency, priority.incremental
                )),
                UniEvent::Stop => seen.push("stop".to_owned()),
                UniEvent::End => seen.push("end".to_owned()),
            }
            if at == bytes.len() {
                return seen;
            }
        }
    }

    /// Sends bytes on a new control stream, after its type.
    pub(super) fn control(&mut self, frames: &[&[u8]]) -> (UniState, Vec<String>) {
        let mut state = UniState::default();
        let seen = self.uni(&mut state, &[b"\0", &frames.concat()[..]].concat(), false);
        (state, seen)
    }
}

/// Returns an error in a few words.
pub(super) fn failure(error: &StreamError) -> String {
    match error {
        StreamError::Stream(code) => format!("stream {code:?}"),
        StreamError::Connection(Fatal { code, budget: None }) => format!("fatal {code:?}"),
        StreamError::Connection(Fatal { code, budget: Some(budget) }) => {
            format!("fatal {code:?} {budget:?}")
        }
    }
}

/// Returns an event in a few words; `None` for one without information.
fn words(event: &RequestStreamEvent<'_>) -> Option<String> {
    Some(match *event {
        RequestStreamEvent::NeedMore | RequestStreamEvent::Nothing => return None,
        RequestStreamEvent::Head { head, end } => format!("head {}", event_format::head(head, end)),
        RequestStreamEvent::HeadRefused { refusal, fields, end } => {
            format!("refused {}", event_format::refused(refusal, &fields, end))
        }
        RequestStreamEvent::Data { bytes: b"" } => panic!("content of no bytes"),
        RequestStreamEvent::Data { bytes } => format!("data {}", event_format::content(bytes)),
        RequestStreamEvent::Trailers { fields } => {
            format!("trailers{}", event_format::all(&fields))
        }
        RequestStreamEvent::End => "end".to_owned(),
    })
}
