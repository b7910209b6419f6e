//! Patterns of `_headers`: `*` stands for anything, also within a segment, `:name` for a segment or
//! a part of one. ASCII letters are equal in either case; a slash at the end does not matter. The
//! matching is done by the archive's own code, which a server has too.

use pinion_archive::limits::RULE_CAPTURES_MAX;
use pinion_archive::{FieldPattern, PatternPart, ValuePart};

use super::percent_escapes::decoded;
use super::redirect_condition::{SPLAT, is_name_byte};
use super::source_lines::{LineFault, Word};

/// A pattern for paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderPattern {
    /// The pattern as an archive stores it.
    encoded: Box<[u8]>,
    /// The names of the placeholders, in their order.
    names: Vec<String>,
}

/// A part of a pattern that owns its text.
#[derive(PartialEq, Eq)]
enum GlobToken {
    Literal(Vec<u8>),
    Capture,
    Star,
    Stars,
}

/// The captures of the placeholders of a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Captured {
    /// The capture of each `:name`, in their order.
    segments: Vec<Box<[u8]>>,
    /// The capture of the first `*`.
    splat: Option<Box<[u8]>>,
}

impl HeaderPattern {
    /// Reads a line that begins with a slash.
    pub(super) fn parse(line: Word<'_>) -> Result<HeaderPattern, LineFault> {
        if let Some(at) = line.text.find(['?', '#']) {
            return Err(LineFault::new(line.column_at(at), "a path without ? and #")
                .advise("patterns of _headers are compared with the path alone"));
        }
        let (mut tokens, mut names) = (Tokens::default(), Vec::new());
        let mut start = 0;
        for segment in line.text.split('/') {
            let word = Word { text: segment, column: line.column_at(start) };
            start += segment.len() + 1;
            match segment {
                "" => {}
                "*" => tokens.0.push(GlobToken::Stars),
                _ => tokens.take_segment(word, &mut names)?,
            }
        }
        if names.len() > RULE_CAPTURES_MAX {
            let expected = format!("at most {RULE_CAPTURES_MAX} placeholders in a pattern");
            return Err(LineFault::new(line.column, expected));
        }
        let parts: Vec<PatternPart<'_>> = tokens.0.iter().map(GlobToken::part).collect();
        let encoded = FieldPattern::encode(&parts)
            .map_err(|_| LineFault::new(line.column, "a shorter path"))?;
        Ok(HeaderPattern { encoded: encoded.into(), names })
    }

    /// Returns the pattern as an archive has it.
    pub(crate) fn pattern(&self) -> FieldPattern<'_> {
        FieldPattern::of(&self.encoded)
    }

    /// Returns whether it is about a path, decoded.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        self.pattern().matched(path).is_some()
    }

    /// Returns whether the captures of the placeholders in `text` may differ from path to path.
    pub(crate) fn is_used_in(&self, text: &str) -> bool {
        self.parts(text).iter().any(|part| matches!(part, ValuePart::Capture(_)))
    }

    /// Returns the captures of the placeholders, if the pattern matches the path.
    pub(crate) fn captured(&self, path: &[u8]) -> Option<Captured> {
        let captures = self.pattern().matched(path)?;
        let numbers = 1..=self.names.len() as u8;
        Some(Captured {
            segments: numbers.filter_map(|number| captures.get(number)).map(Into::into).collect(),
            splat: captures.get(0).map(Into::into),
        })
    }

    /// Returns whether it is about everything in and below a folder, whose path ends with a slash.
    #[must_use]
    pub fn covers_folder(&self, folder: &[u8]) -> bool {
        self.pattern().covers_folder(folder)
    }

    /// Returns `text` with the captures of its placeholders, escaped as in a URL.
    pub(crate) fn filled(&self, text: &str, captured: &Captured) -> String {
        let mut out = Vec::with_capacity(text.len());
        for part in self.parts(text) {
            match part {
                ValuePart::Literal(text) => out.extend_from_slice(text),
                ValuePart::Capture(number) => {
                    let value = match usize::from(number).checked_sub(1) {
                        None => captured.splat.as_deref(),
                        Some(rank) => captured.segments.get(rank).map(|segment| &**segment),
                    };
                    out.extend_from_slice(&crate::path_aliases::escaped(value.unwrap_or_default()));
                }
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Cuts `text` at the placeholders of the pattern.
    pub(crate) fn parts<'t>(&self, text: &'t str) -> Vec<ValuePart<'t>> {
        let is_star = |part| matches!(part, PatternPart::Star | PatternPart::Stars);
        let splat = self.pattern().parts().any(is_star).then_some((SPLAT, 0));
        let named = self.names.iter().map(String::as_str).zip(1..);
        // Longer names first: `:page` is not `:pa` and `ge`.
        let mut known: Vec<(&str, u8)> = splat.into_iter().chain(named).collect();
        known.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
        let literal = |start: usize, end: usize| {
            let text = text.as_bytes().get(start..end).filter(|text| !text.is_empty());
            text.map(ValuePart::Literal)
        };
        while let Some(found) = text.get(at..).and_then(|rest| rest.find(':')) {
            let colon = at + found;
            at = colon + 1;
            let behind = text.get(at..).unwrap_or_default();
            if let Some((name, number)) = known.iter().find(|(name, _)| behind.starts_with(name)) {
                parts.extend(literal(start, colon));
                parts.push(ValuePart::Capture(*number));
                at += name.len();
                start = at;
            }
        }
        parts.extend(literal(start, text.len()));
        parts
    }
}

/// The parts of a pattern, literals next to each other as one.
#[derive(Default)]
struct Tokens(Vec<GlobToken>);

impl Tokens {
    fn take_segment(
        &mut self,
        segment: Word<'_>,
        names: &mut Vec<String>,
    ) -> Result<(), LineFault> {
        self.literal(b"/");
        let mut start = 0;
        while let Some((at, special)) = next_special(segment.text, start) {
            self.text(segment, start..at)?;
            match special {
                Special::Star if self.0.last() != Some(&GlobToken::Star) => {
                    self.0.push(GlobToken::Star);
                }
                Special::Star => {}
                Special::Name(name) => {
                    self.0.push(GlobToken::Capture);
                    names.push(name.to_owned());
                }
            }
            start = at + special.bytes();
        }
        self.text(segment, start..segment.text.len())
    }

    /// Adds a piece of a segment, decoded.
    fn text(&mut self, segment: Word<'_>, range: std::ops::Range<usize>) -> Result<(), LineFault> {
        let column = segment.column_at(range.start);
        let text = segment.text.get(range).unwrap_or_default();
        self.literal(&decoded(Word { text, column })?);
        Ok(())
    }

    fn literal(&mut self, bytes: &[u8]) {
        let bytes = bytes.to_ascii_lowercase();
        match self.0.last_mut() {
            _ if bytes.is_empty() => {}
            Some(GlobToken::Literal(literal)) => literal.extend_from_slice(&bytes),
            _ => self.0.push(GlobToken::Literal(bytes)),
        }
    }
}

impl GlobToken {
    fn part(&self) -> PatternPart<'_> {
        match self {
            GlobToken::Literal(text) => PatternPart::Literal(text),
            GlobToken::Capture => PatternPart::Capture,
            GlobToken::Star => PatternPart::Star,
            GlobToken::Stars => PatternPart::Stars,
        }
    }
}

/// A star or a placeholder in a segment.
enum Special<'t> {
    Star,
    Name(&'t str),
}

impl Special<'_> {
    /// Returns the length in the segment.
    fn bytes(&self) -> usize {
        match self {
            Special::Star => 1,
            Special::Name(name) => 1 + name.len(),
        }
    }
}

/// Returns the first star or placeholder of a segment from a position on. A colon begins a
/// placeholder at the front of a segment, and after any character that is no letter or digit:
/// `/p-:id`, but not `/File:Name`.
fn next_special(segment: &str, from: usize) -> Option<(usize, Special<'_>)> {
    let bytes = segment.as_bytes();
    (from..bytes.len()).find_map(|at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let begins = !before.is_some_and(u8::is_ascii_alphanumeric) || at == from && from > 0;
        match bytes.get(at) {
            Some(b'*') => Some((at, Special::Star)),
            Some(b':') if begins => {
                let name = name_at(segment, at + 1);
                (!name.is_empty()).then_some((at, Special::Name(name)))
            }
            _ => None,
        }
    })
}

/// Returns the name of a placeholder: letters, digits and `_`; also `-` where nothing else follows
/// in the segment.
fn name_at(segment: &str, start: usize) -> &str {
    let rest = segment.get(start..).unwrap_or_default();
    if start == 1 && rest.bytes().all(is_name_byte) {
        return rest;
    }
    let is_end = |byte: u8| !byte.is_ascii_alphanumeric() && byte != b'_';
    rest.get(..rest.bytes().position(is_end).unwrap_or(rest.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> HeaderPattern {
        HeaderPattern::parse(Word { text, column: 1 }).expect(text)
    }

    #[test]
    fn header_patterns_match_their_paths() {
        for (pattern, yes, no) in [
            ("/", &["/"][..], &["/a", "/a/"][..]),
            ("/a", &["/a", "/a/", "/A"], &["/", "/ab", "/a/b"]),
            ("/a/", &["/a", "/a/"], &["/a/b"]),
            ("/*", &["/", "/a", "/a/b", "/a/"], &[]),
            ("/a/*", &["/a", "/a/", "/a/b/c"], &["/ab", "/b/a"]),
            ("/a/*/b", &["/a/b", "/a/x/b", "/a/x/y/b/"], &["/a", "/ax/b", "/a/xb"]),
            ("/*.css", &["/x.css", "/a/b.css", "/.CSS"], &["/xcss", "/x.css.map"]),
            ("/a*z", &["/az", "/a/b/z", "/azz"], &["/a", "/bz"]),
            ("/:x", &["/a", "/a/"], &["/", "/a/b"]),
            ("/:x/b*", &["/a/b", "/a/bc/d"], &["/b", "/a/c"]),
            ("/*/:x/z", &["/a/z", "/a/b/z", "/a/b/c/z"], &["/z", "/a/zz"]),
            ("/%C3%A4 b", &["/\u{e4} b"], &["/%C3%A4 b"]),
            ("/assets/:name.css", &["/assets/a.css", "/Assets/a.b.CSS/"], &["/assets/a/b.css"]),
            ("/p-:id", &["/p-1", "/p-1-2/"], &["/p-", "/p-1/2", "/q-1"]),
            ("/*.:extension", &["/a.b", "/a/b.c"], &["/a", "/a.b/c", "/a."]),
            ("/:year-:month/x", &["/1-2/x", "/1-2-3/x"], &["/1/x", "/1-/x"]),
            ("/File:Name", &["/file:name"], &["/filex"]),
        ] {
            let glob = glob(pattern);
            for path in yes {
                assert!(glob.captured(path.as_bytes()).is_some(), "{pattern} {path}");
            }
            for path in no {
                assert!(glob.captured(path.as_bytes()).is_none(), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn placeholders_in_values_are_replaced() {
        for (pattern, path, text, expected) in [
            ("/movies/:title", "/movies/a b", "see \":title\"", "see \"a%20b\""),
            ("/a/*", "/a/b/\r\nc", ":splat", "b/%0D%0Ac"),
            ("/a/*", "/a", "<:splat>", "<>"),
            ("/*/x/:y", "/a/b/x/c", ":splat :y :z https://h:80", "a/b c :z https://h:80"),
            ("/a*c", "/abbc", ":splat", "bb"),
            ("/:pa/:page", "/1/2", ":page:pa", "21"),
            ("/:a-:b.css", "/x-y-z.css", ":b :a", "y-z x"),
            ("/*.:extension", "/a.b/c.d", ":splat|:extension", "a.b/c|d"),
            ("/:my-name/x", "/1/x", ":my-name", "1"),
        ] {
            let glob = glob(pattern);
            let captured = glob.captured(path.as_bytes()).expect(path);
            assert!(glob.is_used_in(text), "{pattern} {text}");
            assert_eq!(glob.filled(text, &captured), expected, "{pattern}");
        }
        assert!(!glob("/a").is_used_in("a: :splat") && !glob("/*").is_used_in("a:b"));
    }

    #[test]
    fn only_patterns_with_a_trailing_star_cover_folders() {
        for (pattern, folder, expected) in [
            ("/*", "/", true),
            ("/*", "/a/", true),
            ("/a/*", "/a/", true),
            ("/A/*", "/a/b/", true),
            ("/a/*", "/", false),
            ("/a/*", "/ab/", false),
            ("/a*", "/a/", false),
            ("/a/*.css", "/a/", false),
            ("/:x/*", "/a/", false),
        ] {
            assert_eq!(
                glob(pattern).covers_folder(folder.as_bytes()),
                expected,
                "{pattern} {folder}"
            );
        }
    }
}
