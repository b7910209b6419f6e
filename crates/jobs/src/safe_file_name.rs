//! Turns the names of uploaded files into safe file names.

use crate::limits::FILE_NAME_MAX_BYTES;

/// The result for a name in which no character is allowed.
const UNNAMED: &str = "unnamed";

/// Returns the last component of a name that may be a path, without characters that have a meaning
/// to systems or hide the type of the file: control characters, marks that turn the direction of
/// text, dots at the front (hidden files, `.` and `..`), spaces at either end. It is UTF-8, never
/// empty, and has at most [`FILE_NAME_MAX_BYTES`].
#[must_use]
pub fn safe(sent: &[u8]) -> String {
    let text = String::from_utf8_lossy(sent);
    let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = last.chars().filter(|&c| !c.is_control() && !turns(c)).collect();
    let clean = clean.trim_start_matches(|c: char| c == '.' || c.is_whitespace()).trim_end();
    let mut end = clean.len().min(FILE_NAME_MAX_BYTES);
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    match clean[..end].trim_end() {
        "" => UNNAMED.to_owned(),
        name => name.to_owned(),
    }
}

/// Returns whether a character turns the direction of text, so that `exe.txt` reads as `txt.exe`.
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn harmful_parts_of_file_names_are_removed() {
        for (sent, name) in [
            ("photo.jpg", "photo.jpg"),
            ("ä ö.txt", "ä ö.txt"),
            ("../x", "x"),
            ("../../etc/passwd", "passwd"),
            ("/etc/passwd", "passwd"),
            (r"C:\dir\x.txt", "x.txt"),
            (r"a/b\c/d", "d"),
            ("a\0b\r\n\u{7f}\u{85}.txt", "ab.txt"),
            (".bashrc", "bashrc"),
            (".\0./x.\0", "x."),
            (". .x", "x"),
            ("\0.htaccess", "htaccess"),
            (" x ", "x"),
            ("a\u{202e}txt.exe", "atxt.exe"),
            ("", UNNAMED),
            (".", UNNAMED),
            ("..", UNNAMED),
            ("dir/", UNNAMED),
            ("\0", UNNAMED),
        ] {
            assert_eq!(safe(sent.as_bytes()), name, "{sent:?}");
        }
        assert_eq!(safe(b"\xff.txt"), "\u{fffd}.txt");
        assert_eq!(safe("ä".repeat(1000).as_bytes()).len(), FILE_NAME_MAX_BYTES);
    }

    proptest! {
        #[test]
        fn any_safe_file_name_is_harmless(sent in "[./\\\\a \0\n\u{202e}\u{e4}]{0,300}") {
            let name = safe(sent.as_bytes());
            prop_assert!(!name.is_empty() && name.len() <= FILE_NAME_MAX_BYTES);
            let has_harm = name.contains(['/', '\\', '\u{202e}']);
            prop_assert!(!has_harm);
            prop_assert!(!name.contains(char::is_control) && !name.starts_with('.'));
            // A safe name stays unchanged.
            prop_assert_eq!(safe(name.as_bytes()), name);
        }
    }
}
