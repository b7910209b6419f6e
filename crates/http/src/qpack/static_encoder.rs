//! Field sections of responses, from the static table and literals alone: a section depends on
//! nothing but its fields, so none ever waits for another stream.
//!
//! Everything appends to a byte buffer and never looks back, as in [`h1::encode`].
//!
//! [`h1::encode`]: crate::h1::response_encoder

use crate::field::Field;
use crate::hpack::compressed_response_head;
use crate::hpack::hpack_qpack_form::CompressionForm;
use crate::prepared_response::Prepared;

/// The begin of every section: it needs no insertion, and its base is 0 (RFC 9204 §4.5.1).
pub const PREFIX: [u8; 2] = [0, 0];

/// Appends the field section of a ready answer.
///
/// `tail` holds fields that are the same for every response of a listener (`date`, `server`), in
/// this form, rendered once a second.
#[inline]
pub fn prepared(out: &mut Vec<u8>, response: &Prepared<'_>, tail: &[u8]) {
    out.extend_from_slice(&PREFIX);
    compressed_response_head::prepared(
        CompressionForm::Qpack,
        out,
        response,
        response.shared.qpack,
        tail,
    );
}

/// Returns the most bytes that [`prepared`] appends before the tail.
#[inline]
#[must_use]
pub fn prepared_bytes(response: &Prepared<'_>) -> usize {
    compressed_response_head::prepared_bytes(response, response.shared.qpack)
}

/// Appends the field section of a dynamic answer; `length` is that of its content, if it is known.
///
/// Of `fields` those are left out that [`h1::encode::head`](crate::h1::response_encoder::head)
/// leaves out, and those that no version but HTTP/1 may have (RFC 9114 §4.2).
pub fn head<'f>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>>,
    length: Option<u64>,
    tail: &[u8],
) {
    out.extend_from_slice(&PREFIX);
    compressed_response_head::status(CompressionForm::Qpack, out, status);
    compressed_response_head::fields(CompressionForm::Qpack, out, fields);
    if let Some(bytes) = length {
        compressed_response_head::content_length(CompressionForm::Qpack, out, bytes);
    }
    out.extend_from_slice(tail);
}

/// Appends the field section of an interim response. `status` is 100..=199 and not 101, which
/// HTTP/3 does not have (RFC 9114 §4.5). The same fields are left out as in [`head`].
pub fn interim<'f>(out: &mut Vec<u8>, status: u16, fields: impl Iterator<Item = Field<'f>>) {
    debug_assert!(matches!(status, 100 | 102..=199));
    out.extend_from_slice(&PREFIX);
    compressed_response_head::status(CompressionForm::Qpack, out, status);
    compressed_response_head::fields(CompressionForm::Qpack, out, fields);
}

/// Appends the field section of trailers. The same fields are left out as in [`head`].
pub fn trailers<'f>(out: &mut Vec<u8>, fields: impl Iterator<Item = Field<'f>>) {
    out.extend_from_slice(&PREFIX);
    compressed_response_head::fields(CompressionForm::Qpack, out, fields);
}

/// Appends `:status`; the [`PREFIX`] must come before it.
#[inline]
pub fn status(out: &mut Vec<u8>, status: u16) {
    compressed_response_head::status(CompressionForm::Qpack, out, status);
}

/// Appends a field in its shortest form: the name in small letters, the value without white space
/// at its ends. It leaves no field out, because it is for fields of the server's own.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    CompressionForm::Qpack.field(out, name, value);
}

/// Appends whole lines of HTTP/1 (`Name: value\r\n`…), without those that no other version may
/// have.
pub fn lines(out: &mut Vec<u8>, h1_lines: &[u8]) {
    compressed_response_head::lines(CompressionForm::Qpack, out, h1_lines);
}
