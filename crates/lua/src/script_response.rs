//! A response as a script makes it: status and fields, until they are sent.

use std::borrow::Cow;

use pinion_http::grammar::{hex_digit, is_token, is_value_byte};
use pinion_http::request_target;
use pinion_http::reserved_fields::{FieldUses, is_reserved};
use pinion_http::status::{StatusContent, status_content};

use crate::limits::RESPONSE_FIELDS_MAX_BYTES;

/// Status and field lines of a response, reused between requests.
#[derive(Debug)]
pub(crate) struct ScriptResponse {
    pub(crate) status: u16,
    /// Whole lines, as HTTP/1.1 writes them.
    lines: Vec<u8>,
    has_type: bool,
}

impl Default for ScriptResponse {
    fn default() -> Self {
        Self { status: 200, lines: Vec::new(), has_type: false }
    }
}

/// The default type of a response: no browser runs text as a program.
const TYPE: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n";

/// The field of errors, so that no cache serves an error that is over.
const NEVER_CACHED: &[u8] = b"Cache-Control: no-store\r\n";

impl ScriptResponse {
    /// Resets the response to its initial state.
    pub(crate) fn clear(&mut self) {
        self.status = 200;
        self.lines.clear();
        self.has_type = false;
    }

    /// Returns whether the script has set the type of the content.
    pub(crate) fn has_type(&self) -> bool {
        self.has_type
    }

    /// Returns whether the script has set a field.
    pub(crate) fn has_fields(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Returns whether the content is an HTML page that a browser shows as it was written.
    pub(crate) fn is_page(&self) -> bool {
        let is_html = |line: &[u8]| {
            let value = line.split(|&byte| byte == b':' || byte == b';').nth(1);
            value.is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(b"text/html"))
        };
        let has_type = |line| is_named(line, b"content-type") && is_html(line);
        let others: [&[u8]; 2] = [b"content-disposition", b"content-encoding"];
        lines(&self.lines).any(has_type) && !others.iter().any(|name| has_field(&self.lines, name))
    }

    /// Adds a field; `is_only` replaces all fields of its name.
    ///
    /// # Errors
    /// Returns the error of the field, and its correction.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], is_only: bool) -> Result<(), String> {
        let shown = || String::from_utf8_lossy(name).into_owned();
        if !is_token(name) {
            return Err(format!("{:?} is not a valid name of a header", shown()));
        }
        if is_reserved(name, FieldUses::SCRIPT) {
            return Err(format!("the server sets the header {} itself; do not set it", shown()));
        }
        if !value.iter().copied().all(is_value_byte) {
            return Err(format!(
                "the value of the header {} has a line break or another control character; encode \
                 it first",
                shown()
            ));
        }
        let value = &*with_valid_uri(name, value);
        if is_only {
            self.remove(name);
        }
        if self.lines.len() + name.len() + value.len() + 4 > RESPONSE_FIELDS_MAX_BYTES {
            return Err(format!(
                "the headers of a response have at most {RESPONSE_FIELDS_MAX_BYTES} bytes; set \
                 fewer or shorter ones"
            ));
        }
        self.has_type |= name.eq_ignore_ascii_case(b"content-type");
        for part in [name, b": ", value, b"\r\n"] {
            self.lines.extend_from_slice(part);
        }
        Ok(())
    }

    /// Sets the status.
    ///
    /// # Errors
    /// Returns an error as [`Self::field`] does.
    pub(crate) fn set_status(&mut self, status: f64) -> Result<(), String> {
        if !(200.0..600.0).contains(&status) || status.fract() != 0.0 {
            return Err(format!(
                "{status} is not a status of a response; use a number from 200 to 599"
            ));
        }
        self.status = status as u16;
        Ok(())
    }

    /// Removes the lines of a name.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        if !has_field(&self.lines, name) {
            return;
        }
        let mut kept = Vec::with_capacity(self.lines.len());
        for line in lines(&self.lines).filter(|line| !is_named(line, name)) {
            kept.extend_from_slice(line);
        }
        self.lines = kept;
        self.has_type &= !name.eq_ignore_ascii_case(b"content-type");
    }

    /// Removes the lines that set or delete a cookie.
    pub(crate) fn remove_cookie(&mut self, name: &[u8]) {
        let is_of_cookie = |line: &[u8]| {
            let value =
                line.get(b"Set-Cookie: ".len()..).and_then(|value| value.strip_prefix(name));
            is_named(line, b"set-cookie") && value.is_some_and(|rest| rest.starts_with(b"="))
        };
        if lines(&self.lines).any(is_of_cookie) {
            let kept: Vec<_> = lines(&self.lines).filter(|line| !is_of_cookie(line)).collect();
            self.lines = kept.concat();
        }
    }

    /// Returns the value of the first field of a name.
    pub(crate) fn value(&self, name: &[u8]) -> Option<Vec<u8>> {
        let line = lines(&self.lines).find(|line| is_named(line, name))?;
        line.get(name.len() + 1..).map(|value| value.trim_ascii().to_vec())
    }

    /// Writes all lines of the head: the defaults of the site, unless the script has replaced them,
    /// and the lines of the script.
    pub(crate) fn head_lines(&self, defaults: &[u8], into: &mut Vec<u8>) {
        into.clear();
        if !self.has_type && status_content(self.status) == StatusContent::Any {
            into.extend_from_slice(TYPE);
        }
        if self.status >= 400 && !has_field(&self.lines, b"cache-control") {
            into.extend_from_slice(NEVER_CACHED);
        }
        if self.lines.is_empty() {
            into.extend_from_slice(defaults);
            return;
        }
        for line in lines(defaults) {
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
            if !has_field(&self.lines, name) {
                into.extend_from_slice(line);
            }
        }
        into.extend_from_slice(&self.lines);
    }
}

/// Returns the value of a field that contains a URI, with all characters percent-encoded that are
/// not allowed in one (RFC 3986 §2), so that clients of any language read the same. Existing
/// escapes stay.
fn with_valid_uri<'v>(name: &[u8], value: &'v [u8]) -> Cow<'v, [u8]> {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let (mut from, mut to) = (0, value.len());
    if is("refresh") {
        // `5; url=/there`: the URI follows the `=`.
        let Some(at) = memchr::memchr(b'=', value) else { return Cow::Borrowed(value) };
        from = at + 1;
    } else if is("link") {
        return with_valid_links(value);
    } else if !is("location") && !is("content-location") {
        return Cow::Borrowed(value);
    }
    // A value has white space at neither end, and some have quotes around the URI.
    let is_around = |byte: &u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'');
    from += value[from..].iter().take_while(|byte| is_around(byte)).count();
    to -= value[from..].iter().rev().take_while(|byte| is_around(byte)).count();
    let mut out = value[..from].to_vec();
    escape_uri(&value[from..to], &mut out);
    out.extend_from_slice(&value[to..]);
    if out == value { Cow::Borrowed(value) } else { Cow::Owned(out) }
}

/// Does this for `Link`, whose URIs stand between `<` and `>` (RFC 8288 §3).
fn with_valid_links(value: &[u8]) -> Cow<'_, [u8]> {
    let (mut out, mut rest) = (Vec::with_capacity(value.len()), value);
    while let Some(at) = memchr::memchr(b'<', rest) {
        let behind = &rest[at + 1..];
        let Some(length) = memchr::memchr(b'>', behind) else { break };
        out.extend_from_slice(&rest[..=at]);
        escape_uri(&behind[..length], &mut out);
        rest = &behind[length..];
    }
    out.extend_from_slice(rest);
    if out == value { Cow::Borrowed(value) } else { Cow::Owned(out) }
}

fn escape_uri(text: &[u8], out: &mut Vec<u8>) {
    for (at, &byte) in text.iter().enumerate() {
        let is_escape = |digits: &[u8]| digits.iter().all(|digit| hex_digit(*digit).is_some());
        let is_kept = match byte {
            b'%' => text.get(at + 1..at + 3).is_some_and(is_escape),
            _ => byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte),
        };
        if is_kept {
            out.push(byte);
        } else {
            request_target::escape(out, [byte].into_iter(), |_| false);
        }
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
}

fn is_named(line: &[u8], name: &[u8]) -> bool {
    line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name)
}

fn has_field(text: &[u8], name: &[u8]) -> bool {
    lines(text).any(|line| is_named(line, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(response: &ScriptResponse, defaults: &str) -> String {
        let mut lines = Vec::new();
        response.head_lines(defaults.as_bytes(), &mut lines);
        String::from_utf8(lines).expect("text")
    }

    #[test]
    fn fields_of_the_script_replace_those_of_the_site() {
        let mut response = ScriptResponse::default();
        assert_eq!(
            head(&response, "A: 1\r\nB: 2\r\n"),
            "Content-Type: text/plain; charset=utf-8\r\nA: 1\r\nB: 2\r\n"
        );
        response.field(b"content-type", b"text/html", true).expect("fine");
        response.field(b"a", b"3", true).expect("fine");
        response.field(b"Set-Cookie", b"x=1", false).expect("fine");
        response.field(b"Set-Cookie", b"y=2", false).expect("fine");
        assert_eq!(
            head(&response, "A: 1\r\nB: 2\r\n"),
            "B: 2\r\ncontent-type: text/html\r\na: 3\r\nSet-Cookie: x=1\r\nSet-Cookie: y=2\r\n"
        );
        response.field(b"A", b"4", true).expect("fine");
        response.remove(b"set-cookie");
        response.remove(b"Content-Type");
        assert_eq!(head(&response, ""), "Content-Type: text/plain; charset=utf-8\r\nA: 4\r\n");
        response.clear();
        response.set_status(204.0).expect("fine");
        assert_eq!(head(&response, "A: 1\r\n"), "A: 1\r\n");
    }

    #[test]
    fn only_uncoded_inline_html_is_a_page() {
        for (fields, expected) in [
            (&[][..], false),
            (&[("Content-Type", "text/html")], true),
            (&[("content-type", "TEXT/HTML; charset=utf-8")], true),
            (&[("content-type", "text/htmlx")], false),
            (&[("content-type", "text/plain; a=text/html")], false),
            (&[("content-type", "text/html"), ("Content-Encoding", "br")], false),
            (&[("content-type", "text/html"), ("Content-Disposition", "attachment")], false),
        ] {
            let mut response = ScriptResponse::default();
            for (name, value) in fields {
                response.field(name.as_bytes(), value.as_bytes(), true).expect(value);
            }
            assert_eq!(response.is_page(), expected, "{fields:?}");
        }
    }

    #[test]
    fn error_responses_are_not_cached_by_default() {
        let mut response = ScriptResponse::default();
        response.set_status(404.0).expect("fine");
        assert!(head(&response, "").ends_with("\r\nCache-Control: no-store\r\n"));
        response.field(b"cache-control", b"max-age=5", true).expect("fine");
        assert!(head(&response, "").ends_with("utf-8\r\ncache-control: max-age=5\r\n"));
    }

    #[test]
    fn fields_with_line_breaks_and_framing_fields_are_refused() {
        let mut response = ScriptResponse::default();
        for (name, value) in [
            ("X", "a\r\nSet-Cookie: b=c"),
            ("X", "a\nb"),
            ("X", "a\rb"),
            ("X", "a\0b"),
            ("X: Y", "a"),
            ("X\r\n", "a"),
            ("", "a"),
            ("Content-Length", "5"),
            ("transfer-encoding", "chunked"),
            ("CONNECTION", "close"),
            ("Date", "now"),
        ] {
            response.field(name.as_bytes(), value.as_bytes(), true).expect_err(name);
        }
        let long = vec![b'x'; RESPONSE_FIELDS_MAX_BYTES];
        response.field(b"X", &long, true).expect_err("too long");
        for status in [100.0, 101.0, 199.0, 600.0, 200.5, f64::NAN, f64::INFINITY, -200.0] {
            response.set_status(status).expect_err("no status");
        }
        assert_eq!(head(&response, ""), "Content-Type: text/plain; charset=utf-8\r\n");
    }

    #[test]
    fn uris_in_response_fields_are_percent_encoded() {
        for (name, value, expected) in [
            ("Location", "/straße?q=ä b", "/stra%C3%9Fe?q=%C3%A4%20b"),
            ("location", "https://example.org/a%20b#c[1]", "https://example.org/a%20b#c[1]"),
            ("Location", "/100%/a%2", "/100%25/a%252"),
            ("Location", "/<a>\"{b}|\\^`", "/%3Ca%3E%22%7Bb%7D%7C%5C%5E%60"),
            ("Refresh", "5", "5"),
            ("Refresh", "5; url=/ü b", "5; url=/%C3%BC%20b"),
            ("Refresh", "0;URL='/a b'", "0;URL='/a%20b'"),
            ("Link", "</ä>; rel=preload; title=\"ä b\"", "</%C3%A4>; rel=preload; title=\"ä b\""),
            ("Link", "</a b>; rel=next, </c>; rel=prev", "</a%20b>; rel=next, </c>; rel=prev"),
            ("Link", "no link <", "no link <"),
            ("X-Text", "ä b", "ä b"),
        ] {
            let mut response = ScriptResponse::default();
            response.field(name.as_bytes(), value.as_bytes(), true).expect(value);
            assert!(head(&response, "").ends_with(&format!("{name}: {expected}\r\n")), "{value}");
        }
    }
}
