//! Response heads in either compressed form: the same fields as
//! [`h1::encode`](crate::h1::response_encoder) writes, without those of a connection of HTTP/1.

use super::hpack_qpack_form::CompressionForm;
use super::integer;
use super::string;
use crate::date::{self, UnixSeconds};
use crate::field::Field;
use crate::grammar;
use crate::h1::response_encoder::{content_range, is_safe};
use crate::prepared_response::Prepared;
use crate::reserved_fields::{FieldUses, is_reserved};

/// Characters of an entity tag made from 16 bytes of a hash, as archives have them.
pub(super) const TAG_BYTES: usize = 22;

/// The bytes that a ready response may need beside the lengths of its values: references to names,
/// lengths of values, status, date, numbers (see the test that takes each at its longest).
const OVERHEAD_MAX_BYTES: usize = 192;

/// Appends the fields of a ready answer. `shared` are those it has in common with others, in this
/// form, or empty.
#[inline(always)]
pub(crate) fn prepared(
    form: CompressionForm,
    out: &mut Vec<u8>,
    response: &Prepared<'_>,
    shared: &[u8],
    tail: &[u8],
) {
    status(form, out, response.status);
    if shared.is_empty() {
        lines(form, out, response.shared.h1);
    } else {
        out.extend_from_slice(shared);
    }
    if response.has_rare_fields() {
        rare_fields(form, out, response);
    }
    match (
        response.etag.and_then(<[u8]>::as_array),
        response.last_modified,
        response.content_length,
    ) {
        (Some(tag), Some(time), Some(bytes)) => archived_fields(form, out, tag, time, bytes),
        _ => own_fields(form, out, response),
    }
    out.extend_from_slice(tail);
}

/// Returns the most bytes that [`prepared`] appends before the tail.
#[inline]
pub(crate) fn prepared_bytes(response: &Prepared<'_>, shared: &[u8]) -> usize {
    // A line of HTTP/1 has four bytes that are not name or value. In either form it has at most
    // three, and one more for each 127 bytes of a name or value.
    let lines = if shared.is_empty() { response.shared.h1.len() } else { 0 };
    let rare = if response.has_rare_fields() { response.rare_bytes() } else { 0 };
    let etag = response.etag.map_or(0, <[u8]>::len);
    OVERHEAD_MAX_BYTES + shared.len() + lines + lines / 64 + etag + rare
}

/// Appends `:status`. A code outside of 100..=599 is sent as 500, which is how a client would take
/// it (RFC 9110 §15).
#[inline]
pub(crate) fn status(form: CompressionForm, out: &mut Vec<u8>, status: u16) {
    let status = if matches!(status, 100..=599) { status } else { 500 };
    match status_place(form, status) {
        Some(place) => form.indexed(out, place),
        None => {
            let place = match form {
                CompressionForm::Hpack => 7,
                CompressionForm::Qpack => 24,
            };
            form.named(out, place);
            let digit = |value: u16| b'0' + (value % 10) as u8;
            out.extend_from_slice(&[3, digit(status / 100), digit(status / 10), digit(status)]);
        }
    }
}

/// Returns the place of a status in the static table.
#[inline]
const fn status_place(form: CompressionForm, status: u16) -> Option<usize> {
    Some(match (form, status) {
        (CompressionForm::Hpack, 200) => 7,
        (CompressionForm::Hpack, 204) => 8,
        (CompressionForm::Hpack, 206) => 9,
        (CompressionForm::Hpack, 304) => 10,
        (CompressionForm::Hpack, 400) => 11,
        (CompressionForm::Hpack, 404) => 12,
        (CompressionForm::Hpack, 500) => 13,
        (CompressionForm::Qpack, 103) => 24,
        (CompressionForm::Qpack, 200) => 25,
        (CompressionForm::Qpack, 304) => 26,
        (CompressionForm::Qpack, 404) => 27,
        (CompressionForm::Qpack, 503) => 28,
        (CompressionForm::Qpack, 100) => 63,
        (CompressionForm::Qpack, 204) => 64,
        (CompressionForm::Qpack, 206) => 65,
        (CompressionForm::Qpack, 302) => 66,
        (CompressionForm::Qpack, 400) => 67,
        (CompressionForm::Qpack, 403) => 68,
        (CompressionForm::Qpack, 421) => 69,
        (CompressionForm::Qpack, 425) => 70,
        (CompressionForm::Qpack, 500) => 71,
        _ => return None,
    })
}

/// Appends whole lines of HTTP/1, without those that belong to its connection.
pub(crate) fn lines(form: CompressionForm, out: &mut Vec<u8>, h1_lines: &[u8]) {
    let lines = h1_lines.split(|&byte| byte == b'\n');
    for line in lines.filter_map(|line| line.strip_suffix(b"\r")) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = line.split_at(colon);
        let field = Field { name, value: value.get(1..).unwrap_or_default() };
        if !is_of_connection(&field) {
            form.field(out, field.name, field.value);
        }
    }
}

/// Appends the fields that an application may set.
pub(crate) fn fields<'f>(
    form: CompressionForm,
    out: &mut Vec<u8>,
    fields: impl Iterator<Item = Field<'f>>,
) {
    let not_set = FieldUses::ENCODED.or(FieldUses::MULTIPLEXED);
    fields
        .filter(|field| !is_reserved(field.name, not_set) && is_safe(field))
        .for_each(|field| form.field(out, field.name, field.value));
}

/// Returns whether a field is one of HTTP/1 that no other version may have (RFC 9113 §8.2.2, RFC
/// 9114 §4.2).
fn is_of_connection(field: &Field<'_>) -> bool {
    is_reserved(field.name, FieldUses::MULTIPLEXED)
}

/// Appends the three fields as nearly every response from an archive has them: one copy of known
/// length, then tag and date in place. A copy of bytes just written would wait for each to be
/// stored.
#[inline(always)]
fn archived_fields(
    form: CompressionForm,
    out: &mut Vec<u8>,
    tag: &[u8; TAG_BYTES],
    time: UnixSeconds,
    bytes: u64,
) {
    // References to the names and the lengths of the values; the last value follows.
    match form {
        CompressionForm::Hpack => {
            const FIELDS: &[u8; 61] = b"\x0f\x13\x18\"----------------------\"\
                \x0f\x1d\x1dSat, 00 Jan 0000 00:00:00 GMT\x0f\x0d";
            in_place::<61, 4, 30>(out, FIELDS, tag, time);
        }
        CompressionForm::Qpack => {
            const FIELDS: &[u8; 58] = b"\x57\x18\"----------------------\"\
                \x5a\x1dSat, 00 Jan 0000 00:00:00 GMT\x54";
            in_place::<58, 3, 28>(out, FIELDS, tag, time);
        }
    }
    number(out, bytes);
}

/// Appends `fields` with a tag and a date at their places.
#[inline(always)]
fn in_place<const BYTES: usize, const TAG_AT: usize, const DATE_AT: usize>(
    out: &mut Vec<u8>,
    fields: &[u8; BYTES],
    tag: &[u8; TAG_BYTES],
    time: UnixSeconds,
) {
    out.extend_from_slice(fields);
    if let Some(fields) = out.last_chunk_mut::<BYTES>() {
        fields[TAG_AT..TAG_AT + TAG_BYTES].copy_from_slice(tag);
        if let Some(text) = fields[DATE_AT..].first_chunk_mut() {
            date::write(text, time);
        }
    }
}

/// Appends `ETag`, `Last-Modified` and `Content-Length`, each if it is there.
#[inline(never)]
pub(super) fn own_fields(form: CompressionForm, out: &mut Vec<u8>, response: &Prepared<'_>) {
    if let Some(tag) = response.etag {
        form.name(out, b"etag");
        integer::write(out, 0, 7, tag.len() + 2);
        out.push(b'"');
        out.extend_from_slice(tag);
        out.push(b'"');
    }
    if let Some(time) = response.last_modified {
        form.name(out, b"last-modified");
        integer::write(out, 0, 7, date::DATE_BYTES);
        out.extend_from_slice(&date::format(time));
    }
    if let Some(bytes) = response.content_length {
        content_length(form, out, bytes);
    }
}

/// Appends `content-length`.
pub(crate) fn content_length(form: CompressionForm, out: &mut Vec<u8>, bytes: u64) {
    form.name(out, b"content-length");
    number(out, bytes);
}

/// Appends a number as a value.
#[inline]
fn number(out: &mut Vec<u8>, value: u64) {
    let mut text = [0; 21];
    let mut at = text.len();
    let mut rest = value;
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = text.len() - at;
    at -= 1;
    text[at] = digits as u8;
    out.extend_from_slice(&text[at..]);
}

#[cold]
pub(super) fn rare_fields(form: CompressionForm, out: &mut Vec<u8>, response: &Prepared<'_>) {
    if let Some(location) = response.location {
        let query = location.query.map(|query| (b"?", query));
        let query = query.iter().flat_map(|(mark, query)| mark.iter().chain(query.iter()));
        let text = grammar::trim(location.path).iter().chain(query).copied();
        form.name(out, b"location");
        let bytes = text.clone().count();
        string::write(out, 0, 7, text, bytes);
    }
    for (name, value) in [
        (&b"content-type"[..], response.content_type),
        (b"content-location", response.content_location),
        (b"allow", response.allow),
    ] {
        if let Some(value) = value {
            form.field(out, name, value);
        }
    }
    if let Some(range) = response.content_range {
        form.name(out, b"content-range");
        let at = out.len();
        out.push(0);
        content_range(out, range);
        // At most three numbers of 20 digits: the length is one byte.
        let bytes = out.len() - at - 1;
        if let Some(length) = out.get_mut(at) {
            *length = bytes as u8;
        }
    }
}
