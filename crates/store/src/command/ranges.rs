//! Parsing of arguments that are ranges of indices, or counts.

use std::ops::Range;

use crate::error::{Error, NOT_AN_INTEGER};
use crate::resp::number::parse_i64;

pub(crate) const NOT_POSITIVE: Error =
    Error::constant("ERR value is out of range, must be positive");
const NO_KEYS: Error = Error::constant("ERR numkeys should be greater than 0");
const NO_COUNT: Error = Error::constant("ERR count should be greater than 0");

/// Resolves an index among `len` elements. A negative index counts from the end, and -1 is the last
/// element. The result is negative for an index before the first element.
fn from_end(index: i64, len: usize) -> i64 {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    if index < 0 { index.saturating_add(len) } else { index }
}

/// Returns the range of the elements from `start` to `stop` inclusive, of `len` elements.
pub(crate) fn index_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let start = usize::try_from(from_end(start, len).max(0)).unwrap_or(usize::MAX);
    let end = usize::try_from(from_end(stop, len).saturating_add(1)).unwrap_or(0).min(len);
    if start < end { start..end } else { 0..0 }
}

/// Resolves the index of an element. Returns `None` if the element does not exist.
pub(crate) fn index(index: i64, len: usize) -> Option<usize> {
    usize::try_from(from_end(index, len)).ok().filter(|&index| index < len)
}

/// Returns whether both indices count from the end and none is between them.
pub(crate) fn is_reversed(start: i64, stop: i64) -> bool {
    start < 0 && stop < 0 && start > stop
}

/// Returns the range of the bytes from `start` to `stop` of a string. A `stop` before the first
/// byte means the first byte.
pub(crate) fn byte_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    index_range(start, from_end(stop, len).max(0), len)
}

/// Parses the most elements that a command returns or removes.
///
/// # Errors
/// The text is not an integer, or the number is negative.
pub(crate) fn parse_count(text: &[u8]) -> Result<usize, Error> {
    let count = parse_i64(text).ok_or(NOT_POSITIVE)?;
    usize::try_from(count).map_err(|_| NOT_POSITIVE)
}

/// Parses the number of keys of a command that needs one at least.
///
/// # Errors
/// The text is not a positive integer.
pub(crate) fn parse_key_count(text: &[u8]) -> Result<usize, Error> {
    positive(text, NO_KEYS)
}

/// Parses the value of the option `COUNT` of a command that removes one element at least.
///
/// # Errors
/// The text is not a positive integer.
pub(crate) fn parse_positive_count(text: &[u8]) -> Result<usize, Error> {
    positive(text, NO_COUNT)
}

fn positive(text: &[u8], error: Error) -> Result<usize, Error> {
    let number = parse_i64(text).and_then(|number| usize::try_from(number).ok());
    number.filter(|&number| number > 0).ok_or(error)
}

/// Parses an integer.
///
/// # Errors
/// The text is not an integer.
pub(crate) fn parse_integer(text: &[u8]) -> Result<i64, Error> {
    parse_i64(text).ok_or(NOT_AN_INTEGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positive_and_negative_indices_are_clamped_to_the_range() {
        for (start, stop, range) in [
            (0, -1, 0..3),
            (-2, -1, 1..3),
            (-100, 100, 0..3),
            (1, 1, 1..2),
            (2, 1, 0..0),
            (3, 5, 0..0),
            (0, -4, 0..0),
            (i64::MIN, i64::MAX, 0..3),
            (i64::MAX, i64::MIN, 0..0),
        ] {
            assert_eq!(index_range(start, stop, 3), range, "{start} {stop}");
        }
        assert_eq!(index_range(0, -1, 0), 0..0);
        assert_eq!(byte_range(-100, -99, 3), 0..1);
        assert_eq!(byte_range(-1, -2, 3), 0..0);
        assert_eq!(byte_range(-1, -2, 1), 0..1);
        assert_eq!(byte_range(0, -4, 0), 0..0);
        assert_eq!(index(-3, 3), Some(0));
        assert_eq!(index(-4, 3), None);
        assert_eq!(index(3, 3), None);
    }
}
