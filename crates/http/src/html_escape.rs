//! The characters that have a meaning in HTML, and their character references.

use std::borrow::Cow;

/// Returns the character reference of a byte that has a meaning in HTML.
#[inline]
#[must_use]
pub const fn reference(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'&' => "&amp;",
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'"' => "&quot;",
        // `&apos;` exists only since HTML 5.
        b'\'' => "&#39;",
        _ => return None,
    })
}

/// Returns text that a browser shows as it is, between tags and in attributes with double quotes.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    // An apostrophe has no meaning in either.
    let special = |c: char| u8::try_from(c).ok().filter(|&byte| byte != b'\'').and_then(reference);
    if text.chars().all(|c| special(c).is_none()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match special(c) {
            Some(reference) => out.push_str(reference),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_inert_between_tags_and_in_attributes() {
        assert_eq!(escape("<a href=\"x\">&amp;'ü"), "&lt;a href=&quot;x&quot;&gt;&amp;amp;'ü");
        assert!(matches!(escape("nothing of it's meaning"), Cow::Borrowed(_)));
    }
}
