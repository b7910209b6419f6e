//! The frames of a WebSocket client: complete frames from one buffer, one after the other, and
//! messages that are decompressed from their first byte on whenever a part of them has arrived.

use flate2::{Decompress, FlushDecompress, Status};
use pinion_http::websocket::close_frame::CloseFrame;
use pinion_http::websocket::connection::{ClosedBy, InputEvent, WebSocketConnection};
use pinion_http::websocket::deflate_offer::DeflateAgreement;
use pinion_http::websocket::deflate_pool::DeflatePool;
use pinion_http::websocket::error::WebSocketError;
use pinion_http::websocket::frame_head::MessageKind;
use pinion_http::websocket::frame_reader::{WebSocketEvent, WebSocketReader};

/// The input from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A complete message.
    Message(MessageKind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(u16, String),
}

/// The events, the incomplete message, and the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) events: Vec<Event>,
    pub(crate) partial: Vec<u8>,
    pub(crate) error: Option<WebSocketError>,
}

/// The rules for reading messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) max_bytes: u64,
    pub(crate) has_deflate: bool,
}

/// Checks an input. The first byte selects the rules (bit 0: compressed messages, bit 1: a small
/// limit) and, with the other bits, the space for a piece; the second byte determines the cuts of
/// the frames. The rest is the input from a client.
pub(crate) fn check(data: &[u8]) {
    let [kind, cut, wire @ ..] = data else { return };
    let max_bytes = if kind & 2 != 0 { 20 } else { 1 << 16 };
    let rules = Rules { max_bytes, has_deflate: kind & 1 != 0 };
    check_frames(rules, wire, usize::from(*cut), usize::from(kind >> 2));
}

/// Panics if the result of the reader differs from that of reading frame by frame, or depends on
/// the cuts.
pub(crate) fn check_frames(rules: Rules, wire: &[u8], cut: usize, room: usize) -> Found {
    let found = read(rules, wire, wire.len(), usize::MAX);
    for (cut, room) in [(cut.max(1), room.max(1)), (1, usize::MAX), (wire.len(), 1)] {
        let parts = read(rules, wire, cut, room);
        assert_eq!(found, parts, "{cut} bytes, room for {room}: {}", wire.escape_ascii());
    }
    let mut plain = Found::default();
    plain.error = plainly(rules, wire, &mut plain).err();
    if plain.error.is_some() {
        plain.partial.clear();
    }
    assert_eq!(found, plain, "{rules:?} {}", wire.escape_ascii());
    check_connection(rules, wire, cut.max(1), &found);
    found
}

fn read(rules: Rules, wire: &[u8], cut: usize, room: usize) -> Found {
    let pool = rules.has_deflate.then(DeflatePool::default);
    let mut reader = WebSocketReader::new(rules.max_bytes, pool);
    let mut found = Found::default();
    let mut content = Vec::new();
    for mut part in wire.chunks(cut.max(1)) {
        loop {
            let before = content.len();
            let step = match reader.step(part, room, &mut content) {
                Ok(step) => step,
                Err(error) => {
                    assert_eq!(content.len(), before, "nothing is appended with an error");
                    let again = reader.step(b"", room, &mut content).err();
                    assert_eq!(again, Some(error));
                    found.error = Some(error);
                    return found;
                }
            };
            let used = step.used;
            assert!(used <= part.len());
            match step.event {
                WebSocketEvent::NeedMore => {
                    assert_eq!(used, part.len());
                    break;
                }
                WebSocketEvent::NeedRoom => panic!("there is room"),
                WebSocketEvent::Message { kind, bytes, is_end } => {
                    assert!(bytes <= room && (bytes > 0 || is_end));
                    assert_eq!(content.len(), before + bytes);
                    if is_end {
                        found.events.push(Event::Message(kind, core::mem::take(&mut content)));
                    }
                }
                WebSocketEvent::Ping(bytes) => found.events.push(Event::Ping(bytes.to_vec())),
                WebSocketEvent::Pong(bytes) => found.events.push(Event::Pong(bytes.to_vec())),
                WebSocketEvent::Close(CloseFrame { code, reason }) => {
                    found.events.push(Event::Close(code, reason.to_owned()));
                    content.clear();
                }
            }
            part = &part[used..];
        }
    }
    found.partial = content;
    found
}

/// Removes this many bytes from the front.
fn take<'a>(wire: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (front, rest) = wire.split_at_checked(bytes)?;
    *wire = rest;
    Some(front)
}

/// A message of which some frames have arrived.
struct Message {
    kind: MessageKind,
    is_compressed: bool,
    bytes: Vec<u8>,
    announced: u64,
}

/// Reads frame by frame.
fn plainly(rules: Rules, mut wire: &[u8], found: &mut Found) -> Result<(), WebSocketError> {
    let mut message: Option<Message> = None;
    while let Some(&[first, second]) = take(&mut wire, 2) {
        let (is_final, opcode) = (first & 128 != 0, first & 15);
        let is_compressed = first & 64 != 0;
        if first & 48 != 0 || (is_compressed && !rules.has_deflate) {
            return Err(WebSocketError::ReservedBits);
        }
        if ![0, 1, 2, 8, 9, 10].contains(&opcode) {
            return Err(WebSocketError::Opcode { opcode });
        }
        if is_compressed && ![1, 2].contains(&opcode) {
            return Err(WebSocketError::ReservedBits);
        }
        if opcode >= 8 && !is_final {
            return Err(WebSocketError::FragmentedControl);
        }
        if opcode >= 8 && second & 127 > 125 {
            return Err(WebSocketError::ControlLength);
        }
        if second < 128 {
            return Err(WebSocketError::NotMasked);
        }
        let (more, least) = match second & 127 {
            126 => (2, 126),
            127 => (8, 1 << 16),
            _ => (0, 0),
        };
        let Some(head) = take(&mut wire, more + 4) else { break };
        let (length, key) = head.split_at(more);
        let length = length.iter().fold(0, |sum: u64, byte| (sum << 8) | u64::from(*byte));
        let length = if more == 0 { u64::from(second & 127) } else { length };
        if length < least || length >> 63 != 0 {
            return Err(WebSocketError::LengthForm);
        }
        let there = usize::try_from(length).unwrap_or(usize::MAX).min(wire.len());
        let is_whole = there as u64 == length;
        let content = take(&mut wire, there).expect("it is there");
        let content = content.iter().enumerate().map(|(i, byte)| byte ^ key[i % 4]);
        let content: Vec<u8> = content.collect();
        match opcode {
            8.. if !is_whole => break,
            8 => {
                found.events.push(plain_close(&content)?);
                found.partial.clear();
                return Ok(());
            }
            9 => found.events.push(Event::Ping(content)),
            10 => found.events.push(Event::Pong(content)),
            _ => {
                let kind = if opcode == 1 { MessageKind::Text } else { MessageKind::Binary };
                if opcode == 0 && message.is_none() {
                    return Err(WebSocketError::NoMessage);
                }
                if opcode != 0 && message.is_some() {
                    return Err(WebSocketError::MessageInMessage);
                }
                let mut all = message.take().unwrap_or(Message {
                    kind,
                    is_compressed,
                    bytes: Vec::new(),
                    announced: 0,
                });
                all.announced += length;
                all.bytes.extend(content);
                let is_end = is_final && is_whole;
                let text = plain_message(rules, &all, is_end)?;
                found.partial.clear();
                if is_end {
                    found.events.push(Event::Message(all.kind, text));
                } else {
                    found.partial = text;
                    message = Some(all);
                }
            }
        }
    }
    Ok(())
}

fn plain_close(content: &[u8]) -> Result<Event, WebSocketError> {
    match content {
        [] => Ok(Event::Close(1005, String::new())),
        [_] => Err(WebSocketError::CloseLength),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let is_good = (1000..=1003).contains(&code)
                || (1007..=1014).contains(&code)
                || (3000..=4999).contains(&code);
            if !is_good {
                return Err(WebSocketError::CloseCode { code });
            }
            let reason = String::from_utf8(reason.to_vec());
            Ok(Event::Close(code, reason.map_err(|_| WebSocketError::CloseReason)?))
        }
    }
}

/// Returns the received part of a message.
fn plain_message(rules: Rules, message: &Message, is_end: bool) -> Result<Vec<u8>, WebSocketError> {
    let Rules { max_bytes, .. } = rules;
    let too_large = WebSocketError::MessageTooLarge { max_bytes };
    let (mut text, mut result) = (message.bytes.clone(), Ok(()));
    if message.is_compressed {
        if message.announced > 2 * max_bytes + 1024 {
            return Err(too_large);
        }
        if is_end {
            text.extend([0, 0, 255, 255]);
        }
        (text, result) = inflate(&text, max_bytes as usize);
    } else if message.announced > max_bytes {
        return Err(too_large);
    }
    if text.len() as u64 > max_bytes {
        text.truncate(max_bytes as usize);
        result = Err(too_large);
    }
    // The first error counts.
    let is_end = is_end && result.is_ok();
    if message.kind == MessageKind::Text
        && let Err(error) = std::str::from_utf8(&text)
        && (is_end || error.error_len().is_some())
    {
        return Err(WebSocketError::Text);
    }
    result.map(|()| text)
}

/// Decompresses byte by byte up to the first malformed byte, or up to a byte after the limit.
fn inflate(mut input: &[u8], max_bytes: usize) -> (Vec<u8>, Result<(), WebSocketError>) {
    let mut out = Vec::new();
    let mut machine = Decompress::new(false);
    while out.len() <= max_bytes {
        let mut byte = [0];
        let before = (machine.total_in(), machine.total_out());
        let status = machine.decompress(input, &mut byte, FlushDecompress::None);
        input = &input[(machine.total_in() - before.0) as usize..];
        let is_written = machine.total_out() > before.1;
        out.extend(is_written.then_some(byte[0]));
        match status {
            Err(_) => return (out, Err(WebSocketError::Compression)),
            Ok(Status::StreamEnd) => machine = Decompress::new(false),
            Ok(_) if !is_written && input.is_empty() => break,
            Ok(_) => {}
        }
    }
    (out, Ok(()))
}

/// Checks the frames that a connection sends to the client automatically: pongs, and the closing
/// frame.
fn check_connection(rules: Rules, wire: &[u8], cut: usize, found: &Found) {
    let deflate = rules.has_deflate.then(|| (DeflateAgreement::default(), DeflatePool::default()));
    let mut connection = WebSocketConnection::new(rules.max_bytes, deflate);
    let (mut content, mut out, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    let mut closed = None;
    for mut part in wire.chunks(cut) {
        loop {
            let input = connection.read(part, usize::MAX, &mut content, &mut out);
            part = &part[input.used..];
            match input.event {
                InputEvent::NeedMore => break,
                InputEvent::Closed(by) => {
                    assert!(closed.is_none(), "it closes once");
                    closed = Some(by);
                }
                _ => {}
            }
        }
    }
    for event in &found.events {
        match event {
            Event::Ping(ping) => expected.extend([&[0x8a, ping.len() as u8], &ping[..]].concat()),
            Event::Close(1005, _) => expected.extend([0x88, 0]),
            Event::Close(code, reason) => {
                let code = code.to_be_bytes();
                expected
                    .extend([&[0x88, 2 + reason.len() as u8], &code, reason.as_bytes()].concat());
            }
            Event::Message(..) | Event::Pong(_) => {}
        }
    }
    assert!(out.starts_with(&expected), "{} {}", wire.escape_ascii(), out.escape_ascii());
    let failure = &out[expected.len()..];
    assert_eq!(connection.is_over(), closed.is_some());
    match (closed, found.events.last()) {
        (Some(ClosedBy::Client { code, reason }), Some(Event::Close(its_code, its_reason))) => {
            assert_eq!((code, &*reason), (*its_code, &**its_reason));
            assert!(failure.is_empty());
        }
        (Some(ClosedBy::Error(error)), _) => {
            assert_eq!(Some(error), found.error);
            let code = [failure[2], failure[3]];
            assert_eq!((failure[0], u16::from_be_bytes(code)), (0x88, error.code()));
            assert_eq!(usize::from(failure[1]) + 2, failure.len());
        }
        (None, last) => {
            assert!(found.error.is_none() && failure.is_empty());
            assert!(!matches!(last, Some(Event::Close(..))), "it is closed");
        }
        (Some(by), last) => panic!("{by:?} after {last:?}"),
    }
}
