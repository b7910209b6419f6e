//! The small grammar every field shares: token characters, white space, comma-separated lists
//! (RFC 9110 §5.6).

/// Whether a byte may stand in a `token` (RFC 9110 §5.6.2).
#[inline]
#[must_use]
pub const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Whether the bytes are a `token`: one or more token characters (RFC 9110 §5.6.2).
#[inline]
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Whether a byte may stand in a field value: printable ASCII, space, tab, and the opaque bytes
/// from 0x80 on (`field-vchar` and white space, RFC 9110 §5.5).
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

/// The members of a comma-separated list, trimmed, empty ones left out (RFC 9110 §5.6.1.2).
///
/// A comma inside a quoted string does not end a member. A quoted string that never closes
/// swallows the rest, so the member comes out malformed and its reader drops it.
#[inline]
pub fn list(value: &[u8]) -> List<'_> {
    List { rest: value }
}

/// Iterator of [`list`].
#[derive(Clone, Debug)]
pub struct List<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for List<'a> {
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

/// The value of one hexadecimal digit (`HEXDIG`, RFC 5234 B.1, in either case).
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

/// Position of the first `wanted` outside of quoted strings (RFC 9110 §5.6.4).
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
