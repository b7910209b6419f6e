//! A plain reader that computes how compressed fields would appear in a head of HTTP/1, whose
//! limits are those of every protocol.

use pinion_http::limits::{FIELDS_MAX, HEAD_MAX_BYTES, Limits};

pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// More lines and bytes than in HTTP/1: pseudo-fields, and `Host` in addition to `:authority`.
const MORE_LINES: usize = 4;
const MORE_BYTES: usize = 320;

/// Returns the first fields that are within the limits, with consecutive cookies on one line; and
/// whether these are all fields.
pub(crate) fn within(fields: &[Pair], limits: &Limits) -> (Vec<Pair>, bool) {
    let bytes_max = limits.head_bytes.min(HEAD_MAX_BYTES);
    let lines_max = limits.fields.min(FIELDS_MAX);
    let mut taken: Vec<Pair> = Vec::new();
    let (mut own_bytes, mut bytes, mut lines) = (0, "\r\n".len(), 0);
    let mut authority = false;
    for (name, value) in fields {
        let joins = name == b"cookie" && taken.last().is_some_and(|last| joins(last, value));
        let whole = name.len() + value.len();
        let (http1_bytes, http1_lines) = match name.as_slice() {
            b":method" => (value.len() + " ".len(), 0),
            b":path" => (value.len() + " HTTP/1.1\r\n".len(), 0),
            b":scheme" => (0, 0),
            b":authority" => (value.len() + "Host: \r\n".len(), 1),
            b"host" if authority => (0, 0),
            b"cookie" if joins => (value.len() + "; ".len(), 0),
            _ => (whole + ": \r\n".len(), 1),
        };
        authority = name == b":authority" || (authority && name != b"host");
        bytes += http1_bytes;
        lines += http1_lines;
        let too_long = bytes > bytes_max || own_bytes + whole > HEAD_MAX_BYTES + MORE_BYTES;
        let too_many = lines > lines_max || taken.len() >= FIELDS_MAX + MORE_LINES && !joins;
        if too_long || too_many {
            return (taken, false);
        }
        match taken.last_mut().filter(|_| joins) {
            Some(last) => {
                last.1.extend_from_slice(&[b"; ", value.as_slice()].concat());
                own_bytes += value.len() + 2;
            }
            None => {
                taken.push((name.clone(), value.clone()));
                own_bytes += whole;
            }
        }
    }
    (taken, true)
}

/// Returns whether a cookie is appended to another one: white space at the ends of a value is
/// forbidden, so it must stay at an end; and nothing is appended to a cookie for an empty one.
fn joins((name, before): &Pair, value: &[u8]) -> bool {
    let space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let spaces = [before.last(), value.first(), value.last()];
    name == b"cookie" && !value.is_empty() && !spaces.into_iter().any(space)
}
