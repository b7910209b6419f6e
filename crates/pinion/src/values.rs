//! How the value of each kind of directive is read. Every error is a phrase that follows the name
//! of the flag: `--grace 99999999 is out of bounds: 0 to 86400 SECONDS`.

use crate::address::Address;
use crate::directives::Kind;
use pinion_build::{CodingsFor, Level, NamedCoding};
use pinion_site::hosts::HostPattern;

/// A whole number between `min` and `max`.
pub(crate) fn number(kind: &Kind, text: &str) -> Result<u64, String> {
    let Kind::Number { min, max, .. } = *kind else {
        return Err("is not counted".to_owned());
    };
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("{text:?} is not a whole number: {}", kind.bounds()));
    }
    // Digits alone fail to parse only when there are too many of them.
    let value = text.parse().unwrap_or(u64::MAX);
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{text} is out of bounds: {}", kind.bounds()))
    }
}

/// One of the words of a choice; gives its position among them.
pub(crate) fn choice(kind: &Kind, text: &str) -> Result<&'static str, String> {
    let Kind::Choice(words) = *kind else {
        return Err("is not a choice".to_owned());
    };
    let known = words.iter().find(|word| **word == text).copied();
    known.ok_or_else(|| format!("{text:?} is none of: {}", kind.bounds()))
}

/// `gzip,br:11`, or `identity` for none.
pub(crate) fn codings(text: &str) -> Result<Vec<NamedCoding>, String> {
    if text.is_empty() {
        return Err(format!("is empty: {}", Kind::Codings.bounds()));
    }
    pinion_build::parse_codings(text).map_err(|error| error.to_string())
}

/// `*.svg=br:11`: a pattern and the codings of what it matches.
pub(crate) fn codings_for(text: &str, level: Level) -> Result<CodingsFor, String> {
    CodingsFor::parse(text, level).map_err(|error| error.to_string())
}

/// A field value without anything that could end the field or start another one.
pub(crate) fn field_value(text: &str) -> Result<String, String> {
    let visible = text.bytes().all(|b| (0x20..0x7f).contains(&b));
    if text.is_empty() || !visible || text.trim() != text {
        return Err(format!("{text:?} is no field value: visible ASCII, no space at the ends"));
    }
    Ok(text.to_owned())
}

/// The path of a request as clients send it, with nothing behind it.
pub(crate) fn url_path(text: &str) -> Result<String, String> {
    let sent = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    if !text.starts_with('/') || !text.bytes().all(sent) {
        return Err(format!("{text:?} is no path of a URL: /healthz is one"));
    }
    Ok(text.to_owned())
}

/// `example.org`, or `*.example.org` for all below.
pub(crate) fn host(text: &str) -> Result<HostPattern, String> {
    HostPattern::parse(text).map_err(|error| format!("{text:?} {error}"))
}

/// Whether `text` is a value of this kind.
pub(crate) fn check(kind: &Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::Address => Address::parse(text).map(drop),
        Kind::Choice(_) => choice(kind, text).map(drop),
        Kind::Codings => codings(text).map(drop),
        Kind::GlobCodings => codings_for(text, Level::Best).map(drop),
        Kind::FieldValue => field_value(text).map(drop),
        Kind::Host => host(text).map(drop),
        Kind::UrlPath => url_path(text).map(drop),
        Kind::Number { .. } => number(kind, text).map(drop),
        Kind::Glob | Kind::Path | Kind::SiteFile if text.is_empty() => Err("is empty".to_owned()),
        Kind::Glob | Kind::Path | Kind::SiteFile => Ok(()),
        Kind::Switch => Err("takes no value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_build::Method;

    const SECONDS: Kind = Kind::Number { min: 1, max: 60, unit: "SECONDS" };

    #[test]
    fn numbers_keep_their_bounds() {
        assert_eq!(number(&SECONDS, "1"), Ok(1));
        assert_eq!(number(&SECONDS, "60"), Ok(60));
        for text in ["0", "61", "99999999999999999999999"] {
            let error = number(&SECONDS, text).expect_err(text);
            assert!(error.contains("out of bounds: 1 to 60 SECONDS"), "{error}");
        }
        for text in ["", "+1", "-1", "1s", " 1", "0x1", "1.5"] {
            assert!(number(&SECONDS, text).expect_err(text).contains("whole number"));
        }
    }

    #[test]
    fn the_bounds_of_codings_are_those_of_the_build() {
        for method in Method::ALL {
            let (text, levels) = (method.name(), method.levels());
            let (low, high) = (*levels.start(), *levels.end());
            assert!(Kind::Codings.bounds().contains(&format!("{text}[:{low}-{high}]")));
            for level in levels {
                assert!(codings(&format!("{text}:{level}")).is_ok());
            }
            assert!(codings(&format!("{text}:{}", high + 1)).is_err());
        }
        assert_eq!(codings("identity"), Ok(Vec::new()));
        assert!(codings("").is_err() && codings("lzma").is_err() && codings("br,br").is_err());
        let text = |text: &str| codings_for(text, Level::Max).map(|rule| rule.to_string());
        assert_eq!(text("*.svg=zopfli,br:9").as_deref(), Ok("*.svg=zopfli:15,br:9"));
        assert!(text("*.svg").is_err() && text("a[=br").is_err());
    }

    #[test]
    fn a_field_value_cannot_start_another_field() {
        assert!(field_value("public, max-age=60").is_ok());
        for text in ["", " a", "a ", "a\r\nSet-Cookie: b", "a\0", "ä"] {
            assert!(field_value(text).is_err(), "{text:?}");
        }
    }
}
