//! String literals (RFC 7541 §5.2): a length, a flag, and bytes as they are or in Huffman code.

use super::{CompressionError, huffman, integer};

/// Takes a string off the front of `rest` and puts it into `out`. The length of the string has
/// `prefix` bits in the first byte, and the bit above says whether it is coded.
///
/// Returns the length of the string, which may be more than `out` has room for: then the content of
/// `out` is of no use.
#[inline]
pub(crate) fn read(
    rest: &mut &[u8],
    prefix: u32,
    out: &mut [u8],
) -> Result<usize, CompressionError> {
    let Some(&first) = rest.first() else { return Err(CompressionError::Truncated) };
    let bytes = integer::read_u32(rest, prefix)?;
    let (text, tail) = rest.split_at_checked(bytes).ok_or(CompressionError::Truncated)?;
    *rest = tail;
    if first & (1 << prefix) != 0 {
        return huffman::decode(text, out);
    }
    if let Some(out) = out.get_mut(..bytes) {
        out.copy_from_slice(text);
    }
    Ok(bytes)
}

/// Appends a string, coded when that is shorter. `flags` are the bits above the one for the code.
pub(crate) fn write(
    out: &mut Vec<u8>,
    flags: u8,
    prefix: u32,
    text: impl Iterator<Item = u8> + Clone,
    raw_bytes: usize,
) {
    let coded_bytes = huffman::encoded_bytes(text.clone());
    if coded_bytes < raw_bytes {
        integer::write(out, flags | 1 << prefix, prefix, coded_bytes);
        huffman::encode(out, text);
    } else {
        integer::write(out, flags, prefix, raw_bytes);
        out.extend(text);
    }
}
