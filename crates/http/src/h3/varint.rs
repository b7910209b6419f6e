//! Integers of variable length (RFC 9000 §16).

/// The highest number.
pub const MAX: u64 = (1 << 62) - 1;

/// Takes a number off the front of `rest`; nothing happens when it is not all there. A number may
/// be in more bytes than it needs.
#[inline]
pub fn read(rest: &mut &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    let (bytes, tail) = rest.split_at_checked(1 << (first >> 6))?;
    *rest = tail;
    let front = u64::from(first & 0x3f);
    Some(bytes.iter().skip(1).fold(front, |value, &byte| value << 8 | u64::from(byte)))
}

/// Appends a number, at most [`MAX`], in as few bytes as it needs.
#[inline]
pub fn write(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX, "a number beyond 62 bits");
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..=0x3fff_ffff => {
            out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes());
        }
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Returns the number of bytes that [`write()`] appends.
#[must_use]
pub const fn bytes(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, value);
        out
    }

    /// RFC 9000 §A.1.
    #[test]
    fn the_examples_of_the_rfc_are_parsed() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(read(&mut &*bytes), Some(value));
            assert_eq!(written(value), bytes);
        }
        // "the two-byte sequence 0x4025 also decodes to 37"
        assert_eq!(read(&mut &b"\x40\x25"[..]), Some(37));
    }

    #[test]
    fn values_at_the_length_boundaries_round_trip() {
        for (value, length) in [
            (0, 1),
            (0x3f, 1),
            (0x40, 2),
            (0x3fff, 2),
            (0x4000, 4),
            (0x3fff_ffff, 4),
            (0x4000_0000, 8),
            (MAX, 8),
        ] {
            let written = [&written(value)[..], b"rest"].concat();
            let mut rest = &written[..];
            assert_eq!(read(&mut rest), Some(value));
            assert_eq!((rest, written.len()), (&b"rest"[..], length + 4));
            assert_eq!(bytes(value), length);
            for cut in 0..length {
                let mut part = &written[..cut];
                assert_eq!(read(&mut part), None);
                assert_eq!(part.len(), cut, "nothing is taken");
            }
        }
    }
}
