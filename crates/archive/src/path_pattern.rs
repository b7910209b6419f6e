//! Paths of rules: the paths that a rule is about, and the captures of its placeholders.
//!
//! A `*` stands for any bytes, slashes too; a placeholder for at least one byte of one segment. Of
//! several ways to match the one counts in which the first placeholder is longest, then the second,
//! and so on, as with regular expressions. There is at most one `*` in a path, so that way is found
//! without going back: texts are looked for from the end of a segment to its start.

use crate::damage::Fault;
use crate::limits::RULE_CAPTURES_MAX;
use crate::rule::PathPart;
use crate::tagged_text::{PartIterator, Read, push_text, text};

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentPart<'a> {
    /// These bytes; never empty, and no other text stands beside it.
    Literal(&'a [u8]),
    /// A placeholder: at least one byte.
    Capture,
    /// Any bytes, slashes too; a placeholder.
    Star,
}

/// A segment of texts and placeholders, stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPattern<'a> {
    encoded: &'a [u8],
}

/// Parts of one segment: as many placeholders as a rule may have, and texts around them.
const SEGMENT_PARTS_MAX: usize = 2 * RULE_CAPTURES_MAX + 1;

const LITERAL: u8 = 0;
const CAPTURE: u8 = 1;
const STAR: u8 = 2;

#[inline]
fn part(bytes: &[u8]) -> Read<'_, SegmentPart<'_>> {
    match bytes.split_first()? {
        (&LITERAL, rest) => text(rest).map(|(text, rest)| (SegmentPart::Literal(text), rest)),
        (&CAPTURE, rest) => Some((SegmentPart::Capture, rest)),
        (&STAR, rest) => Some((SegmentPart::Star, rest)),
        _ => None,
    }
}

impl<'a> SegmentPattern<'a> {
    /// Returns the segment that these bytes stand for, as [`encode`](Self::encode) makes them.
    #[must_use]
    pub fn of(encoded: &'a [u8]) -> SegmentPattern<'a> {
        SegmentPattern { encoded }
    }

    /// Stores a segment.
    ///
    /// # Errors
    /// [`Fault`] for one that a reader would refuse.
    pub fn encode(parts: &[SegmentPart<'_>]) -> Result<Vec<u8>, Fault> {
        let mut encoded = Vec::new();
        for part in parts {
            match part {
                SegmentPart::Literal(text) => push_text(&mut encoded, LITERAL, text)?,
                SegmentPart::Capture => encoded.push(CAPTURE),
                SegmentPart::Star => encoded.push(STAR),
            }
        }
        SegmentPattern::of(&encoded).validate()?;
        Ok(encoded)
    }

    /// Returns the bytes that it is stored in.
    #[must_use]
    pub fn encoded(&self) -> &'a [u8] {
        self.encoded
    }

    /// Returns its parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = SegmentPart<'a>> + use<'a> {
        PartIterator { rest: self.encoded, read: part }
    }

    /// Returns the number of its placeholders.
    #[must_use]
    pub fn captures(&self) -> usize {
        self.parts().filter(|part| !matches!(part, SegmentPart::Literal(_))).count()
    }

    /// Returns whether a `*` is among its parts.
    #[must_use]
    pub fn has_star(&self) -> bool {
        self.parts().any(|part| part == SegmentPart::Star)
    }

    /// Returns the text that it begins with.
    pub(crate) fn lead(&self) -> &'a [u8] {
        match self.parts().next() {
            Some(SegmentPart::Literal(text)) => text,
            _ => b"",
        }
    }

    /// Returns whether it matches `text`; the captures of the placeholders are given to `capture`,
    /// in order. Only a star can capture slashes.
    fn matches<'p>(&self, text: &'p [u8], capture: &mut impl FnMut(&'p [u8])) -> bool {
        let mut parts = [SegmentPart::Star; SEGMENT_PARTS_MAX];
        let mut count = 0;
        for part in self.parts() {
            let Some(slot) = parts.get_mut(count) else { return false };
            *slot = part;
            count += 1;
        }
        let parts = parts.get(..count).unwrap_or_default();
        let Some(star) = parts.iter().position(|part| *part == SegmentPart::Star) else {
            let Some(placed) = PlacedParts::new(parts, text, FixedEdges::BOTH) else {
                return false;
            };
            placed.give(text, capture);
            return true;
        };
        let (before, behind) = (parts.get(..star), parts.get(star + 1..));
        let last = text.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let last_segment = text.get(last..).unwrap_or_default();
        let edges = FixedEdges { start: false, end: true };
        let Some(behind) = PlacedParts::new(behind.unwrap_or_default(), last_segment, edges) else {
            return false;
        };
        let star_end = last + behind.start;
        let first = text.iter().position(|&byte| byte == b'/').unwrap_or(text.len());
        let room = text.get(..first.min(star_end)).unwrap_or_default();
        let edges = FixedEdges { start: true, end: false };
        let Some(before) = PlacedParts::new(before.unwrap_or_default(), room, edges) else {
            return false;
        };
        before.give(room, capture);
        capture(text.get(before.end..star_end).unwrap_or_default());
        behind.give(last_segment, capture);
        true
    }

    /// Returns the number of its placeholders, if it is well-formed.
    pub(crate) fn validate(&self) -> Result<usize, Fault> {
        let (mut count, mut stars, mut was_text, mut rest) = (0, 0, false, self.encoded);
        while !rest.is_empty() {
            let (part, behind) = part(rest).ok_or(Fault::Syntax)?;
            let is_text = match part {
                SegmentPart::Literal(text) => {
                    let is_refused = text.is_empty() || text.iter().any(|b| b"/\0".contains(b));
                    if is_refused || was_text {
                        return Err(Fault::Syntax);
                    }
                    true
                }
                SegmentPart::Capture => false,
                SegmentPart::Star => {
                    stars += 1;
                    false
                }
            };
            (count, was_text, rest) = (count + 1, is_text, behind);
        }
        let captures = self.captures();
        if captures == 0 || stars > 1 {
            return Err(Fault::Syntax);
        }
        if count > SEGMENT_PARTS_MAX { Err(Fault::TooMany) } else { Ok(captures) }
    }
}

/// Whether parts have to reach the edges of the text that they are placed in.
#[derive(Clone, Copy)]
struct FixedEdges {
    start: bool,
    end: bool,
}

impl FixedEdges {
    const BOTH: FixedEdges = FixedEdges { start: true, end: true };
}

/// Parts without a star at their positions in a text, each as far to the right as it can be.
struct PlacedParts {
    start: usize,
    end: usize,
    /// Where placeholders begin and end, the last one first.
    captures: [(usize, usize); RULE_CAPTURES_MAX],
    count: usize,
}

impl PlacedParts {
    fn new(parts: &[SegmentPart<'_>], text: &[u8], edges: FixedEdges) -> Option<PlacedParts> {
        let end = if edges.end { text.len() } else { 0 };
        let mut placed =
            PlacedParts { start: end, end, captures: [(0, 0); RULE_CAPTURES_MAX], count: 0 };
        if parts.is_empty() {
            return Some(placed);
        }
        // The rest of the text, and the number of placeholders at its end.
        let (mut left, mut pending) = (text.len(), 0);
        placed.end = text.len();
        for (rank, part) in parts.iter().enumerate().rev() {
            let SegmentPart::Literal(literal) = part else {
                pending += 1;
                continue;
            };
            let is_last = rank + 1 == parts.len();
            let room = text.get(..left.checked_sub(pending)?)?;
            let at = if rank == 0 && edges.start {
                room.starts_with(literal).then_some(0)?
            } else if is_last && edges.end {
                room.strip_suffix(*literal)?.len()
            } else {
                room.windows(literal.len().max(1)).rposition(|window| window == *literal)?
            };
            let behind = at + literal.len();
            if is_last {
                if edges.end && behind != text.len() {
                    return None;
                }
                placed.end = behind;
            }
            placed.take(pending, behind, left)?;
            (left, pending) = (at, 0);
        }
        placed.start = if edges.start { 0 } else { left.checked_sub(pending)? };
        placed.take(pending, placed.start, left)?;
        (!edges.start || pending > 0 || left == 0).then_some(placed)
    }

    /// Places neighbouring placeholders: the first one gets all that the others leave, and those
    /// get a byte each.
    fn take(&mut self, count: usize, start: usize, mut end: usize) -> Option<()> {
        if count > 0 && start + count > end {
            return None;
        }
        for rank in (0..count).rev() {
            let from = if rank == 0 { start } else { end - 1 };
            *self.captures.get_mut(self.count)? = (from, end);
            self.count += 1;
            end = from;
        }
        Some(())
    }

    fn give<'p>(&self, text: &'p [u8], capture: &mut impl FnMut(&'p [u8])) {
        let captures = self.captures.get(..self.count).unwrap_or_default();
        for &(start, end) in captures.iter().rev() {
            capture(text.get(start..end).unwrap_or_default());
        }
    }
}

/// Returns whether the parts of a rule match a path, which is decoded; the captures of the
/// placeholders are given to `capture`, in order, also when a later part does not match. A slash at
/// the end of the path does not matter, but stays in the capture of a `*` at the end.
pub fn path_matches<'a, 'p>(
    mut parts: impl Iterator<Item = PathPart<'a>> + Clone,
    path: &'p [u8],
    capture: &mut impl FnMut(&'p [u8]),
) -> bool {
    // The text after a slash, `None` when there is no further one.
    let mut rest = path.strip_prefix(b"/");
    while let Some(part) = parts.next() {
        if let PathPart::Rest { prefix } = part {
            let Some(found) = rest.unwrap_or_default().strip_prefix(prefix) else { return false };
            capture(found);
            return true;
        }
        let Some(behind) = rest else { return false };
        let slash = behind.iter().position(|&byte| byte == b'/');
        let segment = slash.map_or(behind, |slash| behind.get(..slash).unwrap_or_default());
        match part {
            PathPart::Literal(text) if segment != text => return false,
            PathPart::Capture if segment.is_empty() => return false,
            PathPart::Capture => capture(segment),
            PathPart::Mixed(pattern) if pattern.has_star() => {
                let segments = parts.clone().count();
                let Some((found, behind)) = split_at_last(behind, segments) else { return false };
                let is_at_end = pattern.parts().last() == Some(SegmentPart::Star);
                let without_slash = || found.strip_suffix(b"/").unwrap_or(found);
                let found = if behind.is_some() || is_at_end { found } else { without_slash() };
                if !pattern.matches(found, capture) {
                    return false;
                }
                rest = behind;
                continue;
            }
            PathPart::Mixed(pattern) if !pattern.matches(segment, capture) => return false,
            PathPart::Literal(_) | PathPart::Mixed(_) | PathPart::Rest { .. } => {}
        }
        rest = slash.and_then(|slash| behind.get(slash + 1..));
    }
    rest.is_none_or(<[u8]>::is_empty)
}

/// Cuts off the last segments, a slash at the end not counted.
fn split_at_last(path: &[u8], segments: usize) -> Option<(&[u8], Option<&[u8]>)> {
    if segments == 0 {
        return Some((path, None));
    }
    let without = path.strip_suffix(b"/").unwrap_or(path);
    let mut slashes = without.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
    let (slash, _) = slashes.nth(segments - 1)?;
    Some((path.get(..slash)?, path.get(slash + 1..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `/a/:x-b*.c`; a placeholder has one letter.
    fn encoded(pattern: &str) -> Vec<Vec<u8>> {
        let segment = |segment: &str| {
            let mut parts = Vec::new();
            let mut rest = segment;
            while !rest.is_empty() {
                let end = rest.find(['*', ':']).unwrap_or(rest.len());
                let (text, behind) = rest.split_at(end);
                if !text.is_empty() {
                    parts.push(SegmentPart::Literal(text.as_bytes()));
                }
                rest = match behind.strip_prefix('*') {
                    Some(behind) => {
                        parts.push(SegmentPart::Star);
                        behind
                    }
                    None if behind.is_empty() => behind,
                    None => {
                        parts.push(SegmentPart::Capture);
                        &behind[2..]
                    }
                };
            }
            match parts.as_slice() {
                [SegmentPart::Literal(text)] => text.to_vec(),
                parts => [b"\0", &*SegmentPattern::encode(parts).expect(segment)].concat(),
            }
        };
        pattern.split('/').skip(1).map(segment).collect()
    }

    fn found(pattern: &str, path: &str) -> Option<String> {
        let encoded = encoded(pattern);
        let parts = encoded.iter().map(|bytes| match bytes.strip_prefix(b"\0") {
            Some(encoded) => PathPart::Mixed(SegmentPattern::of(encoded)),
            None => PathPart::Literal(bytes),
        });
        let mut captures = Vec::new();
        let mut capture = |text: &[u8]| captures.push(String::from_utf8_lossy(text).into_owned());
        let matches = path_matches(parts, path.as_bytes(), &mut capture);
        matches.then(|| captures.join("|"))
    }

    #[test]
    fn path_patterns_match_and_capture() {
        for (pattern, path, expected) in [
            ("/p-:i", "/p-1", Some("1")),
            ("/p-:i", "/p-1/", Some("1")),
            ("/p-:i", "/p-", None),
            ("/p-:i", "/p-1/2", None),
            ("/:a-:b", "/1-2-3", Some("1-2|3")),
            ("/:a-:b", "/-2", None),
            ("/:a:b:c", "/1234", Some("12|3|4")),
            ("/:a:b:c", "/12", None),
            ("/x/:n.css", "/x/a.b.css", Some("a.b")),
            ("/x/:n.css", "/x/.css", None),
            ("/x/:n.css", "/x/a.cssx", None),
            ("/x/:n.css/y", "/x/a.css/y", Some("a")),
            ("/*.:e", "/a.b/c.d.e", Some("a.b/c.d|e")),
            ("/*.:e", "/.e/", Some("|e")),
            ("/*.:e", "/a.b/c", None),
            ("/*.txt", "/a/b.txt", Some("a/b")),
            ("/*.txt", "/.txt/", Some("")),
            ("/*.txt", "/a.txt/b", None),
            ("/k/kubectl_*.md", "/k/kubectl_get/x.md", Some("get/x")),
            ("/k/kubectl_*.md", "/k/kubectl_.md", Some("")),
            ("/k/kubectl_*.md", "/k/kubectl.md", None),
            ("/a/*/b", "/a/x/y/b", Some("x/y")),
            ("/a/*/b", "/a/x/b/", Some("x")),
            ("/a/*/b", "/a//b", Some("")),
            ("/a/*/b", "/a/b", None),
            ("/a/*/:x-z", "/a/b/b/1-z", Some("b/b|1")),
            ("/:x-*", "/1-2-3/4/", Some("1-2|3/4/")),
            ("/:x-*", "/1-", Some("1|")),
            ("/:x*", "/12/3", Some("12|/3")),
            ("/ab*ba", "/aba", None),
            ("/ab*ba", "/abba", Some("")),
            ("/:x.*.:y/z", "/1.2.3/4.5/z", Some("1.2|3/4|5")),
        ] {
            assert_eq!(found(pattern, path).as_deref(), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn invalid_segment_patterns_are_not_encoded() {
        use SegmentPart::{Capture, Literal, Star};
        for parts in [
            &[][..],
            &[Literal(b"a")],
            &[Literal(b""), Capture],
            &[Literal(b"a/b"), Capture],
            &[Literal(b"a\0"), Capture],
            &[Literal(b"a"), Literal(b"b"), Capture],
            &[Star, Literal(b"a"), Star],
        ] {
            assert_eq!(SegmentPattern::encode(parts), Err(Fault::Syntax), "{parts:?}");
        }
        let many = [Capture; SEGMENT_PARTS_MAX + 1];
        assert_eq!(SegmentPattern::encode(&many), Err(Fault::TooMany));
        assert_eq!(SegmentPattern::of(&[3]).validate(), Err(Fault::Syntax));
    }
}
