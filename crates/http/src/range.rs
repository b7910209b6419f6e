//! Range requests (RFC 9110 §14).

use crate::field::KnownField;
use crate::limits::RANGES_MAX;
use crate::method::Method;
use crate::request::RequestHead;

/// A range of bytes, both ends included; `first <= last`, and both are within the representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte.
    pub last: u64,
}

impl ByteRange {
    /// Length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Whether two ranges share a byte or stand side by side.
    const fn touches(&self, other: &ByteRange) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }
}

/// What a `Range` field asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack of one request; no allocation")]
pub enum Ranges {
    /// Nothing that can be served as ranges: malformed, another unit, too many. The answer is the
    /// whole representation.
    Ignore,
    /// 416: no range has a byte of the representation.
    Unsatisfiable,
    /// These, at least one.
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

    /// The ranges.
    #[must_use]
    pub fn as_slice(&self) -> &[ByteRange] {
        self.ranges.get(..self.count).unwrap_or_default()
    }

    /// Adds a range. What it touches is merged into it, at the place of the earliest
    /// (RFC 9110 §15.3.7.2 allows both).
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
                // The grown range may touch one that was passed already.
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

/// The ranges a request asks for of a representation of `length` bytes. Only GET has any
/// (RFC 9110 §14.2), and a field that came twice is ignored. `If-Range` is the caller's to ask
/// about ([`crate::conditional::if_range_holds`]).
#[inline]
#[must_use]
pub fn requested(head: &RequestHead<'_>, length: u64) -> Ranges {
    match head.value(KnownField::Range) {
        Some(value) if head.method == Method::Get && !head.known.repeated(KnownField::Range) => {
            parse(value, length)
        }
        _ => Ranges::Ignore,
    }
}

/// Reads `bytes=0-499, -500` against a length in bytes (RFC 9110 §14.1.1, §14.1.2).
///
/// More than [`RANGES_MAX`] ranges are ignored like a malformed field. So is a suffix of an empty
/// representation: it is satisfiable by the letter, but no `Content-Range` can say so.
#[must_use]
pub fn parse(value: &[u8], length: u64) -> Ranges {
    let Some((unit, set)) = value.split_at_checked(UNIT.len()) else { return Ranges::Ignore };
    if !unit.eq_ignore_ascii_case(UNIT) {
        return Ranges::Ignore;
    }
    let mut ranges = RangeSet::EMPTY;
    let mut count = 0;
    let mut empty_suffix = false;
    for spec in crate::grammar::list(set) {
        count += 1;
        if count > RANGES_MAX {
            return Ranges::Ignore;
        }
        match Spec::parse(spec) {
            None => return Ranges::Ignore,
            Some(Spec::Suffix(1..)) if length == 0 => empty_suffix = true,
            Some(spec) => {
                if let Some(range) = spec.within(length) {
                    ranges.add(range);
                }
            }
        }
    }
    match ranges.count {
        0 if count == 0 || empty_suffix => Ranges::Ignore,
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

    /// The bytes it has of a representation; `None` when it is not satisfiable.
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

/// `1*DIGIT`. A number beyond `u64` is beyond every representation, so the largest one stands for
/// it.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(crate::grammar::decimal(digits).unwrap_or(u64::MAX))
}
