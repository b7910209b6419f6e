//! Content: the chunked grammar of RFC 9112 §7.1 parsed from a whole buffer, line by line.

use std::collections::BTreeSet;

use pinion_http::h1::body::{BodyReader, BodyStep};
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::h1::trailers;
use pinion_http::limits::{CHUNK_LINE_MAX_BYTES, FIELDS_MAX, TRAILER_MAX_BYTES};
use pinion_http::refusal::Refusal;
use pinion_http::request_head::Framing;

use super::chunk_lines::{is_extensions, is_field_line, line_at};

/// Checks an input. The first byte selects the framing (0: chunked, 1: chunked with a small limit,
/// otherwise the length), the second one determines the cuts and the space for output; the rest is
/// the body.
pub(crate) fn check(data: &[u8]) {
    let [framing, cut, wire @ ..] = data else { return };
    match framing {
        0 => check_chunked(1 << 20, wire, usize::from(*cut)),
        1 => check_chunked(48, wire, usize::from(*cut)),
        length => check_length(u64::from(*length), wire, usize::from(*cut)),
    }
}

/// RFC 9112 §6.2: exactly this many bytes.
fn check_length(length: u64, wire: &[u8], cut: usize) {
    let found = run(Framing::Length(length), 0, wire, cut);
    let expected = &wire[..wire.len().min(length as usize)];
    assert_eq!(found.content, expected);
    assert_eq!(found.consumed, expected.len());
    assert_eq!(found.ended, Ok(expected.len() as u64 == length));
}

fn check_chunked(content_max: u64, wire: &[u8], cut: usize) {
    let found = run(Framing::Chunked, content_max, wire, cut);
    // The result does not depend on the cuts.
    assert_eq!(found, run(Framing::Chunked, content_max, wire, 0));
    match (found.ended, read(wire, content_max)) {
        (Ok(true), Reading::Complete { content, bytes, trailers }) => {
            assert_eq!(found.content, content);
            assert_eq!(found.consumed, bytes);
            check_trailers(&found.section, &wire[trailers..bytes]);
        }
        (Ok(false), Reading::Incomplete { content, trailers }) => {
            assert_eq!(found.content, content);
            assert_eq!(found.consumed, trailers.unwrap_or(wire.len()));
        }
        (Err(refusal), Reading::Refused(statuses)) => {
            assert!(statuses.contains(&refusal.status()), "{refusal:?}, expected {statuses:?}");
        }
        (Err(refusal), Reading::Incomplete { .. }) => {
            for completion in COMPLETIONS {
                let longer = [wire, completion].concat();
                if let Reading::Complete { .. } = read(&longer, content_max) {
                    panic!("{refusal:?} too early, before {:?}", completion.escape_ascii());
                }
            }
        }
        (found, expected) => panic!("found {found:?}, expected {expected:?}"),
    }
}

/// Checks that the section is passed on unchanged, and that its fields are those of its lines,
/// without the forbidden ones.
fn check_trailers(found: &[u8], section: &[u8]) {
    assert_eq!(found, section);
    let lines: Vec<_> =
        section.split(|&byte| byte == b'\n').filter(|line| line.len() > 1).collect();
    let mut storage = HeadStorage::new();
    let fields = match trailers::read(found, &mut storage) {
        Ok(fields) => fields,
        Err(refusal) => {
            assert!(refusal == Refusal::TooManyFields && lines.len() > FIELDS_MAX, "{refusal:?}");
            return;
        }
    };
    assert!(lines.len() <= FIELDS_MAX);
    let fields = fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec()));
    let expected = lines.iter().map(|line| {
        let colon = line.iter().position(|&byte| byte == b':').unwrap();
        (line[..colon].to_vec(), line[colon + 1..].trim_ascii().to_vec())
    });
    let expected = expected.filter(|(name, _)| !trailers::is_forbidden(name));
    assert_eq!(fields.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

/// Ends that complete many beginnings to a body.
const COMPLETIONS: [&[u8]; 10] = [
    b"\r\n\r\n",
    b"\n\r\n",
    b"\r\n",
    b"\n",
    b"0\r\n\r\n",
    b"\r\n0\r\n\r\n",
    b"\n0\r\n\r\n",
    b"\"\r\n\r\n",
    b"a\r\n\r\n",
    b":\r\n\r\n",
];

#[derive(Debug, PartialEq, Eq)]
struct Found {
    content: Vec<u8>,
    consumed: usize,
    /// The trailer section, once the end was reached.
    section: Vec<u8>,
    /// Whether the end was reached; an error if the bytes were refused.
    ended: Result<bool, Refusal>,
}

/// Passes `cut` more bytes at a time to the reader (0: all at once), as a connection would, and
/// provides space for as many bytes of content at a time, when it needs space.
fn run(framing: Framing, content_max: u64, wire: &[u8], cut: usize) -> Found {
    let mut reader = BodyReader::new(framing, content_max);
    let mut found =
        Found { content: Vec::new(), consumed: 0, section: Vec::new(), ended: Ok(false) };
    let mut arrived = if cut == 0 { wire.len() } else { 0 };
    let sip = if cut == 0 { u64::MAX } else { cut as u64 };
    let mut room = sip;
    loop {
        match reader.step(&wire[found.consumed..arrived], room) {
            Ok((bytes, step)) => {
                found.consumed += bytes;
                assert!(found.consumed <= arrived);
                match step {
                    BodyStep::Data(data) => {
                        assert!(!data.is_empty());
                        assert!(wire[..found.consumed].ends_with(data));
                        found.content.extend_from_slice(data);
                        room = room.checked_sub(data.len() as u64).expect("no more than wanted");
                    }
                    BodyStep::NeedMore if reader.is_in_content() && room == 0 => room = sip,
                    BodyStep::NeedMore => {
                        assert!(!reader.is_at_end());
                        if arrived == wire.len() {
                            return found;
                        }
                        arrived = wire.len().min(arrived + cut);
                    }
                    BodyStep::End(section) => {
                        assert!(reader.is_at_end());
                        assert_eq!(reader.step(b"next", room), Ok((0, BodyStep::End(b""))));
                        found.section = section.to_vec();
                        found.ended = Ok(true);
                        return found;
                    }
                }
            }
            Err(refusal) => {
                // The offset does not matter, because the connection is closed.
                found.consumed = 0;
                found.ended = Err(refusal);
                return found;
            }
        }
    }
}

#[derive(Debug)]
enum Reading {
    /// `trailers`: the offset of the section, if it has begun.
    Incomplete {
        content: Vec<u8>,
        trailers: Option<usize>,
    },
    /// `trailers`: the offset of the section; `bytes`: the offset of its end.
    Complete {
        content: Vec<u8>,
        trailers: usize,
        bytes: usize,
    },
    Refused(BTreeSet<u16>),
}

fn refused(status: u16) -> Reading {
    Reading::Refused(BTreeSet::from([status]))
}

fn read(wire: &[u8], content_max: u64) -> Reading {
    let mut content = Vec::new();
    let mut charged: u64 = 0;
    let mut at = 0;
    loop {
        let Some(line) = line_at(wire, at) else {
            let pending = wire.len() - at;
            return if pending > CHUNK_LINE_MAX_BYTES {
                refused(400)
            } else {
                Reading::Incomplete { content, trailers: None }
            };
        };
        let line_bytes = line.len() + 2;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = std::str::from_utf8(&line[..digits]).unwrap();
        let Ok(size) = u64::from_str_radix(size, 16) else { return refused(400) };
        if line_bytes > CHUNK_LINE_MAX_BYTES || !is_extensions(&line[digits..]) {
            return refused(400);
        }
        charged =
            charged.saturating_add(size).saturating_add((line_bytes as u64).saturating_sub(18));
        if charged > content_max {
            return refused(413);
        }
        at += line_bytes;
        if size == 0 {
            return trailers(wire, at, content);
        }
        let size = size as usize;
        content.extend_from_slice(&wire[at..wire.len().min(at + size)]);
        match wire.get(at + size..) {
            None | Some(b"" | b"\r") => return Reading::Incomplete { content, trailers: None },
            Some([b'\r', b'\n', ..]) => at += size + 2,
            Some(_) => return refused(400),
        }
    }
}

/// Reads *( field-line CRLF ) CRLF.
fn trailers(wire: &[u8], start: usize, content: Vec<u8>) -> Reading {
    let mut at = start;
    loop {
        let line = line_at(wire, at);
        let end = line.map_or(wire.len(), |line| at + line.len() + 2);
        let mut wrong = BTreeSet::new();
        if end - start > TRAILER_MAX_BYTES {
            wrong.insert(431);
        }
        match line {
            Some(line) if !line.is_empty() && !is_field_line(line) => {
                wrong.insert(400);
            }
            // A line that is both too long and malformed is refused for the first of the two.
            None if !wrong.is_empty() => {
                wrong.insert(400);
            }
            _ => {}
        }
        if !wrong.is_empty() {
            return Reading::Refused(wrong);
        }
        match line {
            None => return Reading::Incomplete { content, trailers: Some(start) },
            Some([]) => return Reading::Complete { content, trailers: start, bytes: end },
            Some(_) => at = end,
        }
    }
}
