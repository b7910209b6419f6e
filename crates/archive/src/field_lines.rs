//! Field lines as shared blocks store them: `Name: value` CRLF, and nothing else, so that they
//! can be copied into a response as they are (RFC 9110 §5, RFC 9112 §5).

use pinion_http::grammar::{is_token, is_value_byte};
use pinion_http::reserved_fields::{FieldUses, is_reserved};

/// Returns whether a field, by its name in any case, is one that the server writes itself, from the
/// entry, the connection or the clock. In a shared block it would come twice, and some of these
/// fields decide where a response ends.
#[must_use]
pub fn is_written_by_server(name: &[u8]) -> bool {
    is_reserved(name, FieldUses::SHARED_BLOCK)
}

/// Returns whether `lines` is a sequence of whole, well-formed field lines of fields that may stand
/// in a shared block, `Content-Type` nowhere but in front. Empty is well-formed.
pub(crate) fn well_formed(lines: &[u8]) -> bool {
    let mut rest = lines;
    while !rest.is_empty() {
        let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return false };
        let (line, tail) = rest.split_at(end);
        let in_front = rest.len() == lines.len();
        if !line_is_well_formed(line, in_front) {
            return false;
        }
        rest = tail.get(2..).unwrap_or_default();
    }
    true
}

/// Appends a line; returns false, and appends nothing, when name or value has a byte that would
/// break the line. Which fields may stand in a block is checked when it is whole.
pub(crate) fn push(lines: &mut Vec<u8>, name: &str, value: &str) -> bool {
    let fits = is_token(name.as_bytes()) && value.bytes().all(is_value_byte);
    if fits {
        for part in [name, ": ", value, "\r\n"] {
            lines.extend_from_slice(part.as_bytes());
        }
    }
    fits
}

/// Returns the length of the `Content-Type` line with its CRLF when `lines` begin with one, else 0.
pub(crate) fn type_line_bytes(lines: &[u8]) -> usize {
    const NAME: &[u8] = b"content-type:";
    match lines.get(..NAME.len()) {
        Some(name) if name.eq_ignore_ascii_case(NAME) => {
            lines.windows(2).position(|pair| pair == b"\r\n").map_or(0, |end| end + 2)
        }
        _ => 0,
    }
}

fn line_is_well_formed(line: &[u8], in_front: bool) -> bool {
    let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
    let (name, value) = line.split_at(colon);
    let Some(value) = value.strip_prefix(b": ") else { return false };
    let is = |field: &[u8]| name.eq_ignore_ascii_case(field);
    let out_of_place = !in_front && is(b"content-type");
    is_token(name)
        && !out_of_place
        && !is_written_by_server(name)
        && value.iter().all(|&byte| is_value_byte(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_valid_field_lines_are_well_formed() {
        assert!(well_formed(b""));
        assert!(well_formed(b"Content-Type: text/css\r\nVary: Accept-Encoding\r\n"));
        assert!(well_formed(b"X-Empty: \r\n"));
        for bad in [
            &b"Vary: a"[..],
            b"Vary: a\n",
            b"Vary: a\r\n\r\n",
            b": a\r\n",
            b"Vary:a\r\n",
            b"Va ry: a\r\n",
            b"Vary : a\r\n",
            b"Vary: a\rb\r\n",
            b"Vary: a\nb\r\n",
            b"Vary: a\0\r\n",
            b" folded\r\n",
            b"Vary: a\r\ncontent-type: a/b\r\n",
            b"\r\n",
        ] {
            assert!(!well_formed(bad), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn framing_fields_are_refused_in_any_case() {
        for name in ["Content-Length", "transfer-encoding", "CONNECTION", "Date", "eTag"] {
            assert!(!well_formed(format!("{name}: 1\r\n").as_bytes()), "{name}");
        }
    }

    #[test]
    fn the_content_type_line_is_found_only_at_the_start() {
        assert_eq!(type_line_bytes(b"Content-Type: a/b\r\nX: y\r\n"), 19);
        assert_eq!(type_line_bytes(b"X: y\r\nContent-Type: a/b\r\n"), 0);
        assert_eq!(type_line_bytes(b"Content-Type-Options: a\r\n"), 0);
        assert_eq!(type_line_bytes(b""), 0);
    }
}
