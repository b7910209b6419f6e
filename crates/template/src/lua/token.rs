//! Tokens, keywords, signs.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    Number,
    String,
    /// A keyword or a sign, as it is written.
    Fixed(&'static str),
}

/// A token of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LuaToken {
    pub(crate) kind: Kind,
    /// Where its first byte is in the file.
    pub(crate) start: u32,
    /// Where what follows it begins.
    pub(crate) end: u32,
    /// The line of its first byte, from 1.
    pub(crate) line: u32,
    /// The line of its last byte.
    pub(crate) last_line: u32,
}

impl LuaToken {
    /// Its bytes.
    pub(crate) fn of(self, file: &[u8]) -> &[u8] {
        &file[self.start as usize..self.end as usize]
    }
}

const KEYWORDS: &[&str] = &[
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Longer ones first.
const SIGNS: &[&str] = &[
    "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>", "+", "-", "*", "/", "%", "^", "#",
    "&", "~", "|", "<", ">", "=", "(", ")", "{", "}", "[", "]", ";", ":", ",", ".",
];

/// Whether a word is a keyword, or a name.
pub(crate) fn word(bytes: &[u8]) -> Kind {
    let keyword = KEYWORDS.iter().find(|keyword| keyword.as_bytes() == bytes);
    keyword.map_or(Kind::Name, |keyword| Kind::Fixed(keyword))
}

/// The sign at the front.
pub(crate) fn sign(rest: &[u8]) -> Option<&'static str> {
    SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes())).copied()
}

/// What a name may have in it. LuaJIT takes every byte of UTF-8 for a letter.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}
