//! Bytes as text of 64 characters (RFC 4648), without padding.

/// Which characters stand for the last two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// `+` and `/` (RFC 4648 §4).
    Standard,
    /// `-` and `_` (RFC 4648 §5).
    Url,
}

/// Returns the characters for `bytes`; a rest of fewer than six bits is filled up with zeros.
pub fn encode(bytes: &[u8], alphabet: Alphabet) -> impl Iterator<Item = u8> {
    let characters = match alphabet {
        Alphabet::Standard => STANDARD,
        Alphabet::Url => URL,
    };
    bytes.chunks(3).flat_map(move |group| {
        let mut word = [0; 4];
        word[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        (0..=group.len()).map(move |at| characters[(word >> (18 - 6 * at)) as usize & 63])
    })
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 §10, without padding.
    #[test]
    fn test_vectors() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg"),
            (b"fooba", "Zm9vYmE"),
            (b"foobar", "Zm9vYmFy"),
            (b"\xff\xff\xfe", "///+"),
        ] {
            assert!(encode(bytes, Alphabet::Standard).eq(text.bytes()), "{text}");
            let text = text.replace('/', "_").replace('+', "-");
            assert!(encode(bytes, Alphabet::Url).eq(text.bytes()), "{text}");
        }
    }
}
