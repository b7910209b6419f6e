//! One reading of a script.

use crate::escaping::Context;
use crate::limits::SCRIPT_NESTING_MAX;

/// A position in a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    state: State,
    /// For each template string around, the number of open braces in its `${ }`.
    templates: Vec<u32>,
    behind: Behind,
    /// The word that is being read, as far as it matters.
    word: Vec<u8>,
    /// The last sign that still matters: `\` or `$` in a string, `.` in code; or 0.
    last: u8,
    /// The number of bytes that have been read ahead.
    skip: usize,
    /// Whether a string or a regular expression was left open by the line that has just ended.
    is_broken: bool,
    /// The reason why the position is not known any more.
    lost: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Value,
    /// A string between quotes of this kind, or backticks.
    String(u8),
    Line,
    Comment,
    /// A regular expression; whether inside of its `[ ]`.
    Pattern(bool),
}

/// The kind of the preceding token, for the meaning of a `/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behind {
    /// Nothing, or a token that a value follows: a regular expression begins.
    #[default]
    Operator,
    /// A value: it divides.
    Value,
    /// Either of both.
    Unclear,
}

/// Keywords that a value follows.
const OPERATORS: &[&[u8]] = &[
    b"case",
    b"default",
    b"delete",
    b"do",
    b"else",
    b"in",
    b"instanceof",
    b"new",
    b"return",
    b"throw",
    b"typeof",
    b"void",
];

/// Words that are such keywords in some positions, and names in others.
const UNCLEAR_WORDS: &[&[u8]] = &[b"await", b"of", b"yield"];

/// A length that is greater than that of any of them.
const WORD_MAX_BYTES: usize = 12;

/// U+2028 and U+2029, which end lines as well.
const SEPARATORS: [&[u8]; 2] = [b"\xe2\x80\xa8", b"\xe2\x80\xa9"];

impl Reading {
    /// Reads the first byte of `here`. Returns the other reading, if there are two from here on.
    pub(super) fn byte(&mut self, here: &[u8]) -> Option<Self> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.is_broken = false;
        let is_code = self.state == State::Value;
        let other =
            (is_code && self.behind == Behind::Unclear && begins_pattern(here)).then(|| {
                self.behind = Behind::Value;
                Self { state: State::Pattern(false), word: Vec::new(), last: 0, ..self.clone() }
            });
        self.skip = if is_code { self.code(here) } else { self.quoted(here) } - 1;
        other
    }

    pub(super) fn is_well(&self) -> bool {
        !self.is_broken
    }

    pub(super) fn lose(&mut self, why: &'static str) {
        self.lost = Some(why);
    }

    /// Reads the beginning of a string, a comment or a regular expression; returns how many bytes
    /// it has read.
    fn quoted(&mut self, here: &[u8]) -> usize {
        let byte = here[0];
        let last = std::mem::take(&mut self.last);
        let ends_line = matches!(byte, b'\n' | b'\r');
        match self.state {
            // The end of a line after a `\` is left out, both bytes of it.
            State::String(_) | State::Pattern(_) if last == b'\\' => {
                return if here.starts_with(b"\r\n") { 2 } else { 1 };
            }
            State::String(_) | State::Pattern(_) if byte == b'\\' => self.last = byte,
            State::String(b'`') if last == b'$' && byte == b'{' => {
                if self.templates.len() == SCRIPT_NESTING_MAX {
                    self.lose(TOO_DEEP);
                } else {
                    self.templates.push(0);
                }
                self.enter_code(Behind::Operator);
            }
            State::String(b'`') if byte == b'$' => self.last = byte,
            State::String(quote) if byte == quote => self.enter_code(Behind::Value),
            State::Pattern(false) if byte == b'/' => self.enter_code(Behind::Value),
            State::String(quote) if ends_line && quote != b'`' => self.broken(),
            State::Pattern(_) if ends_line => self.broken(),
            State::Line if ends_line => self.state = State::Value,
            State::Line if SEPARATORS.iter().any(|end| here.starts_with(end)) => {
                self.state = State::Value;
                return 3;
            }
            State::Comment if here.starts_with(b"*/") => {
                self.state = State::Value;
                return 2;
            }
            State::Pattern(false) if byte == b'[' => self.state = State::Pattern(true),
            State::Pattern(true) if byte == b']' => self.state = State::Pattern(false),
            _ => {}
        }
        1
    }

    fn enter_code(&mut self, behind: Behind) {
        (self.state, self.behind) = (State::Value, behind);
    }

    fn broken(&mut self) {
        self.is_broken = true;
        self.enter_code(Behind::Value);
    }

    /// Reads the beginning of code; returns how many bytes it has read.
    fn code(&mut self, here: &[u8]) -> usize {
        let byte = here[0];
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80 {
            self.letter(byte);
            return 1;
        }
        self.word.clear();
        if byte.is_ascii_whitespace() {
            return 1;
        }
        self.last = if byte == b'.' { byte } else { 0 };
        match byte {
            b'"' | b'\'' | b'`' => self.state = State::String(byte),
            b'/' if here.starts_with(b"//") => self.state = State::Line,
            b'/' if here.starts_with(b"/*") => {
                self.state = State::Comment;
                return 2;
            }
            b'/' if self.behind == Behind::Operator => self.state = State::Pattern(false),
            b'<' if here.starts_with(b"<!--") => self.state = State::Line,
            b'-' if here.starts_with(b"-->") => self.lose(HTML_COMMENT),
            b')' => self.behind = Behind::Unclear,
            b']' => self.behind = Behind::Value,
            b'}' => self.close_brace(),
            b'{' => {
                self.behind = Behind::Operator;
                if let Some(open) = self.templates.last_mut() {
                    *open = open.saturating_add(1);
                }
            }
            // It comes before a value or after one.
            b'+' | b'-' if here.get(1) == Some(&byte) => {
                self.behind = Behind::Unclear;
                return 2;
            }
            _ => self.behind = Behind::Operator,
        }
        1
    }

    fn letter(&mut self, byte: u8) {
        if self.word.len() < WORD_MAX_BYTES {
            self.word.push(byte);
        }
        let is_one_of = |words: &[&[u8]]| words.contains(&self.word.as_slice());
        self.behind = match (is_one_of(OPERATORS), self.last) {
            // A field may have any name: `a.in / 2`.
            (true, b'.') => Behind::Unclear,
            (true, _) => Behind::Operator,
            _ if is_one_of(UNCLEAR_WORDS) => Behind::Unclear,
            _ => Behind::Value,
        };
    }

    fn close_brace(&mut self) {
        self.behind = Behind::Unclear;
        match self.templates.last_mut() {
            Some(0) => {
                self.templates.pop();
                self.state = State::String(b'`');
            }
            Some(open) => *open -= 1,
            None => {}
        }
    }

    pub(super) fn value(&mut self) -> Result<Context, &'static str> {
        if let Some(why) = self.lost {
            return Err(why);
        }
        match (self.state, std::mem::take(&mut self.last)) {
            (State::Value, _) => {
                self.behind = Behind::Value;
                self.word.clear();
                Ok(Context::Script)
            }
            (State::String(_), b'\\') => Err(BEHIND_BACKSLASH),
            (State::String(_), b'$') => Err(BEHIND_DOLLAR),
            (State::String(_), _) => Ok(Context::ScriptString),
            (State::Line | State::Comment, _) => Ok(Context::Comment),
            (State::Pattern(_), _) => Err(IN_PATTERN),
        }
    }

    pub(super) fn joined(&self, other: &Self) -> Option<Self> {
        let same = self.state == other.state
            && self.templates == other.templates
            && (self.last == other.last || self.state == State::Value);
        let behind = if self.behind == other.behind { self.behind } else { Behind::Unclear };
        let lost = self.lost.or(other.lost);
        same.then(|| Self { behind, lost, word: Vec::new(), ..self.clone() })
    }
}

/// Returns whether a `/` begins here that is no comment.
fn begins_pattern(here: &[u8]) -> bool {
    here[0] == b'/' && !here.starts_with(b"//") && !here.starts_with(b"/*")
}

const TOO_DEEP: &str = "template strings nest too deeply here to tell where a value would stand";

const HTML_COMMENT: &str = "`-->` stands before this value, which ends a comment at the front of \
     a line of script; write `-- >`";

const BEHIND_BACKSLASH: &str = "a value after a `\\` in a string changes what the `\\` means; \
     write `\\\\` for the sign";

const BEHIND_DOLLAR: &str = "a value after a `$` in a template string may begin a `${`; write \
     `\\$` for the sign";

const IN_PATTERN: &str = "a value inside of a regular expression cannot be escaped; \
     `new RegExp(…)` takes it as a string";
