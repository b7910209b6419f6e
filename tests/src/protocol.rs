//! The protocols between client and server.

/// A version of HTTP, and its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1 over TCP.
    Http1,
    /// HTTP/1 over TLS.
    Http1Tls,
    /// HTTP/2 over TLS, negotiated by ALPN.
    Http2,
    /// HTTP/2 over TCP, with prior knowledge (RFC 9113 §3.3).
    Http2Clear,
    /// HTTP/3.
    Http3,
}

impl Protocol {
    /// The protocols of the server in this version. A new protocol is added here, and every case
    /// that is not restricted runs over it.
    pub const SPOKEN: &[Protocol] = &[
        Protocol::Http1,
        Protocol::Http1Tls,
        Protocol::Http2,
        Protocol::Http2Clear,
        Protocol::Http3,
    ];

    /// Returns the protocol of this word.
    ///
    /// # Panics
    /// Panics if there is none.
    #[track_caller]
    pub fn named(word: &str) -> Protocol {
        use Protocol::{Http1, Http1Tls, Http2, Http2Clear, Http3};
        let all = [Http1, Http1Tls, Http2, Http2Clear, Http3];
        let found = all.into_iter().find(|protocol| protocol.as_str() == word);
        found.unwrap_or_else(|| panic!("{word:?} is no protocol"))
    }

    /// Returns the word for it in `PINION_WAYS`.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Http1 => "h1",
            Protocol::Http1Tls => "h1s",
            Protocol::Http2 => "h2",
            Protocol::Http2Clear => "h2c",
            Protocol::Http3 => "h3",
        }
    }

    /// Returns whether it is HTTP/1, over any transport.
    pub fn is_http1(self) -> bool {
        matches!(self, Protocol::Http1 | Protocol::Http1Tls)
    }

    /// Returns whether Debian's curl supports it.
    pub fn is_known_to_curl(self) -> bool {
        self != Protocol::Http3
    }

    /// Returns whether it is encrypted.
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Protocol::Http1 | Protocol::Http2Clear)
    }

    /// Returns the scheme of its URLs.
    pub fn scheme(self) -> &'static str {
        if self.is_encrypted() { "https" } else { "http" }
    }

    /// Returns the protocol that a client offers in the handshake (RFC 7301).
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Protocol::Http1 | Protocol::Http1Tls => b"http/1.1",
            Protocol::Http2 | Protocol::Http2Clear => b"h2",
            Protocol::Http3 => b"h3",
        }
    }
}
