//! What is wrong with a configuration file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fault {
    /// The file, as written.
    pub(crate) file: PathBuf,
    /// Where in it; none when it could not be read.
    pub(crate) place: Option<Place>,
    /// One line: what is wrong, and what to do.
    pub(crate) message: String,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
}

impl Fault {
    /// Of a place in a file.
    pub(crate) fn at(file: &Path, place: Place, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: Some(place), message: one_line(&message.into()) }
    }

    /// Of a file as a whole.
    pub(crate) fn of(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: None, message: one_line(&message.into()) }
    }
}

/// A key may have any name in quotes; a terminal must not obey it.
fn one_line(message: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_debug().to_string(),
        false => c.to_string(),
    };
    message.chars().map(shown).collect()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(Place { line, column }) = self.place {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl Place {
    /// Where a file begins.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// The place of a byte; behind the end it is the place of the end.
    pub(crate) fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_as_editors_do() {
        let text = "a = 1\nö = \"x\"\r\n";
        for (byte, line, column) in [(0, 1, 1), (4, 1, 5), (5, 1, 6), (6, 2, 1), (8, 2, 2)] {
            assert_eq!(Place::of(text, byte), Place { line, column }, "{byte}");
        }
        assert_eq!(Place::of(text, 99), Place { line: 3, column: 1 });
        assert_eq!(Place::of(text, 7), Place::of(text, 99), "never within a character");
        assert_eq!(Place::of("", 0), Place::START);
    }

    #[test]
    fn a_fault_is_a_line_that_editors_follow() {
        let fault = Fault::at(Path::new("a.toml"), Place { line: 3, column: 7 }, "is wrong");
        assert_eq!(fault.to_string(), "a.toml:3:7: is wrong");
        assert_eq!(Fault::of(Path::new("a.toml"), "is\ngone").to_string(), "a.toml: is\\ngone");
    }
}
