//! The output of a program with CGI, FastCGI and SCGI: RFC 3875 §6 parsed from a whole buffer, line
//! by line; and the events of a reader that gets its input in parts.

use std::fmt::Debug;

use pinion_http::cgi::error::CgiError;
use pinion_http::cgi::response_event::{GatewayEvent, GatewayStep};
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::client::request_writer::SentRequest;
use pinion_http::h1::client::response_parser::{InputEnd, Persistence, ResponseEvent};
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::method::Method;

/// The parameters besides the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) request: SentRequest,
    pub(crate) limits: ResponseLimits,
    pub(crate) end: InputEnd,
}

impl Case {
    /// Returns a GET with the usual limits, over a connection that stays open.
    pub(crate) fn get(end: InputEnd) -> Case {
        let request = SentRequest {
            method: Method::Get,
            upgrade: false,
            close: false,
            expects_continue: false,
        };
        Case { request, limits: ResponseLimits::default(), end }
    }

    /// Returns the case of a byte. Bit 0: HEAD. Bits 1 to 2: the end of the input. Bit 3: small
    /// limits. Bit 4: the connection closes.
    pub(crate) fn of(kind: u8) -> Case {
        let ends = [InputEnd::Closed, InputEnd::Open, InputEnd::Broken, InputEnd::Closed];
        let mut case = Case::get(ends[usize::from(kind >> 1 & 3)]);
        case.request.close = kind & 16 != 0;
        if kind & 1 != 0 {
            case.request.method = Method::Head;
        }
        if kind & 8 != 0 {
            case.limits.head_bytes = 60;
            case.limits.fields = 3;
            case.limits.content_bytes = 20;
        }
        case
    }
}

/// The events of a response; consecutive pieces of one stream are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Head(Head),
    LocalRedirect(Vec<u8>),
    Content(Vec<u8>),
    Stderr(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) reason: Vec<u8>,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) content_length: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended<E> {
    NeedMore,
    End(Persistence),
    Error(E),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found<E> {
    pub(crate) events: Vec<Event>,
    pub(crate) ended: Ended<E>,
}

/// A step whose event outlives its input.
pub(crate) struct Step {
    used: usize,
    event: Result<Event, Ended<()>>,
}

impl Step {
    pub(crate) fn of(step: &GatewayStep<'_>) -> Step {
        let event = match &step.event {
            GatewayEvent::LocalRedirect(target) => Ok(Event::LocalRedirect(target.to_vec())),
            GatewayEvent::Stderr(bytes) => Ok(Event::Stderr(bytes.to_vec())),
            GatewayEvent::Response(ResponseEvent::Content(bytes)) => {
                assert!(!bytes.is_empty());
                Ok(Event::Content(bytes.to_vec()))
            }
            GatewayEvent::Response(ResponseEvent::Head(head)) => Ok(Event::Head(Head {
                status: head.status,
                reason: head.reason.to_vec(),
                fields: head.fields.iter().map(|x| (x.name.to_vec(), x.value.to_vec())).collect(),
                content_length: head.content_length,
            })),
            GatewayEvent::Response(ResponseEvent::NeedMore) => Err(Ended::NeedMore),
            GatewayEvent::Response(ResponseEvent::End { trailers, persistence }) => {
                assert!(trailers.is_empty());
                Err(Ended::End(*persistence))
            }
            GatewayEvent::Response(ResponseEvent::Interim(_)) => panic!("an interim response"),
        };
        Step { used: step.used, event }
    }
}

/// Passes the bytes in parts of `cut`, or at once, with limited space for the output.
pub(crate) fn run<E: Copy + Debug + PartialEq>(
    end: InputEnd,
    wire: &[u8],
    cut: usize,
    mut step: impl FnMut(&[u8], InputEnd, u64, &mut HeadStorage) -> Result<Step, E>,
) -> Found<E> {
    let room = if cut == 0 { u64::MAX } else { cut as u64 };
    let mut storage = HeadStorage::new();
    let mut events: Vec<Event> = Vec::new();
    let (mut used, mut given) = (0, if cut == 0 { wire.len() } else { 0 });
    let ended = loop {
        let now = if given == wire.len() { end } else { InputEnd::Open };
        let step = match step(&wire[used..given], now, room, &mut storage) {
            Ok(step) => step,
            Err(error) => break Ended::Error(error),
        };
        assert!(step.used <= given - used);
        used += step.used;
        match (step.event, events.last_mut()) {
            (Ok(Event::Content(bytes)), Some(Event::Content(all)))
            | (Ok(Event::Stderr(bytes)), Some(Event::Stderr(all))) => all.extend(bytes),
            (Ok(event), _) => events.push(event),
            (Err(Ended::End(persistence)), _) => break Ended::End(persistence),
            (Err(_), _) if given == wire.len() => break Ended::NeedMore,
            (Err(_), _) => given = wire.len().min(given + cut),
        }
    };
    Found { events, ended }
}

/// The meaning of output so far.
#[derive(Debug)]
pub(crate) struct PlainOutput {
    pub(crate) events: Vec<Event>,
    /// The error in it.
    pub(crate) error: Option<CgiError>,
    /// The error if it ends here.
    pub(crate) error_at_end: Option<CgiError>,
}

/// Reads output from a whole buffer.
pub(crate) fn plain_output(case: &Case, output: &[u8]) -> PlainOutput {
    let failed = |error| PlainOutput { events: Vec::new(), error: Some(error), error_at_end: None };
    let (text, lines) = match head_lines(output, case.limits.head_bytes) {
        Ok(HeadLines::Whole(text, lines)) => (text, lines),
        Ok(HeadLines::Partial(error_at_end)) => {
            let error_at_end = Some(error_at_end);
            return PlainOutput { events: Vec::new(), error: None, error_at_end };
        }
        Err(error) => return failed(error),
    };
    let event = match head_event(&lines, case.limits.fields) {
        Ok(event) => event,
        Err(error) => return failed(error),
    };
    let rest = &output[text..];
    let mut events = vec![event];
    let (status, length) = match &events[0] {
        Event::Head(head) => (head.status, head.content_length),
        _ => (204, None),
    };
    if case.request.method == Method::Head || [204, 304].contains(&status) {
        return PlainOutput { events, error: None, error_at_end: None };
    }
    let most = case.limits.content_bytes.min(length.unwrap_or(u64::MAX));
    let content = &rest[..rest.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
    if !content.is_empty() {
        events.push(Event::Content(content.to_vec()));
    }
    let max_bytes = case.limits.content_bytes;
    let error = match length {
        _ if content.len() == rest.len() => None,
        Some(length) if length == most => Some(CgiError::ContentTooLong),
        _ => Some(CgiError::ContentTooLarge { max_bytes }),
    };
    let missing_bytes = length.map_or(0, |length| length - content.len() as u64);
    let error_at_end = (missing_bytes > 0).then_some(CgiError::ContentTooShort { missing_bytes });
    PlainOutput { events, error, error_at_end }
}

enum HeadLines<'a> {
    /// The bytes of the head, and its lines.
    Whole(usize, Vec<&'a [u8]>),
    /// The error if it ends here.
    Partial(CgiError),
}

/// Splits the lines of a head, up to the blank one.
fn head_lines(output: &[u8], max_bytes: usize) -> Result<HeadLines<'_>, CgiError> {
    let mut lines = Vec::new();
    let mut rest = &output[..output.len().min(max_bytes)];
    let is_bad = |line: &[u8]| {
        let after_cr = line.windows(2).any(|pair| pair[0] == b'\r' && pair[1] != b'\n');
        after_cr
            || line.iter().any(|&byte| (byte < 32 && !b"\t\r\n".contains(&byte)) || byte == 127)
    };
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, behind) = rest.split_at(end + 1);
        if is_bad(line) {
            return Err(CgiError::ControlByteInHead);
        }
        rest = behind;
        let line = line.strip_suffix(b"\r\n").unwrap_or(&line[..end]);
        if line.is_empty() {
            let bytes = output.len().min(max_bytes) - rest.len();
            return Ok(HeadLines::Whole(bytes, lines));
        }
        lines.push(line);
    }
    if is_bad(rest) {
        return Err(CgiError::ControlByteInHead);
    }
    if output.len() >= max_bytes {
        return Err(CgiError::HeadTooLarge { max_bytes });
    }
    Ok(HeadLines::Partial(match lines.iter().any(|line| split(line).is_none()) {
        true => CgiError::MalformedFieldLine,
        false if output.is_empty() => CgiError::NoOutput,
        false => CgiError::HeadIncomplete,
    }))
}

/// Splits a field line; only the name can be wrong, since control bytes were found before.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let name = &line[..colon];
    let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.iter().all(is_token) {
        return None;
    }
    let mut value = &line[colon + 1..];
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    Some((name, value))
}

/// Returns the event of the lines of a head.
fn head_event(lines: &[&[u8]], max: usize) -> Result<Event, CgiError> {
    let mut fields = Vec::new();
    for (position, line) in lines.iter().enumerate() {
        if position == max {
            return Err(CgiError::TooManyFields { max });
        }
        let (name, value) = split(line).ok_or(CgiError::MalformedFieldLine)?;
        fields.push((name, value));
    }
    if fields.is_empty() {
        return Err(CgiError::NoFields);
    }
    let lower = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
    let once = |name: &'static str| {
        let same = fields.iter().filter(|field| lower(field.0) == name.to_ascii_lowercase());
        match same.map(|field| field.1).collect::<Vec<_>>()[..] {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(CgiError::RepeatedField { name }),
        }
    };
    let (status, location, length) = (once("Status")?, once("Location")?, once("Content-Length")?);
    let digits = |text: &[u8]| {
        let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        is_number.then(|| String::from_utf8_lossy(text).parse::<u64>().ok()).flatten()
    };
    let content_length = match length {
        None => None,
        Some(text) => Some(digits(text).ok_or(CgiError::InvalidContentLength)?),
    };
    let (code, reason) = match (status, location) {
        (Some(status), _) => {
            let end = status.iter().position(|&byte| byte == b' ').unwrap_or(status.len());
            let (code, reason) = status.split_at(end);
            let code = (code.len() == 3).then(|| digits(code)).flatten();
            (code.filter(|code| *code >= 200).ok_or(CgiError::InvalidStatus)?, reason.trim_ascii())
        }
        (None, Some(path)) if path.starts_with(b"/") && !path.starts_with(b"//") => {
            // The permitted bytes of a target are checked elsewhere.
            let is_target = pinion_http::request_target::Target::parse(Method::Get, path).is_ok();
            return if is_target {
                Ok(Event::LocalRedirect(path.to_vec()))
            } else {
                Err(CgiError::InvalidLocation)
            };
        }
        (None, Some(b"")) => return Err(CgiError::InvalidLocation),
        (None, Some(_)) => (302, &b""[..]),
        (None, None) => (200, &b""[..]),
    };
    let connection = fields.iter().filter(|field| lower(field.0) == "connection");
    let named: Vec<String> = connection
        .flat_map(|field| pinion_http::grammar::list(field.1))
        .map(lower)
        .take(64)
        .collect();
    let left_out = "connection keep-alive proxy-connection status te trailer transfer-encoding \
                    upgrade http2-settings";
    let is_sent = |name: &[u8]| {
        let hyphens = lower(name).replace('_', "-");
        lower(name) == "content-length"
            || !(named.contains(&lower(name)) || left_out.split(' ').any(|out| out == hyphens))
    };
    let sent = fields.iter().filter(|field| is_sent(field.0));
    Ok(Event::Head(Head {
        status: u16::try_from(code).expect("three digits"),
        reason: reason.to_vec(),
        fields: sent.map(|field| (field.0.to_vec(), field.1.to_vec())).collect(),
        content_length,
    }))
}
