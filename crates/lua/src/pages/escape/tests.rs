//! The laws of escaping: what a browser reads back is the value, and nothing ends where it stands.

use super::*;
use crate::bounded_output::TooLong;
use proptest::prelude::*;

/// Values with many of the bytes that mean something somewhere.
fn values() -> impl Strategy<Value = Vec<u8>> {
    let special =
        prop::sample::select(b"&<>\"'`=/:?#-\\$; \t\n\0%jJoOnN\xe2\x80\xa8\xa9\xc3".to_vec());
    prop::collection::vec(prop_oneof![3 => special, 1 => any::<u8>()], 0..40)
}

fn texts() -> impl Strategy<Value = String> {
    let special = prop::sample::select(
        "&<>\"'`=/\\$\u{2028}\u{2029}\u{0}\n\u{7f}é😀".chars().collect::<Vec<_>>(),
    );
    prop::collection::vec(prop_oneof![2 => special, 1 => any::<char>()], 0..30)
        .prop_map(|chars| chars.into_iter().collect())
}

fn applied(escape: super::super::Escape, value: &[u8]) -> Vec<u8> {
    escape(value).expect("short").unwrap_or_else(|| value.to_vec())
}

/// The references of HTML that are written here, as every browser reads them.
fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [first, rest @ ..] = text {
        text = rest;
        if *first != b'&' {
            out.push(*first);
            continue;
        }
        let end = rest.iter().position(|&byte| byte == b';').expect("a whole reference");
        out.push(match &rest[..end] {
            b"amp" => b'&',
            b"lt" => b'<',
            b"gt" => b'>',
            b"quot" => b'"',
            number => {
                let digits = number.strip_prefix(b"#").expect("a reference by number");
                str::from_utf8(digits).expect("digits").parse().expect("a byte")
            }
        });
        text = &rest[end + 1..];
    }
    out
}

fn without_percent(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| text[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

/// CSS Syntax Module Level 3 §4.3.7.
fn without_css(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [first, rest @ ..] = text {
        text = rest;
        if *first == b'\\' {
            let end = rest.iter().position(|&byte| byte == b' ').expect("a space ends it");
            let digits = str::from_utf8(&rest[..end]).expect("digits");
            out.push(u8::from_str_radix(digits, 16).expect("a byte"));
            text = &rest[end + 1..];
        } else {
            out.push(*first);
        }
    }
    out
}

/// What a browser takes for the scheme of a URL (URL Standard, "basic URL parser").
fn scheme(url: &[u8]) -> Option<String> {
    let start = url.iter().position(|&byte| byte > b' ')?;
    let kept: Vec<u8> = url[start..].iter().copied().filter(|b| !b"\t\n\r".contains(b)).collect();
    let end =
        kept.iter().position(|&byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)))?;
    let is_one = kept[end] == b':' && kept[0].is_ascii_alphabetic();
    is_one.then(|| String::from_utf8_lossy(&kept[..end]).to_ascii_lowercase())
}

proptest! {
    #[test]
    fn escaped_markup_round_trips_and_has_no_delimiters(value in values()) {
        for (escape, ends) in [
            (html as fn(&[u8]) -> _, &b"<>\"'"[..]),
            (attribute, b"<>\"'`"),
        ] {
            let escaped = applied(escape, &value);
            prop_assert!(!escaped.iter().any(|byte| ends.contains(byte)));
            prop_assert_eq!(unescaped(&escaped), &value[..]);
        }
    }

    #[test]
    fn url_components_round_trip_and_have_no_delimiters(value in values()) {
        for (escape, plain) in [(url_path as fn(&[u8]) -> _, &b"-._~/"[..]), (url_query, b"-._~")] {
            let escaped = applied(escape, &value);
            let is_plain = |b: &u8| b.is_ascii_alphanumeric() || *b == b'%' || plain.contains(b);
            prop_assert!(escaped.iter().all(is_plain));
            prop_assert_eq!(without_percent(&escaped), &value[..]);
        }
    }

    #[test]
    fn a_value_after_a_slash_begins_no_host(value in values()) {
        let escaped = applied(url_root, &value);
        prop_assert!(!escaped.starts_with(b"/") && !escaped.is_empty());
        let read = without_percent(&escaped);
        prop_assert!(read == value || (value.is_empty() && read == b"."));
        prop_assert_eq!(url_root(&value) == Ok(None), escaped == value);
    }

    #[test]
    fn urls_have_only_allowed_schemes(
        value in values(),
        front in "[ \t\n\0]{0,2}(java\t?script|JAVASCRIPT|data|vbscript|http|)[\t ]{0,1}:?",
    ) {
        for value in [value.clone(), [front.as_bytes(), &value].concat()] {
            let escaped = applied(url, &value);
            prop_assert!(!escaped.iter().any(|byte| b"<>\"'` \t\n\r\x0c\0".contains(byte)));
            let read = unescaped(&escaped);
            if let Some(scheme) = scheme(&read) {
                let is_known = SCHEMES.contains(&scheme.as_str()) || read == REFUSED_URL;
                prop_assert!(is_known, "{}", String::from_utf8_lossy(&read));
            }
        }
    }

    #[test]
    fn script_strings_round_trip(value in texts()) {
        let escaped = applied(script_string, value.as_bytes());
        let escaped = String::from_utf8(escaped).expect("text");
        let unsafe_here = |c: char| c.is_ascii_control() || "\"'`$<>&\u{2028}\u{2029}".contains(c);
        prop_assert!(!escaped.chars().any(unsafe_here));
        let read: String = serde_json::from_str(&format!("\"{escaped}\"")).expect("JSON");
        prop_assert_eq!(&read, &value);
        let json = serde_json::to_string(&[&value]).expect("JSON");
        let escaped = String::from_utf8(applied(script, json.as_bytes())).expect("text");
        let ends = ['<', '>', '&', '\u{2028}', '\u{2029}'];
        prop_assert!(!escaped.contains(ends));
        let read: Vec<String> = serde_json::from_str(&escaped).expect("JSON");
        prop_assert_eq!(&read[0], &value);
    }

    #[test]
    fn styles_round_trip_and_have_no_delimiters(value in values()) {
        let escaped = applied(style, &value);
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.%#\\ ".contains(b) || *b >= 0x80;
        prop_assert!(escaped.iter().all(is_plain));
        prop_assert_eq!(without_css(&escaped), value);
    }

    #[test]
    fn names_and_comments_keep_harmless_characters_only(value in values()) {
        let kept = applied(name, &value);
        prop_assert!(kept.iter().all(|b| b.is_ascii_alphanumeric() || b"-_:.".contains(b)));
        prop_assert!(!kept.to_ascii_lowercase().starts_with(b"on"));
        let kept = String::from_utf8(applied(comment, &value)).expect("ASCII");
        prop_assert!(kept.chars().all(|c| c.is_ascii_alphanumeric() || " _.,-".contains(c)));
        prop_assert!(!kept.contains("--") && !kept.starts_with('-') && !kept.ends_with('-'));
    }
}

#[test]
fn text_without_characters_to_escape_is_not_copied() {
    let plain = b"Plain text, with \xc3\xa9.";
    for escape in [html, attribute, script, script_string] {
        assert_eq!(escape(plain), Ok(None));
    }
    assert_eq!(name(b"data-x"), Ok(None));
    assert_eq!(url(b"https://example.org/a?b=c#d"), Ok(None));
    assert_eq!(url(b"/a/b%20c"), Ok(None));
    assert_eq!(url_path(b"a/b"), Ok(None));
    assert_eq!(url_query(b"a-b"), Ok(None));
    assert_eq!(style(b"#fff"), Ok(None));
    assert_eq!(comment(b"a b, c."), Ok(None));
}

#[test]
fn relative_absolute_and_script_urls_are_escaped() {
    for (value, shown) in [
        (" /a b ", "/a%20b"),
        ("?a=1&b=2", "?a=1&amp;b=2"),
        ("//example.org/ü", "//example.org/%C3%BC"),
        ("mailto:a@b", "mailto:a@b"),
        ("HTTPS://x", "HTTPS://x"),
        ("javascript:alert(1)", "about:invalid"),
        (" \u{1}JaVaScript:x", "about:invalid"),
        ("java\nscript:x", "about:invalid"),
        ("data:text/html,x", "about:invalid"),
        (":x", "about:invalid"),
        ("a/b:c", "a/b:c"),
        ("\\\\evil", "%5C%5Cevil"),
        ("", ""),
    ] {
        assert_eq!(String::from_utf8(applied(url, value.as_bytes())).expect("ASCII"), shown);
    }
    for (value, shown) in [
        ("", "."),
        ("/evil.example/x.js", "%2Fevil.example/x.js"),
        ("\\evil.example", "%5Cevil.example"),
        ("//a b", "%2F/a%20b"),
        ("a/b", "a/b"),
    ] {
        assert_eq!(String::from_utf8(applied(url_root, value.as_bytes())).expect("ASCII"), shown);
    }
    assert_eq!(name(b"ONclick"), Ok(Some(Vec::new())));
    assert_eq!(name(b"o<n"), Ok(Some(Vec::new())));
    for code in ["hx-on:click", "X-data", "v-if", "data-on-click", "bind", ":class", "<x-init"] {
        assert_eq!(name(code.as_bytes()), Ok(Some(Vec::new())), "{code}");
    }
    assert_eq!(comment(b"a-b--c-->"), Ok(Some(b"a-b-c".to_vec())));
}

/// What it comes to is known before there is room for it.
#[test]
fn escaped_text_longer_than_16_mib_is_refused() {
    for (escape, some) in [
        (html as super::super::Escape, "\""),
        (attribute, "`"),
        (url, "&"),
        (url_path, " "),
        (url_root, "?"),
        (url_query, "/"),
        (script, "<"),
        (script, "\u{2028}"),
        (script_string, "$"),
        (style, ";"),
    ] {
        let grown = |text: &[u8]| escape(text).map(|grown| grown.expect("it has grown").len());
        let each = grown(some.as_bytes()).expect("short");
        let mut text = some.as_bytes().repeat(RESULT_MAX_BYTES / each);
        text.resize(text.len() + RESULT_MAX_BYTES % each, b'a');
        assert_eq!(grown(&text), Ok(RESULT_MAX_BYTES), "{some:?}");
        text.push(b'a');
        assert_eq!(grown(&text), Err(TooLong), "{some:?}");
    }
    let slashes = vec![b'/'; RESULT_MAX_BYTES - 2];
    assert_eq!(url_root(&slashes).map(|url| url.map(|url| url.len())), Ok(Some(RESULT_MAX_BYTES)));
    assert_eq!(url_root(&[&slashes[..], b"/"].concat()), Err(TooLong));
    assert_eq!(comment(&b"-".repeat(RESULT_MAX_BYTES + 1)), Err(TooLong));
}
