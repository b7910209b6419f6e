//! Hints for syntax of other languages that Lua does not have.

/// Keywords of other languages, each with the code to write in Lua instead.
const KEYWORDS: &[(&[&str], &str)] = &[
    (&["loop", "foreach", "each"], "`for key, value in pairs(list) do`"),
    (&["elif", "elsif"], "`elseif`"),
    (&["endif", "endfor", "endwhile", "fi", "done"], "`end`"),
    (&["var", "let", "const", "my"], "`local`"),
    (&["switch", "case"], "`if` and `elseif`"),
    (&["echo"], "`write(text)`"),
    (&["def", "func", "fn"], "`function`"),
    (&["unless"], "`if not`"),
];

/// Returns the code to write in Lua instead of a keyword of another language, or `None` for any
/// other word.
pub(super) fn for_word(word: &[u8]) -> Option<&'static str> {
    let matches_word = |known: &&str| known.as_bytes() == word;
    KEYWORDS.iter().find(|(words, _)| words.iter().any(matches_word)).map(|(_, instead)| *instead)
}

/// Returns the code to write in Lua instead of an operator of another language with which `rest`
/// begins.
pub(super) fn for_character(rest: &[u8]) -> Option<&'static str> {
    match rest {
        [b'!', b'=', ..] => Some("`~=`"),
        [b'!', ..] => Some("`not`"),
        [b'?', ..] => Some("`condition and one or other`"),
        _ => None,
    }
}

/// Returns a hint for a syntax error: the token `found` was read, and `wanted` was expected.
pub(super) fn for_unexpected_token(wanted: &str, found: &[u8]) -> Option<&'static str> {
    match (wanted, found) {
        ("an expression", b"&") => Some("Lua has `and`, not `&&`"),
        ("an expression", b"|") => Some("Lua has `or`, not `||`"),
        ("`=` or a call", b"+" | b"-" | b"*" | b"/") => {
            Some("Lua has no `+=` and no `++`; write `x = x + 1`")
        }
        ("`do`" | "`then`", b"{") => Some("Lua has `do … end` and `then … end`, not braces"),
        _ => None,
    }
}
