//! Character references of HTML for the characters that have a meaning in it.

use pinion_http::html_escape::reference;

use crate::bounded_output::{BoundedResult, room};

/// Bytes of the longest reference that is understood, between `&` and `;`: `#x10FFFF` with room
/// for leading zeros.
const REFERENCE_MAX_BYTES: usize = 12;

/// Escapes `& < > " '` as references, and copies everything else.
pub(super) fn escape(text: &[u8]) -> BoundedResult {
    let mut out = room(text.iter().map(|&byte| reference(byte).map_or(1, str::len)).sum())?;
    for &byte in text {
        match reference(byte) {
            Some(reference) => out.extend_from_slice(reference.as_bytes()),
            None => out.push(byte),
        }
    }
    Ok(out)
}

/// Replaces references by their characters. Text that is no reference, and unknown references,
/// stay.
pub(super) fn unescape(text: &[u8]) -> BoundedResult {
    // No character is longer than its references.
    let mut out = room(text.len())?;
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'&', rest) {
        let (before, reference) = rest.split_at(at);
        out.extend_from_slice(before);
        let name = reference.get(1..).unwrap_or_default();
        let end = name.iter().take(REFERENCE_MAX_BYTES).position(|&byte| byte == b';');
        let found = end.and_then(|end| Some((character(name.get(..end)?)?, name.get(end + 1..)?)));
        match found {
            Some((character, behind)) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = behind;
            }
            None => {
                out.push(b'&');
                rest = name;
            }
        }
    }
    out.extend_from_slice(rest);
    Ok(out)
}

fn character(name: &[u8]) -> Option<char> {
    let by_number = |digits: &[u8], radix| {
        // The standard library would accept a sign.
        let is_plain = digits.first().is_some_and(u8::is_ascii_hexdigit);
        let digits = core::str::from_utf8(digits).ok().filter(|_| is_plain)?;
        char::from_u32(u32::from_str_radix(digits, radix).ok()?)
    };
    match name {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        [b'#', b'x' | b'X', digits @ ..] => by_number(digits, 16),
        [b'#', digits @ ..] => by_number(digits, 10),
        _ => None,
    }
}
