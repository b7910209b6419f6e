//! The credentials of the authentication scheme `Basic` (RFC 7617).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// User and password of a request. Both are UTF-8 and have no control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicCredentials<'a> {
    /// The user, which has no colon.
    pub user: &'a str,
    /// The password.
    pub password: &'a str,
}

/// Parses the value of an `Authorization` field and decodes the credentials into `decoded`. Returns
/// `None` for another scheme and for malformed credentials: both get the same response, another
/// challenge (RFC 9110 §11.6.1).
///
/// RFC 7617 §2 forbids control characters. Text that is not UTF-8 is malformed here, because the
/// challenge asks for UTF-8 (§2.1).
#[must_use]
pub fn parse<'a>(value: &[u8], decoded: &'a mut Vec<u8>) -> Option<BasicCredentials<'a>> {
    let (scheme, rest) = value.split_at_checked(b"Basic".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic") || rest.first() != Some(&b' ') {
        return None;
    }
    decode_base64(rest.trim_ascii(), decoded)?;
    let text = std::str::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    let is_clean = !text.contains(char::is_control);
    is_clean.then_some(BasicCredentials { user, password })
}

/// Decodes base64 (RFC 4648 §4). The padding may be left out, and the bits after the last byte are
/// 0: every text has one spelling, with padding or without.
fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    let engine = if text.ends_with(b"=") { STANDARD } else { STANDARD_NO_PAD };
    engine.decode_vec(text, out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(value: &str) -> Option<(String, String)> {
        let mut decoded = Vec::new();
        let found = parse(value.as_bytes(), &mut decoded)?;
        Some((found.user.to_owned(), found.password.to_owned()))
    }

    fn pair(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.to_owned(), password.to_owned()))
    }

    #[test]
    fn the_examples_of_the_rfc_are_parsed() {
        // RFC 7617 §2 and §2.1.
        assert_eq!(parsed("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), pair("Aladdin", "open sesame"));
        assert_eq!(parsed("Basic dGVzdDoxMjPCow=="), pair("test", "123\u{a3}"));
    }

    #[test]
    fn scheme_case_and_padding_are_optional() {
        for value in ["basic YTpi", "BASIC  YTpi", "Basic YTpi "] {
            assert_eq!(parsed(value), pair("a", "b"), "{value}");
        }
        // Only the first colon ends the user, and both may be empty.
        assert_eq!(parsed("Basic YTpiOmM="), pair("a", "b:c"));
        assert_eq!(parsed("Basic YTpiOmM"), pair("a", "b:c"));
        assert_eq!(parsed("Basic Og=="), pair("", ""));
    }

    #[test]
    fn malformed_credentials_are_refused() {
        for value in [
            "",
            "Basic",
            "Basic ",
            "BasicYTpi",
            "Basic\tYTpi",
            "Bearer YTpi",
            "Basic YTpi, Basic YTpi",
            // Without a colon, not UTF-8, a control character.
            "Basic YWI=",
            "Basic YTr/",
            "Basic YToA",
            "Basic YToK",
            // These are not base64: signs, length, padding, bits after the end.
            "Basic YT_i",
            "Basic YTpiY",
            "Basic YTpi=",
            "Basic YTpiYQ=",
            "Basic YTo===",
            "Basic YTpiYR==",
        ] {
            assert_eq!(parsed(value), None, "{value}");
        }
    }

    /// Encodes as RFC 4648 §4 has it.
    fn encoded(bytes: &[u8]) -> String {
        const SIGNS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let sign = |bits: u32| char::from(SIGNS[(bits & 63) as usize]);
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            text.extend([sign(bits >> 18), sign(bits >> 12)]);
            text.push(if three.len() > 1 { sign(bits >> 6) } else { '=' });
            text.push(if three.len() > 2 { sign(bits) } else { '=' });
        }
        text
    }

    proptest! {
        #[test]
        fn encoded_credentials_are_parsed_unchanged(
            user in "[^:\\p{Cc}]{0,20}", password in "\\PC{0,20}",
        ) {
            let value = format!("Basic {}", encoded(format!("{user}:{password}").as_bytes()));
            prop_assert_eq!(parsed(&value), pair(&user, &password));
        }

        /// Of all texts only one decodes to these bytes, but for padding that is left out.
        #[test]
        fn credentials_have_one_base64_encoding(text in "[A-Ca-c0-3+/]{0,12}={0,3}") {
            let mut decoded = Vec::new();
            if decode_base64(text.as_bytes(), &mut decoded).is_some() {
                let canonical = encoded(&decoded);
                prop_assert!(text == canonical || text == canonical.trim_end_matches('='));
            }
        }
    }
}
