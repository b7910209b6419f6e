//! Versions of other servers, as their programs print them.

use std::path::Path;
use std::process::Command;

/// Returns the lines that `program` prints when it is started with `flag`, on either stream.
/// Returns `None` when it cannot be started.
pub(crate) fn printed(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    Some(text.concat())
}

/// Returns the version in one line: the first line that has a digit, and the TLS library if the
/// program names it.
pub(crate) fn summary(printed: &str) -> Option<String> {
    let has_digit = |line: &&str| line.bytes().any(|byte| byte.is_ascii_digit());
    let mut lines = printed.lines().filter(has_digit).map(|line| line.trim_matches([' ', '*']));
    let first = lines.next()?;
    let library = lines.find(|line| line.contains("OpenSSL"));
    Some(library.map_or_else(|| first.to_owned(), |library| format!("{first}, {library}")))
}

/// Returns the first version of a line, `1.30.6` for `nginx/1.30.6 (Debian)`. A commit after an `@`
/// belongs to it.
pub(crate) fn number(line: &str) -> Option<&str> {
    line.split([' ', ',', '/', ':']).find_map(|word| {
        let word = word.strip_prefix('v').unwrap_or(word);
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let number = word[..end].trim_end_matches('.');
        let is_number = number.starts_with(|c: char| c.is_ascii_digit()) && number.contains('.');
        is_number.then_some(if word.contains('@') { word } else { number })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_numbers_are_found_in_every_format() {
        for (line, expected) in [
            ("nginx version: nginx/1.22.1", Some("1.22.1")),
            ("HAProxy version 3.2.26-1 2026/10/14 - https://haproxy.org/", Some("3.2.26")),
            ("lighttpd/1.4.85 (ssl) - a light and fast webserver", Some("1.4.85")),
            ("v2.11.7 h1:abc=", Some("2.11.7")),
            ("2.6.2", Some("2.6.2")),
            ("h2o version 2.3.0-DEV@edd7a120b, OpenSSL", Some("2.3.0-DEV@edd7a120b")),
            ("of 2026", None),
            ("unknown", None),
        ] {
            assert_eq!(number(line), expected, "{line}");
        }
    }

    #[test]
    fn a_version_summary_is_the_first_line_with_a_digit_and_tls_library() {
        let nginx = "nginx version: nginx/1.30.6\nbuilt by gcc 16\nbuilt with OpenSSL 3.6.5\n";
        let expected = "nginx version: nginx/1.30.6, built with OpenSSL 3.6.5";
        assert_eq!(summary(nginx).as_deref(), Some(expected));
        let lighttpd = "lighttpd/1.4.85 (ssl)\n\t+ OpenSSL support\n";
        assert_eq!(summary(lighttpd).as_deref(), Some("lighttpd/1.4.85 (ssl)"));
        assert_eq!(summary("** kawipiko **\n* version 1 *\n").as_deref(), Some("version 1"));
        assert_eq!(summary("none\n"), None);
    }

    #[test]
    fn a_missing_program_has_no_version() {
        assert_eq!(printed(Path::new("/no/such/program"), "-v"), None);
    }
}
