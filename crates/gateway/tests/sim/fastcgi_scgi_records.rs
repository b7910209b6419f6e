//! The records that applications read and write over FastCGI and SCGI, in the simplest form. The
//! module defines the meaning of bytes for applications, and shares nothing with the readers and
//! writers of the gateway.

use crate::http1_reader::{FieldLine, Message, Reading, read_request, read_response};
use crate::upstream::Shape;

/// The protocol of an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http,
    FastCgi {
        /// The gateway keeps connections.
        is_kept: bool,
    },
    Scgi,
}

/// Types of records (FastCGI 1.0, §8).
const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;

const HEADER_BYTES: usize = 8;
/// Bytes of content of the shortest records.
const SHORT_RECORD_BYTES: usize = 7;
/// Bytes of a line that never ends.
const LONG_LINE_BYTES: usize = 60_000;

impl Spoken {
    pub(crate) const APPLICATIONS: [Self; 3] =
        [Self::FastCgi { is_kept: true }, Self::FastCgi { is_kept: false }, Self::Scgi];

    /// Returns whether a response ends the connection.
    pub(crate) fn closes(self, shape: Shape) -> bool {
        match self {
            Self::Http => shape.closes(),
            // One shape of a response ends the connection, although the application was asked to
            // keep it.
            Self::FastCgi { is_kept: true } => shape == Shape::UntilClose,
            Self::FastCgi { is_kept: false } | Self::Scgi => true,
        }
    }

    /// Reads a request.
    pub(crate) fn read_request(self, bytes: &[u8]) -> Reading {
        match self {
            Self::Http => read_request(bytes),
            Self::FastCgi { is_kept } => read_record_request(bytes, is_kept),
            Self::Scgi => read_netstring_request(bytes),
        }
    }

    /// Reads a response. `has_ended` means that the connection has ended in an orderly way.
    pub(crate) fn read_response(self, bytes: &[u8], method: &str, has_ended: bool) -> Reading {
        match self {
            Self::Http => read_response(bytes, method, has_ended),
            Self::FastCgi { .. } => read_record_response(bytes, method),
            Self::Scgi => {
                let whole = has_ended.then_some(bytes.len());
                read_document(bytes, method, whole)
            }
        }
    }

    /// Returns the response to a request with this content.
    pub(crate) fn response(self, shape: Shape, id: &str, method: &str, content: &[u8]) -> Vec<u8> {
        match self {
            Self::Http => shape.response(id, method, content),
            Self::FastCgi { .. } => records(shape, &document(shape, id, method, content)),
            Self::Scgi => document(shape, id, method, content),
        }
    }

    /// Returns bytes that cannot continue any response. There are several kinds of them.
    pub(crate) fn garbage(self, number: usize) -> Vec<u8> {
        if !matches!(self, Self::FastCgi { .. }) {
            return b"\0\xff garbage\r\n\r\n".to_vec();
        }
        let end = |status: u8| record(END_REQUEST, 1, &[0, 0, 0, 0, status, 0, 0, 0], 0);
        let with = |place: usize, byte: u8| {
            let mut bytes = record(STDOUT, 1, b"X-Id: 1\r\n\r\n", 0);
            bytes[place] = byte;
            bytes
        };
        match number % 13 {
            0 => b"\0\xff garbage\r\n\r\n".to_vec(),
            // Another version, another request, and types that no application sends.
            1 => with(0, 2),
            2 => with(3, 2),
            3 => with(2, 1),
            4 => with(1, STDIN),
            5 => with(1, 12),
            6 => record(GET_VALUES_RESULT, 1, b"", 0),
            // These streams continue after their end.
            7 => [record(STDOUT, 1, b"", 9), with(0, 1)].concat(),
            8 => [record(STDERR, 1, b"", 0), record(STDERR, 1, b"x", 0)].concat(),
            // Ends of a request that are none.
            9 => record(END_REQUEST, 1, b"1234567", 1),
            10 => end(1 + (number % 4) as u8),
            11 => end(0)[..HEADER_BYTES + 4].to_vec(),
            // A head that is too long, in the largest records.
            _ => record(STDOUT, 1, &[b'a'; LONG_LINE_BYTES], 255).repeat(3),
        }
    }
}

/// Makes a record.
fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let bytes = u16::try_from(content.len()).expect("content of a record");
    let ([id_1, id_0], [bytes_1, bytes_0]) = (id.to_be_bytes(), bytes.to_be_bytes());
    let header = [1, kind, id_1, id_0, bytes_1, bytes_0, padding, 0xee];
    [&header[..], content, &vec![0xaa; usize::from(padding)]].concat()
}

/// Makes a response of RFC 3875 §6.
fn document(shape: Shape, id: &str, method: &str, content: &[u8]) -> Vec<u8> {
    let own = format!("X-Id: {id}\r\nConnection: X-Hop\r\nX-Hop: 1\r\n");
    let length = content.len();
    let head = match shape {
        Shape::Length => format!("Status: 200 OK\r\n{own}Content-Length: {length}\r\n\r\n"),
        Shape::LengthClose => format!("X-Id: {id}\nContent-Length: {length}\n\n"),
        Shape::Empty => format!("Status: 201 Created\r\n{own}Content-Length: 0\r\n\r\n"),
        Shape::Chunked => format!("{own}\r\n"),
        Shape::UntilClose => format!("{own}X-Form: until-close\r\nStatus: 200\r\n\r\n"),
        Shape::Http10 => format!("Status: 200\nX-Id: {id}\n\n"),
        Shape::NoContent => format!("Status: 204 No Content\r\nX-Id: {id}\r\n\r\n"),
        Shape::NotModified => format!("Status: 304\r\nX-Id: {id}\r\nETag: \"a\"\r\n\r\n"),
        Shape::Interim => format!("Content-Length: {length}\r\n{own}\r\n"),
    };
    let has_none = matches!(shape, Shape::Empty | Shape::NoContent | Shape::NotModified);
    let content = if has_none || method == "HEAD" { b"" } else { content };
    [head.as_bytes(), content].concat()
}

/// Puts output into records.
fn records(shape: Shape, output: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |kind, id, content: &[u8], padding| {
        bytes.extend_from_slice(&record(kind, id, content, padding));
    };
    let end = [0, 0, 0, 3, 0, 0, 0, 0];
    match shape {
        // Between records of management, which belong to no request.
        Shape::Interim => {
            add(GET_VALUES_RESULT, 0, b"\x0f\x01FCGI_MPXS_CONNS0", 6);
            let pieces = output.chunks(output.len().div_ceil(3).min(usize::from(u16::MAX)));
            for piece in pieces {
                add(STDOUT, 1, piece, 0);
                add(UNKNOWN_TYPE, 0, b"\x63\0\0\0\0\0\0\0", 0);
            }
        }
        // With messages for the log between two pieces.
        Shape::Chunked => {
            for piece in output.chunks(output.len().div_ceil(2).min(usize::from(u16::MAX))) {
                add(STDERR, 1, b"a message\n", 255);
                add(STDOUT, 1, piece, 255);
            }
            add(STDERR, 1, b"", 0);
            add(STDOUT, 1, b"", 1);
        }
        Shape::Http10 => {
            output.chunks(SHORT_RECORD_BYTES).for_each(|piece| add(STDOUT, 1, piece, 1));
        }
        _ => {
            for piece in output.chunks(usize::from(u16::MAX)) {
                add(STDOUT, 1, piece, (piece.len().wrapping_neg() % 8) as u8);
            }
            add(STDOUT, 1, b"", 0);
        }
    }
    add(END_REQUEST, 1, &end, if shape == Shape::Chunked { 8 } else { 0 });
    bytes
}

/// A record, possibly with less content than its header announces.
struct Record<'b> {
    kind: u8,
    id: u16,
    content: &'b [u8],
    content_bytes: usize,
    /// The position of the next record, if this one is complete.
    end: Option<usize>,
}

/// Returns the record at a place; `Ok(None)` if its header is not whole.
fn record_at(bytes: &[u8], at: usize) -> Result<Option<Record<'_>>, ()> {
    let rest = &bytes[at..];
    if rest.first().is_some_and(|version| *version != 1) {
        return Err(());
    }
    let Some(header) = rest.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let [_, kind, id_1, id_0, bytes_1, bytes_0, padding, _] = *header;
    let content_bytes = usize::from(u16::from_be_bytes([bytes_1, bytes_0]));
    let content_end = HEADER_BYTES + content_bytes;
    let content = &rest[HEADER_BYTES..content_end.min(rest.len())];
    let whole_bytes = content_end + usize::from(padding);
    let end = (rest.len() >= whole_bytes).then_some(at + whole_bytes);
    let id = u16::from_be_bytes([id_1, id_0]);
    Ok(Some(Record { kind, id, content, content_bytes, end }))
}

fn read_record_request(bytes: &[u8], is_kept: bool) -> Reading {
    let malformed = Reading { is_malformed: true, ..Reading::default() };
    let (mut params, mut content) = (Vec::new(), Vec::new());
    let (mut message, mut end) = (None, None);
    let (mut at, mut has_begun) = (0, false);
    loop {
        let Ok(record) = record_at(bytes, at) else { return malformed };
        let Some(record) = record else { break };
        let Some(next) = record.end else {
            if record.kind == STDIN {
                content.extend_from_slice(record.content);
            }
            break;
        };
        at = next;
        match (record.kind, record.content) {
            // The client of the request before has left.
            (ABORT_REQUEST, []) if !has_begun => {}
            (ABORT_REQUEST, []) => break,
            (BEGIN_REQUEST, [0, 1, flags, 0, 0, 0, 0, 0]) if !has_begun => {
                has_begun = true;
                if *flags != u8::from(is_kept) {
                    return malformed;
                }
            }
            (PARAMS, []) if has_begun && message.is_none() => {
                let Some(read) = variables(&params) else { return malformed };
                message = Some(read);
            }
            (PARAMS, pairs) if has_begun && message.is_none() => params.extend_from_slice(pairs),
            (STDIN, []) if message.is_some() => {
                end = Some(at);
                break;
            }
            (STDIN, piece) if message.is_some() => content.extend_from_slice(piece),
            _ => return malformed,
        }
        if record.id != 1 {
            return malformed;
        }
    }
    request(message, content, end)
}

/// Returns a request whose content ends there, if it does.
fn request(message: Option<Message>, content: Vec<u8>, end: Option<usize>) -> Reading {
    let length = message.as_ref().and_then(|message| message.field("CONTENT_LENGTH"));
    let length = length.map_or(0, |length| length.parse().unwrap_or(usize::MAX));
    let is_malformed = content.len() > length || end.is_some() && content.len() < length;
    let message = message.map(|message| Message { content, ..message });
    Reading { message, end, is_malformed, ..Reading::default() }
}

/// Reads pairs of names and values (§3.4).
fn variables(pairs: &[u8]) -> Option<Message> {
    let mut fields = Vec::new();
    let mut rest = pairs;
    let take = |rest: &mut &[u8], bytes: usize| {
        let (taken, behind) = rest.split_at_checked(bytes)?;
        *rest = behind;
        Some(taken.to_vec())
    };
    let length = |rest: &mut &[u8]| {
        if rest.first()? & 0x80 == 0 {
            return Some(usize::from(take(rest, 1)?[0]));
        }
        let bytes = take(rest, 4)?;
        Some(u32::from_be_bytes([bytes[0] & 0x7f, bytes[1], bytes[2], bytes[3]]) as usize)
    };
    while !rest.is_empty() {
        let (name, value) = (length(&mut rest)?, length(&mut rest)?);
        let (name, value) = (take(&mut rest, name)?, take(&mut rest, value)?);
        fields.push((String::from_utf8(name).ok()?, String::from_utf8(value).ok()?));
    }
    Some(message_of(fields))
}

fn message_of(fields: Vec<FieldLine>) -> Message {
    let message = Message { fields, ..Message::default() };
    let [method, target, version] = ["REQUEST_METHOD", "REQUEST_URI", "SERVER_PROTOCOL"]
        .map(|name| message.field(name).unwrap_or_default());
    let start = format!("{method} {target} {version}");
    Message { start, ..message }
}

fn read_netstring_request(bytes: &[u8]) -> Reading {
    let reading = Reading::default();
    let Some(colon) = bytes.iter().position(|byte| *byte == b':') else { return reading };
    let digits = std::str::from_utf8(&bytes[..colon]).unwrap_or_default();
    let Ok(length) = digits.parse::<usize>() else {
        return Reading { is_malformed: true, ..reading };
    };
    let behind = colon + 1 + length;
    if bytes.len() <= behind {
        return reading;
    }
    let mut texts = bytes[colon + 1..behind].split(|byte| *byte == 0);
    let mut text = || texts.next().map(|text| String::from_utf8_lossy(text).into_owned());
    let mut fields = Vec::new();
    while let (Some(name), Some(value)) = (text(), text()) {
        fields.push((name, value));
    }
    let is_right =
        bytes[behind] == b',' && fields.first().is_some_and(|(name, _)| name == "CONTENT_LENGTH");
    let message = message_of(fields);
    if !is_right || message.field("SCGI") != Some("1") {
        return Reading { is_malformed: true, ..reading };
    }
    let length = message.field("CONTENT_LENGTH").unwrap_or_default();
    let end = behind + 1 + length.parse::<usize>().unwrap_or(0);
    let content = bytes[behind + 1..end.min(bytes.len())].to_vec();
    request(Some(message), content, (bytes.len() >= end).then_some(end))
}

fn read_record_response(bytes: &[u8], method: &str) -> Reading {
    let (mut output, mut ended) = (Vec::new(), None);
    let (mut is_stdout_over, mut is_stderr_over) = (false, false);
    let mut at = 0;
    while let Ok(Some(record)) = record_at(bytes, at) {
        let wanted_id = u16::from(record.kind < GET_VALUES_RESULT);
        let is_over = match record.kind {
            STDOUT => &mut is_stdout_over,
            STDERR => &mut is_stderr_over,
            _ => &mut false,
        };
        if record.id != wanted_id || *is_over && record.content_bytes > 0 {
            break;
        }
        *is_over |= record.content_bytes == 0;
        match record.kind {
            STDOUT => output.extend_from_slice(record.content),
            STDERR | GET_VALUES_RESULT | UNKNOWN_TYPE => {}
            END_REQUEST if record.content_bytes == 8 => {
                let is_complete = record.content.get(4) == Some(&0);
                ended = record.end.filter(|_| is_complete);
                break;
            }
            _ => break,
        }
        let Some(next) = record.end else { break };
        at = next;
    }
    read_document(&output, method, ended)
}

/// Reads a response of RFC 3875 §6. `ended` is the position of its end, if it has one.
fn read_document(output: &[u8], method: &str, ended: Option<usize>) -> Reading {
    let reading = Reading::default();
    let (mut fields, mut at) = (Vec::new(), 0);
    loop {
        let Some(end) = output[at..].iter().position(|byte| *byte == b'\n') else { return reading };
        let line = String::from_utf8_lossy(&output[at..at + end]);
        let line = line.trim_end_matches('\r');
        at += end + 1;
        let is_name =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
        let is_text = line.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match line.split_once(": ") {
            Some((name, value)) if is_text && is_name(name) => {
                fields.push((name.to_owned(), value.to_owned()));
            }
            None if line.is_empty() && !fields.is_empty() => break,
            _ => return reading,
        }
    }
    let message = Message { fields, ..Message::default() };
    let status = message.field("Status").unwrap_or("200");
    let start = format!("HTTP/1.1 {}", &status[..3]);
    let length = message.field("Content-Length").map(|value| value.parse().expect("a number"));
    let has_content = method != "HEAD" && !matches!(&status[..3], "204" | "304");
    let rest = &output[at..];
    let content = match (has_content, length) {
        (false, _) => b"",
        (true, None) => rest,
        (true, Some(length)) => &rest[..rest.len().min(length)],
    };
    let is_right = !has_content || length.is_none_or(|length| rest.len() == length);
    let has_all_content = !has_content || length == Some(content.len());
    let content = content.to_vec();
    let end = ended.filter(|_| is_right);
    Reading {
        message: Some(Message { start, content, ..message }),
        end,
        has_all_content,
        ..reading
    }
}
