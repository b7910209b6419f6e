//! A place in CSS. Escapes of CSS mean the same in strings and outside, so all that must be told
//! apart are comments.

use super::context::Context;

/// A place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Value,
    /// Between such quotes.
    String(u8),
    Comment,
}

impl Style {
    pub(crate) fn text(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let here = &bytes[at..];
            at += 1;
            match *self {
                Self::Value if here.starts_with(b"/*") => {
                    *self = Self::Comment;
                    at += 1;
                }
                Self::Value if matches!(byte, b'"' | b'\'') => *self = Self::String(byte),
                Self::Value | Self::String(_) if byte == b'\\' => {
                    at += if here[1..].starts_with(b"\r\n") { 2 } else { 1 };
                }
                // A string ends with its line, closed or not.
                Self::String(quote) if byte == quote || byte == b'\n' => *self = Self::Value,
                Self::Comment if here.starts_with(b"*/") => {
                    *self = Self::Value;
                    at += 1;
                }
                _ => {}
            }
        }
    }

    pub(crate) fn value(self) -> Context {
        if self == Self::Comment { Context::Comment } else { Context::Style }
    }

    pub(crate) fn joined(self, other: &Self) -> Option<Self> {
        (self == *other).then_some(self)
    }
}
