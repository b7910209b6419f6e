//! Patterns of rules for fields: which paths the lines below a pattern of `_headers` are about.
//!
//! ASCII letters are equal in either case, and a slash at the end of a path does not matter. A `*`
//! takes as little as it can, and all that is left if it is the last part. A placeholder takes as
//! little as it can within its segment. Matching takes at most pattern × path steps, and needs no
//! memory: clients choose the path.

use crate::damage::Fault;
use crate::limits::{PATH_MAX_BYTES, RULE_CAPTURES_MAX};
use crate::tagged_text::{PartIterator, Read, push_text, text};

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternPart<'a> {
    /// These bytes, ASCII letters in lower case; never empty.
    Literal(&'a [u8]),
    /// Bytes of one segment, at least one; a placeholder.
    Capture,
    /// Any bytes, or none.
    Star,
    /// A segment of its own, with the slash before it: any segments, or none.
    Stars,
}

/// A stored pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPattern<'a> {
    encoded: &'a [u8],
}

/// The captures of a pattern's placeholders in a path that it matches.
#[derive(Clone, Copy, Debug)]
pub struct PatternCaptures<'p> {
    splat: Option<&'p [u8]>,
    segments: [&'p [u8]; RULE_CAPTURES_MAX],
    count: usize,
}

const LITERAL: u8 = 0;
const CAPTURE: u8 = 1;
const STAR: u8 = 2;
const STARS: u8 = 3;

#[inline]
fn part(bytes: &[u8]) -> Read<'_, PatternPart<'_>> {
    match bytes.split_first()? {
        (&LITERAL, rest) => text(rest).map(|(text, rest)| (PatternPart::Literal(text), rest)),
        (&CAPTURE, rest) => Some((PatternPart::Capture, rest)),
        (&STAR, rest) => Some((PatternPart::Star, rest)),
        (&STARS, rest) => Some((PatternPart::Stars, rest)),
        _ => None,
    }
}

impl<'p> PatternCaptures<'p> {
    const NONE: PatternCaptures<'static> =
        PatternCaptures { splat: None, segments: [b""; RULE_CAPTURES_MAX], count: 0 };

    /// Returns the text that the first `*` stands for if `number` is 0, else the placeholder of
    /// that number, counted from 1.
    #[must_use]
    pub fn get(&self, number: u8) -> Option<&'p [u8]> {
        match usize::from(number).checked_sub(1) {
            None => self.splat,
            Some(rank) => self.segments.get(..self.count)?.get(rank).copied(),
        }
    }
}

impl<'a> FieldPattern<'a> {
    /// Returns the pattern that these bytes stand for, as [`encode`](Self::encode) makes them.
    #[must_use]
    pub fn of(encoded: &'a [u8]) -> FieldPattern<'a> {
        FieldPattern { encoded }
    }

    /// Stores a pattern.
    ///
    /// # Errors
    /// [`Fault`] for a pattern that a reader would refuse.
    pub fn encode(parts: &[PatternPart<'_>]) -> Result<Vec<u8>, Fault> {
        let mut encoded = Vec::new();
        for part in parts {
            match part {
                PatternPart::Literal(text) => push_text(&mut encoded, LITERAL, text)?,
                PatternPart::Capture => encoded.push(CAPTURE),
                PatternPart::Star => encoded.push(STAR),
                PatternPart::Stars => encoded.push(STARS),
            }
        }
        FieldPattern::of(&encoded).validate()?;
        Ok(encoded)
    }

    /// Returns the bytes that it is stored in.
    #[must_use]
    pub fn encoded(&self) -> &'a [u8] {
        self.encoded
    }

    /// Returns its parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = PatternPart<'a>> + use<'a> {
        PartIterator { rest: self.encoded, read: part }
    }

    /// Returns the number of its placeholders, `*` not among them.
    #[must_use]
    pub fn captures(&self) -> usize {
        self.parts().filter(|part| *part == PatternPart::Capture).count()
    }

    /// Returns whether it is about every path there is.
    #[must_use]
    pub fn is_of_everything(&self) -> bool {
        self.encoded == [STARS]
    }

    /// Returns whether it is about everything in and below a folder, whose path ends with a slash.
    #[must_use]
    pub fn covers_folder(&self, folder: &[u8]) -> bool {
        let mut parts = self.parts();
        let (literal, last): (&[u8], _) = match parts.next() {
            Some(PatternPart::Literal(text)) => (text, parts.next()),
            first => (b"", first),
        };
        last == Some(PatternPart::Stars)
            && parts.next().is_none()
            && folder.split_at_checked(literal.len()).is_some_and(|(begin, rest)| {
                begin.eq_ignore_ascii_case(literal) && rest.starts_with(b"/")
            })
    }

    /// Returns the captures of its placeholders, if it matches a path, which is decoded.
    #[must_use]
    pub fn matched<'p>(&self, path: &'p [u8]) -> Option<PatternCaptures<'p>> {
        let whole = PatternMatch::new(self.encoded, path).run();
        let without = || path.strip_suffix(b"/");
        whole.or_else(|| PatternMatch::new(self.encoded, without()?).run())
    }

    /// Checks everything: a pattern that passes can be compared without further checks.
    pub(crate) fn validate(&self) -> Result<(), Fault> {
        let (mut text_bytes, mut rest) = (0, self.encoded);
        while !rest.is_empty() {
            let (part, behind) = part(rest).ok_or(Fault::Syntax)?;
            if let PatternPart::Literal(text) = part {
                let is_refused = |byte: &u8| byte.is_ascii_uppercase() || *byte == 0;
                if text.is_empty() || text.iter().any(is_refused) {
                    return Err(Fault::Syntax);
                }
                text_bytes += text.len();
            }
            rest = behind;
        }
        if text_bytes > PATH_MAX_BYTES {
            return Err(Fault::Length);
        }
        if self.captures() > RULE_CAPTURES_MAX { Err(Fault::TooMany) } else { Ok(()) }
    }
}

/// One comparison of a pattern with a path. Between two stars a pattern fits at a position in one
/// way only, so it is enough to come back to the last star.
struct PatternMatch<'t, 'p> {
    parts: &'t [u8],
    path: &'p [u8],
    found: PatternCaptures<'p>,
    back: Option<LastStar<'t>>,
    stars: usize,
    /// The last searches of each placeholder.
    seen: [SeenCapture; RULE_CAPTURES_MAX],
}

/// The result of a search from a position on, so that it is not repeated from the next positions.
#[derive(Clone, Copy)]
struct SeenCapture {
    /// The position.
    from: usize,
    /// The end of the segment that the position is in.
    segment_end: usize,
    /// Positions before this one have the same text after them.
    text_until: usize,
    /// The first position of the text after the placeholder.
    text: Option<usize>,
}

impl SeenCapture {
    /// Nothing.
    const NONE: SeenCapture = SeenCapture { from: 1, segment_end: 0, text_until: 0, text: None };
}

/// Counts a comparison with one position of the path, and returns its result.
#[inline]
fn counted(is_equal: bool) -> bool {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
    is_equal
}

#[cfg(test)]
thread_local! {
    /// The number of comparisons so far.
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The star that takes one byte more when the parts after it do not match.
#[derive(Clone, Copy)]
struct LastStar<'t> {
    /// The parts after it.
    parts: &'t [u8],
    start: usize,
    end: usize,
    /// Placeholders before it.
    captures: usize,
}

impl<'t, 'p> PatternMatch<'t, 'p> {
    fn new(parts: &'t [u8], path: &'p [u8]) -> PatternMatch<'t, 'p> {
        // The pattern `/` has no parts: it is the path without its slash.
        let path = if path == b"/" && parts.is_empty() { b"" } else { path };
        let seen = [SeenCapture::NONE; RULE_CAPTURES_MAX];
        PatternMatch { parts, path, found: PatternCaptures::NONE, back: None, stars: 0, seen }
    }

    fn run(mut self) -> Option<PatternCaptures<'p>> {
        let (mut parts, mut at) = (self.parts, 0);
        loop {
            let Some((part, rest)) = part(parts) else {
                if at == self.path.len() {
                    return Some(self.found);
                }
                (parts, at) = self.come_back()?;
                continue;
            };
            let behind = match part {
                PatternPart::Literal(text) => self.literal(at, text),
                PatternPart::Capture => self.capture(at, rest),
                PatternPart::Star => self.star(rest, at, false),
                PatternPart::Stars => self.star(rest, at, true),
            };
            (parts, at) = match behind {
                Some(behind) => (rest, behind),
                None => self.come_back()?,
            };
        }
    }

    fn literal(&self, at: usize, text: &[u8]) -> Option<usize> {
        let piece = self.path.get(at..at + text.len())?;
        piece.eq_ignore_ascii_case(text).then_some(at + text.len())
    }

    /// Takes a placeholder, up to the text after it: the first position of it, or the end of the
    /// path where nothing else follows.
    fn capture(&mut self, at: usize, rest: &[u8]) -> Option<usize> {
        let segment_end = self.segment_end(at)?;
        let end = match part(rest) {
            Some((PatternPart::Literal([b'/', ..]), _)) => segment_end,
            Some((PatternPart::Literal(text), [])) => self.path.len().checked_sub(text.len())?,
            Some((PatternPart::Literal(text), _)) => self.place_behind(at, text)?,
            Some((PatternPart::Capture, _)) => at + 1,
            Some((PatternPart::Star | PatternPart::Stars, _)) | None => segment_end,
        };
        let taken = self.path.get(at..end).filter(|taken| !taken.is_empty())?;
        let slot = self.found.segments.get_mut(self.found.count)?;
        if end > segment_end {
            return None;
        }
        *slot = taken;
        self.found.count += 1;
        Some(end)
    }

    /// Returns the end of the segment that the next placeholder would stand in.
    fn segment_end(&mut self, at: usize) -> Option<usize> {
        let seen = self.seen.get_mut(self.found.count)?;
        if !(seen.from..=seen.segment_end).contains(&at) {
            let behind = self.path.get(at..)?;
            let slash = behind.iter().position(|&byte| counted(byte == b'/'));
            let segment_end = at + slash.unwrap_or(behind.len());
            *seen = SeenCapture { from: at, segment_end, text_until: at, text: None };
        }
        Some(seen.segment_end)
    }

    /// Returns the first position of the text after the next placeholder, which begins at `at` and
    /// has at least one byte, in or right after its segment.
    fn place_behind(&mut self, at: usize, text: &[u8]) -> Option<usize> {
        let seen = self.seen.get_mut(self.found.count)?;
        if at >= seen.text_until {
            let windows = self.path.get(at + 1..)?.windows(text.len().max(1));
            let mut windows = windows.take(seen.segment_end - at);
            let position = windows.position(|window| counted(window.eq_ignore_ascii_case(text)));
            seen.text = position.map(|position| at + 1 + position);
            seen.text_until = seen.text.unwrap_or(seen.segment_end + 1);
            seen.from = at;
        }
        seen.text
    }

    /// Begins a star with nothing in it, or with all when nothing is after it.
    fn star(&mut self, parts: &'t [u8], at: usize, whole: bool) -> Option<usize> {
        let rest = self.path.get(at..)?;
        if whole && !(rest.is_empty() || rest.starts_with(b"/")) {
            return None;
        }
        let end = if parts.is_empty() { self.path.len() } else { at };
        // The slash before a segment of its own does not belong to its capture.
        let start = if whole && !rest.is_empty() { at + 1 } else { at };
        self.stars += 1;
        self.note_splat(start, end);
        let captures = self.found.count;
        self.back = (!parts.is_empty()).then_some(LastStar { parts, start, end, captures });
        Some(end)
    }

    /// Lets the last star take one byte more.
    fn come_back(&mut self) -> Option<(&'t [u8], usize)> {
        let star = self.back?;
        let end = star.end + 1;
        if end > self.path.len() {
            return None;
        }
        self.back = Some(LastStar { end, ..star });
        self.found.count = star.captures;
        self.note_splat(star.start, end);
        Some((star.parts, end))
    }

    /// Records the capture of the first star.
    fn note_splat(&mut self, start: usize, end: usize) {
        if self.stars == 1 {
            self.found.splat = Some(self.path.get(start..end).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PatternPart::{Capture, Literal, Star, Stars};
    use super::*;

    /// What the placeholders stand for, `*` first.
    fn found(parts: &[PatternPart<'_>], path: &str) -> Option<Vec<String>> {
        let encoded = FieldPattern::encode(parts).expect("a pattern");
        let captures = FieldPattern::of(&encoded).matched(path.as_bytes())?;
        let all = (0..=RULE_CAPTURES_MAX as u8).filter_map(|number| captures.get(number));
        Some(all.map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    #[test]
    fn field_patterns_match_placeholders_within_a_segment() {
        let name_css = [Literal(b"/assets/"), Capture, Literal(b".css")];
        for (path, expected) in [
            ("/assets/a.css", Some("a")),
            ("/assets/a.css/", Some("a")),
            ("/assets/a.b.css", Some("a.b")),
            ("/assets/a.css.css", Some("a.css")),
            ("/assets/.css", None),
            ("/assets/b/a.css", None),
            ("/assets/a.cssx", None),
        ] {
            let found = found(&name_css, path).map(|found| found.join(" "));
            assert_eq!(found.as_deref(), expected, "{path}");
        }
        let pair = [Literal(b"/"), Capture, Literal(b"-"), Capture, Literal(b"/x")];
        assert_eq!(found(&pair, "/a-b-c/x"), Some(vec!["a".to_owned(), "b-c".to_owned()]));
        assert_eq!(found(&pair, "/a/b-c/x"), None);
        let extension = [Literal(b"/"), Star, Literal(b"."), Capture];
        assert_eq!(found(&extension, "/a.b/c.d"), Some(vec!["a.b/c".to_owned(), "d".to_owned()]));
        assert_eq!(found(&[Literal(b"/"), Capture, Capture], "/a"), None);
        let before_all = [Literal(b"/"), Capture, Stars];
        assert_eq!(found(&before_all, "/a/b"), Some(vec!["b".to_owned(), "a".to_owned()]));
    }

    /// Clients choose the path: nothing in it is looked for again from each of its bytes.
    #[test]
    fn a_path_is_matched_in_steps_linear_in_its_length() {
        let dots = ".".repeat(8000);
        let extension = [Literal(b"/"), Star, Literal(b"."), Capture];
        let folder = [Literal(b"/"), Star, Literal(b"."), Capture, Literal(b".css"), Stars];
        for (pattern, path) in
            [(&extension[..], format!("/{dots}/x")), (&folder, format!("/{dots}.css."))]
        {
            STEPS.set(0);
            assert_eq!(found(pattern, &path), None);
            let steps = STEPS.get();
            assert!(steps <= pattern.len() * path.len(), "{steps} steps, {} bytes", path.len());
        }
    }

    #[test]
    fn invalid_field_patterns_are_not_encoded() {
        let long = [b'a'; PATH_MAX_BYTES];
        for (parts, fault) in [
            (&[Literal(b"")][..], Fault::Syntax),
            (&[Literal(b"/A")], Fault::Syntax),
            (&[Literal(b"/\0")], Fault::Syntax),
            (&[Literal(b"/"), Literal(&long)], Fault::Length),
            (&[Capture; RULE_CAPTURES_MAX + 1], Fault::TooMany),
        ] {
            assert_eq!(FieldPattern::encode(parts), Err(fault), "{parts:?}");
        }
        assert_eq!(FieldPattern::of(&[4]).validate(), Err(Fault::Syntax));
        assert_eq!(FieldPattern::of(&[0, 1]).validate(), Err(Fault::Syntax));
    }
}
