//! The head of a CGI response (RFC 3875 §6.2, §6.3): which of its fields go to the client, and
//! which status the response has.

use super::error::CgiError;
use crate::field::{FieldPlace, Fields, KnownFieldPlaces};
use crate::grammar::{decimal, is_token, is_value_byte, list, trim};
use crate::h1::client::limits::RESPONSE_FIELDS_MAX;
use crate::h1::head_parser::HeadStorage;
use crate::limits::LIST_MEMBERS_MAX;
use crate::method::Method;
use crate::request_target::Target;
use crate::reserved_fields::{FieldUses, reserved_name};

/// The contents of a whole head.
pub(super) enum CgiHead<'h> {
    /// A document, or a redirect that the client follows.
    Document(DocumentHead<'h>),
    /// A redirect that the server follows: a path and perhaps a query.
    LocalRedirect(&'h [u8]),
}

/// The head of a document response or a client redirect (RFC 3875 §6.2.1, §6.2.3, §6.2.4).
pub(super) struct DocumentHead<'h> {
    pub(super) status: u16,
    pub(super) reason: &'h [u8],
    pub(super) fields: Fields<'h>,
    pub(super) known: KnownFieldPlaces,
    pub(super) content_length: Option<u64>,
}

/// Reads a whole head, which ends with its blank line and has no control bytes but tabs and those
/// at the ends of its lines.
pub(super) fn read_head<'h>(
    text: &'h [u8],
    storage: &'h mut HeadStorage,
    fields_max: usize,
) -> Result<CgiHead<'h>, CgiError> {
    let lines = storage.lines();
    field_lines(text, lines, fields_max.min(RESPONSE_FIELDS_MAX))?;
    if lines.is_empty() {
        return Err(CgiError::NoFields);
    }
    let status = single(text, lines, "Status")?;
    let location = single(text, lines, "Location")?;
    let content_length = match single(text, lines, "Content-Length")? {
        Some(value) => Some(decimal(value).ok_or(CgiError::InvalidContentLength)?),
        None => None,
    };
    let (status, reason) = match (status, location) {
        (Some(value), _) => status_code(value)?,
        (None, Some(path)) if is_local(path) => {
            Target::parse(Method::Get, path).map_err(|_| CgiError::InvalidLocation)?;
            return Ok(CgiHead::LocalRedirect(path));
        }
        (None, Some(b"")) => return Err(CgiError::InvalidLocation),
        (None, Some(_)) => (302, &b""[..]),
        (None, None) => (200, &b""[..]),
    };
    retain_allowed(text, lines);
    let mut known = KnownFieldPlaces::default();
    for (position, line) in lines.iter().enumerate() {
        known.add(line.name_in(text), position);
    }
    let storage: &'h HeadStorage = storage;
    let fields = Fields::new(text, storage.places());
    Ok(CgiHead::Document(DocumentHead { status, reason, fields, known, content_length }))
}

/// Checks the received part of a head that never becomes whole, so that its error is as specific as
/// possible.
pub(super) fn check_partial(text: &[u8]) -> CgiError {
    let whole_lines = memchr::memrchr(b'\n', text).and_then(|at| text.get(..=at));
    let mut lines = whole_lines.unwrap_or_default().split_inclusive(|&byte| byte == b'\n');
    if text.is_empty() {
        CgiError::NoOutput
    } else if lines.any(|line| split_line(without_end(line)).is_err()) {
        CgiError::MalformedFieldLine
    } else {
        CgiError::HeadIncomplete
    }
}

/// Returns the first line of a head, or of a part of one, that is no field line.
pub(super) fn malformed_line(text: &[u8]) -> Option<&[u8]> {
    let lines = text.split_inclusive(|&byte| byte == b'\n').map(without_end);
    { lines }.take_while(|line| !line.is_empty()).find(|line| split_line(line).is_err())
}

/// Finds the field lines of a head that ends with its blank line.
fn field_lines(text: &[u8], lines: &mut Vec<FieldPlace>, max: usize) -> Result<(), CgiError> {
    lines.clear();
    let mut start = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let at = start;
        start += line.len();
        let line = without_end(line);
        if line.is_empty() {
            return Ok(());
        }
        if lines.len() >= max {
            return Err(CgiError::TooManyFields { max });
        }
        let (name, value) = split_line(line)?;
        let value_at = at + name + 1 + value.start;
        lines.push(FieldPlace::new(at..at + name, value_at..value_at + value.len()));
    }
    unreachable!("a whole head has a blank line")
}

/// Returns a line without LF or CRLF.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Splits `field-name ":" [ field-value ]` (RFC 3875 §6.3). Returns the length of the name, and the
/// range of the value after the colon.
pub(crate) fn split_line(line: &[u8]) -> Result<(usize, core::ops::Range<usize>), CgiError> {
    let colon = memchr::memchr(b':', line).ok_or(CgiError::MalformedFieldLine)?;
    let (name, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default();
    if !is_token(name) || !value.iter().all(|&byte| is_value_byte(byte)) {
        return Err(CgiError::MalformedFieldLine);
    }
    let front = value.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    Ok((colon, front..front + trim(value).len()))
}

/// Returns the value of a field that may come once.
pub(crate) fn single<'h>(
    text: &'h [u8],
    lines: &[FieldPlace],
    name: &'static str,
) -> Result<Option<&'h [u8]>, CgiError> {
    let is_wanted = |line: &&FieldPlace| line.name_in(text).eq_ignore_ascii_case(name.as_bytes());
    let mut found = lines.iter().filter(is_wanted);
    let value = found.next().map(|line| line.value_in(text));
    if found.next().is_some() {
        return Err(CgiError::RepeatedField { name });
    }
    Ok(value)
}

/// Reads `status-code SP reason-phrase`; programs leave out the reason phrase. There are no interim
/// responses, so the code is at least 200.
pub(crate) fn status_code(value: &[u8]) -> Result<(u16, &[u8]), CgiError> {
    let (digits, rest) = value.split_at_checked(3).ok_or(CgiError::InvalidStatus)?;
    let status = decimal(digits).and_then(|code| u16::try_from(code).ok());
    match (status, rest) {
        (Some(status @ 200..=999), []) => Ok((status, b"")),
        (Some(status @ 200..=999), [b' ', reason @ ..]) => Ok((status, trim(reason))),
        _ => Err(CgiError::InvalidStatus),
    }
}

/// Returns whether a location is a path of this server. `//host/path` is a reference to another
/// server (RFC 3986 §4.2), so it is for the client.
fn is_local(location: &[u8]) -> bool {
    location.starts_with(b"/") && !location.starts_with(b"//")
}

/// Leaves out the fields of the connection, and those that `Connection` names. `Content-Length`
/// stays in any case: it was read, and says how long the content is.
pub(crate) fn retain_allowed(text: &[u8], lines: &mut Vec<FieldPlace>) {
    let named = named_by_connection(text, lines);
    let mut named = named.iter();
    lines.retain(|line| {
        let name = line.name_in(text);
        let is_named = named.next().is_some_and(|&named| named);
        let is_left_out = is_named || reserved_name(name, FieldUses::CGI_RESPONSE).is_some();
        !is_left_out || name.eq_ignore_ascii_case(b"Content-Length")
    });
}

/// Returns for each line whether `Connection` names it.
fn named_by_connection(text: &[u8], lines: &[FieldPlace]) -> [bool; RESPONSE_FIELDS_MAX] {
    let mut named = [false; RESPONSE_FIELDS_MAX];
    let fields = Fields::new(text, lines);
    for option in fields.all(b"Connection").flat_map(list).take(LIST_MEMBERS_MAX) {
        for (field, named) in fields.iter().zip(&mut named) {
            *named |= option.eq_ignore_ascii_case(field.name);
        }
    }
    named
}
