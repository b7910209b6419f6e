//! Lines and words of a rules file, with their places.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::ShownPath;
use crate::limits::RULE_LINE_MAX_BYTES;

/// An error in a rules file, and its position. Displays as `_redirects:12:7: expected …, found "…";
/// advice`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleError {
    /// The file; [`path_on_disk`](crate::path_on_disk) returns its path.
    pub file: PathBuf,
    /// The number of the line, from 1.
    pub line: usize,
    /// The column, in characters, from 1.
    pub column: usize,
    /// The expected text, the text that was found instead, and the advice; follows the word
    /// "expected".
    pub expected: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleError { file, line, column, expected } = self;
        write!(f, "{}:{line}:{column}: expected {expected}", ShownPath(file))
    }
}

/// Characters of a line that an error quotes; the rest of a longer text is left out.
const QUOTED_MAX_CHARS: usize = 40;

/// A position in a line and the text that is expected there.
#[derive(Debug)]
pub(super) struct LineFault {
    /// The column, in characters, from 1.
    pub(super) column: usize,
    pub(super) expected: String,
    /// The text of the line that begins at the column, if the error quotes it.
    found: Option<String>,
    /// The advice.
    advice: Option<String>,
}

impl LineFault {
    pub(super) fn new(column: usize, expected: impl Into<String>) -> LineFault {
        LineFault { column, expected: expected.into(), found: None, advice: None }
    }

    /// Adds the advice, or the reason.
    pub(super) fn advise(self, advice: impl Into<String>) -> LineFault {
        LineFault { advice: Some(advice.into()), ..self }
    }

    /// Quotes the word of `line` at the column.
    pub(super) fn quoting_word(self, line: Word<'_>) -> LineFault {
        let word = self.rest_of(line).split(is_space).next().unwrap_or_default();
        self.quoting(word)
    }

    /// Quotes `line` from the column on.
    pub(super) fn quoting_rest(self, line: Word<'_>) -> LineFault {
        let rest = self.rest_of(line);
        self.quoting(rest)
    }

    /// Quotes this text, unless the error quotes another one already.
    pub(super) fn quoting(mut self, text: &str) -> LineFault {
        if self.found.is_none() && !text.is_empty() {
            let mut found: String = text.chars().take(QUOTED_MAX_CHARS).collect();
            if found.len() < text.len() {
                found.push('…');
            }
            self.found = Some(found);
        }
        self
    }

    fn rest_of<'t>(&self, line: Word<'t>) -> &'t str {
        let before = self.column.saturating_sub(line.column);
        let at = line.text.char_indices().nth(before).map_or(line.text.len(), |(at, _)| at);
        line.text.get(at..).unwrap_or_default()
    }

    /// Returns the error in the given line of a file.
    pub(super) fn at(self, file: &Path, line: usize) -> RuleError {
        let LineFault { column, mut expected, found, advice } = self;
        if let Some(found) = found {
            expected.push_str(&format!(", found {found:?}"));
        }
        if let Some(advice) = advice {
            expected.push_str(&format!("; {advice}"));
        }
        RuleError { file: file.to_owned(), line, column, expected }
    }
}

/// A piece of a line without white space around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    /// The column of its first character, from 1.
    pub(super) column: usize,
}

impl<'t> Word<'t> {
    /// Returns where the character at a byte offset stands.
    pub(super) fn column_at(&self, offset: usize) -> usize {
        self.column + self.text.get(..offset).map_or(0, |before| before.chars().count())
    }

    /// Returns the column right after it.
    pub(super) fn end(&self) -> usize {
        self.column_at(self.text.len())
    }

    /// Returns the text after the first `offset` bytes.
    pub(super) fn from(&self, offset: usize) -> Word<'t> {
        let text = self.text.get(offset..).unwrap_or_default();
        Word { text, column: self.column_at(offset) }
    }
}

/// Returns the lines that say something, with their numbers from 1: white space around them is
/// gone, empty ones and those that begin with `#` are left out.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (usize, Result<Word<'_>, LineFault>)> {
    let lines = text.split(|&byte| byte == b'\n').enumerate();
    lines.filter_map(|(rank, bytes)| {
        let line = match line(bytes) {
            Ok(line) if line.text.is_empty() || line.text.starts_with('#') => return None,
            line => line,
        };
        Some((rank + 1, line))
    })
}

fn line(bytes: &[u8]) -> Result<Word<'_>, LineFault> {
    if bytes.len() > RULE_LINE_MAX_BYTES {
        let expected = format!("a line of at most {RULE_LINE_MAX_BYTES} bytes");
        return Err(LineFault::new(1, expected).advise("shorten it or split it"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(trimmed(Word { text, column: 1 })),
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let column = 1 + String::from_utf8_lossy(before).chars().count();
            Err(LineFault::new(column, "UTF-8").advise("save the file in this encoding"))
        }
    }
}

/// Returns the word without white space around it.
pub(super) fn trimmed(word: Word<'_>) -> Word<'_> {
    let start = word.text.len() - word.text.trim_start_matches(is_space).len();
    let word = word.from(start);
    Word { text: word.text.trim_end_matches(is_space), ..word }
}

/// Returns the words of a line.
pub(super) fn words(line: Word<'_>) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut column = line.column;
    for piece in line.text.split(is_space) {
        if !piece.is_empty() {
            words.push(Word { text: piece, column });
        }
        column += piece.chars().count() + 1;
    }
    words
}

/// Returns whether a character is white space in JavaScript, whose parsers set the format: that of
/// Unicode with the byte order mark and without NEL.
fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_columns() {
        let line = Word { text: "\u{feff}/ä  /b\t#c ", column: 1 };
        let found: Vec<(&str, usize)> =
            words(trimmed(line)).iter().map(|word| (word.text, word.column)).collect();
        assert_eq!(found, [("/ä", 2), ("/b", 6), ("#c", 9)]);
    }

    #[test]
    fn an_error_quotes_the_line_and_gives_advice() {
        let line = Word { text: "/ä b\u{7}c /d", column: 3 };
        let at = |column| LineFault::new(column, "x");
        let said = |fault: LineFault| fault.at(Path::new("f"), 2).to_string();
        assert_eq!(said(at(6).quoting_word(line)), "f:2:6: expected x, found \"b\\u{7}c\"");
        assert_eq!(said(at(10).quoting_rest(line)), "f:2:10: expected x, found \"/d\"");
        assert_eq!(said(at(6).quoting_rest(line)), "f:2:6: expected x, found \"b\\u{7}c /d\"");
        let end = at(12).quoting_word(line).advise("do y");
        assert_eq!(said(end), "f:2:12: expected x; do y");
        let long = "ü".repeat(QUOTED_MAX_CHARS + 1);
        let line = Word { text: &long, column: 1 };
        let quoted = format!("\"{}…\"", "ü".repeat(QUOTED_MAX_CHARS));
        assert_eq!(said(at(1).quoting_word(line)), format!("f:2:1: expected x, found {quoted}"));
        let quoted = format!("\"{}\"", "ü".repeat(QUOTED_MAX_CHARS));
        assert_eq!(said(at(2).quoting_word(line)), format!("f:2:2: expected x, found {quoted}"));
        let first = at(1).quoting("a").quoting_rest(line);
        assert_eq!(said(first), "f:2:1: expected x, found \"a\"");
    }

    #[test]
    fn empty_lines_and_comments_are_skipped() {
        let text = b"\n  # a\r\n /b \r\n\n#\xff\nc\xff";
        let found: Vec<_> = lines(text).collect();
        assert!(matches!(found[0], (3, Ok(Word { text: "/b", column: 2 }))), "{found:?}");
        assert!(matches!(&found[1], (5, Err(LineFault { column: 2, .. }))), "{found:?}");
        assert!(matches!(&found[2], (6, Err(LineFault { column: 2, .. }))), "{found:?}");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_line_longer_than_the_limit_is_refused() {
        let long = vec![b'a'; RULE_LINE_MAX_BYTES + 1];
        assert!(matches!(lines(&long).next(), Some((1, Err(_)))));
        assert!(matches!(lines(&long[1..]).next(), Some((1, Ok(_)))));
    }
}
