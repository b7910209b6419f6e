//! Heads of responses in the frames of a Python process.

use super::response_length_check::has_content;
use crate::cgi::error::CgiError;
use crate::cgi::response_head::{retain_allowed, single, split_line, status_code};
use crate::field::{FieldPlace, Fields, KnownFieldPlaces};
use crate::grammar::{decimal, is_value_byte};
use crate::h1::client::limits::RESPONSE_FIELDS_MAX;
use crate::h1::client::response_framing::ResponseFraming;
use crate::h1::client::response_head::ResponseHead;
use crate::h1::head_parser::HeadStorage;
use crate::method::Method;
use crate::version::Version;

/// The head of a response. Fields of the connection, which the server controls, are left out, as
/// PEP 3333 asks; so is a field `Status`.
#[derive(Clone, Copy, Debug)]
pub struct PythonResponseHead<'h> {
    /// The status code, 200..=999.
    pub status: u16,
    /// The reason phrase, which may be empty.
    pub reason: &'h [u8],
    /// The fields, `Content-Length` included.
    pub fields: Fields<'h>,
    /// The positions of the known fields.
    pub known: KnownFieldPlaces,
    /// The value of `Content-Length`. A
    /// [`ResponseContentCheck`](super::response_length_check::ResponseContentCheck) checks whether
    /// it is true.
    pub content_length: Option<u64>,
}

impl<'h> PythonResponseHead<'h> {
    /// Makes the head that this response to a request of this method would have over HTTP/1.
    /// `whole_bytes` is the length of the content if the process has sent a whole response; it
    /// frames the content where there is no `Content-Length`.
    #[must_use]
    pub fn response_head(&self, method: Method, whole_bytes: Option<u32>) -> ResponseHead<'h> {
        let length = self.content_length.or(whole_bytes.map(u64::from));
        let framing = match (has_content(method, self.status), length) {
            (false, _) | (true, Some(0)) => ResponseFraming::None,
            (true, Some(bytes)) => ResponseFraming::Length(bytes),
            (true, None) => ResponseFraming::UntilClose,
        };
        ResponseHead {
            version: Version::Http11,
            status: self.status,
            reason: self.reason,
            fields: self.fields,
            known: self.known,
            framing,
            content_length: self.content_length,
            keep_alive: true,
        }
    }
}

/// Field lines without a status, of a response with the status 103 (RFC 8297).
#[derive(Clone, Copy, Debug)]
pub struct HintFields<'h> {
    /// The fields; those of the connection are left out.
    pub fields: Fields<'h>,
    /// The positions of the known fields.
    pub known: KnownFieldPlaces,
}

/// Reads the whole head of a response: the status, and field lines, each ended by LF.
pub(super) fn read_head<'h>(
    text: &'h [u8],
    storage: &'h mut HeadStorage,
    fields_max: usize,
) -> Result<PythonResponseHead<'h>, CgiError> {
    let status_bytes = memchr::memchr(b'\n', text).ok_or(CgiError::HeadIncomplete)?;
    let (status, reason) = status_code(text.get(..status_bytes).unwrap_or_default())?;
    if !reason.iter().all(|&byte| is_value_byte(byte)) {
        return Err(CgiError::InvalidStatus);
    }
    let lines = storage.lines();
    field_lines(text, status_bytes + 1, lines, fields_max)?;
    let content_length = match single(text, lines, "Content-Length")? {
        Some(value) => Some(decimal(value).ok_or(CgiError::InvalidContentLength)?),
        None => None,
    };
    let HintFields { fields, known } = allowed_fields(text, storage);
    Ok(PythonResponseHead { status, reason, fields, known, content_length })
}

/// Reads field lines, each ended by LF.
pub(super) fn read_hints<'h>(
    text: &'h [u8],
    storage: &'h mut HeadStorage,
    fields_max: usize,
) -> Result<HintFields<'h>, CgiError> {
    field_lines(text, 0, storage.lines(), fields_max)?;
    Ok(allowed_fields(text, storage))
}

/// Reads the head of the response that accepts a WebSocket: the status 101, and field lines.
pub(super) fn read_accept<'h>(
    text: &'h [u8],
    storage: &'h mut HeadStorage,
    fields_max: usize,
) -> Result<HintFields<'h>, CgiError> {
    let status_bytes = memchr::memchr(b'\n', text).ok_or(CgiError::HeadIncomplete)?;
    let status = text.get(..status_bytes).unwrap_or_default();
    if status != b"101" && !status.starts_with(b"101 ") {
        return Err(CgiError::InvalidStatus);
    }
    field_lines(text, status_bytes + 1, storage.lines(), fields_max)?;
    Ok(allowed_fields(text, storage))
}

/// Finds the field lines from a position on. A blank line is none.
fn field_lines(
    text: &[u8],
    mut start: usize,
    lines: &mut Vec<FieldPlace>,
    fields_max: usize,
) -> Result<(), CgiError> {
    let max = fields_max.min(RESPONSE_FIELDS_MAX);
    lines.clear();
    let rest = text.get(start..).unwrap_or_default();
    for line in rest.split_inclusive(|&byte| byte == b'\n') {
        let at = start;
        start += line.len();
        // The positions of a field have 16 bits, and the longest head with its LF is one byte
        // longer.
        let line = line.strip_suffix(b"\n").ok_or(CgiError::HeadIncomplete)?;
        if lines.len() >= max {
            return Err(CgiError::TooManyFields { max });
        }
        let (name, value) = split_line(line)?;
        let value_at = at + name + 1 + value.start;
        lines.push(FieldPlace::new(at..at + name, value_at..value_at + value.len()));
    }
    Ok(())
}

/// Leaves out the fields of the connection, and finds the known ones.
fn allowed_fields<'h>(text: &'h [u8], storage: &'h mut HeadStorage) -> HintFields<'h> {
    let lines = storage.lines();
    retain_allowed(text, lines);
    let mut known = KnownFieldPlaces::default();
    for (position, line) in lines.iter().enumerate() {
        known.add(line.name_in(text), position);
    }
    let storage: &'h HeadStorage = storage;
    HintFields { fields: Fields::new(text, storage.places()), known }
}
