//! The output of a request stream: frames around field sections, and headers of DATA. The stream
//! ends where the content does.

use super::frame::kind;
use super::varint;

/// Bytes in front of a field section: the type, and a length in two bytes.
const FRONT_BYTES: usize = 3;

/// The longest section whose length is in two bytes.
const SHORT_MAX_BYTES: usize = 0x3fff;

/// Writes a head: a final one, or interim ones before it. `section` appends the field section, by
/// [`encode`](crate::qpack::static_encoder).
#[inline]
pub fn head(out: &mut Vec<u8>, section: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind::HEADERS as u8, 0x40, 0]);
    section(out);
    let bytes = out.len() - start - FRONT_BYTES;
    if bytes > SHORT_MAX_BYTES {
        lengthen(out, start, bytes);
    } else if let Some(length) = out.get_mut(start + 1..start + FRONT_BYTES) {
        length.copy_from_slice(&(bytes as u16 | 0x4000).to_be_bytes());
    }
}

/// Writes the trailer fields; see [`head`].
pub fn trailers(out: &mut Vec<u8>, section: impl FnOnce(&mut Vec<u8>)) {
    head(out, section);
}

/// Writes the header of a DATA frame, after which the caller appends so many bytes of content.
#[inline]
pub fn data(out: &mut Vec<u8>, bytes: u64) {
    out.push(kind::DATA as u8);
    varint::write(out, bytes);
}

/// Makes room for a length that needs more than two bytes.
#[cold]
fn lengthen(out: &mut Vec<u8>, start: usize, bytes: usize) {
    let mut length = Vec::with_capacity(8);
    varint::write(&mut length, bytes as u64);
    out.splice(start + 1..start + FRONT_BYTES, length);
}
