//! A place in JavaScript or JSON.

use super::context::Context;
use crate::limits::SCRIPT_NESTING_MAX;

/// A place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    state: State,
    /// For each template string around, how many braces are open in its `${ }`.
    templates: Vec<u32>,
    /// Whether what stands before is a value, behind which `/` divides.
    behind_value: bool,
    /// The word that is being read, as far as it matters.
    word: Vec<u8>,
    /// More is nested than is followed.
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Value,
    /// Between quotes of this kind, or backticks.
    String(u8),
    Line,
    Comment,
    /// A regular expression; inside of its `[ ]`.
    Pattern(bool),
}

/// Keywords behind which a value begins.
const OPERATORS: &[&[u8]] = &[
    b"await",
    b"case",
    b"delete",
    b"do",
    b"else",
    b"in",
    b"instanceof",
    b"new",
    b"of",
    b"return",
    b"throw",
    b"typeof",
    b"void",
    b"yield",
];

/// Longer than any of them.
const WORD_MAX_BYTES: usize = 12;

impl Script {
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at += self.step(&bytes[at..]);
        }
    }

    /// Takes what is at the front; how many bytes it is.
    fn step(&mut self, here: &[u8]) -> usize {
        let byte = here[0];
        match self.state {
            State::Value => return self.code(here),
            State::String(_) | State::Pattern(_) if byte == b'\\' => return 2,
            State::String(b'`') if here.starts_with(b"${") => {
                if self.templates.len() == SCRIPT_NESTING_MAX {
                    self.is_lost = true;
                } else {
                    self.templates.push(0);
                }
                (self.state, self.behind_value) = (State::Value, false);
                return 2;
            }
            State::String(quote) if byte == quote || (byte == b'\n' && quote != b'`') => {
                (self.state, self.behind_value) = (State::Value, true);
            }
            State::Line if byte == b'\n' => self.state = State::Value,
            State::Comment if here.starts_with(b"*/") => {
                self.state = State::Value;
                return 2;
            }
            State::Pattern(false) if byte == b'/' || byte == b'\n' => {
                (self.state, self.behind_value) = (State::Value, true);
            }
            State::Pattern(false) if byte == b'[' => self.state = State::Pattern(true),
            State::Pattern(true) if byte == b']' => self.state = State::Pattern(false),
            _ => {}
        }
        1
    }

    fn code(&mut self, here: &[u8]) -> usize {
        let byte = here[0];
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80 {
            if self.word.len() < WORD_MAX_BYTES {
                self.word.push(byte);
            }
            self.behind_value = !OPERATORS.contains(&self.word.as_slice());
            return 1;
        }
        self.word.clear();
        match byte {
            b'"' | b'\'' | b'`' => self.state = State::String(byte),
            b'/' if here.starts_with(b"//") => self.state = State::Line,
            b'/' if here.starts_with(b"/*") => {
                self.state = State::Comment;
                return 2;
            }
            b'/' if !self.behind_value => self.state = State::Pattern(false),
            b'<' if here.starts_with(b"<!--") => self.state = State::Line,
            b')' | b']' => self.behind_value = true,
            b'}' => {
                // A block or an object: of the two, division behind an object is rarer.
                self.behind_value = false;
                match self.templates.last_mut() {
                    Some(0) => {
                        self.templates.pop();
                        self.state = State::String(b'`');
                    }
                    Some(open) => *open -= 1,
                    None => {}
                }
            }
            b'{' => {
                self.behind_value = false;
                if let Some(open) = self.templates.last_mut() {
                    *open = open.saturating_add(1);
                }
            }
            b'+' | b'-' if here.get(1) == Some(&byte) => return 2,
            _ if byte.is_ascii_whitespace() => {}
            _ => self.behind_value = false,
        }
        1
    }

    pub(crate) fn value(&mut self) -> Result<Context, &'static str> {
        if self.is_lost {
            return Err("template strings nest too deeply here to tell where a value would stand");
        }
        match self.state {
            State::Value => {
                self.behind_value = true;
                Ok(Context::Script)
            }
            State::String(_) => Ok(Context::ScriptString),
            State::Line | State::Comment => Ok(Context::Comment),
            State::Pattern(_) => Err("a value inside of a regular expression cannot be escaped; \
                 `new RegExp(…)` takes it as a string"),
        }
    }

    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        let same = self.state == other.state && self.templates == other.templates;
        let behind_value = self.behind_value && other.behind_value;
        let is_lost = self.is_lost || other.is_lost;
        same.then(|| Self { behind_value, is_lost, word: Vec::new(), ..self.clone() })
    }
}
