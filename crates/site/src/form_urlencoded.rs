//! Queries as forms send them: `key=value&key=value`, with percent escapes and `+` for a space (the
//! URL standard's `application/x-www-form-urlencoded`). They are read without copies.

use pinion_http::grammar::hex_digit;

/// Returns names and values as sent. A pair without `=` has an empty value.
pub(crate) fn pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.split(|&byte| byte == b'&').map(|pair| {
        let equals = pair.iter().position(|&byte| byte == b'=');
        match equals.and_then(|at| pair.split_at_checked(at)) {
            Some((name, value)) => (name, value.get(1..).unwrap_or_default()),
            None => (pair, &[][..]),
        }
    })
}

/// Returns whether the decoded form of `sent` is `bytes`.
pub(crate) fn is(sent: &[u8], bytes: &[u8]) -> bool {
    decoded(sent).eq(bytes.iter().copied())
}

/// Returns the decoded form of `sent`. A percent sign that begins no escape stands for itself.
pub(crate) fn decoded(sent: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = sent;
    core::iter::from_fn(move || {
        let (&first, behind) = rest.split_first()?;
        let escape = match behind {
            [high, low, tail @ ..] if first == b'%' => {
                hex_digit(*high).zip(hex_digit(*low)).map(|(high, low)| (high << 4 | low, tail))
            }
            _ => None,
        };
        let (byte, tail) = escape.unwrap_or((if first == b'+' { b' ' } else { first }, behind));
        rest = tail;
        Some(byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_escapes_and_plus_signs_are_decoded() {
        for (sent, bytes) in [
            ("a+b%20c", "a b c"),
            ("%C3%BC%2B%26", "ü+&"),
            ("100%", "100%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
            ("", ""),
        ] {
            assert!(is(sent.as_bytes(), bytes.as_bytes()), "{sent}");
        }
        assert!(!is(b"a", b"ab") && !is(b"ab", b"a"));
    }

    #[test]
    fn pairs_are_split_with_and_without_a_value() {
        let found: Vec<_> = pairs(b"a=1&b&=c&d==").collect();
        assert_eq!(found, [(&b"a"[..], &b"1"[..]), (b"b", b""), (b"", b"c"), (b"d", b"=")]);
        assert_eq!(pairs(b"").collect::<Vec<_>>(), [(&b""[..], &b""[..])]);
    }
}
