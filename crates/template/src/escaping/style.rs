//! A position in CSS. Escapes of CSS mean the same in strings and outside, so only comments have to
//! be distinguished, and rules that load other styles.

use super::context::Context;

/// A position in CSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StyleContext {
    state: State,
    /// Whether it is in an `@import`, up to its `;`.
    is_import: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Value,
    /// A string between such quotes.
    String(u8),
    Comment,
}

/// The rule that loads other styles.
const IMPORT: &[u8] = b"@import";

impl StyleContext {
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let here = &bytes[at..];
            at += 1;
            match self.state {
                State::Value if here.starts_with(b"/*") => {
                    self.state = State::Comment;
                    at += 1;
                }
                State::Value if matches!(byte, b'"' | b'\'') => self.state = State::String(byte),
                State::Value | State::String(_) if byte == b'\\' => {
                    at += if here[1..].starts_with(b"\r\n") { 2 } else { 1 };
                }
                // A string ends with its line, closed or not.
                State::String(quote) if byte == quote || byte == b'\n' => {
                    self.state = State::Value;
                }
                State::Comment if here.starts_with(b"*/") => {
                    self.state = State::Value;
                    at += 1;
                }
                State::Value if begins_import(here) => self.is_import = true,
                State::Value if matches!(byte, b';' | b'{' | b'}') => self.is_import = false,
                _ => {}
            }
        }
    }

    pub(crate) fn value(self) -> Result<Context, &'static str> {
        match self.state {
            State::Comment => Ok(Context::Comment),
            _ if self.is_import => Err(IMPORTS),
            _ => Ok(Context::Style),
        }
    }

    pub(crate) fn joined(self, other: &Self) -> Option<Self> {
        let is_import = self.is_import || other.is_import;
        (self.state == other.state).then_some(Self { state: self.state, is_import })
    }
}

fn begins_import(here: &[u8]) -> bool {
    here.get(..IMPORT.len()).is_some_and(|word| word.eq_ignore_ascii_case(IMPORT))
}

const IMPORTS: &str = "a value in `@import` decides which styles the page loads; write the URL as \
     text";
