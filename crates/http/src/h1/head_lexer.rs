//! The lexer of request heads: one pass over the bytes finds the parts and checks every byte
//! against the grammar (RFC 9112 §3, §5). [`super::head_parser`] interprets the parts. Field
//! sections of responses and trailers are read by the same code.
//!
//! Strict where servers differ: lines end in CRLF and nothing else, no folding, no space before a
//! colon, one space between the parts of the request line.

use crate::field::{FieldPlace, KnownFieldPlaces};
use crate::grammar::is_token_byte;
use crate::limits::{HEAD_MAX_BYTES, TRAILER_MAX_BYTES};
use crate::method::Method;
use crate::refusal::Refusal;
use crate::version::Version;

/// A whole head, in its parts.
pub(super) struct Scanned<'h> {
    pub(super) method: Method,
    pub(super) method_token: &'h [u8],
    pub(super) target: &'h [u8],
    pub(super) version: Version,
    pub(super) known: KnownFieldPlaces,
    /// Length of the head, from the request line to the blank line.
    pub(super) bytes: usize,
}

// Places of names and values are stored in 16 bits.
const _: () = assert!(HEAD_MAX_BYTES <= u16::MAX as usize);
const _: () = assert!(TRAILER_MAX_BYTES <= u16::MAX as usize);

/// A part of the text and the rest of the text. `None` when the text ends before the part does, and
/// is valid so far.
pub(super) type Split<'h, T> = Result<Option<(T, &'h [u8])>, Refusal>;

/// Reads the head at the front of `text`, which is cut off at the limit of a head; its field lines
/// go to `lines`. Returns `None` when the head is incomplete, but valid so far.
#[inline]
pub(super) fn scan<'h>(
    text: &'h [u8],
    lines: &mut Vec<FieldPlace>,
    lines_max: usize,
) -> Result<Option<Scanned<'h>>, Refusal> {
    let Some(((method, method_token), rest)) = method(text)? else { return Ok(None) };
    let Some((target, rest)) = target(rest)? else { return Ok(None) };
    let Some((version, rest)) = version(rest)? else { return Ok(None) };
    let Some((known, behind)) = field_section(text, rest, lines, lines_max)? else {
        return Ok(None);
    };
    let bytes = text.len() - behind.len();
    Ok(Some(Scanned { method, method_token, target, version, known, bytes }))
}

/// Reads the field lines of a head, and the blank line after them, at the front of `rest`, the end
/// of `text`. The lines go to `lines`. It is inlined into the loop of each caller, so that its
/// result stays in registers.
#[inline(always)]
pub(super) fn field_section<'h>(
    text: &'h [u8],
    mut rest: &'h [u8],
    lines: &mut Vec<FieldPlace>,
    lines_max: usize,
) -> Split<'h, KnownFieldPlaces> {
    let mut known = KnownFieldPlaces::default();
    lines.clear();
    loop {
        match rest {
            [b'\r', b'\n', behind @ ..] => return Ok(Some((known, behind))),
            [b'\r', _, ..] | [b'\n', ..] => return Err(Refusal::LineEnd),
            [] | [b'\r'] => return Ok(None),
            _ if lines.len() >= lines_max => return Err(Refusal::TooManyFields),
            _ => {}
        }
        let Some(((name, line), behind)) = field_line(text, rest)? else { return Ok(None) };
        known.add(name, lines.len());
        lines.push(line);
        rest = behind;
    }
}

/// Reads a whole trailer section, which ends in its blank line; its field lines go to `lines`.
pub(super) fn field_lines(
    section: &[u8],
    lines: &mut Vec<FieldPlace>,
    lines_max: usize,
) -> Result<(), Refusal> {
    lines.clear();
    let mut rest = section;
    while rest != b"\r\n" {
        if lines.len() >= lines_max {
            return Err(Refusal::TooManyFields);
        }
        let ((_, line), behind) = field_line(section, rest)?.ok_or(Refusal::Trailer)?;
        lines.push(line);
        rest = behind;
    }
    Ok(())
}

/// Reads `method SP` (RFC 9112 §3.1).
#[inline]
fn method(text: &[u8]) -> Split<'_, (Method, &[u8])> {
    if let Some(rest) = text.strip_prefix(b"GET ") {
        return Ok(Some(((Method::Get, b"GET"), rest)));
    }
    other_method(text)
}

fn other_method(text: &[u8]) -> Split<'_, (Method, &[u8])> {
    match split_at(text, token_bytes(text)) {
        (_, []) => Ok(None),
        // The front of an empty line before the request.
        ([], [b'\r']) => Ok(None),
        (token, [b' ', rest @ ..]) if !token.is_empty() => {
            Ok(Some(((Method::from_token(token), token), rest)))
        }
        _ => Err(Refusal::RequestLine),
    }
}

/// Reads `request-target SP` (RFC 9112 §3.2): all bytes between two spaces that are neither white
/// space nor control bytes; its own set is checked where its form is known.
#[inline]
fn target(text: &[u8]) -> Split<'_, &[u8]> {
    match split_at(text, run_bytes::<0x21>(text)) {
        (_, []) => Ok(None),
        (target, [b' ', rest @ ..]) if !target.is_empty() => Ok(Some((target, rest))),
        _ => Err(Refusal::RequestLine),
    }
}

/// Reads `HTTP-version CRLF` (RFC 9112 §2.3). 1.2 to 1.9 are served as 1.1 (RFC 9110 §2.5); other
/// major versions get 505 (§15.6.6), the rest is no version.
#[inline]
fn version(text: &[u8]) -> Split<'_, Version> {
    match text.strip_prefix(b"HTTP/1.1\r\n") {
        Some(rest) => Ok(Some((Version::Http11, rest))),
        None => other_version(text),
    }
}

#[cold]
fn other_version(text: &[u8]) -> Split<'_, Version> {
    const SHAPE: &[u8; 8] = b"HTTP/0.0";
    let fits = text.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    match (fits, text.get(SHAPE.len()..)) {
        (false, _) => Err(Refusal::RequestLine),
        (true, None | Some([] | [b'\r'])) => Ok(None),
        (true, Some([b'\r', b'\n', rest @ ..])) => match (text.get(5), text.get(7)) {
            (Some(b'1'), Some(b'0')) => Ok(Some((Version::Http10, rest))),
            (Some(b'1'), _) => Ok(Some((Version::Http11, rest))),
            _ => Err(Refusal::Version),
        },
        (true, Some([b'\r' | b'\n', ..])) => Err(Refusal::LineEnd),
        (true, Some(_)) => Err(Refusal::RequestLine),
    }
}

/// Reads `field-name ":" OWS field-value OWS CRLF` (RFC 9112 §5) at the front of `rest`, the end of
/// `text`. Returns the name, and the positions of name and value in `text`, without white space.
#[inline]
fn field_line<'h>(text: &'h [u8], rest: &'h [u8]) -> Split<'h, (&'h [u8], FieldPlace)> {
    let (name, mut value) = match split_at(rest, token_bytes(rest)) {
        (_, []) => return Ok(None),
        (name, [b':', behind @ ..]) if !name.is_empty() => (name, behind),
        _ => return Err(Refusal::FieldLine),
    };
    while let [b' ' | b'\t', behind @ ..] = value {
        value = behind;
    }
    let first = text.len() - value.len();
    let (mut value, behind) = split_at(value, value_bytes(value));
    let behind = match behind {
        [b'\r', b'\n', behind @ ..] => behind,
        [b'\r', _, ..] | [b'\n', ..] => return Err(Refusal::LineEnd),
        [] | [b'\r'] => return Ok(None),
        _ => return Err(Refusal::FieldLine),
    };
    while let [front @ .., b' ' | b'\t'] = value {
        value = front;
    }
    let at = text.len() - rest.len();
    let line = FieldPlace::new(at..at + name.len(), first..first + value.len());
    Ok(Some(((name, line), behind)))
}

/// Returns the first `bytes`, of which there are so many, and the rest.
#[inline]
fn split_at(text: &[u8], bytes: usize) -> (&[u8], &[u8]) {
    text.split_at_checked(bytes).unwrap_or((text, &[]))
}

/// Returns the length of the token at the front.
#[inline]
fn token_bytes(text: &[u8]) -> usize {
    text.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(text.len())
}

/// Returns how many bytes at the front are allowed in a field value (RFC 9110 §5.5).
#[inline]
pub(crate) fn value_bytes(text: &[u8]) -> usize {
    let mut bytes = run_bytes::<0x20>(text);
    while let Some([b'\t', behind @ ..]) = text.get(bytes..) {
        bytes += 1 + run_bytes::<0x20>(behind);
    }
    bytes
}

/// Returns how many bytes at the front are neither below `FLOOR`, which is at most 0x80, nor DEL;
/// it checks eight in a step.
#[inline]
fn run_bytes<const FLOOR: u8>(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk() {
        let found = marks::<FLOOR>(u64::from_le_bytes(*word));
        if found != 0 {
            return text.len() - rest.len() + (found.trailing_zeros() / 8) as usize;
        }
        rest = behind;
    }
    // The remaining bytes of a longer text are checked together with bytes before them, which were
    // found valid.
    if let Some(word) = text.last_chunk() {
        let found = marks::<FLOOR>(u64::from_le_bytes(*word));
        let bytes = text.len() - 8 + (found.trailing_zeros() / 8) as usize;
        return bytes.min(text.len());
    }
    // Most short ones are good as a whole.
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        if marks::<FLOOR>(u64::from(first) << 32 | u64::from(last)) == 0 {
            return text.len();
        }
    }
    let stop = |&byte: &u8| byte < FLOOR || byte == 0x7f;
    rest.iter().position(stop).unwrap_or(rest.len())
}

/// Sets the high bit of the lowest byte that is below `FLOOR` or DEL; bits above that one may be
/// wrong, by a borrow, and none is set when there is no such byte.
#[inline]
const fn marks<const FLOOR: u8>(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    let below = word.wrapping_sub(ONES * FLOOR as u64) & !word;
    let delete = word ^ (ONES * 0x7f);
    let is_delete = delete.wrapping_sub(ONES) & !delete;
    (below | is_delete) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fast search finds the same as a plain one, for every byte at every position.
    #[test]
    fn eight_byte_steps_equal_single_byte_steps() {
        let plain = |text: &[u8], floor: u8| {
            text.iter().position(|&byte| byte < floor || byte == 0x7f).unwrap_or(text.len())
        };
        for length in 0..20 {
            for place in 0..length {
                for byte in 0..=255 {
                    for second in [b'a', 0, 0x20, 0x7f, 0x80, 0xff] {
                        let mut text = vec![b'~'; length];
                        text[length - 1] = second;
                        text[place] = byte;
                        assert_eq!(run_bytes::<0x20>(&text), plain(&text, 0x20), "{text:?}");
                        assert_eq!(run_bytes::<0x21>(&text), plain(&text, 0x21), "{text:?}");
                    }
                }
            }
        }
    }
}
