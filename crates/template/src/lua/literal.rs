//! Finds where literal strings and numbers of Lua end, and checks that Lua accepts them.

use super::token::is_name_byte;

/// Returns the level of the long bracket at the beginning, which is its number of `=`: `[[` has
/// level 0. Returns `None` if there is no opening long bracket.
pub(crate) fn long_bracket_level(rest: &[u8]) -> Option<usize> {
    let inner = rest.strip_prefix(b"[")?;
    let level = inner.iter().take_while(|&&byte| byte == b'=').count();
    (inner.get(level) == Some(&b'[')).then_some(level)
}

/// Returns the length of the long string or comment at the beginning, from its opening to its
/// closing bracket of this level; `None` if it is not closed.
pub(crate) fn long_bracket_length(rest: &[u8], level: usize) -> Option<usize> {
    let mut at = level + 2;
    loop {
        at += rest.get(at..)?.iter().position(|&byte| byte == b']')?;
        let after = &rest[at + 1..];
        let equals_count = after.iter().take_while(|&&byte| byte == b'=').count();
        if equals_count == level && after.get(equals_count) == Some(&b']') {
            return Some(at + level + 2);
        }
        at += 1 + equals_count;
    }
}

/// Returns the length of the quoted string at the beginning, including its quotes, or the reason
/// why Lua does not accept it.
pub(crate) fn string_length(rest: &[u8]) -> Result<usize, &'static str> {
    const UNCLOSED: &str =
        "the string has no end in its line; write one of several lines as [[ … ]]";
    let quote = rest[0];
    let mut at = 1;
    loop {
        match rest.get(at) {
            None | Some(b'\n' | b'\r') => return Err(UNCLOSED),
            Some(b'\\') => at += 1 + escape_length(&rest[at + 1..])?,
            Some(&byte) if byte == quote => return Ok(at + 1),
            Some(_) => at += 1,
        }
    }
}

/// Returns the length of an escape sequence without its backslash, or the reason why Lua does not
/// accept it.
fn escape_length(rest: &[u8]) -> Result<usize, &'static str> {
    const WRONG: &str =
        "the string has an escape that Lua does not know; write \\\\ for a backslash";
    let count_leading =
        |bytes: &[u8], is_digit: fn(&u8) -> bool| bytes.iter().take_while(|b| is_digit(b)).count();
    match rest {
        [b'\r', b'\n', ..] | [b'\n', b'\r', ..] => Ok(2),
        [
            b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'\\' | b'"' | b'\'' | b'\n' | b'\r',
            ..,
        ] => Ok(1),
        [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => Ok(3),
        [b'u', b'{', rest @ ..] => {
            let length = count_leading(rest, u8::is_ascii_hexdigit);
            let leading = rest.iter().take_while(|&&byte| byte == b'0').count();
            let text = str::from_utf8(&rest[leading.min(length)..length]).unwrap_or_default();
            let fits = match text.len() {
                0 => length > 0,
                1..=6 => u32::from_str_radix(text, 16).is_ok_and(|code| code <= 0x0010_ffff),
                _ => false,
            };
            let closed = rest.get(length) == Some(&b'}');
            if fits && closed { Ok(length + 3) } else { Err(WRONG) }
        }
        [b'z', rest @ ..] => {
            Ok(1 + rest.iter().take_while(|&&byte| super::lexer::is_space(byte)).count())
        }
        [b'0'..=b'9', ..] => {
            let length = count_leading(&rest[..rest.len().min(3)], u8::is_ascii_digit);
            let value = rest[..length].iter().fold(0, |sum, d| sum * 10 + u32::from(d - b'0'));
            if value <= 255 { Ok(length) } else { Err(WRONG) }
        }
        _ => Err(WRONG),
    }
}

/// Returns the length of the text that the lexer of Lua takes as one number, even if it is
/// malformed, such as `3x`.
pub(crate) fn number_length(rest: &[u8]) -> usize {
    let hex = matches!(rest, [b'0', b'x' | b'X', ..]);
    let mut length = 0;
    while let Some(&byte) = rest.get(length) {
        let follows_exponent_letter = length > 0
            && match rest[length - 1] {
                b'e' | b'E' => !hex,
                b'p' | b'P' => hex,
                _ => false,
            };
        let sign = follows_exponent_letter && (byte == b'+' || byte == b'-');
        if !is_name_byte(byte) && byte != b'.' && !sign {
            break;
        }
        length += 1;
    }
    length
}

/// Returns whether LuaJIT accepts `text` as a number, including its own forms `1LL` and `1ULL` (64
/// bits), `1i` (imaginary) and `0b1` (binary).
pub(crate) fn is_number(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    let (body, is_digit, exponent_letter): (&[u8], fn(&u8) -> bool, u8) = match lower.as_slice() {
        [b'0', b'x', body @ ..] => (body, u8::is_ascii_hexdigit, b'p'),
        [b'0', b'b', body @ ..] => {
            let digits = body.iter().take_while(|&b| matches!(b, b'0' | b'1')).count();
            return digits > 0 && matches!(&body[digits..], b"" | b"ll" | b"ull" | b"i");
        }
        body => (body, u8::is_ascii_digit, b'e'),
    };
    let whole = body.iter().take_while(|b| is_digit(b)).count();
    let mut rest = &body[whole..];
    if whole > 0 && matches!(rest, b"ll" | b"ull") {
        return true;
    }
    let mut digits = whole;
    if let [b'.', after @ ..] = rest {
        let fraction = after.iter().take_while(|b| is_digit(b)).count();
        digits += fraction;
        rest = &after[fraction..];
    }
    if digits == 0 {
        return false;
    }
    if rest.first() == Some(&exponent_letter) {
        rest = &rest[1..];
        if let [b'+' | b'-', after @ ..] = rest {
            rest = after;
        }
        let exponent_digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if exponent_digits == 0 {
            return false;
        }
        rest = &rest[exponent_digits..];
    }
    matches!(rest, b"" | b"i")
}
