//! A reader of HTTP/1 messages (RFC 9112) that is as simple as possible. It returns the meaning of
//! bytes for clients and for servers, and shares no code with the parsers of the gateway.

use std::fmt;

/// A field name and its value.
pub(crate) type FieldLine = (String, String);

/// A head, and the data after it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) start: String,
    pub(crate) fields: Vec<FieldLine>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Vec<FieldLine>,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, fields, content, trailers } = self;
        write!(f, "{start} {fields:?} {} bytes {trailers:?}", content.len())
    }
}

impl Message {
    /// Returns the value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the status of a response.
    pub(crate) fn status(&self) -> u16 {
        let code = self.start.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.expect("the head of a response")
    }

    fn is_chunked(&self) -> bool {
        self.field("Transfer-Encoding") == Some("chunked")
    }

    fn length(&self) -> Option<usize> {
        self.field("Content-Length").map(|value| value.parse().expect("a number"))
    }
}

/// The beginning of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// Responses with a status of 1xx.
    pub(crate) interims: Vec<Message>,
    /// The head, with as much content as has arrived.
    pub(crate) message: Option<Message>,
    /// The end of the message, if it is complete.
    pub(crate) end: Option<usize>,
    /// Whether all announced content has arrived, or there is none: for a client of HTTP the
    /// message is complete, even if its server has not sent the end.
    pub(crate) has_all_content: bool,
    /// Whether it is malformed.
    pub(crate) is_malformed: bool,
}

/// The framing of the data after a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    /// Everything until the connection ends.
    UntilEnd,
}

/// Reads a response. `has_ended` is set if the connection has ended in an orderly way.
pub(crate) fn read_response(bytes: &[u8], method: &str, has_ended: bool) -> Reading {
    let mut reading = Reading::default();
    let mut at = 0;
    let (message, begin) = loop {
        match read_head(&bytes[at..], "HTTP/1.") {
            Ok(Some((message, used))) => {
                at += used;
                if message.status() >= 200 {
                    break (message, at);
                }
                reading.interims.push(message);
            }
            Ok(None) => return reading,
            Err(()) => return Reading { is_malformed: true, ..reading },
        }
    };
    let is_empty = method == "HEAD" || matches!(message.status(), 204 | 304);
    let framing = match message.length() {
        _ if is_empty => Framing::Length(0),
        _ if message.is_chunked() => Framing::Chunked,
        Some(bytes) => Framing::Length(bytes),
        None => Framing::UntilEnd,
    };
    read_content(reading, message, bytes, begin, framing, has_ended)
}

/// Reads a request.
pub(crate) fn read_request(bytes: &[u8]) -> Reading {
    let reading = Reading::default();
    match read_head(bytes, "") {
        Ok(Some((message, begin))) => {
            let framing = if message.is_chunked() {
                Framing::Chunked
            } else {
                Framing::Length(message.length().unwrap_or(0))
            };
            read_content(reading, message, bytes, begin, framing, false)
        }
        Ok(None) => reading,
        Err(()) => Reading { is_malformed: true, ..reading },
    }
}

/// Returns a line and the offset of the next one.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], end + 2))
}

/// Reads field lines up to the empty one.
fn read_fields(bytes: &[u8]) -> Result<Option<(Vec<FieldLine>, usize)>, ()> {
    let (mut fields, mut at) = (Vec::new(), 0);
    while let Some((text, used)) = line(&bytes[at..]) {
        at += used;
        if text.is_empty() {
            return Ok(Some((fields, at)));
        }
        let text = printable(text)?;
        let (name, value) = text.split_once(": ").ok_or(())?;
        fields.push((name.to_owned(), value.to_owned()));
    }
    Ok(None)
}

fn read_head(bytes: &[u8], front: &str) -> Result<Option<(Message, usize)>, ()> {
    let Some((start, at)) = line(bytes) else { return Ok(None) };
    let start = printable(start)?;
    if !start.starts_with(front) {
        return Err(());
    }
    let Some((fields, used)) = read_fields(&bytes[at..])? else { return Ok(None) };
    let message = Message { start: start.to_owned(), fields, ..Message::default() };
    Ok(Some((message, at + used)))
}

fn printable(line: &[u8]) -> Result<&str, ()> {
    let is_printable = line.iter().all(|byte| matches!(byte, b' '..=b'~'));
    std::str::from_utf8(line).ok().filter(|_| is_printable).ok_or(())
}

fn read_content(
    reading: Reading,
    mut message: Message,
    bytes: &[u8],
    begin: usize,
    framing: Framing,
    has_ended: bool,
) -> Reading {
    let rest = &bytes[begin..];
    let end = match framing {
        Framing::Length(length) => {
            message.content = rest[..length.min(rest.len())].to_vec();
            Ok((rest.len() >= length).then_some(length))
        }
        Framing::UntilEnd => {
            message.content = rest.to_vec();
            Ok(has_ended.then_some(rest.len()))
        }
        Framing::Chunked => read_chunks(&mut message, rest),
    };
    let is_malformed = end.is_err();
    let end = end.ok().flatten().map(|used| begin + used);
    let has_all_content = end.is_some();
    Reading { message: Some(message), end, has_all_content, is_malformed, ..reading }
}

fn read_chunks(message: &mut Message, bytes: &[u8]) -> Result<Option<usize>, ()> {
    let mut at = 0;
    while let Some((size, used)) = line(&bytes[at..]) {
        let size = printable(size)?.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size, 16).map_err(|_| ())?;
        at += used;
        if size == 0 {
            let Some((trailers, used)) = read_fields(&bytes[at..])? else { return Ok(None) };
            message.trailers = trailers;
            return Ok(Some(at + used));
        }
        let there = size.min(bytes.len() - at);
        message.content.extend_from_slice(&bytes[at..at + there]);
        at += there;
        match bytes.get(at..) {
            _ if there < size => return Ok(None),
            Some([b'\r', b'\n', ..]) => at += 2,
            Some([b'\r'] | []) | None => return Ok(None),
            Some(_) => return Err(()),
        }
    }
    Ok(None)
}
