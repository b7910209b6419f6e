//! The lexer of request heads: one pass over the bytes finds the parts and checks every byte
//! against the grammar (RFC 9112 §3, §5). What the parts mean is for [`super::head`] to say.
//!
//! Strict where servers differ: lines end in CRLF and nothing else, no folding, no space before a
//! colon, one space between the parts of the request line.

use crate::field::Line;
use crate::grammar::is_token_byte;
use crate::limits::{HEAD_MAX_BYTES, TRAILER_MAX_BYTES};
use crate::refusal::Refusal;
use crate::version::Version;

/// A whole head, in its parts.
pub(super) struct Scanned<'h> {
    pub(super) method: &'h [u8],
    pub(super) target: &'h [u8],
    pub(super) version: Version,
    /// Length of the head, from the request line to the blank line.
    pub(super) bytes: usize,
}

// Places of names and values are stored in 16 bits.
const _: () = assert!(HEAD_MAX_BYTES <= u16::MAX as usize);
const _: () = assert!(TRAILER_MAX_BYTES <= u16::MAX as usize);

/// Reads the head at the front of `text`, which is cut off at the limit of a head; its field lines
/// go to `lines`. `None` when it is not whole, and nothing is wrong with what is there.
#[inline]
pub(super) fn scan<'h>(
    text: &'h [u8],
    lines: &mut Vec<Line>,
    lines_max: usize,
) -> Result<Option<Scanned<'h>>, Refusal> {
    let Some((method, at)) = method(text)? else { return Ok(None) };
    let Some((target, at)) = target(text, at)? else { return Ok(None) };
    let Some((version, mut at)) = version(text, at)? else { return Ok(None) };
    lines.clear();
    loop {
        match text.get(at..).unwrap_or_default() {
            [b'\r', b'\n', ..] => {
                return Ok(Some(Scanned { method, target, version, bytes: at + 2 }));
            }
            [b'\r', _, ..] | [b'\n', ..] => return Err(Refusal::LineEnd),
            [] | [b'\r'] => return Ok(None),
            _ if lines.len() >= lines_max => return Err(Refusal::TooManyFields),
            _ => {}
        }
        let Some((line, end)) = field_line(text, at)? else { return Ok(None) };
        lines.push(line);
        at = end;
    }
}

/// Reads a whole trailer section, which ends in its blank line; its field lines go to `lines`.
pub(super) fn field_lines(
    section: &[u8],
    lines: &mut Vec<Line>,
    lines_max: usize,
) -> Result<(), Refusal> {
    lines.clear();
    let mut at = 0;
    while section.get(at..) != Some(b"\r\n") {
        if lines.len() >= lines_max {
            return Err(Refusal::TooManyFields);
        }
        let (line, end) = field_line(section, at)?.ok_or(Refusal::Trailer)?;
        lines.push(line);
        at = end;
    }
    Ok(())
}

/// `method SP` (RFC 9112 §3.1); gives the place behind.
#[inline]
fn method(text: &[u8]) -> Result<Option<(&[u8], usize)>, Refusal> {
    if let Some(b"GET ") = text.first_chunk() {
        return Ok(Some((b"GET", 4)));
    }
    let end = token_end(text, 0);
    match text.get(end) {
        None => Ok(None),
        // The front of an empty line before the request.
        Some(b'\r') if text.len() == 1 => Ok(None),
        Some(b' ') if end > 0 => Ok(Some((text.get(..end).unwrap_or_default(), end + 1))),
        Some(_) => Err(Refusal::RequestLine),
    }
}

/// `request-target SP` (RFC 9112 §3.2): anything between two spaces that is not white space or a
/// control byte; its own set is checked where its form is known.
#[inline]
fn target(text: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, Refusal> {
    let end = run_end::<0x21>(text, at);
    match text.get(end) {
        None => Ok(None),
        Some(b' ') if end > at => Ok(Some((text.get(at..end).unwrap_or_default(), end + 1))),
        Some(_) => Err(Refusal::RequestLine),
    }
}

/// `HTTP-version CRLF` (RFC 9112 §2.3). 1.2 to 1.9 are served as 1.1 (RFC 9110 §2.5); other major
/// versions get 505 (§15.6.6), the rest is no version.
#[inline]
fn version(text: &[u8], at: usize) -> Result<Option<(Version, usize)>, Refusal> {
    let rest = text.get(at..).unwrap_or_default();
    if let Some(b"HTTP/1.1\r\n") = rest.first_chunk() {
        return Ok(Some((Version::Http11, at + 10)));
    }
    other_version(rest).map(|found| found.map(|version| (version, at + 10)))
}

#[cold]
fn other_version(rest: &[u8]) -> Result<Option<Version>, Refusal> {
    const SHAPE: &[u8; 8] = b"HTTP/0.0";
    let fits = rest.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    match (fits, rest.get(SHAPE.len()..)) {
        (false, _) => Err(Refusal::RequestLine),
        (true, None | Some([] | [b'\r'])) => Ok(None),
        (true, Some([b'\r', b'\n', ..])) => match (rest.get(5), rest.get(7)) {
            (Some(b'1'), Some(b'0')) => Ok(Some(Version::Http10)),
            (Some(b'1'), _) => Ok(Some(Version::Http11)),
            _ => Err(Refusal::Version),
        },
        (true, Some([b'\r' | b'\n', ..])) => Err(Refusal::LineEnd),
        (true, Some(_)) => Err(Refusal::RequestLine),
    }
}

/// `field-name ":" OWS field-value OWS CRLF` (RFC 9112 §5), the white space left out.
#[inline]
fn field_line(text: &[u8], at: usize) -> Result<Option<(Line, usize)>, Refusal> {
    let colon = token_end(text, at);
    match text.get(colon) {
        None => return Ok(None),
        Some(b':') if colon > at => {}
        Some(_) => return Err(Refusal::FieldLine),
    }
    let mut first = colon + 1;
    while let Some(b' ' | b'\t') = text.get(first) {
        first += 1;
    }
    let end = value_end(text, first);
    match text.get(end..).unwrap_or_default() {
        [b'\r', b'\n', ..] => {}
        [b'\r', _, ..] | [b'\n', ..] => return Err(Refusal::LineEnd),
        [] | [b'\r'] => return Ok(None),
        _ => return Err(Refusal::FieldLine),
    }
    let mut last = end;
    while last > first && matches!(text.get(last - 1), Some(b' ' | b'\t')) {
        last -= 1;
    }
    Ok(Some((Line::new(at..colon, first..last), end + 2)))
}

/// Where the token that begins at `at` ends.
#[inline]
fn token_end(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(rest.len())
}

/// Where the bytes that a field value may have end (RFC 9110 §5.5).
#[inline]
fn value_end(text: &[u8], at: usize) -> usize {
    let mut end = run_end::<0x20>(text, at);
    while let Some(b'\t') = text.get(end) {
        end = run_end::<0x20>(text, end + 1);
    }
    end
}

/// The first place from `at` on with a byte below `FLOOR`, which is at most 0x80, or with DEL;
/// eight bytes in a step.
#[inline]
fn run_end<const FLOOR: u8>(text: &[u8], at: usize) -> usize {
    let mut rest = text.get(at..).unwrap_or_default();
    while let Some((word, behind)) = rest.split_first_chunk() {
        let found = marks::<FLOOR>(u64::from_le_bytes(*word));
        if found != 0 {
            return text.len() - rest.len() + (found.trailing_zeros() / 8) as usize;
        }
        rest = behind;
    }
    let stop = |&byte: &u8| byte < FLOOR || byte == 0x7f;
    text.len() - rest.len() + rest.iter().position(stop).unwrap_or(rest.len())
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

    /// The law of the fast search is the plain one, for every byte at every place.
    #[test]
    fn eight_bytes_in_a_step_or_one() {
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
                        assert_eq!(run_end::<0x20>(&text, 0), plain(&text, 0x20), "{text:?}");
                        assert_eq!(run_end::<0x21>(&text, 0), plain(&text, 0x21), "{text:?}");
                    }
                }
            }
        }
    }
}
