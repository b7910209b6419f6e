//! Sets of bytes: the classes of Lua as the "C" locale has them, and sets in brackets.

use super::pattern_error::Malformed;

/// The escape character of patterns and replacements.
pub(super) const ESCAPE: u8 = b'%';

/// A set of bytes, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set([u64; 4]);

impl Set {
    #[inline]
    pub(super) fn holds(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn add_all(&mut self, other: &Set) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    fn complement(&self) -> Set {
        Set(self.0.map(|word| !word))
    }

    fn of(holds: fn(&u8) -> bool) -> Set {
        let mut set = Set::default();
        (0..=u8::MAX).filter(holds).for_each(|byte| set.add(byte));
        set
    }

    /// Returns the class that a letter after `%` names, `None` where the byte stands for itself.
    /// The capital names the complement.
    pub(super) fn class(letter: u8) -> Option<Set> {
        let set = Set::of(match letter.to_ascii_lowercase() {
            b'a' => u8::is_ascii_alphabetic,
            b'c' => u8::is_ascii_control,
            b'd' => u8::is_ascii_digit,
            b'g' => u8::is_ascii_graphic,
            b'l' => u8::is_ascii_lowercase,
            b'p' => u8::is_ascii_punctuation,
            // Rust's definition of white space leaves out the vertical tab.
            b's' => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
            b'u' => u8::is_ascii_uppercase,
            b'w' => u8::is_ascii_alphanumeric,
            b'x' => u8::is_ascii_hexdigit,
            // This class is of Lua 5.1, where no pattern could contain a NUL; 5.4 still knows it.
            b'z' => |byte| *byte == 0,
            _ => return None,
        });
        Some(if letter.is_ascii_uppercase() { set.complement() } else { set })
    }

    /// Returns the set between the brackets, `^` included: all bytes up to the closing one that
    /// [`end_of_set`] finds.
    pub(super) fn of_brackets(inner: &[u8]) -> Set {
        let (negated, mut rest) = match inner {
            [b'^', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let mut set = Set::default();
        loop {
            rest = match rest {
                [] => break,
                [ESCAPE, escaped, rest @ ..] => {
                    match Set::class(*escaped) {
                        Some(class) => set.add_all(&class),
                        None => set.add(*escaped),
                    }
                    rest
                }
                [from, b'-', to, rest @ ..] => {
                    (*from..=*to).for_each(|byte| set.add(byte));
                    rest
                }
                [byte, rest @ ..] => {
                    set.add(*byte);
                    rest
                }
            };
        }
        if negated { set.complement() } else { set }
    }
}

/// Returns the offset of the `]` that closes the set which begins at `open`. The first byte of a
/// set never closes it, nor does one after `%`.
pub(super) fn end_of_set(pattern: &[u8], open: usize) -> Result<usize, Malformed> {
    let mut at = open + 1;
    if pattern.get(at) == Some(&b'^') {
        at += 1;
    }
    loop {
        let byte = *pattern.get(at).ok_or(Malformed::SetNotClosed)?;
        at += 1;
        if byte == ESCAPE && at < pattern.len() {
            at += 1;
        }
        if pattern.get(at) == Some(&b']') {
            return Ok(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capital_letter_is_the_complement_of_its_class() {
        for letter in b'a'..=b'z' {
            let (small, capital) = (Set::class(letter), Set::class(letter.to_ascii_uppercase()));
            assert_eq!(small.map(|set| set.complement()), capital, "%{}", char::from(letter));
        }
        assert_eq!(Set::class(b'.'), None);
    }

    #[test]
    fn brackets_close_where_lua_closes_them() {
        let end = |pattern: &str| end_of_set(pattern.as_bytes(), 0);
        for (pattern, at) in
            [("[a]", 2), ("[]]", 2), ("[^]]", 3), ("[^^]]", 3), ("[%]]", 3), ("[a-%]]", 5)]
        {
            assert_eq!(end(pattern), Ok(at), "{pattern}");
        }
        for pattern in ["[", "[]", "[^", "[^]", "[a", "[%]", "[a-%]", "[%"] {
            assert_eq!(end(pattern), Err(Malformed::SetNotClosed), "{pattern}");
        }
    }

    #[test]
    fn a_bracket_set_holds_its_characters_ranges_and_classes() {
        let bytes = |inner: &str| {
            let set = Set::of_brackets(inner.as_bytes());
            (0..=u8::MAX).filter(|byte| set.holds(*byte)).collect::<Vec<_>>()
        };
        assert_eq!(bytes("a-c"), b"abc");
        assert_eq!(bytes("c-a"), b"");
        assert_eq!(bytes("-a"), b"-a");
        assert_eq!(bytes("a-"), b"-a");
        assert_eq!(bytes("%a-c").len(), 26 * 2 + 1, "a class begins no range");
        assert_eq!(bytes("#-%d"), b"#$%d", "and `%` ends one");
        assert_eq!(bytes("^%z").len(), 255);
        assert_eq!(bytes("^^"), (0..=u8::MAX).filter(|b| *b != b'^').collect::<Vec<_>>());
    }
}
