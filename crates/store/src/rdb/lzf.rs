//! Decompression of LZF, whose format consists of runs of bytes and of copies of earlier output.

/// Length of the shortest copy, in bytes.
const COPY_MIN_BYTES: usize = 2;

/// Decompresses a string of `bytes` bytes. Returns `None` if the data is damaged or has another
/// length. Memory is allocated as it is needed: at most about 90 bytes for each compressed byte.
pub(super) fn decompress(compressed: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = compressed;
    while let Some((&control, behind)) = rest.split_first() {
        rest = behind;
        if control < 0x20 {
            let (run, behind) = rest.split_at_checked(usize::from(control) + 1)?;
            out.extend_from_slice(run);
            rest = behind;
        } else {
            let mut length = usize::from(control >> 5) + COPY_MIN_BYTES;
            if control >> 5 == 7 {
                length += usize::from(*rest.split_off_first()?);
            }
            let low = *rest.split_off_first()?;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let from = out.len().checked_sub(distance)?;
            // The copy may overlap its own output.
            (from..from + length).for_each(|at| out.push(out[at]));
        }
        if out.len() > bytes {
            return None;
        }
    }
    (out.len() == bytes).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lzf_literals_and_copies_are_decompressed() {
        assert_eq!(decompress(b"\x02abc", 3).as_deref(), Some(&b"abc"[..]));
        assert_eq!(decompress(b"\x01ab\x20\x01", 5).as_deref(), Some(&b"ababa"[..]));
        let long = decompress(b"\x00a\xe0\x0a\x00", 20);
        assert_eq!(long.as_deref(), Some(&[b'a'; 20][..]));
        for damaged in
            [&b"\x02ab"[..], b"\x20\x00", b"\x00a\xe0", b"\x00a\xe0\x0a", b"\x00a\x20\x01"]
        {
            assert_eq!(decompress(damaged, 20), None, "{damaged:?}");
        }
        assert_eq!(decompress(b"\x02abc", 2), None);
        assert_eq!(decompress(b"\x02abc", 4), None);
    }
}
