//! The head of a response (RFC 9112 §4): status line and fields.

use super::limits::RESPONSE_FIELDS_MAX;
use super::response_error::ResponseError;
use super::response_framing::ResponseFraming;
use crate::field::{FieldPlace, Fields, KnownField, KnownFieldPlaces, Values};
use crate::h1::head_lexer::{self, value_bytes};
use crate::refusal::Refusal;
use crate::version::Version;

/// The head of a response, final or interim. Everything borrows from the bytes it was read from.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'h> {
    /// The version of the message: HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The status code, 100..=999. One above 599 is no code of HTTP; RFC 9110 §15 asks to treat it
    /// as a 5xx.
    pub status: u16,
    /// The reason phrase, which may be empty. It means nothing (RFC 9112 §4).
    pub reason: &'h [u8],
    /// All field lines.
    pub fields: Fields<'h>,
    /// The positions of the known fields.
    pub known: KnownFieldPlaces,
    /// The framing of the content.
    pub framing: ResponseFraming,
    /// The value of `Content-Length`, also where no content follows: in a response to HEAD, and in
    /// a 304, it is the length that GET would have got (RFC 9110 §8.6). `None` where it is
    /// malformed and frames nothing.
    pub content_length: Option<u64>,
    /// Whether the connection stays open after the content (RFC 9112 §9.3): the server does not
    /// close it, and the request has not asked to close it.
    pub keep_alive: bool,
}

impl<'h> ResponseHead<'h> {
    /// Returns the value of the first line of a known field.
    #[inline]
    #[must_use]
    pub fn value(&self, field: KnownField) -> Option<&'h [u8]> {
        self.known.value(&self.fields, field)
    }

    /// Returns the values of all lines of a known field.
    #[inline]
    #[must_use]
    pub fn values(&self, field: KnownField) -> Values<'h> {
        self.known.values(&self.fields, field)
    }
}

/// A whole head, in its parts.
pub(super) struct ScannedResponse<'h> {
    pub(super) version: Version,
    pub(super) status: u16,
    pub(super) reason: &'h [u8],
    pub(super) known: KnownFieldPlaces,
    /// Length of the head, from the status line to the blank line.
    pub(super) bytes: usize,
}

/// Reads the head at the front of `text`, which is cut off at the limit of a head; its field lines
/// go to `lines`. Returns `None` if the head is incomplete, but valid so far.
pub(super) fn scan_response<'h>(
    text: &'h [u8],
    lines: &mut Vec<FieldPlace>,
    fields_max: usize,
) -> Result<Option<ScannedResponse<'h>>, ResponseError> {
    let Some((line, rest)) = status_line(text)? else { return Ok(None) };
    let max = fields_max.min(RESPONSE_FIELDS_MAX);
    let section =
        head_lexer::field_section(text, rest, lines, max).map_err(|refusal| match refusal {
            Refusal::TooManyFields => ResponseError::TooManyFields { max },
            refusal => ResponseError::from_refusal(refusal),
        })?;
    let Some((known, behind)) = section else { return Ok(None) };
    let StatusLine { version, status, reason } = line;
    let bytes = text.len() - behind.len();
    Ok(Some(ScannedResponse { version, status, reason, known, bytes }))
}

struct StatusLine<'h> {
    version: Version,
    status: u16,
    reason: &'h [u8],
}

/// The first bytes of every status line; zeros are digits.
const SHAPE: &[u8; 12] = b"HTTP/0.0 000";

/// Checks that the bytes may be the front of a response. It looks at the first 13 bytes in their
/// order, so that the error does not depend on how many have come.
pub(super) fn check_front(text: &[u8]) -> Result<(), ResponseError> {
    for (at, (byte, shape)) in text.iter().zip(SHAPE).enumerate() {
        match (at, byte) {
            (5, b'1') | (7, b'0' | b'1') => {}
            (5 | 7, b'0'..=b'9') => return Err(ResponseError::UnsupportedVersion),
            // There is no status code below 100 (RFC 9110 §15).
            (9, b'1'..=b'9') | (10 | 11, b'0'..=b'9') => {}
            (_, byte) if byte == shape && *shape != b'0' => {}
            _ => return Err(ResponseError::MalformedStatusLine),
        }
    }
    match text.get(SHAPE.len()) {
        // Servers leave out the space before a reason phrase that is empty, and a recipient may
        // take that (RFC 9112 §4).
        None | Some(b' ' | b'\r') => Ok(()),
        Some(b'\n') => Err(ResponseError::MisplacedLineEnd),
        Some(_) => Err(ResponseError::MalformedStatusLine),
    }
}

/// Reads `HTTP-version SP status-code SP [ reason-phrase ] CRLF`; returns the rest of the text as
/// well.
fn status_line(text: &[u8]) -> Result<Option<(StatusLine<'_>, &[u8])>, ResponseError> {
    check_front(text)?;
    let Some((front, rest)) = text.split_first_chunk::<12>() else { return Ok(None) };
    let version = if front[7] == b'0' { Version::Http10 } else { Version::Http11 };
    let status = front[9..].iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    // `reason-phrase = 1*( HTAB / SP / VCHAR / obs-text )`: the bytes of a field value.
    let (reason, rest) = rest.split_at_checked(value_bytes(rest)).unwrap_or((rest, &[]));
    match rest {
        [b'\r', b'\n', behind @ ..] => Ok(Some((StatusLine { version, status, reason }, behind))),
        [] | [b'\r'] => Ok(None),
        [b'\r', _, ..] | [b'\n', ..] => Err(ResponseError::MisplacedLineEnd),
        _ => Err(ResponseError::MalformedStatusLine),
    }
}
