//! Glob patterns of keys, for `KEYS` and `SCAN`.

/// Returns whether a text matches a pattern: `*` is any bytes, `?` any byte, `[a-z]` one of some
/// and `[^a-z]` any other, and `\` takes the next byte as it is.
///
/// The time is at most proportional to the product of both lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut text_at) = (0, 0);
    // The positions at which matching resumes if the pattern after the last star does not match:
    // one byte later in the text.
    let mut retry = None;
    loop {
        if let Some(b'*') = pattern.get(at) {
            at += 1;
            retry = Some((at, text_at));
            continue;
        }
        let step = match (text.get(text_at), at == pattern.len()) {
            (None, is_end) if is_end => return true,
            (Some(&byte), false) => match_one(&pattern[at..], byte),
            _ => None,
        };
        if let Some(length) = step {
            at += length;
            text_at += 1;
            continue;
        }
        match retry {
            Some((star, from)) if from < text.len() => {
                at = star;
                text_at = from + 1;
                retry = Some((star, text_at));
            }
            _ => return false,
        }
    }
}

/// Matches one byte. Returns the length of the part of the pattern that has matched it.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let (is_in, length) = class(rest, byte);
            is_in.then_some(1 + length)
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

/// Returns whether a byte is in the class that begins after `[`, and the length of the class.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let is_negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    loop {
        match pattern[at.min(pattern.len())..] {
            // A class without a closing bracket extends to the end of the pattern.
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                is_in |= escaped == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                let (low, high) = (first.min(last), first.max(last));
                is_in |= (low..=high).contains(&byte);
                at += 3;
            }
            [other, ..] => {
                is_in |= other == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a*b*c", "aXbYbZc", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            (r"a\*b", "a*b", true),
            (r"a\*b", "aXb", false),
            (r"[\]]", "]", true),
            ("[a", "a", true),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("**a", "ba", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(20_000).as_bytes()));
    }
}
