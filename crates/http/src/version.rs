//! Protocol versions (RFC 9110 §2.5).

/// The version a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0 (RFC 1945; as RFC 9112 treats it).
    Http10,
    /// HTTP/1.1 (RFC 9112), and any HTTP/1.x above it (RFC 9110 §2.5).
    Http11,
    /// HTTP/2 (RFC 9113).
    Http2,
    /// HTTP/3 (RFC 9114).
    Http3,
}

impl Version {
    /// Returns the name in a log line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}
