//! The frames of a Python process: complete frames from one buffer, one after the other, and heads
//! line by line.

use pinion_http::cgi::error::CgiError;
use pinion_http::field::Fields;
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::python::child_frame::{ChildFrame, FrameStep};
use pinion_http::python::error::ChildFrameError;
use pinion_http::python::frame_header::ChildFrameKind;
use pinion_http::python::frame_reader::ChildFrameReader;

/// The data of a frame, or of a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Ready(String),
    /// A head; with the length of the content if the response came in one frame.
    Head {
        request: u32,
        head: Head,
        whole: Option<u32>,
    },
    MalformedHead {
        request: u32,
        error: CgiError,
        is_end: bool,
    },
    /// Content; consecutive pieces of one request are joined.
    Content(u32, Vec<u8>),
    /// A response in one frame is complete.
    WholeEnd(u32),
    End(u32),
    Abort(u32, Vec<u8>),
    Failed(u32, Vec<u8>),
    Want(u32, u32),
    Hints(u32, FieldList),
    GivenBack(Vec<u32>),
    Accept(u32, FieldList),
    /// A piece of a message: whether it is binary, the bytes that count, and whether it is the last
    /// one. Consecutive pieces are joined.
    Message(u32, bool, Vec<u8>, u32, bool),
    Close(u32, u16, Vec<u8>),
    File(u32, u64, u64),
    WantChannel,
}

type FieldList = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) reason: Vec<u8>,
    pub(crate) fields: FieldList,
    pub(crate) content_length: Option<u64>,
}

/// The events, and the error at the end of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) events: Vec<Event>,
    pub(crate) error: Option<ChildFrameError>,
}

/// Checks an input. The first byte selects the limits (bit 0: small ones) and whether `READY` is
/// put before the frames (bit 1); the second one determines the cuts. The rest is the output of a
/// process.
pub(crate) fn check(data: &[u8]) {
    let [kind, cut, wire @ ..] = data else { return };
    let mut limits = ResponseLimits::default();
    if kind & 1 != 0 {
        limits.head_bytes = 60;
        limits.fields = 3;
    }
    let ready = if kind & 2 != 0 { frame(16, 0, b"{}") } else { Vec::new() };
    check_frames(&limits, &[&ready, wire].concat(), usize::from(*cut));
}

/// Returns a frame.
pub(crate) fn frame(kind: u32, request: u32, content: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(content.len()).expect("32 bits");
    let header = [kind, request, bytes].map(u32::to_le_bytes).concat();
    [&header, content].concat()
}

/// Panics if the result of the reader differs from that of reading frame by frame, or depends on
/// the cuts.
pub(crate) fn check_frames(limits: &ResponseLimits, wire: &[u8], cut: usize) -> Found {
    let found = read(limits, wire, wire.len());
    for cut in [cut.max(1), 1] {
        let parts = read(limits, wire, cut);
        assert_eq!(found, parts, "in parts of {cut} bytes: {}", wire.escape_ascii());
    }
    let mut plain = Found::default();
    plain.error = plainly(limits, wire, &mut plain.events).err();
    assert_eq!(found, plain, "{}", wire.escape_ascii());
    found
}

fn read(limits: &ResponseLimits, wire: &[u8], cut: usize) -> Found {
    let mut reader = ChildFrameReader::new(limits);
    let mut storage = HeadStorage::new();
    let mut found = Found::default();
    for mut part in wire.chunks(cut.max(1)) {
        while !part.is_empty() {
            let step = match reader.step(part, &mut storage) {
                Ok(step) => step,
                Err(error) => {
                    assert_eq!(reader.step(b"", &mut storage).err(), Some(error));
                    assert_eq!(reader.end(), Err(error));
                    found.error = Some(error);
                    return found;
                }
            };
            let FrameStep { used, frame } = step;
            assert!(used > 0 && used <= part.len(), "each step makes progress");
            assert!(frame.is_some() || used == part.len());
            if let Some(frame) = frame {
                push_frame(&mut found.events, &frame);
            }
            part = &part[used..];
        }
        let nothing = reader.step(b"", &mut storage).expect("nothing is wrong with nothing");
        assert!(nothing.used == 0 && nothing.frame.is_none(), "each frame was given");
    }
    found.error = reader.end().err();
    found
}

fn push_frame(events: &mut Vec<Event>, frame: &ChildFrame<'_>) {
    match *frame {
        ChildFrame::Ready(text) => events.push(Event::Ready(text.to_owned())),
        ChildFrame::Response { request, head, content, missing_bytes } => {
            let whole = content.len() + missing_bytes as usize;
            let whole = Some(u32::try_from(whole).expect("32 bits"));
            let head = Head {
                status: head.status,
                reason: head.reason.to_vec(),
                fields: list_of(&head.fields),
                content_length: head.content_length,
            };
            events.push(Event::Head { request, head, whole });
            push_content(events, request, content);
            if missing_bytes == 0 {
                events.push(Event::WholeEnd(request));
            }
        }
        ChildFrame::Head { request, head } => {
            let head = Head {
                status: head.status,
                reason: head.reason.to_vec(),
                fields: list_of(&head.fields),
                content_length: head.content_length,
            };
            events.push(Event::Head { request, head, whole: None });
        }
        ChildFrame::MalformedHead { request, error, is_end } => {
            events.push(Event::MalformedHead { request, error, is_end });
        }
        ChildFrame::Content { request, bytes, is_end } => {
            assert!(!bytes.is_empty());
            push_content(events, request, bytes);
            if is_end {
                events.push(Event::WholeEnd(request));
            }
        }
        ChildFrame::End { request } => events.push(Event::End(request)),
        ChildFrame::Abort { request, text } => events.push(Event::Abort(request, text.to_vec())),
        ChildFrame::Failed { request, text } => events.push(Event::Failed(request, text.to_vec())),
        ChildFrame::Want { request, bytes } => events.push(Event::Want(request, bytes)),
        ChildFrame::Hints { request, hints } => {
            events.push(Event::Hints(request, list_of(&hints.fields)));
        }
        ChildFrame::Accept { request, fields } => {
            events.push(Event::Accept(request, list_of(&fields.fields)));
        }
        ChildFrame::Message { request, is_binary, bytes, room_bytes, is_end } => {
            push_message(events, (request, is_binary), bytes, room_bytes, is_end);
        }
        ChildFrame::Close { request, code, reason } => {
            events.push(Event::Close(request, code, reason.to_vec()));
        }
        ChildFrame::File { request, offset, bytes } => {
            events.push(Event::File(request, offset, bytes));
        }
        ChildFrame::WantChannel => events.push(Event::WantChannel),
        ChildFrame::GivenBack(numbers) => events.push(Event::GivenBack(numbers.iter().collect())),
    }
}

fn list_of(fields: &Fields<'_>) -> FieldList {
    fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}

fn push_content(events: &mut Vec<Event>, request: u32, bytes: &[u8]) {
    match events.last_mut() {
        _ if bytes.is_empty() => {}
        Some(Event::Content(same, all)) if *same == request => all.extend_from_slice(bytes),
        _ => events.push(Event::Content(request, bytes.to_vec())),
    }
}

fn push_message(
    events: &mut Vec<Event>,
    (request, is_binary): (u32, bool),
    bytes: &[u8],
    room_bytes: u32,
    is_end: bool,
) {
    match events.last_mut() {
        Some(Event::Message(same, its_kind, all, all_room, was_end))
            if *same == request && *its_kind == is_binary && !*was_end =>
        {
            all.extend_from_slice(bytes);
            *all_room += room_bytes;
            *was_end = is_end;
        }
        _ => events.push(Event::Message(request, is_binary, bytes.to_vec(), room_bytes, is_end)),
    }
}

/// Returns the number at the front, and the rest.
fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (front, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*front), rest))
}

/// Reads frame by frame.
fn plainly(
    limits: &ResponseLimits,
    mut wire: &[u8],
    events: &mut Vec<Event>,
) -> Result<(), ChildFrameError> {
    let mut is_first = true;
    while !wire.is_empty() {
        let header = number(wire)
            .and_then(|(kind, rest)| number(rest).map(|(request, rest)| (kind, request, rest)))
            .and_then(|(kind, request, rest)| {
                number(rest).map(|(n, rest)| (kind, request, n, rest))
            });
        let Some((kind, request, bytes, rest)) = header else {
            return Err(ChildFrameError::Incomplete);
        };
        check_header(kind, request, bytes, is_first)?;
        is_first = false;
        let there = rest.len().min(bytes as usize);
        let (body, behind) = rest.split_at(there);
        let is_whole = there == bytes as usize;
        wire = behind;
        match kind {
            17 => plain_response(limits, request, bytes, body, events)?,
            18 | 24 | 26 if bytes as usize > limits.head_bytes => {
                events.push(too_large(limits, request, false));
            }
            19 => push_content(events, request, body),
            27 => {
                if let Some((flags, piece)) = body.split_first() {
                    if *flags > 3 {
                        return Err(ChildFrameError::MessageFlags { flags: *flags });
                    }
                    let is_end = is_whole && flags & 2 == 0;
                    if !piece.is_empty() || is_whole {
                        let count = body.len() as u32;
                        push_message(events, (request, flags & 1 != 0), piece, count, is_end);
                    }
                }
            }
            _ if !is_whole => {}
            16 => {
                let text = String::from_utf8(body.to_vec());
                events.push(Event::Ready(text.map_err(|_| ChildFrameError::ReadyText)?));
            }
            18 => events.push(match plain_head(limits, body) {
                Ok(head) => Event::Head { request, head, whole: None },
                Err(error) => Event::MalformedHead { request, error, is_end: false },
            }),
            20 => events.push(Event::End(request)),
            21 => events.push(Event::Abort(request, body.to_vec())),
            22 => events.push(Event::Failed(request, body.to_vec())),
            23 => events.push(Event::Want(request, number(body).expect("four bytes").0)),
            24 => events.push(match plain_fields(limits, body) {
                Ok(fields) => Event::Hints(request, allowed(fields)),
                Err(error) => Event::MalformedHead { request, error, is_end: false },
            }),
            26 => events.push(match plain_accept(limits, body) {
                Ok(fields) => Event::Accept(request, allowed(fields)),
                Err(error) => Event::MalformedHead { request, error, is_end: false },
            }),
            28 => {
                let code = u16::from_le_bytes([body[0], body[1]]);
                events.push(Event::Close(request, code, body[2..].to_vec()));
            }
            29 => {
                let [offset, bytes] = [&body[..8], &body[8..]].map(|eight| {
                    eight.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
                });
                events.push(Event::File(request, offset, bytes));
            }
            30 => events.push(Event::WantChannel),
            _ => {
                let numbers = body.chunks(4).map(|four| number(four).expect("four bytes").0);
                events.push(Event::GivenBack(numbers.collect()));
            }
        }
        if !is_whole {
            return Err(ChildFrameError::Incomplete);
        }
    }
    Ok(())
}

fn check_header(kind: u32, request: u32, bytes: u32, first: bool) -> Result<(), ChildFrameError> {
    let number = kind;
    let kind = match kind {
        16 => ChildFrameKind::Ready,
        17 => ChildFrameKind::Response,
        18 => ChildFrameKind::Head,
        19 => ChildFrameKind::Content,
        20 => ChildFrameKind::End,
        21 => ChildFrameKind::Abort,
        22 => ChildFrameKind::Failed,
        23 => ChildFrameKind::Want,
        24 => ChildFrameKind::Hints,
        25 => ChildFrameKind::GivenBack,
        26 => ChildFrameKind::Accept,
        27 => ChildFrameKind::Message,
        28 => ChildFrameKind::Close,
        29 => ChildFrameKind::File,
        30 => ChildFrameKind::WantChannel,
        kind => return Err(ChildFrameError::Kind { kind }),
    };
    if (request == 0) != [16, 25, 30].contains(&number) {
        return Err(ChildFrameError::RequestNumber { kind, request });
    }
    if number != 16 && first {
        return Err(ChildFrameError::NotReady { kind });
    }
    if number == 16 && !first {
        return Err(ChildFrameError::ReadyAgain);
    }
    let is_good = match number {
        16 => bytes <= 4096,
        17 => (4..=4 + (1 << 20) + (1 << 16)).contains(&bytes),
        18 | 24 | 26 => bytes <= 1 << 20,
        27 => (1..=1 << 16).contains(&bytes),
        28 => (2..=125).contains(&bytes),
        29 => bytes == 16,
        30 => bytes == 0,
        19 => bytes <= 1 << 16,
        20 => bytes == 0,
        21 | 22 => bytes <= 8192,
        23 => bytes == 4,
        _ => bytes <= 16 * 1024 && bytes.is_multiple_of(4),
    };
    if is_good { Ok(()) } else { Err(ChildFrameError::Length { kind, bytes }) }
}

fn too_large(limits: &ResponseLimits, request: u32, is_end: bool) -> Event {
    let error = CgiError::HeadTooLarge { max_bytes: limits.head_bytes };
    Event::MalformedHead { request, error, is_end }
}

/// Reads a whole response of which the part `body` has arrived.
fn plain_response(
    limits: &ResponseLimits,
    request: u32,
    bytes: u32,
    body: &[u8],
    events: &mut Vec<Event>,
) -> Result<(), ChildFrameError> {
    let Some((head_bytes, rest)) = number(body) else { return Ok(()) };
    if head_bytes > bytes - 4 {
        return Err(ChildFrameError::HeadLength { head_bytes, frame_bytes: bytes });
    }
    let content_bytes = bytes - 4 - head_bytes;
    if content_bytes > 1 << 16 || head_bytes > 1 << 20 {
        return Err(ChildFrameError::Length { kind: ChildFrameKind::Response, bytes });
    }
    if head_bytes as usize > limits.head_bytes {
        events.push(too_large(limits, request, true));
        return Ok(());
    }
    let Some((head, content)) = rest.split_at_checked(head_bytes as usize) else { return Ok(()) };
    match plain_head(limits, head) {
        Ok(head) => {
            events.push(Event::Head { request, head, whole: Some(content_bytes) });
            push_content(events, request, content);
            if content.len() == content_bytes as usize {
                events.push(Event::WholeEnd(request));
            }
        }
        Err(error) => events.push(Event::MalformedHead { request, error, is_end: true }),
    }
    Ok(())
}

fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| String::from_utf8_lossy(text).parse().ok()).flatten()
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 9 || (byte >= 32 && byte != 127))
}

fn plain_head(limits: &ResponseLimits, text: &[u8]) -> Result<Head, CgiError> {
    let end = text.iter().position(|&byte| byte == b'\n').ok_or(CgiError::HeadIncomplete)?;
    let line = &text[..end];
    let code = line
        .get(..3)
        .and_then(digits)
        .filter(|code| *code >= 200)
        .ok_or(CgiError::InvalidStatus)?;
    let reason = &line[3..];
    if !(reason.is_empty() || reason[0] == b' ') || !is_text(reason) {
        return Err(CgiError::InvalidStatus);
    }
    let fields = plain_fields(limits, &text[end + 1..])?;
    let lengths = fields.iter().filter(|field| field.0.eq_ignore_ascii_case(b"content-length"));
    let content_length = match &lengths.collect::<Vec<_>>()[..] {
        [] => None,
        [(_, value)] => Some(digits(value).ok_or(CgiError::InvalidContentLength)?),
        _ => return Err(CgiError::RepeatedField { name: "Content-Length" }),
    };
    Ok(Head {
        status: u16::try_from(code).expect("three digits"),
        reason: without_space(reason).to_vec(),
        fields: allowed(fields),
        content_length,
    })
}

fn plain_accept(limits: &ResponseLimits, text: &[u8]) -> Result<FieldList, CgiError> {
    let end = text.iter().position(|&byte| byte == b'\n').ok_or(CgiError::HeadIncomplete)?;
    match &text[..end] {
        [b'1', b'0', b'1'] | [b'1', b'0', b'1', b' ', ..] => plain_fields(limits, &text[end + 1..]),
        _ => Err(CgiError::InvalidStatus),
    }
}

fn without_space(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn plain_fields(limits: &ResponseLimits, text: &[u8]) -> Result<FieldList, CgiError> {
    let mut fields = Vec::new();
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let rest = lines.pop().expect("there is always a last one");
    for line in lines {
        if fields.len() == limits.fields {
            return Err(CgiError::TooManyFields { max: limits.fields });
        }
        let colon =
            line.iter().position(|&byte| byte == b':').ok_or(CgiError::MalformedFieldLine)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        let is_token =
            |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.iter().all(is_token) || !is_text(value) {
            return Err(CgiError::MalformedFieldLine);
        }
        fields.push((name.to_vec(), without_space(value).to_vec()));
    }
    if rest.is_empty() { Ok(fields) } else { Err(CgiError::HeadIncomplete) }
}

/// Removes connection-specific fields.
fn allowed(fields: FieldList) -> FieldList {
    let lower = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
    let connection = fields.iter().filter(|field| lower(&field.0) == "connection");
    let named: Vec<String> = connection
        .flat_map(|field| pinion_http::grammar::list(&field.1))
        .map(lower)
        .take(64)
        .collect();
    let left_out = "connection keep-alive proxy-connection status te trailer transfer-encoding \
                    upgrade http2-settings";
    let is_sent = |name: &[u8]| {
        let name = lower(name);
        let hyphens = name.replace('_', "-");
        name == "content-length"
            || !(named.contains(&name) || left_out.split(' ').any(|out| out == hyphens))
    };
    fields.into_iter().filter(|field| is_sent(&field.0)).collect()
}
