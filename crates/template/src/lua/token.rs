//! Tokens, keywords, signs.

/// The kind of a token.
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
    /// The offset of its first byte in the file.
    pub(crate) start: u32,
    /// The offset after its last byte.
    pub(crate) end: u32,
    /// The line of its first byte, from 1.
    pub(crate) line: u32,
    /// The line of its last byte.
    pub(crate) last_line: u32,
}

impl LuaToken {
    /// Returns the bytes of the token.
    pub(crate) fn of(self, file: &[u8]) -> &[u8] {
        &file[self.start as usize..self.end as usize]
    }
}

const KEYWORDS: &[&str] = &[
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// The signs, longer ones first.
const SIGNS: &[&str] = &[
    "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>", "+", "-", "*", "/", "%", "^", "#",
    "&", "~", "|", "<", ">", "=", "(", ")", "{", "}", "[", "]", ";", ":", ",", ".",
];

/// Returns the kind of a word: a keyword, or a name.
pub(crate) fn word(bytes: &[u8]) -> Kind {
    let keyword = KEYWORDS.iter().find(|keyword| keyword.as_bytes() == bytes);
    keyword.map_or(Kind::Name, |keyword| Kind::Fixed(keyword))
}

/// Returns the sign at the beginning.
pub(crate) fn sign(rest: &[u8]) -> Option<&'static str> {
    SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes())).copied()
}

/// Returns whether a name may contain the byte. LuaJIT takes every byte of UTF-8 for a letter.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}
