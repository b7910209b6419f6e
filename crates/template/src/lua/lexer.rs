//! The lexer: bytes → tokens, one by one, as far as the caller wants: a block ends at a `?>`
//! between tokens, a value at a `]]` there.

use super::token::{Kind, LuaToken, is_name_byte, sign, word};
use super::{literal, syntax_hints};
use crate::compile_error::{FileFault, quoted};

/// A position in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexer<'a> {
    pub(crate) file: &'a [u8],
    pub(crate) at: usize,
    /// The line at `at`, from 1.
    pub(crate) line: u32,
}

/// The kind of space between two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    Nothing,
    Space,
    /// At least one end of a line, outside of a comment or after one.
    NewLine,
}

impl<'a> Lexer<'a> {
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.file[self.at..]
    }

    /// Advances by `bytes`, and counts lines.
    pub(crate) fn skip(&mut self, bytes: usize) {
        let end = self.file.len().min(self.at + bytes);
        let lines = self.file[self.at..end].iter().filter(|&&byte| byte == b'\n').count();
        self.line += lines as u32;
        self.at = end;
    }

    /// Skips white space.
    pub(crate) fn space(&mut self) -> Gap {
        let length = self.rest().iter().take_while(|&&byte| is_space(byte)).count();
        let line = self.line;
        self.skip(length);
        match length {
            0 => Gap::Nothing,
            _ if self.line != line => Gap::NewLine,
            _ => Gap::Space,
        }
    }

    /// Skips a comment, if one begins here. A comment that goes to the end of its line ends before
    /// a `?>` too, as users of PHP expect.
    pub(crate) fn comment(&mut self) -> Result<bool, FileFault> {
        let rest = self.rest();
        if !rest.starts_with(b"--") {
            return Ok(false);
        }
        if let Some(level) = literal::long_bracket_level(&rest[2..]) {
            let line = self.line;
            let length = literal::long_bracket_length(&rest[2..], level).ok_or_else(|| {
                FileFault::new(line, "the long comment has no end; close it with `]]`")
            })?;
            self.skip(2 + length);
            return Ok(true);
        }
        let length = rest
            .iter()
            .zip(rest[1..].iter().chain([&0]))
            .position(|(&byte, &next)| {
                matches!(byte, b'\n' | b'\r') || (byte == b'?' && next == b'>')
            })
            .unwrap_or(rest.len());
        self.skip(length);
        Ok(true)
    }

    /// Reads the token that begins here; the caller skips white space and comments.
    ///
    /// # Errors
    /// Fails if no token begins here. It is not called at the end of the file.
    pub(crate) fn token(&mut self) -> Result<LuaToken, FileFault> {
        let (start, line, rest) = (self.at, self.line, self.rest());
        let first = rest.first().copied().unwrap_or_default();
        let next = rest.get(1).copied().unwrap_or_default();
        let (kind, length) = if first.is_ascii_digit() || (first == b'.' && next.is_ascii_digit()) {
            let length = literal::number_length(rest);
            if !literal::is_number(&rest[..length]) {
                let number = quoted(&rest[..length]);
                return Err(FileFault::new(line, format!("`{number}` is not a number")));
            }
            (Kind::Number, length)
        } else if is_name_byte(first) {
            let length = rest.iter().take_while(|&&byte| is_name_byte(byte)).count();
            (word(&rest[..length]), length)
        } else if first == b'"' || first == b'\'' {
            let length =
                literal::string_length(rest).map_err(|message| FileFault::new(line, message))?;
            (Kind::String, length)
        } else if let Some(level) = literal::long_bracket_level(rest) {
            let length = literal::long_bracket_length(rest, level).ok_or_else(|| {
                FileFault::new(line, "the long string has no end; close it with `]]`")
            })?;
            (Kind::String, length)
        } else if rest.starts_with(b"[=") {
            return Err(FileFault::new(
                line,
                "`[=` begins a long string, and its second `[` is missing",
            ));
        } else if let Some(sign) = sign(rest) {
            (Kind::Fixed(sign), sign.len())
        } else {
            let length = if rest.starts_with(b"!=") { 2 } else { 1 };
            let shown = quoted(&rest[..length]);
            let instead =
                syntax_hints::for_character(rest).map(|instead| format!("; write {instead}"));
            let instead = instead.unwrap_or_default();
            return Err(FileFault::new(line, format!("`{shown}` is not valid in Lua{instead}")));
        };
        self.skip(length);
        Ok(LuaToken { kind, start: start as u32, end: self.at as u32, line, last_line: self.line })
    }
}

/// Returns whether a byte is white space in Lua.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}
