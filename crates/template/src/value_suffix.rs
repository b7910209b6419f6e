//! The words and formats that may follow the last colon of a value: `#[[price:.2f]]`,
//! `#[[address:trusted]]`.
//!
//! They are the word `trusted`, or a conversion of C as `string.format` of every Lua accepts it,
//! with or without its `%`:
//!
//! ```text
//! [%] flags [width] [. precision] letter        width, precision: up to two digits
//! ```
//!
//! | Letters | Flags | Precision |
//! |---|---|---|
//! | `d` `i` | `-` `+` `0` space | yes |
//! | `u` | `-` `0` | yes |
//! | `o` `x` `X` | `-` `#` `0` | yes |
//! | `a` `A` `e` `E` `f` `g` `G` | `-` `+` `#` `0` space | yes |
//! | `s` | `-` | yes |
//! | `c` | `-` | no |
//! | `q` | none, and no width | no |
//!
//! Anything else is part of the expression: `#[[page:title()]]`, `#[[t["a:b"]]]`.

/// A conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    /// The conversion for `string.format`, with its `%`.
    pub(crate) text: String,
    /// Whether the result is always a number, which needs no escaping in text or in a script.
    pub(crate) is_number: bool,
    /// Whether it accepts a text, and so every value that can be shown.
    pub(crate) is_text: bool,
}

/// Parses the conversion after a colon; returns it, and the bytes up to the end of the `]]` that
/// must follow.
pub(crate) fn conversion(rest: &[u8]) -> Option<(Conversion, usize)> {
    let spaces = |at: usize| at + count(&rest[at..], |byte| byte.is_ascii_whitespace());
    let mut at = spaces(0);
    at += usize::from(rest.get(at) == Some(&b'%'));
    let start = at;
    at += count(&rest[at..], |byte| b"-+ #0".contains(&byte));
    let flags = &rest[start..at];
    let width = count(&rest[at..], |byte| byte.is_ascii_digit());
    at += width;
    let has_precision = rest.get(at) == Some(&b'.');
    if has_precision {
        let digits = count(&rest[at + 1..], |byte| byte.is_ascii_digit());
        if digits > 2 {
            return None;
        }
        at += 1 + digits;
    }
    let letter = *rest.get(at)?;
    let (allowed, may_have_width, may_have_precision): (&[u8], bool, bool) = match letter {
        b'd' | b'i' => (b"-+0 ", true, true),
        b'u' => (b"-0", true, true),
        b'o' | b'x' | b'X' => (b"-#0", true, true),
        b'a' | b'A' | b'e' | b'E' | b'f' | b'g' | b'G' => (b"-+#0 ", true, true),
        b's' => (b"-", true, true),
        b'c' => (b"-", true, false),
        b'q' => (b"", false, false),
        _ => return None,
    };
    let fits = width <= 2
        && flags.iter().all(|flag| allowed.contains(flag))
        && flags.iter().all(|flag| flags.iter().filter(|other| *other == flag).count() == 1)
        && (may_have_width || width == 0)
        && (may_have_precision || !has_precision);
    let end = spaces(at + 1);
    if !fits || !rest[end..].starts_with(b"]]") {
        return None;
    }
    let text = format!("%{}", str::from_utf8(&rest[start..=at]).ok()?);
    let is_number = !matches!(letter, b's' | b'c' | b'q');
    let is_text = matches!(letter, b's' | b'q');
    Some((Conversion { text, is_number, is_text }, end + 2))
}

/// Returns the bytes up to the end of the `]]` that must follow, if `trusted` follows a colon.
pub(crate) fn trusted(rest: &[u8]) -> Option<usize> {
    let spaces = |at: usize| at + count(&rest[at..], |byte| byte.is_ascii_whitespace());
    let start = spaces(0);
    let end = start + TRUSTED.len();
    let is_word = rest.get(start..end) == Some(TRUSTED);
    let end = spaces(is_word.then_some(end)?);
    rest[end..].starts_with(b"]]").then_some(end + 2)
}

/// The word by which the author of a page vouches for a URL.
const TRUSTED: &[u8] = b"trusted";

fn count(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&byte| is(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_recognized_in_value_suffixes() {
        for (written, text) in [
            ("d", "%d"),
            ("%d", "%d"),
            (".2f", "%.2f"),
            (" %-10s ", "%-10s"),
            ("05d", "%05d"),
            ("+.3e", "%+.3e"),
            ("#x", "%#x"),
            ("q", "%q"),
            ("-3c", "%-3c"),
            ("99.99g", "%99.99g"),
        ] {
            let (found, length) = conversion(format!("{written}]]").as_bytes()).unwrap();
            assert_eq!((found.text.as_str(), length), (text, written.len() + 2), "{written}");
        }
        for (written, length) in [("trusted]]", 9), (" trusted ]]", 11)] {
            assert_eq!(trusted(written.as_bytes()), Some(length), "{written}");
        }
        for other in ["trusted", "trusted()]]", "trust]]", "trusteds]]", "]]", ""] {
            assert_eq!(trusted(other.as_bytes()), None, "{other}");
        }
        for other in [
            "", "%", "name()", "dd", "123d", "1.123f", "#s", "5q", "%%", "F", "p", "--d", ".3c",
            "+u",
        ] {
            assert_eq!(conversion(format!("{other}]]").as_bytes()), None, "{other}");
            assert_eq!(conversion(format!("{other}]").as_bytes()), None, "{other}");
        }
    }
}
