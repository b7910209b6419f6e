//! Formats a record as a line. Everything that a client sent is escaped, so that it can neither end
//! a line, nor break out of its quotes, nor command the terminal of a person who reads the log.

use super::record::{LogRecord, LoggedPeer, RECORD_MAX_BYTES, Text};
use crate::settings::LogFormat;
use crate::timestamp_format;
use pinion_http::date;
use std::io::Write as _;

/// Makes lines; remembers the last second it has spelled.
#[derive(Debug)]
pub(crate) struct Formatter {
    format: LogFormat,
    /// The second that the two texts below spell.
    second: i64,
    /// `06/Nov/1994:08:49:37 +0000`
    common: [u8; 26],
    /// `1994-11-06T08:49:37`
    iso: [u8; 19],
}

/// The longest line: six bytes for each byte that a client chose (`\u0001`), and our own text.
pub(super) const LINE_MAX_BYTES: usize = 6 * RECORD_MAX_BYTES + 512;

impl Formatter {
    /// Makes the formatter of one log.
    pub(crate) fn new(format: LogFormat) -> Self {
        Self { format, second: 0, common: timestamp_format::common_log(0), iso: date::iso(0) }
    }

    /// Appends one line with its line feed.
    pub(crate) fn line(&mut self, record: &LogRecord<'_>, out: &mut Vec<u8>) {
        let second = record.unix_micros.div_euclid(1_000_000);
        if second != self.second {
            self.common = timestamp_format::common_log(second);
            self.iso = date::iso(second);
            self.second = second;
        }
        match self.format {
            LogFormat::Combined => self.combined(record, out),
            LogFormat::VhostCombined => {
                vhost(record.host, out);
                out.push(b' ');
                self.combined(record, out);
            }
            LogFormat::Json => self.json(record, out),
        }
        out.push(b'\n');
    }

    /// Writes `peer - user [time] "request line" status bytes "referer" "user agent"`.
    fn combined(&self, record: &LogRecord<'_>, out: &mut Vec<u8>) {
        match record.peer {
            LoggedPeer::Ip(peer) => print(out, format_args!("{}", peer.ip())),
            LoggedPeer::Unix => out.extend_from_slice(b"unix:"),
        }
        out.extend_from_slice(b" - ");
        user(record.user, out);
        out.extend_from_slice(b" [");
        out.extend_from_slice(&self.common);
        out.extend_from_slice(b"] \"");
        if record.method.bytes.is_empty() {
            out.push(b'-');
        } else {
            quoted_text(out, record.method);
            out.push(b' ');
            quoted_text(out, record.target);
            if let Some(version) = record.version {
                out.push(b' ');
                out.extend_from_slice(version.as_str().as_bytes());
            }
        }
        print(out, format_args!("\" {} {} ", record.status, record.body_bytes));
        for (field, end) in [(record.referer, b"\" ".as_slice()), (record.user_agent, b"\"")] {
            out.push(b'"');
            if field.bytes.is_empty() {
                out.push(b'-');
            } else {
                quoted_text(out, field);
            }
            out.extend_from_slice(end);
        }
    }

    /// Writes one object; members are added, never renamed or removed.
    fn json(&self, record: &LogRecord<'_>, out: &mut Vec<u8>) {
        let millis = record.unix_micros.rem_euclid(1_000_000) / 1000;
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(&self.iso);
        print(out, format_args!(".{millis:03}Z\",\"peer\":"));
        match record.peer {
            LoggedPeer::Ip(peer) => {
                print(out, format_args!("\"{}\",\"port\":{}", peer.ip(), peer.port()));
            }
            LoggedPeer::Unix => out.extend_from_slice(b"\"unix:\",\"port\":null"),
        }
        member(out, "method", record.method);
        member(out, "host", record.host);
        member(out, "target", record.target);
        match record.version {
            Some(version) => print(out, format_args!(",\"version\":\"{}\"", version.as_str())),
            None => out.extend_from_slice(b",\"version\":null"),
        }
        print(
            out,
            format_args!(
                ",\"status\":{},\"bytes\":{},\"cut\":{},\"duration_us\":{}",
                record.status, record.body_bytes, record.cut, record.duration_micros
            ),
        );
        member(out, "referer", record.referer);
        member(out, "user_agent", record.user_agent);
        for (name, text) in [("user", record.user), ("request_id", record.request_id)] {
            if !text.bytes.is_empty() {
                member(out, name, text);
            }
        }
        out.push(b'}');
    }
}

/// Writes the host that a request is for, in lower case and without its port, or `-`. A host from a
/// client may contain spaces, which would be more columns: they are escaped as well.
fn vhost(host: Text<'_>, out: &mut Vec<u8>) {
    let end = match host.bytes.iter().rposition(|byte| *byte == b':') {
        Some(colon) if host.bytes[colon + 1..].iter().all(u8::is_ascii_digit) => colon,
        _ => host.bytes.len(),
    };
    let name = &host.bytes[..end];
    if name.is_empty() {
        out.push(b'-');
    }
    for &byte in name {
        match byte.to_ascii_lowercase() {
            byte @ (b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'[' | b']' | b':') => {
                out.push(byte);
            }
            _ => print(out, format_args!("\\x{byte:02X}")),
        }
    }
}

/// Writes the user whose password was verified, or `-`. A name may have spaces and quotes, and may
/// be a hyphen: all of it that is not a letter, a digit or one of a few signs is escaped.
fn user(name: Text<'_>, out: &mut Vec<u8>) {
    if name.bytes.is_empty() {
        out.push(b'-');
    }
    for &byte in name.bytes {
        match byte {
            b'-' if name.bytes.len() == 1 => print(out, format_args!("\\x2D")),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'@' | b'+' => {
                out.push(byte);
            }
            _ => print(out, format_args!("\\x{byte:02X}")),
        }
    }
}

fn print(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // Writing to a Vec never fails.
    let _infallible = out.write_fmt(arguments);
}

/// Writes the inside of a quoted string of the combined format: quotes and backslashes get a
/// backslash, bytes that are not visible ASCII become `\xHH`.
fn quoted_text(out: &mut Vec<u8>, text: Text<'_>) {
    for &byte in text.bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => print(out, format_args!("\\x{byte:02X}")),
        }
    }
    if text.cut {
        out.extend_from_slice(b"...");
    }
}

/// Writes `,"name":"text"`, or null for an empty text. Bytes that are not UTF-8 become U+FFFD.
fn member(out: &mut Vec<u8>, name: &str, text: Text<'_>) {
    print(out, format_args!(",\"{name}\":"));
    if text.bytes.is_empty() {
        out.extend_from_slice(b"null");
        return;
    }
    out.push(b'"');
    for chunk in text.bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                // JSON asks for those below U+0020 only; a terminal obeys the others too.
                c if c.is_control() => print(out, format_args!("\\u{:04x}", u32::from(c))),
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
    if text.cut {
        out.extend_from_slice("…".as_bytes());
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::record::example;
    use super::*;

    fn line(format: LogFormat, record: &LogRecord<'_>) -> String {
        let mut out = Vec::new();
        Formatter::new(format).line(record, &mut out);
        String::from_utf8(out).expect("lines are UTF-8 whatever came in")
    }

    fn hostile() -> LogRecord<'static> {
        LogRecord {
            method: Text::from(&b"G\"ET"[..]),
            target: Text::from(&b"/\" 200 0\n127.0.0.1 - - \\x41\xff\x9b\x1b[2J"[..]),
            referer: Text { bytes: "ü\u{85}".as_bytes(), cut: true },
            user_agent: Text::from(&b"\",\"status\":200,\"x\":\"\0\x7f"[..]),
            ..example()
        }
    }

    #[test]
    fn a_combined_line() {
        assert_eq!(
            line(LogFormat::Combined, &example()),
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=c HTTP/1.1\" 200 13 \
             \"https://example.org/\" \"curl/8\"\n"
        );
    }

    #[test]
    fn a_combined_line_with_its_host() {
        for (host, shown) in [
            (&b"localhost:8080"[..], "localhost"),
            (b"Example.ORG", "example.org"),
            (b"[::1]:8080", "[::1]"),
            (b"[::1]", "[::1]"),
            (b":80", "-"),
            (b"", "-"),
            (b"a b\n\"c", "a\\x20b\\x0A\\x22c"),
        ] {
            let record = LogRecord { host: Text::from(host), ..example() };
            let expected = format!("{shown} {}", line(LogFormat::Combined, &example()));
            assert_eq!(line(LogFormat::VhostCombined, &record), expected);
        }
    }

    #[test]
    fn a_user_is_an_escaped_column_and_a_json_member() {
        for (user, shown) in [
            (&b"ann"[..], "ann"),
            (b"ann@a.test", "ann@a.test"),
            (b"a b\n\"\\c", "a\\x20b\\x0A\\x22\\x5Cc"),
            ("\u{fc}".as_bytes(), "\\xC3\\xBC"),
            (b"-", "\\x2D"),
        ] {
            let id = Text::from(&b"7f"[..]);
            let record = LogRecord { user: Text::from(user), request_id: id, ..example() };
            let line = line(LogFormat::Combined, &record);
            assert!(line.starts_with(&format!("192.0.2.7 - {shown} [")), "{line}");
            let line = self::line(LogFormat::Json, &record);
            let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(value["user"], String::from_utf8_lossy(user).into_owned());
            assert_eq!(value["request_id"], "7f");
        }
    }

    #[test]
    fn missing_values_are_hyphens() {
        let none = Text::from(&b""[..]);
        let record = LogRecord {
            peer: LoggedPeer::Unix,
            version: None,
            status: 400,
            method: none,
            target: none,
            host: none,
            referer: none,
            user_agent: none,
            ..example()
        };
        assert_eq!(
            line(LogFormat::Combined, &record),
            "unix: - - [06/Nov/1994:08:49:37 +0000] \"-\" 400 13 \"-\" \"-\"\n"
        );
    }

    #[test]
    fn a_json_line() {
        let line = line(LogFormat::Json, &example());
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            value,
            serde_json::json!({
                "time": "1994-11-06T08:49:37.123Z", "peer": "192.0.2.7", "port": 50123,
                "method": "GET", "host": "localhost:8080", "target": "/a?b=c",
                "version": "HTTP/1.1", "status": 200, "bytes": 13, "cut": false,
                "duration_us": 42, "referer": "https://example.org/", "user_agent": "curl/8",
            })
        );
    }

    #[test]
    fn no_line_is_longer_than_the_longest() {
        for byte in [0x01, b'"', 0x85, 0xff] {
            let most = |bytes| Text { bytes: vec![byte; bytes].leak(), cut: true };
            // As long as the binary form keeps them.
            let longest = LogRecord {
                method: most(20),
                target: most(2048),
                host: most(260),
                referer: most(512),
                user_agent: most(512),
                user: most(254),
                request_id: most(64),
                peer: LoggedPeer::Ip(
                    "[2001:db8:1111:2222:3333:4444:5555:6666]:50123".parse().expect("it"),
                ),
                body_bytes: u64::MAX,
                duration_micros: u32::MAX,
                ..example()
            };
            assert_eq!(longest.encoded_bytes(), RECORD_MAX_BYTES);
            for format in [LogFormat::Combined, LogFormat::VhostCombined, LogFormat::Json] {
                assert!(line(format, &longest).len() <= LINE_MAX_BYTES, "{byte} {format:?}");
            }
        }
    }

    #[test]
    fn hostile_values_are_escaped_within_quotes() {
        assert_eq!(
            line(LogFormat::Combined, &hostile()),
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \
             \"G\\\"ET /\\\" 200 0\\x0A127.0.0.1 - - \\\\x41\\xFF\\x9B\\x1B[2J HTTP/1.1\" 200 13 \
             \"\\xC3\\xBC\\xC2\\x85...\" \"\\\",\\\"status\\\":200,\\\"x\\\":\\\"\\x00\\x7F\"\n"
        );
    }

    #[test]
    fn hostile_values_are_escaped_within_their_json_member() {
        let line = line(LogFormat::Json, &hostile());
        assert!(!line.trim_end().contains(char::is_control), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(value["status"], 200);
        assert_eq!(value["user_agent"], "\",\"status\":200,\"x\":\"\0\x7f");
        assert_eq!(value["referer"], "ü\u{85}…");
        assert_eq!(value["target"], "/\" 200 0\n127.0.0.1 - - \\x41\u{fffd}\u{fffd}\u{1b}[2J");
        assert!(value.get("x").is_none());
    }

    #[test]
    fn the_cached_timestamp_follows_the_records() {
        let mut formatter = Formatter::new(LogFormat::Json);
        let mut out = Vec::new();
        for unix_micros in [-1, 0, 951_782_400_000_000, 1_000_000] {
            formatter.line(&LogRecord { unix_micros, ..example() }, &mut out);
        }
        let text = String::from_utf8(out).expect("UTF-8");
        let times: Vec<&str> = text.lines().map(|line| &line[9..33]).collect();
        assert_eq!(
            times,
            [
                "1969-12-31T23:59:59.999Z",
                "1970-01-01T00:00:00.000Z",
                "2000-02-29T00:00:00.000Z",
                "1970-01-01T00:00:01.000Z"
            ]
        );
    }
}
