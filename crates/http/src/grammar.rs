//! The small grammar every field shares: token characters, white space, comma-separated lists
//! (RFC 9110 §5.6).

/// Returns whether a byte is allowed in a `token` (RFC 9110 §5.6.2).
#[inline]
#[must_use]
pub const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Returns whether the bytes are a `token`: one or more token characters (RFC 9110 §5.6.2).
#[inline]
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Returns whether a byte is allowed in a field value: printable ASCII, space, tab, and the opaque
/// bytes from 0x80 on (`field-vchar` and white space, RFC 9110 §5.5).
#[inline]
#[must_use]
pub const fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Takes optional white space, spaces and tabs, off both ends (`OWS`, RFC 9110 §5.6.3).
#[inline]
#[must_use]
pub fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Returns the members of a comma-separated list, trimmed, empty ones left out (RFC 9110 §5.6.1.2).
///
/// A comma inside a quoted string does not end a member. A quoted string that never closes
/// swallows the rest, so the member comes out malformed and its reader drops it.
#[inline]
pub fn list(value: &[u8]) -> ListMembers<'_> {
    ListMembers { rest: value }
}

/// Iterator of [`list`].
#[derive(Clone, Debug)]
pub struct ListMembers<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ListMembers<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = find_unquoted(self.rest, b',').unwrap_or(self.rest.len());
            let (member, rest) = self.rest.split_at(end);
            self.rest = rest.get(1..).unwrap_or_default();
            let member = trim(member);
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    }
}

/// Parses digits only, no sign, no white space. `None` when empty, malformed or above `u64`.
#[inline]
#[must_use]
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Returns the value of one hexadecimal digit (`HEXDIG`, RFC 5234 B.1, in either case).
#[inline]
#[must_use]
pub const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Returns the position of the first `wanted` outside of quoted strings (RFC 9110 §5.6.4).
#[must_use]
pub fn find_unquoted(bytes: &[u8], wanted: u8) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    bytes.iter().position(|&byte| {
        if escaped {
            escaped = false;
        } else if quoted {
            escaped = byte == b'\\';
            quoted = byte != b'"';
        } else {
            quoted = byte == b'"';
            return byte == wanted;
        }
        false
    })
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = c.is_ascii_alphanumeric()
            || matches!(
                c,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §5.6.2: tchar = "!" / "#" / "$" / "%" / "&" / "'" / "*" / "+" / "-" / "." / "^" /
    /// "_" / "`" / "|" / "~" / DIGIT / ALPHA.
    #[test]
    fn token_bytes() {
        let expected =
            "!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~";
        let found: Vec<u8> = (0..=255).filter(|&byte| is_token_byte(byte)).collect();
        assert_eq!(found, expected.as_bytes());
        assert!(is_token(b"x-y"));
        assert!(!is_token(b""));
        assert!(!is_token(b"x y"));
    }

    /// RFC 9110 §5.5: field-content is VCHAR, obs-text, SP and HTAB.
    #[test]
    fn value_bytes() {
        let found: Vec<u8> = (0..=255).filter(|&byte| !is_value_byte(byte)).collect();
        let expected: Vec<u8> = (0..9).chain(10..32).chain([127]).collect();
        assert_eq!(found, expected);
    }

    /// RFC 9110 §5.6.1.2: "a recipient MUST parse and ignore a reasonable number of empty list
    /// elements"; its examples are these.
    #[test]
    fn lists() {
        let members = |value: &'static str| -> Vec<&[u8]> { list(value.as_bytes()).collect() };
        assert_eq!(members("foo,bar"), [&b"foo"[..], b"bar"]);
        assert_eq!(members("foo ,bar,"), [&b"foo"[..], b"bar"]);
        assert_eq!(members("foo , ,bar,charlie"), [&b"foo"[..], b"bar", b"charlie"]);
        assert!(members("").is_empty());
        assert!(members(",").is_empty());
        assert!(members(",   ,").is_empty());
        assert_eq!(members("\ta\t,\t"), [b"a"]);
    }

    /// RFC 9110 §5.6.4: a quoted string may hold any delimiter, and a backslash takes the next.
    #[test]
    fn commas_in_quotes_do_not_end_a_member() {
        let value = br#"a="1,2", b="\",", c"#;
        let members: Vec<&[u8]> = list(value).collect();
        assert_eq!(members, [&br#"a="1,2""#[..], br#"b="\",""#, b"c"]);
        assert_eq!(list(b"\"open, b").count(), 1);
    }

    #[test]
    fn decimals() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"00042"), Some(42));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for bad in
            ["", "18446744073709551616", "99999999999999999999", "+1", "-1", " 1", "1 ", "0x1"]
        {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn hex_digits() {
        for byte in 0..=255u8 {
            let expected = char::from(byte).to_digit(16).map(|digit| digit as u8);
            assert_eq!(hex_digit(byte), expected);
        }
    }
}
