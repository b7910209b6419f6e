//! Integers that begin within a byte (RFC 7541 §5.1, RFC 9204 §4.1.1).

use super::CompressionError;

/// Bytes after the first that an integer may have: enough for 62 bits, which RFC 9204 §4.1.1 asks
/// for. RFC 7541 §5.1 wants an end to bytes that add nothing.
const MORE_BYTES_MAX: u32 = 9;

/// Reads an integer, whose first byte has `prefix` bits of it, off the front of `rest`. The bits
/// above are ignored.
#[inline(always)]
pub(crate) fn read(rest: &mut &[u8], prefix: u32) -> Result<u64, CompressionError> {
    let Some((&first, tail)) = rest.split_first() else { return Err(CompressionError::Truncated) };
    *rest = tail;
    let mask = prefix_mask(prefix);
    if first & mask < mask {
        return Ok(u64::from(first & mask));
    }
    read_more(rest, u64::from(mask))
}

/// Reads an integer of at most `u32::MAX`: HPACK and field sections need no more.
#[inline(always)]
pub(crate) fn read_u32(rest: &mut &[u8], prefix: u32) -> Result<usize, CompressionError> {
    let value = read(rest, prefix)?;
    if value > u64::from(u32::MAX) {
        return Err(CompressionError::Integer);
    }
    usize::try_from(value).map_err(|_| CompressionError::Integer)
}

/// Reads the bytes after a full prefix, seven bits in each.
#[inline]
fn read_more(rest: &mut &[u8], mut value: u64) -> Result<u64, CompressionError> {
    for place in 0..MORE_BYTES_MAX {
        let Some((&byte, tail)) = rest.split_first() else {
            return Err(CompressionError::Truncated);
        };
        *rest = tail;
        // At most 63 bits, and the prefix: no overflow.
        value += u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(CompressionError::Integer)
}

/// Appends an integer; `flags` are the bits above the prefix.
#[inline]
pub(crate) fn write(out: &mut Vec<u8>, flags: u8, prefix: u32, value: usize) {
    let mask = prefix_mask(prefix);
    if value < usize::from(mask) {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | mask);
    let mut rest = value - usize::from(mask);
    while rest >= 0x80 {
        out.push(0x80 | rest as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[inline(always)]
const fn prefix_mask(prefix: u32) -> u8 {
    debug_assert!(prefix >= 1 && prefix <= 8);
    (u8::MAX as u32 >> (8 - prefix)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(flags: u8, prefix: u32, value: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, flags, prefix, value);
        out
    }

    /// RFC 7541 C.1.
    #[test]
    fn the_examples_of_the_rfc_are_parsed() {
        assert_eq!(written(0, 5, 10), [0b01010]);
        assert_eq!(written(0, 5, 1337), [0b11111, 0b1001_1010, 0b1010]);
        assert_eq!(written(0, 8, 42), [0b10_1010]);
    }

    #[test]
    fn every_prefix_length_round_trips_at_the_boundary_values() {
        for prefix in 1..=8 {
            let mask = (1usize << prefix) - 1;
            let flags = !(mask as u8);
            let edges = [0, mask - 1, mask, mask + 1, mask + 127, mask + 128, u32::MAX as usize];
            for value in edges {
                let bytes = written(flags, prefix, value);
                assert_eq!(bytes[0] & flags, flags);
                let mut rest = bytes.as_slice();
                assert_eq!(read_u32(&mut rest, prefix), Ok(value));
                assert!(rest.is_empty());
                for cut in 0..bytes.len() {
                    let result = read_u32(&mut &bytes[..cut], prefix);
                    assert_eq!(result, Err(CompressionError::Truncated));
                }
            }
        }
    }

    /// RFC 7541 §5.1: "Integer encodings that exceed implementation limits -- in value or octet
    /// length -- MUST be treated as decoding errors."
    #[test]
    fn limits() {
        let over = written(0, 7, u32::MAX as usize + 1);
        assert_eq!(read_u32(&mut over.as_slice(), 7), Err(CompressionError::Integer));
        assert_eq!(read(&mut over.as_slice(), 7), Ok(u64::from(u32::MAX) + 1));
        let largest = written(0, 7, (1 << 62) - 1);
        assert_eq!(read(&mut largest.as_slice(), 7), Ok((1 << 62) - 1));
        let padded = [&[0x7f][..], &[0x80; 8], &[0]].concat();
        assert_eq!(read(&mut padded.as_slice(), 7), Ok(127));
        let long = [&[0x7f][..], &[0x80; 9], &[0]].concat();
        assert_eq!(read(&mut long.as_slice(), 7), Err(CompressionError::Integer));
    }
}
