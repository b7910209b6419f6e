//! Converts a URL and headers into the head of the request that a client would send.

use crate::directive_value_parsers::http_values;
use crate::failure::Failure;
use crate::terminal::shown;
use pinion_http::host;
use pinion_http::reserved_fields::{FieldUses, is_reserved};
use serde::{Deserialize, Serialize};

/// The host of a request for a path alone.
const LOCAL_HOST: &str = "localhost";

/// A request to explain, as a control request carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExplainRequest {
    /// The URL, or only a path.
    pub(crate) url: String,
    #[serde(default = "get")]
    pub(crate) method: String,
    /// Further headers. `Host` replaces the host of the URL.
    #[serde(default)]
    pub(crate) headers: Vec<RequestHeader>,
}

/// A header of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestHeader {
    pub(crate) name: String,
    pub(crate) value: String,
}

fn get() -> String {
    "GET".to_owned()
}

impl ExplainRequest {
    /// Makes a request that [`WhyRequest::received`] reads as this one.
    pub(crate) fn new(request: &WhyRequest, method: &str, headers: &[(String, String)]) -> Self {
        let header = |(name, value): &(String, String)| RequestHeader {
            name: name.clone(),
            value: value.clone(),
        };
        Self {
            url: request.given_url().to_owned(),
            method: method.to_owned(),
            headers: headers.iter().map(header).collect(),
        }
    }
}

/// A request, as a client sends it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WhyRequest {
    /// Its URL.
    pub(crate) url: String,
    /// Its path and query.
    target: String,
    /// The scheme is `https`.
    pub(crate) is_secured: bool,
    /// The port that the client connects to.
    pub(crate) port: u16,
    /// Whether the URL names a host, rather than only a path.
    pub(crate) names_host: bool,
    /// The head, in the form of HTTP/1.1.
    pub(crate) head: Vec<u8>,
}

/// The parts of a URL.
struct Url<'u> {
    scheme: &'static str,
    /// `None` for a path alone.
    authority: Option<&'u str>,
    /// The URL from the path on, without a fragment.
    target: &'u [u8],
}

impl WhyRequest {
    /// Makes the head of a request from a URL or a path, a method, and further headers.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the URL is not valid, or a header cannot be explained.
    pub(crate) fn new(
        url: &[u8],
        method: &str,
        headers: &[(String, String)],
    ) -> Result<WhyRequest, Failure> {
        if let Some((name, _)) = headers.iter().find(|(name, _)| is_refused(name)) {
            return Err(Failure::usage(format!(
                "--header: {name} is about the connection or the body of a request; `pinion why` \
                 looks at neither, leave it out"
            )));
        }
        let wrong = |reason: String| Failure::usage(format!("{}: {reason}", shown(url)));
        let Url { scheme, authority, target } = split(url).map_err(wrong)?;
        let is_secured = scheme == "https";
        let own_port = if is_secured { 443 } else { 80 };
        let port = match authority {
            Some(authority) => port(authority).map_err(wrong)?.unwrap_or(own_port),
            None => own_port,
        };
        let target = written(target).map_err(wrong)?;
        let names_host = authority.is_some();
        let authority = authority.unwrap_or(LOCAL_HOST);
        let (hosts, others): (Vec<_>, Vec<_>) =
            headers.iter().partition(|(name, _)| name.eq_ignore_ascii_case("host"));
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        if hosts.is_empty() {
            head += &format!("Host: {authority}\r\n");
        }
        for (name, value) in hosts.into_iter().chain(others) {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let url = format!("{scheme}://{authority}{target}");
        Ok(WhyRequest { url, target, is_secured, port, names_host, head: head.into_bytes() })
    }

    /// Reads a request that a client of the control socket has sent.
    ///
    /// # Errors
    /// The errors of [`Self::new`], and for a method or a header that is not valid.
    pub(crate) fn received(request: &ExplainRequest) -> Result<WhyRequest, Failure> {
        let ExplainRequest { url, method, headers } = request;
        http_values::method(method).map_err(Failure::usage)?;
        let mut valid = Vec::new();
        for RequestHeader { name, value } in headers {
            let line = format!("{name}:{value}");
            let (name, value) = http_values::header(&line).map_err(Failure::usage)?;
            valid.push((name.to_owned(), value.to_owned()));
        }
        Self::new(url.as_bytes(), method, &valid)
    }

    /// Returns the URL, or the path alone if it was given without a host, in ASCII.
    fn given_url(&self) -> &str {
        if self.names_host { &self.url } else { &self.target }
    }
}

fn is_refused(name: &str) -> bool {
    is_reserved(name.as_bytes(), FieldUses::EXPLAINED_REQUEST)
}

/// Splits a URL, or a path alone.
fn split(url: &[u8]) -> Result<Url<'_>, String> {
    let end = url.iter().position(|&byte| byte == b'#').unwrap_or(url.len());
    let url = url.get(..end).unwrap_or_default();
    if url.starts_with(b"/") {
        return Ok(Url { scheme: "http", authority: None, target: url });
    }
    let colon = url.windows(3).position(|bytes| bytes == b"://");
    let Some((scheme, rest)) = colon.and_then(|at| url.split_at_checked(at)) else {
        return Err("is not a URL; write http://example.org/about, or a path such as /about".into());
    };
    let scheme = match scheme {
        scheme if scheme.eq_ignore_ascii_case(b"http") => "http",
        scheme if scheme.eq_ignore_ascii_case(b"https") => "https",
        _ => return Err("has another scheme than http and https".into()),
    };
    let rest = rest.get(3..).unwrap_or_default();
    let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    if authority.contains(&b'@') {
        return Err(
            "has a user name; leave it out, or send it as --header 'Authorization: …'".into()
        );
    }
    if !authority.is_ascii() {
        return Err("has a host that is not ASCII; write it as clients send it, xn--…".into());
    }
    let is_host = !authority.is_empty() && host::split(authority).is_ok();
    match std::str::from_utf8(authority) {
        Ok(authority) if is_host => Ok(Url { scheme, authority: Some(authority), target }),
        _ => Err("has no valid host; write http://example.org/about".into()),
    }
}

/// Returns the port of an authority, if it has one.
fn port(authority: &str) -> Result<Option<u16>, String> {
    let behind = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
    match behind.rsplit_once(':') {
        Some((_, "")) | None => Ok(None),
        Some((_, port)) => match port.parse() {
            Ok(0) | Err(_) => Err(format!("has no valid port: {port}")),
            Ok(port) => Ok(Some(port)),
        },
    }
}

/// Returns a target as a client sends it: bytes that are not ASCII are percent-encoded.
fn written(target: &[u8]) -> Result<String, String> {
    let mut written = if target.starts_with(b"/") { String::new() } else { "/".to_owned() };
    for &byte in target {
        match byte {
            b' ' => return Err("has a space; write %20".into()),
            0..=0x1f | 0x7f => {
                return Err(format!("has a control character; write %{byte:02X}"));
            }
            0x80.. => written += &format!("%{byte:02X}"),
            _ => written.push(char::from(byte)),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, ParsedCommand};
    use crate::settings::Settings;
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt as _;

    fn asked(words: &[&OsStr]) -> Result<WhyRequest, Failure> {
        let words = ["pinion".as_ref(), "why".as_ref()].into_iter().chain(words.iter().copied());
        let asked = command_line::parse(words.map(OsString::from))?;
        let ParsedCommand::Run(low) = asked else { panic!("help") };
        match Settings::from_low(&low)? {
            Settings::Why(why) => WhyRequest::new(why.url.as_bytes(), &why.method, &why.headers),
            other => panic!("{other:?}"),
        }
    }

    fn head(url: impl AsRef<OsStr>) -> String {
        let request = asked(&[url.as_ref()]).expect("a request");
        String::from_utf8(request.head).expect("ASCII")
    }

    #[test]
    fn a_url_becomes_a_request() {
        for (url, line, host) in [
            ("/", "GET / ", "localhost"),
            ("/a?b#c", "GET /a?b ", "localhost"),
            ("//a", "GET //a ", "localhost"),
            ("http://a.org", "GET / ", "a.org"),
            ("HTTP://a.org?q", "GET /?q ", "a.org"),
            ("https://[::1]:8443/a//b", "GET /a//b ", "[::1]:8443"),
            ("http://a.org/../x", "GET /../x ", "a.org"),
            ("http://a.org/\u{fc}", "GET /%C3%BC ", "a.org"),
            ("http://a.org/%zz", "GET /%zz ", "a.org"),
        ] {
            assert_eq!(head(url), format!("{line}HTTP/1.1\r\nHost: {host}\r\n\r\n"), "{url}");
        }
        let bytes = OsStr::from_bytes(b"/\xff");
        assert!(head(bytes).starts_with("GET /%FF "));
    }

    #[test]
    fn the_port_is_that_of_the_scheme_or_of_the_url() {
        for (url, port, is_secured) in [
            ("/", 80, false),
            ("http://a.org:/", 80, false),
            ("https://a.org/", 443, true),
            ("https://[::1]/", 443, true),
            ("https://[::1]:8443/", 8443, true),
        ] {
            let request = asked(&[url.as_ref()]).expect("a request");
            assert_eq!((request.port, request.is_secured), (port, is_secured), "{url}");
        }
    }

    #[test]
    fn a_host_header_replaces_that_of_the_url() {
        let words = ["http://a.org/", "-H", "X: y", "-H", "host: b.org"].map(OsStr::new);
        let request = asked(&words).expect("a request");
        let head = String::from_utf8(request.head).expect("ASCII");
        assert_eq!(head, "GET / HTTP/1.1\r\nhost: b.org\r\nX: y\r\n\r\n");
    }

    /// A command line that a client of the control socket sends is read as the same request.
    #[test]
    fn a_request_that_is_sent_is_the_one_that_was_given() {
        for words in [
            &["/a?b#c"][..],
            &["http://a.org"],
            &["HTTPS://[::1]:8443/\u{fc}", "-X", "PATCH", "-H", "host: b.org", "-H", "A:  b "],
            &["//a", "-H", "Empty:"],
        ] {
            let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
            let ParsedCommand::Run(low) = command_line::parse(
                ["pinion", "why"]
                    .map(OsStr::new)
                    .into_iter()
                    .chain(words.clone())
                    .map(OsString::from),
            )
            .expect("a command line") else {
                panic!("help")
            };
            let Ok(Settings::Why(why)) = Settings::from_low(&low) else { panic!("{words:?}") };
            let given = asked(&words).expect("a request");
            let sent = ExplainRequest::new(&given, &why.method, &why.headers);
            let line = serde_json::to_string(&sent).expect("written");
            let sent = serde_json::from_str(&line).expect("read");
            assert_eq!(WhyRequest::received(&sent).expect("a request"), given, "{line}");
        }
    }

    #[test]
    fn a_request_that_is_no_request_is_refused() {
        let request = |url: &str, method: &str, name: &str, value: &str| ExplainRequest {
            url: url.to_owned(),
            method: method.to_owned(),
            headers: vec![RequestHeader { name: name.to_owned(), value: value.to_owned() }],
        };
        assert!(WhyRequest::received(&request("/", "GET", "A", "b")).is_ok());
        for (request, reason) in [
            (request("a", "GET", "A", "b"), "a: is not a URL"),
            (request("/", "GET / HTTP/1.1\r\nA: b\r\n\r\n", "A", "b"), "is not a method"),
            (request("/", "", "A", "b"), "is not a method"),
            (request("/", "GET", "A\r\nB", "b"), "is not a valid name of a header"),
            (request("/", "GET", "", "b"), "is not a valid name of a header"),
            (request("/", "GET", "A", "b\r\nB: c"), "is not a valid value of a header"),
            (request("/", "GET", "Upgrade", "b"), "is about the connection"),
        ] {
            let refused = WhyRequest::received(&request).expect_err("refused").reason();
            assert!(refused.expect("a reason").contains(reason), "{request:?}");
        }
    }

    #[test]
    fn malformed_urls_are_refused_with_advice() {
        for (url, reason) in [
            ("about", "about: is not a URL; write http://example.org/about, or a path such as"),
            ("example.org/about", "is not a URL"),
            ("ftp://a.org/", "ftp://a.org/: has another scheme than http and https"),
            ("http://", "has no valid host"),
            ("http:///a", "has no valid host"),
            ("http://a b/", "has no valid host"),
            ("http://a.org:0/", "has no valid port: 0"),
            ("http://a.org:99999/", "has no valid"),
            ("http://me@a.org/", "has a user name"),
            ("http://b\u{fc}cher.example/", "has a host that is not ASCII"),
            ("/a b", "/a b: has a space; write %20"),
            ("/a\tb", "/a\\x09b: has a control character; write %09"),
        ] {
            match asked(&[url.as_ref()]) {
                Err(Failure::Usage(message)) => assert!(message.contains(reason), "{message}"),
                other => panic!("{url}: {other:?}"),
            }
        }
        let words = ["/", "-H", "content-length: 3"].map(OsStr::new);
        let refused = asked(&words).expect_err("a body").reason();
        assert!(refused.expect("a reason").contains("content-length is about the connection"));
    }
}
