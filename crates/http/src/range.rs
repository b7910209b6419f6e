//! Range requests (RFC 9110 §14).

use crate::field::KnownField;
use crate::limits::RANGES_MAX;
use crate::method::Method;
use crate::request_head::ConditionalRequest;

/// A range of bytes, both ends included; `first <= last`, and both are within the representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte.
    pub last: u64,
}

impl ByteRange {
    /// Returns the length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Returns whether two ranges share a byte or are adjacent.
    const fn touches(&self, other: &ByteRange) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }
}

/// The request of a `Range` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack of one request; no allocation")]
pub enum Ranges {
    /// The field cannot be served as ranges: it is malformed, has another unit, or too many ranges.
    /// The response is the whole representation.
    Ignore,
    /// 416: no range has a byte of the representation.
    Unsatisfiable,
    /// The ranges, at least one.
    Satisfiable(RangeSet),
}

/// At most [`RANGES_MAX`] ranges that neither overlap nor touch, in the order they were asked for.
#[derive(Clone, Copy, Debug)]
pub struct RangeSet {
    ranges: [ByteRange; RANGES_MAX],
    count: usize,
}

impl RangeSet {
    const EMPTY: RangeSet =
        RangeSet { ranges: [ByteRange { first: 0, last: 0 }; RANGES_MAX], count: 0 };

    /// Returns the ranges.
    #[must_use]
    pub fn as_slice(&self) -> &[ByteRange] {
        self.ranges.get(..self.count).unwrap_or_default()
    }

    /// Adds a range. Ranges that it touches are merged into it, at the place of the earliest (RFC
    /// 9110 §15.3.7.2 allows both).
    fn add(&mut self, mut range: ByteRange) {
        let mut place = self.count;
        let mut index = 0;
        while index < self.count {
            let other = self.ranges[index];
            if other.touches(&range) {
                range.first = range.first.min(other.first);
                range.last = range.last.max(other.last);
                place = place.min(index);
                self.ranges.copy_within(index + 1..self.count, index);
                self.count -= 1;
                // The grown range may touch one that was checked already.
                index = 0;
            } else {
                index += 1;
            }
        }
        // Of the merged ones the earliest is put back, so every later one moves by one at most.
        let place = place.min(self.count);
        self.ranges.copy_within(place..self.count, place + 1);
        self.ranges[place] = range;
        self.count += 1;
    }
}

impl PartialEq for RangeSet {
    fn eq(&self, other: &RangeSet) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for RangeSet {}

/// Returns the ranges that a request asks for of a representation of `length` bytes. Only GET has
/// any (RFC 9110 §14.2), and a field that occurs twice is ignored. The caller evaluates `If-Range`
/// ([`crate::conditional::if_range_holds`]).
#[inline]
#[must_use]
pub fn requested(head: &impl ConditionalRequest, length: u64) -> Ranges {
    match head.first_value(KnownField::Range) {
        Some(value) if head.method() == Method::Get && !head.is_repeated(KnownField::Range) => {
            parse(value, length)
        }
        _ => Ranges::Ignore,
    }
}

/// Reads `bytes=0-499, -500` against a length in bytes (RFC 9110 §14.1.1, §14.1.2).
///
/// More than [`RANGES_MAX`] ranges are ignored like a malformed field. An empty representation has
/// no ranges: the whole of it is sent (RFC 9110 §14.2 lets a server ignore the field), since no
/// client can do anything with a 416 for a file that is there and complete.
#[must_use]
pub fn parse(value: &[u8], length: u64) -> Ranges {
    let Some((unit, set)) = value.split_at_checked(UNIT.len()) else { return Ranges::Ignore };
    if !unit.eq_ignore_ascii_case(UNIT) || length == 0 {
        return Ranges::Ignore;
    }
    let mut ranges = RangeSet::EMPTY;
    let mut count = 0;
    for spec in crate::grammar::list(set) {
        count += 1;
        if count > RANGES_MAX {
            return Ranges::Ignore;
        }
        match Spec::parse(spec) {
            None => return Ranges::Ignore,
            Some(spec) => {
                if let Some(range) = spec.within(length) {
                    ranges.add(range);
                }
            }
        }
    }
    match ranges.count {
        0 if count == 0 => Ranges::Ignore,
        0 => Ranges::Unsatisfiable,
        _ => Ranges::Satisfiable(ranges),
    }
}

const UNIT: &[u8] = b"bytes=";

/// One `range-spec`.
enum Spec {
    /// `first-` or `first-last`.
    From { first: u64, last: Option<u64> },
    /// `-length`.
    Suffix(u64),
}

impl Spec {
    fn parse(spec: &[u8]) -> Option<Spec> {
        let dash = memchr::memchr(b'-', spec)?;
        let (first, last) = (spec.get(..dash)?, spec.get(dash + 1..)?);
        if first.is_empty() {
            return position(last).map(Spec::Suffix);
        }
        let first = position(first)?;
        let last = if last.is_empty() { None } else { Some(position(last)?) };
        match last {
            Some(last) if last < first => None,
            last => Some(Spec::From { first, last }),
        }
    }

    /// Returns the bytes it has of a representation; `None` when it is not satisfiable.
    fn within(&self, length: u64) -> Option<ByteRange> {
        let end = length.checked_sub(1)?;
        match *self {
            Spec::From { first, .. } if first > end => None,
            Spec::From { first, last } => {
                Some(ByteRange { first, last: last.map_or(end, |last| last.min(end)) })
            }
            Spec::Suffix(0) => None,
            Spec::Suffix(bytes) => {
                Some(ByteRange { first: length.saturating_sub(bytes), last: end })
            }
        }
    }
}

/// Parses `1*DIGIT`. A number beyond `u64` is beyond every representation, so it becomes the
/// largest one.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(crate::grammar::decimal(digits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(value: &str, length: u64) -> Vec<(u64, u64)> {
        match parse(value.as_bytes(), length) {
            Ranges::Satisfiable(set) => {
                set.as_slice().iter().map(|range| (range.first, range.last)).collect()
            }
            other => panic!("{value} of {length}: {other:?}"),
        }
    }

    /// The examples of RFC 9110 §14.1.2, "assuming a representation of length 10000".
    #[test]
    fn examples() {
        assert_eq!(ranges("bytes=0-499", 10_000), [(0, 499)]);
        assert_eq!(ranges("bytes=500-999", 10_000), [(500, 999)]);
        assert_eq!(ranges("bytes=-500", 10_000), [(9500, 9999)]);
        assert_eq!(ranges("bytes=9500-", 10_000), [(9500, 9999)]);
        assert_eq!(ranges("bytes=0-0,-1", 10_000), [(0, 0), (9999, 9999)]);
        assert_eq!(
            ranges("bytes= 0-999, 4500-5499, -1000", 10_000),
            [(0, 999), (4500, 5499), (9000, 9999)]
        );
        assert_eq!(ranges("bytes=500-600,601-999", 10_000), [(500, 999)]);
        assert_eq!(ranges("bytes=500-700,601-999", 10_000), [(500, 999)]);
    }

    /// RFC 9110 §14.1.2: last-pos past the end means the end; so does a suffix that is too long.
    #[test]
    fn ends_beyond_the_length_are_clamped() {
        assert_eq!(ranges("bytes=5-99", 10), [(5, 9)]);
        assert_eq!(ranges("bytes=-99", 10), [(0, 9)]);
        assert_eq!(ranges("bytes=0-99999999999999999999999", 10), [(0, 9)]);
        assert_eq!(ranges("bytes=-99999999999999999999999", 10), [(0, 9)]);
        assert_eq!(ranges("bytes=9-", 10), [(9, 9)]);
        let end = u64::MAX - 1;
        assert_eq!(ranges("bytes=-1", u64::MAX), [(end, end)]);
        assert_eq!(ranges("bytes=0-,-1", u64::MAX), [(0, end)]);
    }

    /// RFC 9110 §14.1.1: unit names compare without case; §5.6.1.2: empty members are ignored.
    #[test]
    fn spellings() {
        assert_eq!(ranges("BYTES=1-2", 10), [(1, 2)]);
        assert_eq!(ranges("bytes=,1-2 ,, 4-5 ,", 10), [(1, 2), (4, 5)]);
        assert_eq!(ranges("bytes=001-0002", 10), [(1, 2)]);
    }

    #[test]
    fn malformed_ranges_and_other_units_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=2-1",
            "bytes=1-2,3-2",
            "bytes=--1",
            "bytes=-1-",
            "bytes=1-2-3",
            "bytes=+1-2",
            "bytes=1 -2",
            "bytes=1- 2",
            "bytes =1-2",
            " bytes=1-2",
            "bytes:1-2",
            "items=1-2",
            "bytes=0x1-2",
            "bytes=1-2;3-4",
            "bytes=1-2,x",
            "byte=1-2",
            "bytes=\"1-2\"",
        ] {
            assert_eq!(parse(value.as_bytes(), 10), Ranges::Ignore, "{value:?}");
        }
    }

    #[test]
    fn unsatisfiable() {
        for (value, length) in [
            ("bytes=10-", 10),
            ("bytes=10-20,11-", 10),
            ("bytes=-0", 10),
            ("bytes=99999999999999999999999-", 10),
            ("bytes=18446744073709551615-", u64::MAX),
        ] {
            assert_eq!(parse(value.as_bytes(), length), Ranges::Unsatisfiable, "{value}");
        }
        // One satisfiable range is enough.
        assert_eq!(ranges("bytes=20-30,-0,1-1", 10), [(1, 1)]);
    }

    #[test]
    fn an_empty_representation_has_no_ranges() {
        for value in ["bytes=0-", "bytes=0-0", "bytes=-0", "bytes=-5", "bytes=0-1,-5", "bytes=x"] {
            assert_eq!(parse(value.as_bytes(), 0), Ranges::Ignore, "{value}");
        }
    }

    /// RFC 9110 §15.3.7.2: parts come in the order of the request, merged ones aside.
    #[test]
    fn merged_ranges_stay_at_the_position_of_the_earliest() {
        assert_eq!(ranges("bytes=8-9,0-1,4-5", 10), [(8, 9), (0, 1), (4, 5)]);
        assert_eq!(ranges("bytes=8-9,0-1,4-5,2-3", 10), [(8, 9), (0, 5)]);
        assert_eq!(ranges("bytes=0-1,8-9,4-5,2-7", 10), [(0, 9)]);
        assert_eq!(ranges("bytes=6-6,2-2,9-9,4-4,3-5", 10), [(2, 6), (9, 9)]);
    }

    #[test]
    fn too_many_ranges_are_ignored() {
        let many = |count: usize| {
            let specs: Vec<String> = (0..count).map(|n| format!("{0}-{0}", 2 * n)).collect();
            format!("bytes={}", specs.join(","))
        };
        assert_eq!(ranges(&many(RANGES_MAX), 100).len(), RANGES_MAX);
        assert_eq!(parse(many(RANGES_MAX + 1).as_bytes(), 100), Ranges::Ignore);
        let same = format!("bytes={}", vec!["0-0"; RANGES_MAX + 1].join(","));
        assert_eq!(parse(same.as_bytes(), 100), Ranges::Ignore);
    }
}
