//! Response heads on the wire (RFC 9112 §4, §5): prepared pieces copied one after the other.
//!
//! Everything appends to a byte buffer and never looks back. The caller keeps the capacity of the
//! buffer, so nothing is allocated once it has grown.

use crate::date;
use crate::field::{Field, KnownField};
use crate::prepared_response::{ContentRange, Prepared};
use crate::reserved_fields::{FieldUses, is_reserved};
use crate::status::status_line_h1;

/// The fields of a response that concern the connection (RFC 9112 §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFields {
    /// An HTTP/1.1 connection that stays open: nothing to say.
    Stay,
    /// The connection closes after this response.
    Close,
    /// An HTTP/1.0 client asked to keep the connection, and may.
    KeepAlive {
        /// The time that an idle connection is kept.
        timeout_seconds: u32,
        /// The number of further requests that it may have, when that is limited.
        max_requests: Option<u32>,
    },
}

/// The framing of the content of a response (RFC 9112 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// The status or method allows no content, and no field says anything.
    None,
    /// Content of so many bytes.
    Length(u64),
    /// Length not known: the chunked coding.
    Chunked,
    /// Length not known, and the client is HTTP/1.0: the end of the connection is the end.
    UntilClose,
}

/// Appends the head of a ready answer, blank line included.
///
/// `tail` holds whole field lines that are the same for every response of a listener (`Date`,
/// `Server`), rendered once a second, and the blank line.
#[inline]
pub fn prepared(
    out: &mut Vec<u8>,
    response: &Prepared<'_>,
    connection: ConnectionFields,
    tail: &[u8],
) {
    out.extend_from_slice(status_line_h1(response.status));
    out.extend_from_slice(response.shared.h1);
    if response.has_rare_fields() {
        rare_fields(out, response);
    }
    own_fields(out, response);
    finish(out, connection, tail);
}

/// Bytes of a ready answer's own that its head may need, beside lines of a bounded length.
#[inline]
#[must_use]
pub fn prepared_bytes(response: &Prepared<'_>) -> usize {
    let rare = if response.has_rare_fields() { response.rare_bytes() } else { 0 };
    response.shared.h1.len() + response.etag.map_or(0, <[u8]>::len) + rare
}

/// Appends the head of a dynamic answer, blank line included.
///
/// Of `fields` those are left out that this machine writes itself ([`is_own`]), so that no response
/// can be framed in two ways, and those that are not [`is_safe`], so that none can be split.
pub fn head<'f>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>>,
    body: BodyLength,
    connection: ConnectionFields,
    tail: &[u8],
) {
    out.extend_from_slice(status_line_h1(status));
    field_lines(out, fields.filter(|field| !is_own(field)));
    match body {
        BodyLength::None | BodyLength::UntilClose => {}
        BodyLength::Length(bytes) => content_length(out, bytes),
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    finish(out, connection, tail);
}

/// Appends an interim response, blank line included (RFC 9110 §15.2). `status` is 100..=199. The
/// same fields are left out as in [`head`], but for the `Connection` of a 101, which belongs to the
/// protocol that takes the connection over (RFC 9110 §7.8).
pub fn interim<'f>(out: &mut Vec<u8>, status: u16, fields: impl Iterator<Item = Field<'f>>) {
    out.extend_from_slice(status_line_h1(status));
    let switches = |field: &Field<'_>| {
        status == 101 && field.name.eq_ignore_ascii_case(KnownField::Connection.name().as_bytes())
    };
    field_lines(out, fields.filter(|field| !is_own(field) || switches(field)));
    out.extend_from_slice(b"\r\n");
}

/// The interim response that lets a client send its content (RFC 9110 §15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Appends the bytes before the data of a chunk (RFC 9112 §7.1). `bytes` is not 0, which would end
/// the content; [`CHUNK_END`] follows the data.
pub fn chunk_prefix(out: &mut Vec<u8>, bytes: u64) {
    debug_assert_ne!(bytes, 0, "an empty chunk ends the content");
    let mut digits = [0; 16];
    let mut at = digits.len();
    let mut rest = bytes;
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// The bytes after the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Appends the last chunk and the trailer section. The same fields are left out as in [`head`]: a
/// recipient may merge trailers into the head (RFC 9110 §6.5.1).
pub fn last_chunk<'f>(out: &mut Vec<u8>, trailers: impl Iterator<Item = Field<'f>>) {
    out.extend_from_slice(b"0\r\n");
    field_lines(out, trailers.filter(|field| !is_own(field)));
    out.extend_from_slice(b"\r\n");
}

/// Returns whether a field can go on the wire: the name is a token, the value has only bytes a
/// value may have (RFC 9110 §5.5).
#[must_use]
pub fn is_safe(field: &Field<'_>) -> bool {
    crate::grammar::is_token(field.name)
        && field.value.iter().all(|&byte| crate::grammar::is_value_byte(byte))
}

/// Returns whether a field concerns the framing of the message, the rest of the connection, or the
/// time of the message: only this machine knows that.
#[must_use]
pub fn is_own(field: &Field<'_>) -> bool {
    is_reserved(field.name, FieldUses::ENCODED)
}

/// Appends a number in decimal.
#[inline]
pub fn decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends the fields of the representation itself: `ETag`, `Last-Modified`, `Content-Length`.
#[inline]
fn own_fields(out: &mut Vec<u8>, response: &Prepared<'_>) {
    match (
        response.etag.and_then(<[u8]>::as_array),
        response.last_modified,
        response.content_length,
    ) {
        (Some(tag), Some(time), Some(bytes)) => archived_fields(out, tag, time, bytes),
        (_, time, bytes) => {
            if let Some(tag) = response.etag {
                out.extend_from_slice(b"ETag: \"");
                out.extend_from_slice(tag);
                out.extend_from_slice(b"\"\r\n");
            }
            if let Some(time) = time {
                out.extend_from_slice(b"Last-Modified: ");
                out.extend_from_slice(&date::format(time));
                out.extend_from_slice(b"\r\n");
            }
            if let Some(bytes) = bytes {
                content_length(out, bytes);
            }
        }
    }
}

/// Characters of an entity tag made from 16 bytes of a hash, as archives have them.
const TAG_BYTES: usize = 22;

/// Appends the three lines as nearly every response from an archive has them: one copy of known
/// length, then tag and date in place. A copy of bytes just written would wait for each to be
/// stored.
#[inline]
fn archived_fields(out: &mut Vec<u8>, tag: &[u8; TAG_BYTES], time: date::UnixSeconds, bytes: u64) {
    const LINES: &[u8; 94] = b"ETag: \"----------------------\"\r\n\
        Last-Modified: Sat, 00 Jan 0000 00:00:00 GMT\r\nContent-Length: ";
    const TAG_AT: usize = 7;
    const DATE_AT: usize = TAG_AT + TAG_BYTES + 3 + 15;
    out.extend_from_slice(LINES);
    if let Some(lines) = out.last_chunk_mut::<94>() {
        lines[TAG_AT..TAG_AT + TAG_BYTES].copy_from_slice(tag);
        if let Some(text) = lines[DATE_AT..].first_chunk_mut() {
            date::write(text, time);
        }
    }
    decimal(out, bytes);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn content_length(out: &mut Vec<u8>, bytes: u64) {
    out.extend_from_slice(b"Content-Length: ");
    decimal(out, bytes);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn finish(out: &mut Vec<u8>, connection: ConnectionFields, tail: &[u8]) {
    match connection {
        ConnectionFields::Stay => {}
        ConnectionFields::Close => out.extend_from_slice(b"Connection: close\r\n"),
        ConnectionFields::KeepAlive { timeout_seconds, max_requests } => {
            keep_alive(out, timeout_seconds, max_requests);
        }
    }
    out.extend_from_slice(tail);
}

#[cold]
fn keep_alive(out: &mut Vec<u8>, timeout_seconds: u32, max_requests: Option<u32>) {
    out.extend_from_slice(b"Connection: keep-alive\r\nKeep-Alive: timeout=");
    decimal(out, u64::from(timeout_seconds));
    if let Some(max) = max_requests {
        out.extend_from_slice(b", max=");
        decimal(out, u64::from(max));
    }
    out.extend_from_slice(b"\r\n");
}

#[cold]
fn rare_fields(out: &mut Vec<u8>, response: &Prepared<'_>) {
    if let Some(location) = response.location {
        out.extend_from_slice(b"Location: ");
        out.extend_from_slice(location.path);
        if let Some(query) = location.query {
            out.push(b'?');
            out.extend_from_slice(query);
        }
        out.extend_from_slice(b"\r\n");
    }
    for (name, value) in [
        (&b"Content-Type: "[..], response.content_type),
        (b"Content-Location: ", response.content_location),
        (b"Allow: ", response.allow),
    ] {
        if let Some(value) = value {
            out.extend_from_slice(name);
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
    if let Some(range) = response.content_range {
        out.extend_from_slice(b"Content-Range: ");
        content_range(out, range);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the value of `Content-Range` (RFC 9110 §14.4); a multipart heading needs it too.
pub fn content_range(out: &mut Vec<u8>, range: ContentRange) {
    out.extend_from_slice(b"bytes ");
    let total = match range {
        ContentRange::Bytes { first, last, total } => {
            decimal(out, first);
            out.push(b'-');
            decimal(out, last);
            total
        }
        ContentRange::Unsatisfied { total } => {
            out.push(b'*');
            total
        }
    };
    out.push(b'/');
    decimal(out, total);
}

fn field_lines<'f>(out: &mut Vec<u8>, fields: impl Iterator<Item = Field<'f>>) {
    for field in fields.filter(is_safe) {
        out.extend_from_slice(field.name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(field.value);
        out.extend_from_slice(b"\r\n");
    }
}
