//! Field blocks of responses, from the static table and literals alone: a block depends on nothing
//! but its fields. [`dynamic_encoder`](super::dynamic_encoder) uses the table of the peer, too.
//!
//! Everything appends to a byte buffer and never looks back, as in [`h1::encode`].
//!
//! [`h1::encode`]: crate::h1::response_encoder

use super::compressed_response_head;
use super::hpack_qpack_form::CompressionForm;
use crate::field::Field;
use crate::prepared_response::Prepared;

/// Appends the field block of a ready answer.
///
/// `tail` holds fields that are the same for every response of a listener (`date`, `server`), in
/// this form, rendered once a second.
#[inline]
pub fn prepared(out: &mut Vec<u8>, response: &Prepared<'_>, tail: &[u8]) {
    compressed_response_head::prepared(
        CompressionForm::Hpack,
        out,
        response,
        response.shared.hpack,
        tail,
    );
}

/// Returns the most bytes that [`prepared`] appends before the tail.
#[inline]
#[must_use]
pub fn prepared_bytes(response: &Prepared<'_>) -> usize {
    compressed_response_head::prepared_bytes(response, response.shared.hpack)
}

/// Appends the field block of a dynamic answer; `length` is that of its content, if it is known.
///
/// Of `fields` those are left out that [`h1::encode::head`](crate::h1::response_encoder::head)
/// leaves out, and those that no version but HTTP/1 may have (RFC 9113 §8.2.2).
pub fn head<'f>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl Iterator<Item = Field<'f>>,
    length: Option<u64>,
    tail: &[u8],
) {
    compressed_response_head::status(CompressionForm::Hpack, out, status);
    compressed_response_head::fields(CompressionForm::Hpack, out, fields);
    if let Some(bytes) = length {
        compressed_response_head::content_length(CompressionForm::Hpack, out, bytes);
    }
    out.extend_from_slice(tail);
}

/// Appends the field block of an interim response. `status` is 100..=199 and not 101, which HTTP/2
/// does not have (RFC 9113 §8.6). The same fields are left out as in [`head`].
pub fn interim<'f>(out: &mut Vec<u8>, status: u16, fields: impl Iterator<Item = Field<'f>>) {
    debug_assert!(matches!(status, 100 | 102..=199));
    compressed_response_head::status(CompressionForm::Hpack, out, status);
    compressed_response_head::fields(CompressionForm::Hpack, out, fields);
}

/// Appends the field block of trailers. The same fields are left out as in [`head`].
pub fn trailers<'f>(out: &mut Vec<u8>, fields: impl Iterator<Item = Field<'f>>) {
    compressed_response_head::fields(CompressionForm::Hpack, out, fields);
}

/// Appends `:status`.
#[inline]
pub fn status(out: &mut Vec<u8>, status: u16) {
    compressed_response_head::status(CompressionForm::Hpack, out, status);
}

/// Appends a field in its shortest form: the name in small letters, the value without white space
/// at its ends. It leaves no field out, because it is for fields of the server's own.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    CompressionForm::Hpack.field(out, name, value);
}

/// Appends whole lines of HTTP/1 (`Name: value\r\n`…), without those that no other version may
/// have.
pub fn lines(out: &mut Vec<u8>, h1_lines: &[u8]) {
    compressed_response_head::lines(CompressionForm::Hpack, out, h1_lines);
}
