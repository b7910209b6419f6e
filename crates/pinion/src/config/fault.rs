//! A fault in a configuration file, and its position.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConfigFault {
    /// The file, as written.
    pub(crate) file: PathBuf,
    /// Where in it; none when it could not be read.
    pub(crate) place: Option<TextPlace>,
    /// One line: the fault, and the advice.
    pub(crate) message: String,
    /// The lines of the stack of a script, with their heading; none for anything else.
    pub(crate) stack: Vec<String>,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextPlace {
    /// The number of the line, from 1.
    pub(crate) line: usize,
    /// The column, in characters, from 1; 0 if only the line is known.
    pub(crate) column: usize,
}

impl ConfigFault {
    /// Makes the fault of a place in a file.
    pub(crate) fn at(file: &Path, place: TextPlace, message: impl Into<String>) -> Self {
        Self { place: Some(place), ..Self::of(file, message) }
    }

    /// Makes the fault of a file as a whole.
    pub(crate) fn of(file: &Path, message: impl Into<String>) -> Self {
        let message = one_line(&message.into());
        Self { file: file.to_owned(), place: None, message, stack: Vec::new() }
    }

    /// Returns the fault with the lines of a stack.
    pub(crate) fn with_stack(self, stack: Vec<String>) -> Self {
        Self { stack, ..self }
    }
}

/// Returns a message as one line. A key may have any name in quotes; a terminal must not obey it.
fn one_line(message: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    message.chars().map(shown).collect()
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(place) = self.place {
            write!(f, "{place}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { line, column: 0 } => write!(f, "{line}"),
            Self { line, column } => write!(f, "{line}:{column}"),
        }
    }
}

impl TextPlace {
    /// Returns the place of a line, where nothing more is known.
    pub(crate) const fn of_line(line: usize) -> Self {
        Self { line, column: 0 }
    }

    /// Where a file begins.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// Returns the place of a byte; after the end it is the place of the end.
    pub(crate) fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    }
}

/// The places of the bytes of a text, each found without a look at all that is before it.
#[derive(Debug)]
pub(crate) struct PlaceIndex<'t> {
    text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// The number of characters before each block.
    characters: Vec<usize>,
}

/// Bytes between two of which the characters before them are known.
const BLOCK_BYTES: usize = 256;

impl<'t> PlaceIndex<'t> {
    /// Reads a text once.
    pub(crate) fn new(text: &'t str) -> Self {
        let (mut lines, mut characters, mut count) = (vec![0], Vec::new(), 0);
        for (at, &byte) in text.as_bytes().iter().enumerate() {
            if at % BLOCK_BYTES == 0 {
                characters.push(count);
            }
            count += usize::from(begins_character(byte));
            if byte == b'\n' {
                lines.push(at + 1);
            }
        }
        Self { text, lines, characters }
    }

    /// Works like [`TextPlace::of`].
    pub(crate) fn of(&self, byte: usize) -> TextPlace {
        let byte = if self.text.is_char_boundary(byte) { byte } else { self.text.len() };
        let line = self.lines.partition_point(|start| *start <= byte);
        let start = line.checked_sub(1).and_then(|line| self.lines.get(line)).copied();
        let column = self.characters_before(byte) - self.characters_before(start.unwrap_or(0)) + 1;
        TextPlace { line, column }
    }

    fn characters_before(&self, byte: usize) -> usize {
        // Behind a whole block the next one has not begun.
        let block = (byte / BLOCK_BYTES).min(self.characters.len().saturating_sub(1));
        let rest = self.text.as_bytes().get(block * BLOCK_BYTES..byte).unwrap_or_default();
        let known = self.characters.get(block).copied().unwrap_or(0);
        known + rest.iter().filter(|byte| begins_character(**byte)).count()
    }
}

/// Returns whether a byte of UTF-8 begins a character.
fn begins_character(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_and_columns_are_counted_as_in_editors() {
        let text = "a = 1\nö = \"x\"\r\n";
        for (byte, line, column) in [(0, 1, 1), (4, 1, 5), (5, 1, 6), (6, 2, 1), (8, 2, 2)] {
            assert_eq!(TextPlace::of(text, byte), TextPlace { line, column }, "{byte}");
        }
        assert_eq!(TextPlace::of(text, 99), TextPlace { line: 3, column: 1 });
        assert_eq!(TextPlace::of(text, 7), TextPlace::of(text, 99), "never within a character");
        assert_eq!(TextPlace::of("", 0), TextPlace::START);
    }

    proptest! {
        /// This holds for lines of any length and with any content.
        #[test]
        fn an_index_finds_the_same_positions(
            text in "([a-c\u{f6}\u{20ac}\u{1f600}]{0,400}\n?){0,6}",
            bytes in prop::collection::vec(0usize..4000, 1..20),
        ) {
            let index = PlaceIndex::new(&text);
            for byte in bytes.into_iter().chain([0, text.len(), text.len() + 1]) {
                let expected = TextPlace::of(&text, byte);
                prop_assert_eq!(index.of(byte), expected, "{} of {:?}", byte, text);
            }
        }
    }

    #[test]
    fn a_fault_is_a_line_that_editors_follow() {
        let fault =
            ConfigFault::at(Path::new("a.toml"), TextPlace { line: 3, column: 7 }, "is wrong");
        assert_eq!(fault.to_string(), "a.toml:3:7: is wrong");
        let fault = ConfigFault::at(Path::new("a.lua"), TextPlace::of_line(3), "is wrong");
        assert_eq!(fault.to_string(), "a.lua:3: is wrong");
        assert_eq!(
            ConfigFault::of(Path::new("a.toml"), "is\ngone").to_string(),
            "a.toml: is\\ngone"
        );
    }
}
