//! Which names change with their content, so that a client may keep what they name for ever.
//!
//! Build tools put a hash of the content into the name: `app.3f2a9c1b.js`, `index-Bq3xK9zQ.css`,
//! `inter.woff2` → `inter-4a1c….woff2`. Such a name never means other content. The rule is narrow:
//! a wrong yes keeps an old file in caches for a year, a wrong no costs a revalidation.

/// Hash parts in hexadecimal have at least this many digits.
const HEX_MIN: usize = 8;
/// SHA-256 in full.
const HEX_MAX: usize = 64;
/// Hash parts in base64url have at least this many characters.
const BASE64_MIN: usize = 8;
/// 128 bits.
const BASE64_MAX: usize = 22;

/// Whether the last component of `path` carries a fingerprint: it is a style sheet, script, wasm
/// module, font, image or source map, and the last `.` or `-` part of its name, extension aside,
/// is a hash. `.js.map` and `.css.map` count as one extension.
pub(crate) fn is_fingerprinted(path: &[u8], essence: &str) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let Some((mut stem, extension)) = split_last(name, b".") else { return false };
    if extension == b"map" {
        if let Some((inner, b"js" | b"mjs" | b"css")) = split_last(stem, b".") {
            stem = inner;
        }
    } else if !is_asset(essence) {
        return false;
    }
    is_hash(split_last(stem, b".-").map_or(stem, |(_, last)| last))
}

fn is_asset(essence: &str) -> bool {
    essence.starts_with("image/")
        || essence.starts_with("font/")
        || matches!(
            essence,
            "text/css" | "text/javascript" | "application/wasm" | "application/vnd.ms-fontobject"
        )
}

/// 8 to 64 hexadecimal digits with a letter and a digit among them, or 8 to 22 characters of
/// base64url with an upper-case letter, a lower-case letter and a digit among them. A date or a
/// word is neither.
fn is_hash(part: &[u8]) -> bool {
    let any = |test: fn(&u8) -> bool| part.iter().any(test);
    let hex = (HEX_MIN..=HEX_MAX).contains(&part.len())
        && part.iter().all(u8::is_ascii_hexdigit)
        && any(u8::is_ascii_alphabetic)
        && any(u8::is_ascii_digit);
    let base64url = (BASE64_MIN..=BASE64_MAX).contains(&part.len())
        && part.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        && any(u8::is_ascii_uppercase)
        && any(u8::is_ascii_lowercase)
        && any(u8::is_ascii_digit);
    hex || base64url
}

/// What is before and after the last of `separators`.
fn split_last<'a>(text: &'a [u8], separators: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.iter().rposition(|byte| separators.contains(byte))?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: bool, essence: &str, names: &[&str]) {
        for name in names {
            assert_eq!(is_fingerprinted(name.as_bytes(), essence), expected, "{name}");
        }
    }

    #[test]
    fn names_of_build_tools() {
        check(
            true,
            "text/javascript",
            &[
                "/app.3f2a9c1b.js",
                "/assets/index-Bq3xK9zQ.js",
                "/a/app-3F2A9C1B.js",
                "/3f2a9c1b.js",
                "/chunk.0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.mjs",
                "/x-aB3_aB3_aB3_aB3_aB3_22.js",
            ],
        );
        check(true, "text/css", &["/site.min-0a1b2c3d.css"]);
        check(true, "font/woff2", &["/inter-1a2b3c4d.woff2"]);
        check(true, "image/svg+xml", &["/logo.deadbee1.svg"]);
        check(true, "application/wasm", &["/core-1a2b3c4d5e.wasm"]);
        check(true, "application/json", &["/app.3f2a9c1b.js.map", "/app-3f2a9c1b.map"]);
    }

    #[test]
    fn names_that_may_mean_other_content_tomorrow() {
        check(false, "text/html", &["/app.3f2a9c1b.html"]);
        check(false, "application/json", &["/app.3f2a9c1b.json", "/3f2a9c1b"]);
        check(
            false,
            "image/jpeg",
            &[
                "/photo-20240131.jpg",  // digits only
                "/effaced-defaced.jpg", // letters only, and 7
                "/decade-facade8.jpg",  // 7
                "/defacedd.jpg",        // letters only
                "/img-summertime.jpg",
                "/IMG-Holiday2.jpg.jpg",
            ],
        );
        check(
            false,
            "text/javascript",
            &[
                "/app.js",
                "/jquery-3.7.1.js",
                "/app.3f2a9c1b.min.js",
                "/app-3f2a9c1.js",
                "/x-aB3_aB3_aB3_aB3_aB3_aB3.js", // 23
                "/index-DiwrgTda.js",            // no digit
                "/js",
                "/",
            ],
        );
    }

    /// The boundaries of the lengths: 8 and 64 hexadecimal digits, 8 and 22 characters.
    #[test]
    fn lengths() {
        let name = |part: String| format!("/x.{part}.css").into_bytes();
        for (length, expected) in [(7, false), (8, true), (64, true), (65, false)] {
            let part = format!("{}1", "a".repeat(length - 1));
            assert_eq!(is_fingerprinted(&name(part), "text/css"), expected, "{length} hex");
        }
        for (length, expected) in [(7, false), (8, true), (22, true), (23, false)] {
            let part = format!("{}Z1", "z".repeat(length - 2));
            assert_eq!(is_fingerprinted(&name(part), "text/css"), expected, "{length} base64url");
        }
    }
}
