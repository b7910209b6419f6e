//! Patterns of `_headers`: `*` stands for anything, also within a segment, `:name` for one whole
//! segment. ASCII letters are equal in either case; a slash at the end does not matter.

use super::decode::decoded;
use super::text::{Fault, Word};

/// A pattern for paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
    /// Of the segments, in their order.
    names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// These bytes, in lower case.
    Literal(Box<[u8]>),
    /// A segment that is not empty, up to its end.
    Segment,
    /// Anything.
    Star,
    /// As a segment of its own, with the slash before it: segments, or none.
    Stars,
}

/// What the placeholders of a pattern stood for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Captured {
    /// Of each `:name`, in their order.
    segments: Vec<Box<[u8]>>,
    /// Of the first `*`.
    splat: Option<Box<[u8]>>,
}

impl Glob {
    /// Reads a line that begins with a slash.
    pub(super) fn parse(line: Word<'_>) -> Result<Glob, Fault> {
        if let Some(at) = line.text.find(['?', '#']) {
            return Err(Fault::new(line.column_at(at), "a path without ? and #"));
        }
        let mut glob = Glob { tokens: Vec::new(), names: Vec::new() };
        let mut start = 0;
        for segment in line.text.split('/') {
            let word = Word { text: segment, column: line.column_at(start) };
            start += segment.len() + 1;
            if segment.is_empty() {
                continue;
            }
            if segment == "*" {
                glob.tokens.push(Token::Stars);
                continue;
            }
            glob.literal(b"/");
            if let Some(name) = segment.strip_prefix(':') {
                glob.tokens.push(Token::Segment);
                glob.names.push(name.to_owned());
                continue;
            }
            let mut offset = 0;
            for piece in segment.split('*') {
                if offset > 0 && glob.tokens.last() != Some(&Token::Star) {
                    glob.tokens.push(Token::Star);
                }
                glob.literal(&decoded(Word { text: piece, column: word.column_at(offset) })?);
                offset += piece.len() + 1;
            }
        }
        Ok(glob)
    }

    /// Whether it is about a path, decoded.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        self.captured(path).is_some()
    }

    /// Whether it may differ from path to path what the placeholders in `text` stand for.
    pub(crate) fn is_used_in(&self, text: &str) -> bool {
        let has_star = self.tokens.iter().any(|token| matches!(token, Token::Star | Token::Stars));
        (has_star && text.contains(":splat"))
            || self.names.iter().any(|name| text.contains(&format!(":{name}")))
    }

    /// What the placeholders stand for, if the path is one that the pattern is about. A star takes
    /// as little as it can, and all if it is the last.
    pub(crate) fn captured(&self, path: &[u8]) -> Option<Captured> {
        let whole = Walk::new(self, path).run();
        let without = path.strip_suffix(b"/");
        whole.or_else(|| without.and_then(|path| Walk::new(self, path).run()))
    }

    /// Whether it is about everything in and below a folder, whose path ends with a slash.
    #[must_use]
    pub fn covers_folder(&self, folder: &[u8]) -> bool {
        let (literal, stars): (&[u8], _) = match self.tokens.as_slice() {
            [Token::Stars] => (b"", true),
            [Token::Literal(literal), Token::Stars] => (literal, true),
            _ => (b"", false),
        };
        stars
            && match folder.split_at_checked(literal.len()) {
                Some((begin, rest)) => {
                    begin.eq_ignore_ascii_case(literal) && rest.starts_with(b"/")
                }
                None => false,
            }
    }

    /// `text` with what its placeholders stand for, escaped as in a URL.
    pub(crate) fn filled(&self, text: &str, captured: &Captured) -> String {
        let splat = captured.splat.as_deref().map(|splat| ("splat", splat));
        let named = self.names.iter().map(String::as_str);
        let named = named.zip(captured.segments.iter().map(|segment| &**segment));
        // Longer names first: `:page` is not `:pa` and `ge`.
        let mut values: Vec<(&str, &[u8])> = splat.into_iter().chain(named).collect();
        values.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(colon) = rest.find(':') {
            let (before, behind) = rest.split_at(colon);
            let behind = behind.get(1..).unwrap_or_default();
            out.push_str(before);
            match values.iter().find(|(name, _)| behind.starts_with(name)) {
                Some((name, value)) => {
                    out.push_str(&String::from_utf8_lossy(&crate::keys::escaped(value)));
                    rest = behind.get(name.len()..).unwrap_or_default();
                }
                None => {
                    out.push(':');
                    rest = behind;
                }
            }
        }
        out.push_str(rest);
        out
    }

    fn literal(&mut self, bytes: &[u8]) {
        let bytes = bytes.to_ascii_lowercase();
        match self.tokens.last_mut() {
            _ if bytes.is_empty() => {}
            Some(Token::Literal(literal)) => *literal = [&**literal, &bytes].concat().into(),
            _ => self.tokens.push(Token::Literal(bytes.into())),
        }
    }
}

/// One comparison. Between two stars a pattern fits at a place in one way only, so it is enough to
/// come back to the last star: the time is at most pattern × path.
struct Walk<'g, 'p> {
    tokens: &'g [Token],
    path: &'p [u8],
    segments: Vec<&'p [u8]>,
    /// The last star: behind it in the tokens, where it began, where it ends, segments before it.
    back: Option<(usize, usize, usize, usize)>,
    splat: Option<(usize, usize)>,
    stars: usize,
}

impl<'g, 'p> Walk<'g, 'p> {
    fn new(glob: &'g Glob, path: &'p [u8]) -> Walk<'g, 'p> {
        // The pattern `/` has no tokens: it is the path without its slash.
        let path = if path == b"/" && glob.tokens.is_empty() { b"" } else { path };
        Walk { tokens: &glob.tokens, path, segments: Vec::new(), back: None, splat: None, stars: 0 }
    }

    fn run(mut self) -> Option<Captured> {
        let tokens = self.tokens;
        let (mut token, mut at) = (0, 0);
        loop {
            let step = match tokens.get(token) {
                None => (at == self.path.len()).then_some(at),
                Some(Token::Literal(literal)) => self.literal(at, literal),
                Some(Token::Segment) => self.segment(at),
                Some(star) => self.star(token, at, *star == Token::Stars),
            };
            match step {
                Some(_) if token >= tokens.len() => return Some(self.captured()),
                Some(behind) => (token, at) = (token + 1, behind),
                None => (token, at) = self.come_back()?,
            }
        }
    }

    fn literal(&self, at: usize, literal: &[u8]) -> Option<usize> {
        let piece = self.path.get(at..at + literal.len())?;
        piece.eq_ignore_ascii_case(literal).then_some(at + literal.len())
    }

    fn segment(&mut self, at: usize) -> Option<usize> {
        let rest = self.path.get(at..)?;
        let length = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let segment = rest.get(..length).filter(|segment| !segment.is_empty())?;
        self.segments.push(segment);
        Some(at + length)
    }

    /// Begins a star with nothing in it, or with all when nothing is behind it.
    fn star(&mut self, token: usize, at: usize, whole: bool) -> Option<usize> {
        let rest = self.path.get(at..)?;
        if whole && !(rest.is_empty() || rest.starts_with(b"/")) {
            return None;
        }
        let last = token + 1 == self.tokens.len();
        let end = if last { self.path.len() } else { at };
        // The slash before a segment of its own does not belong to what it stands for.
        let start = if whole && !rest.is_empty() { at + 1 } else { at };
        self.stars += 1;
        if self.stars == 1 {
            self.splat = Some((start, end));
        }
        self.back = (!last).then_some((token + 1, start, end, self.segments.len()));
        Some(end)
    }

    /// The last star takes one byte more.
    fn come_back(&mut self) -> Option<(usize, usize)> {
        let (token, start, end, segments) = self.back?;
        let end = end + 1;
        if end > self.path.len() {
            return None;
        }
        self.back = Some((token, start, end, segments));
        self.segments.truncate(segments);
        if self.stars == 1 {
            self.splat = Some((start, end));
        }
        Some((token, end))
    }

    fn captured(self) -> Captured {
        let splat = self.splat.map(|(start, end)| self.path.get(start..end).unwrap_or_default());
        Captured {
            segments: self.segments.into_iter().map(Into::into).collect(),
            splat: splat.map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> Glob {
        Glob::parse(Word { text, column: 1 }).expect(text)
    }

    #[test]
    fn what_a_pattern_is_about() {
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
    fn values_are_filled() {
        for (pattern, path, text, expected) in [
            ("/movies/:title", "/movies/a b", "see \":title\"", "see \"a%20b\""),
            ("/a/*", "/a/b/\r\nc", ":splat", "b/%0D%0Ac"),
            ("/a/*", "/a", "<:splat>", "<>"),
            ("/*/x/:y", "/a/b/x/c", ":splat :y :z https://h:80", "a/b c :z https://h:80"),
            ("/a*c", "/abbc", ":splat", "bb"),
            ("/:pa/:page", "/1/2", ":page:pa", "21"),
        ] {
            let glob = glob(pattern);
            let captured = glob.captured(path.as_bytes()).expect(path);
            assert!(glob.is_used_in(text), "{pattern} {text}");
            assert_eq!(glob.filled(text, &captured), expected, "{pattern}");
        }
        assert!(!glob("/a").is_used_in("a: :splat") && !glob("/*").is_used_in("a:b"));
    }

    #[test]
    fn folders_as_a_whole() {
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
