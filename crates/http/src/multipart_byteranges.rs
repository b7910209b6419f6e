//! The text around the ranges of a `multipart/byteranges` body (RFC 9110 §14.6): the value of its
//! `Content-Type`, the heading of each range, and the end of the body.

use crate::h1::response_encoder;
use crate::prepared_response::ContentRange;
use crate::range::ByteRange;

/// Appends the media type of a body whose parts are divided by `boundary`.
pub fn write_type(out: &mut Vec<u8>, boundary: &[u8]) {
    out.extend_from_slice(b"multipart/byteranges; boundary=");
    out.extend_from_slice(boundary);
}

/// Appends the delimiter and the fields of one part. `type_line` is the whole line of the
/// `Content-Type` of the representation, or empty; `total` is the length of it in bytes.
pub fn write_heading(
    out: &mut Vec<u8>,
    boundary: &[u8],
    type_line: &[u8],
    range: ByteRange,
    total: u64,
) {
    let ByteRange { first, last } = range;
    write_delimiter(out, boundary, b"\r\n");
    out.extend_from_slice(type_line);
    out.extend_from_slice(b"Content-Range: ");
    response_encoder::content_range(out, ContentRange::Bytes { first, last, total });
    out.extend_from_slice(b"\r\n\r\n");
}

/// Appends the delimiter after the last part.
pub fn write_end(out: &mut Vec<u8>, boundary: &[u8]) {
    write_delimiter(out, boundary, b"--\r\n");
}

/// Writes a delimiter. RFC 2046 §5.1.1: the line break in front of a delimiter belongs to it, and
/// may stand in front of the first one too.
fn write_delimiter(out: &mut Vec<u8>, boundary: &[u8], end: &[u8]) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary);
    out.extend_from_slice(end);
}
