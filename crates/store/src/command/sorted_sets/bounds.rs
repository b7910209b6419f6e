//! Ranges of sorted sets: of ranks, of scores, of texts.

use std::ops::Range;

use crate::command::ranges::{index_range, parse_integer};
use crate::error::Error;
use crate::resp::number::{parse_f64, parse_i64};
use crate::value::sorted_set::SortedSet;

const NO_SCORE: Error = Error::constant("ERR min or max is not a float");
const NO_TEXT: Error = Error::constant("ERR min or max not valid string range item");

/// The kind of the bounds of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundKind {
    /// The bounds are indices.
    Rank,
    Score,
    /// The bounds are members. The members of the set must have equal scores.
    Text,
}

/// The end from which members are counted and returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// A range of members.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bounds<'a> {
    /// From one index to another, inclusive.
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Text(Bound<&'a [u8]>, Bound<&'a [u8]>),
}

/// One end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound<T> {
    /// The end before all members.
    First,
    At(T),
    /// An exclusive end.
    Beside(T),
    /// The end after all members.
    Last,
}

impl<T: Copy> Bound<T> {
    /// Returns whether a value comes before a range with this lower bound.
    fn is_above(self, is_less: impl Fn(T) -> bool, is_equal: impl Fn(T) -> bool) -> bool {
        match self {
            Self::First => false,
            Self::At(bound) => is_less(bound),
            Self::Beside(bound) => is_less(bound) || is_equal(bound),
            Self::Last => true,
        }
    }

    /// Returns whether a value does not come after a range with this upper bound.
    fn reaches(self, is_less: impl Fn(T) -> bool, is_equal: impl Fn(T) -> bool) -> bool {
        match self {
            Self::First => false,
            Self::At(bound) => is_less(bound) || is_equal(bound),
            Self::Beside(bound) => is_less(bound),
            Self::Last => true,
        }
    }
}

/// Parses a score.
pub(super) fn parse_score(text: &[u8]) -> Option<f64> {
    // Integers of up to so many digits are exact.
    const EXACT_DIGITS: usize = 15;
    if text.len() <= EXACT_DIGITS
        && let Some(number) = parse_i64(text)
    {
        return Some(number as f64);
    }
    parse_f64(text)
}

fn parse_score_bound(text: &[u8]) -> Result<Bound<f64>, Error> {
    // Redis parses a C string: leading spaces are skipped, a zero byte is the end, an empty text is
    // the score 0, and a number that is too large is infinite.
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let rounded = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    let parse = |text: &[u8]| match text.trim_ascii_start() {
        [] => Some(0.0),
        text => parse_score(text).or_else(|| rounded(text)).filter(|score| !score.is_nan()),
    };
    match text {
        [b'(', text @ ..] => parse(text).map(Bound::Beside).ok_or(NO_SCORE),
        text => parse(text).map(Bound::At).ok_or(NO_SCORE),
    }
}

fn parse_text_bound(text: &[u8]) -> Result<Bound<&[u8]>, Error> {
    match text {
        b"-" => Ok(Bound::First),
        b"+" => Ok(Bound::Last),
        [b'[', text @ ..] => Ok(Bound::At(text)),
        [b'(', text @ ..] => Ok(Bound::Beside(text)),
        _ => Err(NO_TEXT),
    }
}

impl<'a> Bounds<'a> {
    /// Parses the bounds, the lower one first.
    ///
    /// # Errors
    /// A bound is invalid.
    pub(super) fn parse(kind: BoundKind, first: &'a [u8], last: &'a [u8]) -> Result<Self, Error> {
        Ok(match kind {
            BoundKind::Rank => Self::Rank(parse_integer(first)?, parse_integer(last)?),
            BoundKind::Score => Self::Score(parse_score_bound(first)?, parse_score_bound(last)?),
            BoundKind::Text => Self::Text(parse_text_bound(first)?, parse_text_bound(last)?),
        })
    }

    /// Returns the ranks of the members in the range. Indices count from the end that the order
    /// begins with.
    pub(super) fn ranks(self, set: &SortedSet, order: Order) -> Range<usize> {
        let (start, end) = match self {
            Self::Rank(start, stop) => {
                let len = set.len();
                let range = index_range(start, stop, len);
                match order {
                    Order::Ascending => (range.start, range.end),
                    Order::Descending => (len - range.end, len - range.start),
                }
            }
            Self::Score(min, max) => {
                let is_less = |score| move |bound| score < bound;
                let is_equal = |score| move |bound| score == bound;
                (
                    set.rank_where(|_, score| min.is_above(is_less(score), is_equal(score))),
                    set.rank_where(|_, score| max.reaches(is_less(score), is_equal(score))),
                )
            }
            Self::Text(min, max) => (
                set.rank_where(|it, _| min.is_above(|bound| it < bound, |bound| it == bound)),
                set.rank_where(|it, _| max.reaches(|bound| it < bound, |bound| it == bound)),
            ),
        };
        start..end.max(start)
    }
}

/// Returns the part of a range of ranks that the option `LIMIT` selects: at most `count` members
/// after the first `offset` ones, or all of them if `count` is negative.
pub(super) fn limited(
    ranks: Range<usize>,
    (offset, count): (i64, i64),
    order: Order,
) -> Range<usize> {
    let Ok(offset) = usize::try_from(offset) else { return 0..0 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let skipped = offset.min(ranks.len());
    let count = count.min(ranks.len() - skipped);
    match order {
        Order::Ascending => ranks.start + skipped..ranks.start + skipped + count,
        Order::Descending => ranks.end - skipped - count..ranks.end - skipped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_select_a_part_of_a_range() {
        assert_eq!(limited(2..9, (1, 3), Order::Ascending), 3..6);
        assert_eq!(limited(2..9, (1, 3), Order::Descending), 5..8);
        assert_eq!(limited(2..9, (1, -1), Order::Descending), 2..8);
        assert_eq!(limited(2..9, (100, -1), Order::Ascending), 9..9);
        assert_eq!(limited(2..9, (-1, 3), Order::Ascending), 0..0);
        assert_eq!(limited(2..9, (i64::MAX, i64::MAX), Order::Descending), 2..2);
    }
}
