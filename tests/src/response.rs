//! Strict parsing of responses: input that the standards allow a client to tolerate is an error
//! here.

use crate::protocol::Protocol;
use std::fmt;

/// A complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The protocol over which it was received.
    pub protocol: Protocol,
    /// The status code.
    pub status: u16,
    /// The reason phrase; HTTP/2 and HTTP/3 have none.
    pub reason: String,
    /// The field lines in their order.
    pub fields: Vec<(String, String)>,
    /// The content, without its framing.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the value of a field that may occur once; names match in any case.
    ///
    /// # Panics
    /// Panics if it occurs more than once.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.values(name);
        let first = values.next();
        assert!(values.next().is_none(), "{name} more than once: {self}");
        first
    }

    /// Returns the values of all lines of a field.
    pub fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let named = self.fields.iter().filter(move |(own, _)| own.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Returns the content as text.
    ///
    /// # Panics
    /// Panics if it is not UTF-8.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// Returns whether the server announces that it will close the connection.
    pub fn says_close(&self) -> bool {
        self.values("Connection").any(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Formats the head, for messages.
impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.status, self.reason)?;
        for (name, value) in &self.fields {
            writeln!(f, "{name}: {value}")?;
        }
        write!(f, "({} bytes of content)", self.body.len())
    }
}

/// The framing of the content of a response (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A content of this many bytes.
    Length(usize),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// Everything until the connection ends.
    UntilClose,
}

/// Parses the head at the front of `input`; returns the response without its content, the framing
/// of the content, and the number of bytes of the head. Returns `None` while the head is
/// incomplete.
///
/// # Errors
/// Returns a description of the error.
pub fn parse_head(
    input: &[u8],
    to_head: bool,
    protocol: Protocol,
) -> Result<Option<(Response, Framing, usize)>, String> {
    let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&input[..end]).map_err(|_| "a head that is no text")?;
    let mut lines = head.split("\r\n");
    let (status, reason) = status_line(lines.next().unwrap_or_default())?;
    let fields = lines.map(field_line).collect::<Result<Vec<_>, _>>()?;
    let response = Response { protocol, status, reason, fields, body: Vec::new() };
    let framing = framing(&response, to_head)?;
    Ok(Some((response, framing, end + 4)))
}

/// Returns a response of HTTP/2 or HTTP/3 without its content, from its field section (RFC 9113
/// §8.2, §8.3.2, RFC 9114 §4.2, §4.3.2).
///
/// # Errors
/// Returns a description of the error.
pub fn from_section(
    section: Vec<(Vec<u8>, Vec<u8>)>,
    protocol: Protocol,
) -> Result<Response, String> {
    let mut fields = Vec::new();
    for (name, value) in section {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| "a field that is no text");
        fields.push((text(name)?, text(value)?));
    }
    let status = match fields.first() {
        Some((name, value)) if name == ":status" => status_code(value),
        _ => None,
    };
    let status = status.ok_or_else(|| format!("no status in front: {fields:?}"))?;
    fields.remove(0);
    for (name, value) in &fields {
        let is_right = is_token(name) && !name.bytes().any(|byte| byte.is_ascii_uppercase());
        let is_right = is_right && !value.is_empty() && value.trim() == value;
        if !is_right || checked_text(value).is_err() {
            return Err(format!("a field {name:?}: {value:?}"));
        }
    }
    Ok(Response { protocol, status, reason: String::new(), fields, body: Vec::new() })
}

/// Parses one chunk at the front of `input`; returns its content and its length with the framing.
/// An empty chunk is the last one. Returns `None` while the chunk is incomplete.
///
/// # Errors
/// Returns a description of the error.
pub fn parse_chunk(input: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    let Some(line_end) = input.windows(2).position(|window| window == b"\r\n") else {
        return Ok(None);
    };
    let size = std::str::from_utf8(&input[..line_end]).map_err(|_| "a chunk size")?;
    let size = usize::from_str_radix(size, 16).map_err(|_| format!("a chunk of {size:?} bytes"))?;
    let start = line_end + 2;
    let Some(tail) = input.get(start + size..start + size + 2) else { return Ok(None) };
    if tail != b"\r\n" {
        return Err("a chunk that goes on behind its end".to_owned());
    }
    Ok(Some((&input[start..start + size], start + size + 2)))
}

/// Parses a status line (RFC 9112 §4). By §2.3, a server of HTTP/1.1 sends its own version to every
/// client.
fn status_line(line: &str) -> Result<(u16, String), String> {
    let bad = || format!("a status line {line:?}");
    let rest = line.strip_prefix("HTTP/1.1 ").ok_or_else(bad)?;
    let (status, reason) = rest.split_once(' ').ok_or_else(bad)?;
    let status = status_code(status).ok_or_else(bad)?;
    Ok((status, checked_text(reason)?.to_owned()))
}

fn status_code(text: &str) -> Option<u16> {
    let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Returns whether a name is a token (RFC 9110 §5.6.2).
fn is_token(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

/// Parses a field line (RFC 9112 §5): `field-name ":" OWS field-value OWS`, with exactly one space,
/// as the server sends it.
fn field_line(line: &str) -> Result<(String, String), String> {
    let bad = || format!("a field line {line:?}");
    let (name, value) = line.split_once(": ").ok_or_else(bad)?;
    if !is_token(name) || value.trim() != value || value.is_empty() {
        return Err(bad());
    }
    Ok((name.to_owned(), checked_text(value)?.to_owned()))
}

/// Returns a text without control bytes: no lone CR or LF, no NUL.
fn checked_text(text: &str) -> Result<&str, String> {
    if text.chars().any(char::is_control) {
        Err(format!("control bytes in {text:?}"))
    } else {
        Ok(text)
    }
}

/// Returns the framing by RFC 9112 §6.3, in its order.
fn framing(response: &Response, to_head: bool) -> Result<Framing, String> {
    let lengths: Vec<&str> = response.values("Content-Length").collect();
    let codings: Vec<&str> = response.values("Transfer-Encoding").collect();
    let length = match lengths.as_slice() {
        [] => None,
        [one] if one.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(one.parse::<usize>().map_err(|_| format!("Content-Length: {one}"))?)
        }
        other => return Err(format!("Content-Length: {other:?}")),
    };
    if length.is_some() && !codings.is_empty() {
        return Err("both Content-Length and Transfer-Encoding (RFC 9112 §6.2)".to_owned());
    }
    if to_head || matches!(response.status, 100..200 | 204 | 304) {
        return Ok(Framing::Length(0));
    }
    match (length, codings.as_slice()) {
        (Some(bytes), _) => Ok(Framing::Length(bytes)),
        (None, ["chunked"]) => Ok(Framing::Chunked),
        (None, []) => Ok(Framing::UntilClose),
        (None, other) => Err(format!("Transfer-Encoding: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<(Response, Framing, usize)>, String> {
        parse_head(text.as_bytes(), false, Protocol::Http1)
    }

    #[test]
    fn a_response_head_is_parsed() {
        let text = "HTTP/1.1 200 OK\r\nA: b\r\na: c d\r\nContent-Length: 3\r\n\r\nabc";
        let (response, framing, bytes) = head(text).expect("right").expect("whole");
        assert_eq!((response.status, response.reason.as_str()), (200, "OK"));
        assert_eq!(response.values("A").collect::<Vec<_>>(), ["b", "c d"]);
        assert_eq!((framing, bytes), (Framing::Length(3), text.len() - 3));
        assert_eq!(head("HTTP/1.1 200 OK\r\n\r"), Ok(None));
    }

    #[test]
    fn malformed_response_heads_are_refused() {
        for text in [
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 200\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA:b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA:  b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b \r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
            "HTTP/1.1 200 OK\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        ] {
            assert!(head(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn field_sections_are_parsed_and_malformed_ones_refused() {
        let read = |fields: &[(&str, &str)]| {
            let own = |&(name, value): &(&str, &str)| (name.into(), value.into());
            from_section(fields.iter().map(own).collect(), Protocol::Http2)
        };
        let response = read(&[(":status", "200"), ("a", "b")]).expect("right");
        assert_eq!((response.status, response.field("A")), (200, Some("b")));
        for fields in [
            &[("a", "b")][..],
            &[("a", "b"), (":status", "200")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "+20")],
            &[(":status", "200"), ("A", "b")],
            &[(":status", "200"), ("a b", "c")],
            &[(":status", "200"), ("a", " b")],
            &[(":status", "200"), ("a", "")],
            &[(":status", "200"), ("a", "b\r\nc: d")],
        ] {
            assert!(read(fields).is_err(), "{fields:?}");
        }
    }

    #[test]
    fn responses_to_head_and_304_have_no_content() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        let (_, framing, _) =
            parse_head(text, true, Protocol::Http1).expect("right").expect("whole");
        assert_eq!(framing, Framing::Length(0));
        let (_, framing, _) = head("HTTP/1.1 304 N\r\n\r\n").expect("right").expect("whole");
        assert_eq!(framing, Framing::Length(0));
        let (_, framing, _) = head("HTTP/1.1 200 OK\r\n\r\n").expect("right").expect("whole");
        assert_eq!(framing, Framing::UntilClose);
    }

    #[test]
    fn chunked_content_is_decoded() {
        assert_eq!(parse_chunk(b"3\r\nabc\r\n0"), Ok(Some((&b"abc"[..], 8))));
        assert_eq!(parse_chunk(b"0\r\n\r\n"), Ok(Some((&b""[..], 5))));
        assert_eq!(parse_chunk(b"3\r\nabc\r"), Ok(None));
        assert!(parse_chunk(b"3\r\nabcd\r\n").is_err());
        assert!(parse_chunk(b"x\r\n").is_err());
    }
}
