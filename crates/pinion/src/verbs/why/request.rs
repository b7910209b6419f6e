//! A URL and headers → the head of the request that a client would send.

use crate::failure::Failure;
use crate::settings::Why;
use crate::terminal::shown;
use pinion_http::host;
use std::os::unix::ffi::OsStrExt as _;

/// Headers about the connection or about the body of a request, which a look at a response has
/// none of.
const REFUSED: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The host of a request for a path alone.
const LOCAL_HOST: &str = "localhost";

/// A request, as a client sends it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WhyRequest {
    /// Its URL.
    pub(super) url: String,
    /// The scheme is `https`.
    pub(super) is_secured: bool,
    /// The port that the client connects to.
    pub(super) port: u16,
    /// Whether the URL names a host, rather than only a path.
    pub(super) names_host: bool,
    /// The head, in the form of HTTP/1.1.
    pub(super) head: Vec<u8>,
}

/// The parts of a URL.
struct Url<'u> {
    scheme: &'static str,
    /// None for a path alone.
    authority: Option<&'u str>,
    /// From the path on, without a fragment.
    target: &'u [u8],
}

impl WhyRequest {
    /// Makes the head of a request.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the URL is none, or a header cannot be explained.
    pub(super) fn new(why: &Why) -> Result<WhyRequest, Failure> {
        if let Some((name, _)) = why.headers.iter().find(|(name, _)| is_refused(name)) {
            return Err(Failure::usage(format!(
                "--header: {name} is about the connection or the body of a request; `pinion why` \
                 looks at neither, leave it out"
            )));
        }
        let wrong = |reason: String| Failure::usage(format!("{}: {reason}", shown_url(why)));
        let Url { scheme, authority, target } = split(why.url.as_bytes()).map_err(wrong)?;
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
            why.headers.iter().partition(|(name, _)| name.eq_ignore_ascii_case("host"));
        let mut head = format!("{} {target} HTTP/1.1\r\n", why.method);
        if hosts.is_empty() {
            head += &format!("Host: {authority}\r\n");
        }
        for (name, value) in hosts.into_iter().chain(others) {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let url = format!("{scheme}://{authority}{target}");
        Ok(WhyRequest { url, is_secured, port, names_host, head: head.into_bytes() })
    }
}

fn is_refused(name: &str) -> bool {
    REFUSED.iter().any(|refused| name.eq_ignore_ascii_case(refused))
}

fn shown_url(why: &Why) -> String {
    shown(why.url.as_bytes())
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
    use crate::command_line::{self, Asked};
    use crate::settings::Settings;
    use std::ffi::{OsStr, OsString};

    fn asked(words: &[&OsStr]) -> Result<WhyRequest, Failure> {
        let words = ["pinion".as_ref(), "why".as_ref()].into_iter().chain(words.iter().copied());
        let asked = command_line::parse(words.map(OsString::from))?;
        let Asked::Run(low) = asked else { panic!("help") };
        match Settings::from_low(&low)? {
            Settings::Why(why) => WhyRequest::new(&why),
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

    #[test]
    fn what_is_no_url_is_refused_with_advice() {
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
