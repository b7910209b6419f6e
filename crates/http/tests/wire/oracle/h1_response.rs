//! Responses: RFC 9112 §4 to §7 parsed from a whole buffer, line by line, with every violation of a
//! head collected. For accepted responses, the result must also be the same as that of `httparse`.

use std::collections::HashSet;

use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::client::request_writer::SentRequest;
use pinion_http::h1::client::response_error::ResponseError;
use pinion_http::h1::client::response_head::ResponseHead;
use pinion_http::h1::client::response_parser::{
    InputEnd, Persistence, ResponseEvent, ResponseParser,
};
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::h1::trailers::is_forbidden_in_response;
use pinion_http::limits::{CHUNK_LINE_MAX_BYTES, FIELDS_MAX, TRAILER_MAX_BYTES};
use pinion_http::method::Method;
use pinion_http::version::Version;

use super::chunk_lines::{is_extensions, is_field_line, line_at};

/// Checks an input. The first byte selects the request, the limits and the end of the input, see
/// [`Case`]; the second one determines the cuts and the space for output. The rest is the response.
pub(crate) fn check(data: &[u8]) {
    let [kind, cut, wire @ ..] = data else { return };
    check_case(&Case::of(*kind), wire, usize::from(*cut));
}

/// Panics if the parser reads the bytes differently from the grammar, or if the result depends on
/// the cuts.
pub(crate) fn check_case(case: &Case, wire: &[u8], cut: usize) -> Found {
    let found = run(case, wire, 0);
    for cut in [cut, 1] {
        let parts = run(case, wire, cut);
        assert_eq!(found, parts, "in parts of {cut} bytes");
    }
    compare(&found, &read(case, wire), wire);
    for head in found.interim.iter().chain(&found.head) {
        compare_with_httparse(&wire[head.at..], head);
    }
    found
}

/// The parameters besides the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) request: SentRequest,
    pub(crate) limits: ResponseLimits,
    pub(crate) end: InputEnd,
}

impl Case {
    /// Returns a GET with the usual limits.
    pub(crate) fn get(end: InputEnd) -> Case {
        let request = SentRequest {
            method: Method::Get,
            upgrade: false,
            close: false,
            expects_continue: false,
        };
        Case { request, limits: ResponseLimits::default(), end }
    }

    /// Returns the case of a byte. Bits 0 to 1: GET, HEAD, CONNECT, GET with `Upgrade`. Bits 2 to
    /// 3: the end of the input. Bit 4: `Connection: close` was sent. Bit 5: small limits.
    pub(crate) fn of(kind: u8) -> Case {
        let ends = [InputEnd::Closed, InputEnd::Open, InputEnd::Broken, InputEnd::Closed];
        let mut case = Case::get(ends[usize::from(kind >> 2 & 3)]);
        let methods = [Method::Get, Method::Head, Method::Connect, Method::Get];
        case.request.method = methods[usize::from(kind & 3)];
        case.request.upgrade = kind & 3 == 3;
        case.request.close = kind & 16 != 0;
        if kind & 32 != 0 {
            case.limits = ResponseLimits {
                head_bytes: 100,
                fields: 3,
                interim_responses: 1,
                chunk_extension_bytes: 5,
                content_bytes: 20,
            };
        }
        case
    }
}

/// The content of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The offset of its first byte.
    pub(crate) at: usize,
    /// The offset of its end.
    pub(crate) end: usize,
    pub(crate) is_1_0: bool,
    pub(crate) status: u16,
    pub(crate) reason: Vec<u8>,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) content_length: Option<u64>,
    pub(crate) keep_alive: bool,
}

/// The result of reading a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    NeedMore,
    End(Persistence),
    Error(ResponseError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) interim: Vec<Head>,
    pub(crate) head: Option<Head>,
    pub(crate) content: Vec<u8>,
    pub(crate) trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The offset at which reading stopped; 0 after an error.
    pub(crate) used: usize,
    pub(crate) ended: Ended,
}

impl Found {
    fn new(ended: Ended) -> Found {
        let (interim, content, trailers) = (Vec::new(), Vec::new(), Vec::new());
        Found { interim, head: None, content, trailers, used: 0, ended }
    }
}

/// Passes `cut` more bytes at a time to the parser (0: all at once), and space for as many when it
/// needs space. The parser gets the end of the input after the last byte, or with it if all bytes
/// come at once.
pub(crate) fn run(case: &Case, wire: &[u8], cut: usize) -> Found {
    let mut parser = ResponseParser::new(case.request, &case.limits);
    let mut found = Found::new(Ended::NeedMore);
    let mut arrived = if cut == 0 { wire.len() } else { 0 };
    let mut end = if cut == 0 { case.end } else { InputEnd::Open };
    let sip = if cut == 0 { u64::MAX } else { cut as u64 };
    let mut room = sip;
    loop {
        // No data may stay in the storage between two steps.
        let mut storage = HeadStorage::new();
        let at = found.used;
        let step = match parser.step(&wire[at..arrived], end, room, &mut storage) {
            Ok(step) => step,
            Err(error) => {
                found.ended = Ended::Error(error);
                found.used = 0;
                let again = parser.step(b"HTTP/1.1 200 OK\r\n\r\n", end, room, &mut storage);
                assert_eq!(again.err(), Some(error), "what was wrong stays wrong");
                return found;
            }
        };
        found.used += step.used;
        assert!(found.used <= arrived);
        match step.event {
            ResponseEvent::Interim(head) => {
                assert!(found.head.is_none());
                found.interim.push(copy(&head, at, found.used));
            }
            ResponseEvent::Head(head) => {
                assert!(found.head.is_none());
                found.head = Some(copy(&head, at, found.used));
            }
            ResponseEvent::Content(content) => {
                assert!(!content.is_empty() && wire[..found.used].ends_with(content));
                found.content.extend_from_slice(content);
                room = room.checked_sub(content.len() as u64).expect("no more than the room");
            }
            ResponseEvent::NeedMore if room == 0 => room = sip,
            ResponseEvent::NeedMore if arrived < wire.len() => {
                arrived = wire.len().min(arrived + cut);
            }
            ResponseEvent::NeedMore if end != case.end => end = case.end,
            ResponseEvent::NeedMore => {
                assert_eq!(end, InputEnd::Open, "more cannot come");
                assert!(!parser.is_at_end());
                return found;
            }
            ResponseEvent::End { trailers, persistence } => {
                let trailers = trailers.iter();
                found.trailers = trailers.map(|f| (f.name.into(), f.value.into())).collect();
                found.ended = Ended::End(persistence);
                assert!(parser.is_at_end());
                let next = parser.step(b"next", end, room, &mut storage).unwrap();
                assert_eq!(next.used, 0);
                assert!(matches!(next.event, ResponseEvent::End { .. }));
                return found;
            }
        }
    }
}

fn copy(head: &ResponseHead<'_>, at: usize, end: usize) -> Head {
    Head {
        at,
        end,
        is_1_0: head.version == Version::Http10,
        status: head.status,
        reason: head.reason.to_vec(),
        fields: head.fields.iter().map(|f| (f.name.into(), f.value.into())).collect(),
        content_length: head.content_length,
        keep_alive: head.keep_alive,
    }
}

fn compare(found: &Found, expected: &Reading, wire: &[u8]) {
    let Reading { found: expected, wrong, stopped } = expected;
    if let (Ended::Error(error), false) = (&found.ended, wrong.is_empty()) {
        assert!(wrong.contains(error), "{error:?}, expected one of {wrong:?}");
        assert_eq!(found.interim, expected.interim);
        // The content before the error, up to the line that contains it.
        assert_eq!(found.content, expected.content);
        return;
    }
    assert!(wrong.is_empty(), "found {found:?}, expected one of {wrong:?}");
    if let Ended::Error(error) = found.ended
        && matches!(error, ResponseError::MalformedChunk | ResponseError::MalformedTrailer)
    {
        // A line may be refused before its end, but not if it could still have become valid.
        assert_eq!(found.content, expected.content);
        for completion in COMPLETIONS {
            let line = [&wire[*stopped..], completion].concat();
            let is_good = match error {
                ResponseError::MalformedTrailer => {
                    trailer_section(&line).is_ok_and(|end| end.is_some())
                }
                _ => chunk_line(&line).is_ok_and(|found| found.is_some()),
            };
            assert!(!is_good, "{error:?} too early, before {:?}", completion.escape_ascii());
        }
        return;
    }
    assert_eq!(found, expected);
}

/// Ends that complete many beginnings to a chunk line, or a trailer section.
const COMPLETIONS: [&[u8]; 7] =
    [b"\r\n\r\n", b"\n\r\n", b"\r\n", b"\n", b"0\r\n\r\n", b"\"\r\n\r\n", b"a:\r\n\r\n"];

/// The result according to the grammar.
struct Reading {
    found: Found,
    /// All errors at the offset where reading stopped. If there are none, `found` is the whole
    /// result.
    wrong: HashSet<ResponseError>,
    /// The offset of an incomplete chunk line or trailer section.
    stopped: usize,
}

fn read(case: &Case, wire: &[u8]) -> Reading {
    let found = Found::new(Ended::NeedMore);
    let mut reading = Reading { found, wrong: HashSet::new(), stopped: 0 };
    let mut must_close = case.request.close;
    loop {
        let at = reading.found.used;
        let is_first = reading.found.interim.is_empty();
        let Some(head) = head_at(case, wire, at, &mut reading.wrong) else {
            reading.found.ended = match case.end {
                InputEnd::Open => Ended::NeedMore,
                _ if is_first && wire.is_empty() => Ended::Error(ResponseError::NoResponse),
                _ => Ended::Error(ResponseError::HeadIncomplete),
            };
            if let Ended::Error(_) = reading.found.ended {
                reading.found.used = 0;
            }
            return reading;
        };
        reading.found.used = head.end;
        let (framing, mut head) = framing(case, head, &mut reading.wrong);
        if (100..200).contains(&head.status) && head.status != 101 {
            let max = case.limits.interim_responses;
            if reading.found.interim.len() >= max {
                reading.wrong.insert(ResponseError::TooManyInterimResponses { max });
            }
            if !reading.wrong.is_empty() {
                return reading;
            }
            head.keep_alive &= !must_close;
            must_close = !head.keep_alive;
            reading.found.interim.push(head);
            continue;
        }
        if !reading.wrong.is_empty() {
            return reading;
        }
        head.keep_alive &= !must_close;
        let keep_alive = head.keep_alive;
        reading.found.head = Some(head);
        let persistence = if keep_alive { Persistence::Reuse } else { Persistence::Close };
        content(case, wire, framing, persistence, &mut reading);
        return reading;
    }
}

/// Returns the head at an offset, if it is complete.
fn head_at(
    case: &Case,
    wire: &[u8],
    at: usize,
    wrong: &mut HashSet<ResponseError>,
) -> Option<Head> {
    let max_bytes = case.limits.head_bytes;
    let rest = &wire[at..];
    let text = &rest[..rest.len().min(max_bytes)];
    let pattern = b"HTTP/1.1 200 ";
    let fits = text.iter().zip(pattern).enumerate().all(|(index, (byte, expected))| match index {
        7 => byte == &b'0' || byte == &b'1',
        9 => (b'1'..=b'9').contains(byte),
        10 | 11 => byte.is_ascii_digit(),
        12 => byte == &b' ' || byte == &b'\r',
        _ => byte == expected,
    });
    if !fits {
        let errors = [
            ResponseError::MalformedStatusLine,
            ResponseError::UnsupportedVersion,
            ResponseError::MisplacedLineEnd,
        ];
        wrong.extend(errors);
        return None;
    }
    let blank = text.windows(4).position(|four| four == b"\r\n\r\n");
    let lines = &text[..blank.map_or(text.len(), |blank| blank + 4)];
    let is_bare = |(index, byte): (usize, &u8)| {
        *byte == b'\n' && index.checked_sub(1).is_none_or(|before| lines[before] != b'\r')
    };
    if lines.iter().enumerate().any(is_bare) {
        wrong.insert(ResponseError::MisplacedLineEnd);
        return None;
    }
    let Some(blank) = blank else {
        if rest.len() >= max_bytes {
            wrong.insert(ResponseError::HeadTooLarge { max_bytes });
        }
        return None;
    };
    let lines = split(&text[..blank], b"\r\n");
    if lines.iter().any(|line| line.contains(&b'\r')) {
        wrong.insert(ResponseError::MisplacedLineEnd);
    }
    let (line, lines) = lines.split_first().expect("a status line");
    let reason = line.get(12..).unwrap_or_default();
    let reason = reason.strip_prefix(b" ").unwrap_or(reason);
    if !reason.iter().all(|&byte| is_value(byte)) {
        wrong.insert(ResponseError::MalformedStatusLine);
    }
    let max = case.limits.fields;
    if lines.len() > max {
        wrong.insert(ResponseError::TooManyFields { max });
    }
    if !lines.iter().all(|line| is_field_line(line)) {
        wrong.insert(ResponseError::MalformedFieldLine);
    }
    if !wrong.is_empty() {
        return None;
    }
    let digits = std::str::from_utf8(&line[9..12]).expect("digits");
    Some(Head {
        at,
        end: at + blank + 4,
        is_1_0: line[7] == b'0',
        status: digits.parse().expect("digits"),
        reason: reason.to_vec(),
        fields: lines.iter().map(|line| field(line)).collect(),
        content_length: None,
        keep_alive: false,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClose,
    Tunnel,
}

/// RFC 9112 §6.3, rule by rule, and §9.3.
fn framing(case: &Case, mut head: Head, wrong: &mut HashSet<ResponseError>) -> (Framing, Head) {
    let codings = values(&head.fields, "transfer-encoding");
    let lengths = values(&head.fields, "content-length");
    let options: Vec<Vec<u8>> = values(&head.fields, "connection")
        .iter()
        .flat_map(|value| split(value, b",").into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
        .map(|option| option.trim_ascii().to_ascii_lowercase())
        .collect();
    let says = |option: &str| options.iter().any(|o| o == option.as_bytes());
    let numbers: Vec<Option<u64>> = lengths
        .iter()
        .flat_map(|value| split(value, b",").into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
        .map(|number| {
            let number = number.trim_ascii();
            let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(number).ok().filter(|_| is_number)?;
            text.parse().ok()
        })
        .collect();
    let is_malformed = numbers.iter().any(|n| n.is_none() || *n != numbers[0]);
    let length = numbers.first().copied().flatten().filter(|_| !is_malformed);
    head.keep_alive = !says("close") && (!head.is_1_0 || says("keep-alive"));

    if head.status == 101 {
        let upgrades = values(&head.fields, "upgrade");
        let names_one = upgrades.first().is_some_and(|value| !value.is_empty());
        if !case.request.upgrade || head.is_1_0 || !names_one {
            wrong.insert(ResponseError::UnexpectedUpgrade);
        }
        head.keep_alive = false;
        return (Framing::Tunnel, head);
    }
    if case.request.method == Method::Connect && (200..300).contains(&head.status) {
        head.keep_alive = false;
        return (Framing::Tunnel, head);
    }
    let never = matches!(head.status, 100..200 | 204 | 304);
    if never || case.request.method == Method::Head {
        head.content_length = length;
        let may_announce = !never || head.status == 304;
        let is_doubtful = if is_malformed {
            true
        } else if may_announce {
            !codings.is_empty() && (head.is_1_0 || !lengths.is_empty())
        } else {
            !codings.is_empty() || length.is_some_and(|length| length > 0)
        };
        head.keep_alive &= !is_doubtful;
        return (Framing::None, head);
    }
    if !codings.is_empty() {
        let is_chunked = codings[0].eq_ignore_ascii_case(b"chunked");
        if head.is_1_0 || !lengths.is_empty() || codings.len() > 1 {
            wrong.insert(ResponseError::AmbiguousTransferEncoding);
        } else if !is_chunked {
            wrong.extend([
                ResponseError::AmbiguousTransferEncoding,
                ResponseError::UnsupportedTransferCoding,
            ]);
        }
        return (Framing::Chunked, head);
    }
    if is_malformed {
        wrong.insert(ResponseError::InvalidContentLength);
    }
    head.content_length = length;
    match length {
        Some(0) => (Framing::None, head),
        Some(bytes) => (Framing::Length(bytes), head),
        None => {
            head.keep_alive = false;
            (Framing::UntilClose, head)
        }
    }
}

fn content(
    case: &Case,
    wire: &[u8],
    framing: Framing,
    persistence: Persistence,
    reading: &mut Reading,
) {
    let Reading { found, wrong, .. } = reading;
    let rest = &wire[found.used..];
    let max_bytes = case.limits.content_bytes;
    let most = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let incomplete = match case.end {
        InputEnd::Open => Ended::NeedMore,
        _ => Ended::Error(ResponseError::ContentIncomplete),
    };
    match framing {
        Framing::None => found.ended = Ended::End(persistence),
        Framing::Tunnel => found.ended = Ended::End(Persistence::Tunnel),
        Framing::Length(length) if length > max_bytes => {
            wrong.insert(ResponseError::ContentTooLarge { max_bytes });
        }
        Framing::Length(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            found.content = rest[..rest.len().min(length)].to_vec();
            found.used += found.content.len();
            let is_whole = found.content.len() == length;
            found.ended = if is_whole { Ended::End(persistence) } else { incomplete };
        }
        Framing::UntilClose => {
            found.content = rest[..rest.len().min(most)].to_vec();
            found.used += found.content.len();
            if rest.len() > most {
                wrong.insert(ResponseError::ContentTooLarge { max_bytes });
            }
            found.ended = match case.end {
                InputEnd::Closed => Ended::End(Persistence::Close),
                _ => incomplete,
            };
        }
        Framing::Chunked => {
            let is_whole = chunked(case, wire, reading);
            reading.found.ended = if is_whole { Ended::End(persistence) } else { incomplete };
        }
    }
    if let Ended::Error(_) = reading.found.ended {
        reading.found.used = 0;
    }
}

/// RFC 9112 §7.1: returns whether the content is complete.
fn chunked(case: &Case, wire: &[u8], reading: &mut Reading) -> bool {
    let Reading { found, wrong, stopped } = reading;
    let (mut extension_bytes, mut charged) = (0, 0u64);
    loop {
        let rest = &wire[found.used..];
        let (size, line_bytes) = match chunk_line(rest) {
            Ok(Some(line)) => line,
            Ok(None) => {
                *stopped = found.used;
                found.used = wire.len();
                return false;
            }
            Err(()) => {
                wrong.insert(ResponseError::MalformedChunk);
                return false;
            }
        };
        let line_extension_bytes = (line_bytes as u64).saturating_sub(18);
        extension_bytes += line_extension_bytes;
        let max_bytes = case.limits.chunk_extension_bytes;
        if extension_bytes > max_bytes {
            wrong.insert(ResponseError::ChunkExtensionsTooLarge { max_bytes });
        }
        // The announced total never exceeds a number of 64 bits, extensions included.
        let total = charged.checked_add(size.saturating_add(line_extension_bytes));
        charged = total.unwrap_or(u64::MAX);
        let max_bytes = case.limits.content_bytes;
        if total.is_none() || (found.content.len() as u64).saturating_add(size) > max_bytes {
            wrong.insert(ResponseError::ContentTooLarge { max_bytes });
        }
        if !wrong.is_empty() {
            return false;
        }
        if size == 0 {
            found.used += line_bytes;
            return trailers(wire, reading);
        }
        let data = &rest[line_bytes..];
        let data = &data[..data.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
        found.content.extend_from_slice(data);
        found.used += line_bytes + data.len();
        match &wire[found.used..] {
            _ if (data.len() as u64) < size => return false,
            [] | [b'\r'] => {
                found.used = wire.len();
                return false;
            }
            [b'\r', b'\n', ..] => found.used += 2,
            _ => {
                wrong.insert(ResponseError::MalformedChunk);
                return false;
            }
        }
    }
}

/// Returns the size and the length of the chunk line at the front, if it is complete.
fn chunk_line(rest: &[u8]) -> Result<Option<(u64, usize)>, ()> {
    let Some(line) = line_at(rest, 0) else {
        return if rest.len() > CHUNK_LINE_MAX_BYTES { Err(()) } else { Ok(None) };
    };
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let size = std::str::from_utf8(&line[..digits]).map_err(drop)?;
    let size = u64::from_str_radix(size, 16).map_err(drop)?;
    if line.len() + 2 > CHUNK_LINE_MAX_BYTES || !is_extensions(&line[digits..]) {
        return Err(());
    }
    Ok(Some((size, line.len() + 2)))
}

/// Reads *( field-line CRLF ) CRLF.
fn trailers(wire: &[u8], reading: &mut Reading) -> bool {
    let Reading { found, wrong, stopped } = reading;
    *stopped = found.used;
    let section = &wire[found.used..];
    match trailer_section(section) {
        Ok(Some(bytes)) => {
            let lines = split(&section[..bytes - 2], b"\r\n");
            let lines = &lines[..lines.len() - 1];
            if lines.len() > FIELDS_MAX {
                wrong.insert(ResponseError::TooManyTrailers);
                return false;
            }
            let fields = lines.iter().map(|line| field(line));
            found.trailers = fields.filter(|(name, _)| !is_forbidden_in_response(name)).collect();
            found.used += bytes;
            true
        }
        Ok(None) => false,
        Err(errors) => {
            wrong.extend(errors);
            false
        }
    }
}

/// Returns the length of the section, if it is complete.
fn trailer_section(section: &[u8]) -> Result<Option<usize>, Vec<ResponseError>> {
    let mut at = 0;
    loop {
        let line = line_at(section, at);
        let end = line.map_or(section.len(), |line| at + line.len() + 2);
        let mut errors = Vec::new();
        if end > TRAILER_MAX_BYTES {
            // A line that is both too long and malformed is refused for the first of the two.
            errors.extend([ResponseError::TrailersTooLarge, ResponseError::MalformedTrailer]);
        }
        if line.is_some_and(|line| !line.is_empty() && !is_field_line(line)) {
            errors.push(ResponseError::MalformedTrailer);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        match line {
            None => return Ok(None),
            Some([]) => return Ok(Some(end)),
            Some(_) => at = end,
        }
    }
}

/// Two parsers that read the same bytes as different responses make response splitting possible.
fn compare_with_httparse(input: &[u8], found: &Head) {
    let mut lines = [httparse::EMPTY_HEADER; 200];
    let mut response = httparse::Response::new(&mut lines);
    let parsed = response.parse(input);
    assert_eq!(parsed, Ok(httparse::Status::Complete(found.end - found.at)));
    assert_eq!(response.version, Some(u8::from(!found.is_1_0)));
    assert_eq!(response.code, Some(found.status));
    // httparse returns no reason phrase that is not ASCII.
    let reason = if found.reason.is_ascii() { found.reason.as_slice() } else { b"" };
    assert_eq!(response.reason.map(str::as_bytes), Some(reason));
    let fields = response.headers.iter();
    let fields: Vec<_> = fields.map(|field| (field.name.into(), field.value.to_vec())).collect();
    assert_eq!(fields, found.fields);
}

/// RFC 9112 §5: field-name ":" OWS field-value OWS.
fn field(line: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let colon = line.iter().position(|&byte| byte == b':').expect("a field line");
    (line[..colon].to_vec(), line[colon + 1..].trim_ascii().to_vec())
}

fn values(fields: &[(Vec<u8>, Vec<u8>)], name: &str) -> Vec<Vec<u8>> {
    let same = |field: &&(Vec<u8>, Vec<u8>)| field.0.eq_ignore_ascii_case(name.as_bytes());
    fields.iter().filter(same).map(|(_, value)| value.clone()).collect()
}

fn is_value(byte: u8) -> bool {
    byte == b'\t' || (b' '..=b'~').contains(&byte) || byte >= 0x80
}

fn split<'a>(bytes: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest);
    parts
}
