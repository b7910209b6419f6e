//! The error of a page that cannot be compiled.

use std::fmt;

use crate::limits::QUOTE_MAX_CHARS;

/// An error and its position. It is shown as `file:line: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateProblem {
    /// The file, by its path in the site.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// The error and, unless it is obvious, its correction.
    pub message: String,
}

impl fmt::Display for TemplateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for TemplateProblem {}

/// An error in a file whose name the caller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFault {
    pub(crate) line: u32,
    pub(crate) message: String,
}

impl FileFault {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    pub(crate) fn in_file(self, file: &str) -> TemplateProblem {
        TemplateProblem { file: file.to_owned(), line: self.line, message: self.message }
    }
}

/// Returns bytes of a source for an error: short, and on one line.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    // Four bytes hold any character.
    let front = &bytes[..bytes.len().min(4 * QUOTE_MAX_CHARS + 4)];
    let text = String::from_utf8_lossy(front);
    let mut shown: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTE_MAX_CHARS).collect();
    if text.chars().nth(QUOTE_MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}
