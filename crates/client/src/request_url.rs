//! The URL of a request (RFC 9110 §4): the target of the connection, and the resource.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use url::{ParseError, Position, Url};

use crate::connect_target::{ConnectTarget, UrlError};
use crate::limits::URL_MAX_BYTES;

/// The URL of a request, whole and in its parts. It has no fragment. Copies share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestUrl(Arc<UrlParts>);

#[derive(Debug, PartialEq, Eq)]
struct UrlParts {
    url: Url,
    target: ConnectTarget,
}

/// The reason why a text is not the URL of a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestUrlError {
    /// The part that names a server is invalid.
    #[error(transparent)]
    Target(#[from] UrlError),
    /// Control characters and spaces could end a line of the request.
    #[error("the URL has a space or a control character; encode it, a space as %20")]
    Control,
    /// The URL is longer than [`URL_MAX_BYTES`].
    #[error("the URL is longer than {URL_MAX_BYTES} bytes")]
    TooLong,
    /// The URL cannot be parsed.
    #[error("the URL is malformed: {0}")]
    Malformed(String),
}

impl RequestUrl {
    /// Parses a URL with the scheme `http` or `https`. Characters that must be percent-encoded in a
    /// path or a query are encoded.
    ///
    /// # Errors
    /// Fails if the text is no URL, or has a user name, or names no host.
    pub fn parse(text: &str) -> Result<Self, RequestUrlError> {
        check_text(text)?;
        // The URL Standard accepts more as a host than is safe, so the text is checked first.
        ConnectTarget::from_url(text)?;
        Self::of(Url::parse(text))
    }

    /// Parses the value of `Location` in a response to this URL (RFC 9110 §10.2.2).
    ///
    /// # Errors
    /// Fails as [`Self::parse`] does.
    pub fn redirected(&self, location: &str) -> Result<Self, RequestUrlError> {
        check_text(location)?;
        let redirected = Self::of(self.0.url.join(location))?;
        // A request over a socket stays on that socket as long as the host is the same.
        if redirected.0.url.origin() != self.0.url.origin() {
            return Ok(redirected);
        }
        Ok(Self::with(redirected.0.url.clone(), self.0.target.clone()))
    }

    /// Returns the URL of a request that is sent over a Unix socket, regardless of the host of the
    /// URL.
    ///
    /// # Errors
    /// Fails if the path is not that of a socket.
    pub fn over_socket(&self, path: &Path) -> Result<Self, RequestUrlError> {
        Ok(Self::with(self.0.url.clone(), ConnectTarget::unix(path)?))
    }

    fn with(url: Url, target: ConnectTarget) -> Self {
        Self(Arc::new(UrlParts { url, target }))
    }

    fn of(url: Result<Url, ParseError>) -> Result<Self, RequestUrlError> {
        let mut url = url.map_err(|error| RequestUrlError::Malformed(error.to_string()))?;
        url.set_fragment(None);
        let (target, _) = ConnectTarget::from_url(url.as_str())?;
        if url.as_str().len() > URL_MAX_BYTES {
            return Err(RequestUrlError::TooLong);
        }
        Ok(Self::with(url, target))
    }

    /// Returns the URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.url.as_str()
    }

    /// Returns the target to which a connection is opened.
    #[must_use]
    pub fn target(&self) -> &ConnectTarget {
        &self.0.target
    }

    /// Returns the path and the query, as a request has them (RFC 9112 §3.2.1).
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        &self.0.url[Position::BeforePath..]
    }

    /// Returns the value of `Host` (RFC 9110 §7.2).
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.0.url[Position::BeforeHost..Position::AfterPort]
    }

    /// Returns whether the other URL has the same scheme, host and port, and the same connection
    /// target (RFC 6454 §5).
    #[must_use]
    pub fn has_origin_of(&self, other: &Self) -> bool {
        self.0.url.origin() == other.0.url.origin() && self.0.target == other.0.target
    }
}

impl fmt::Display for RequestUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.url.fmt(f)
    }
}

/// Refuses characters that the URL Standard would drop silently.
fn check_text(text: &str) -> Result<(), RequestUrlError> {
    if text.len() > URL_MAX_BYTES {
        return Err(RequestUrlError::TooLong);
    }
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(RequestUrlError::Control);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_target_an_authority_and_a_path() {
        for (text, target, authority, path) in [
            ("http://example.org", "http://example.org", "example.org", "/"),
            ("HTTP://Example.ORG:80/a?b#c", "http://example.org", "example.org", "/a?b"),
            ("https://a.b:8443/ä", "https://a.b:8443", "a.b:8443", "/%C3%A4"),
            ("http://[::1]:81?x", "http://[::1]:81", "[::1]:81", "/?x"),
            ("http://a/b/../c", "http://a", "a", "/c"),
        ] {
            let url = RequestUrl::parse(text).expect(text);
            assert_eq!(url.target().to_string(), target);
            assert_eq!((url.authority(), url.path_and_query()), (authority, path));
        }
    }

    #[test]
    fn ambiguous_and_unsupported_urls_are_refused() {
        for text in [
            "http://a b/",
            "http://a/\r\nX: y",
            "http://a/\t",
            "http:/a",
            "http:a",
            "ftp://a/",
            "http://user@a/",
            "http://0x7f.1/",
            "http://127.1/",
            "http:///a",
            "//a/b",
            "/b",
            "",
        ] {
            assert!(RequestUrl::parse(text).is_err(), "{text}");
        }
        let long = format!("http://a/{}", "b".repeat(URL_MAX_BYTES));
        assert_eq!(RequestUrl::parse(&long), Err(RequestUrlError::TooLong));
    }

    #[test]
    fn redirects_are_relative_to_the_url() {
        let url = RequestUrl::parse("https://a.example/b/c?d").expect("a URL");
        for (location, expected) in [
            ("e", "https://a.example/b/e"),
            ("/e", "https://a.example/e"),
            ("?e", "https://a.example/b/c?e"),
            ("//b.example/e", "https://b.example/e"),
            ("http://a.example", "http://a.example/"),
            ("#x", "https://a.example/b/c?d"),
        ] {
            assert_eq!(url.redirected(location).expect(location).to_string(), expected);
        }
        for location in ["file:///etc/passwd", "javascript:1", "http://u:p@a/", "a\nb", "//"] {
            assert!(url.redirected(location).is_err(), "{location}");
        }
        let other = url.redirected("http://a.example/").expect("a URL");
        let local = url.over_socket(Path::new("/run/a.sock")).expect("a path");
        let target = |location| local.redirected(location).expect("a URL").target().to_string();
        assert_eq!((&*target("/x"), &*target("//b/x")), ("unix:/run/a.sock", "https://b"));
        assert!(url.has_origin_of(&url.redirected("x").expect("a URL")));
        assert!(!url.has_origin_of(&other));
    }
}
