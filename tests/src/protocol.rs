//! What client and server speak with each other.

/// A version of HTTP, and what it is carried by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1 over TCP.
    Http1,
    /// HTTP/1 over TLS.
    Http1Tls,
    /// HTTP/2 over TLS, agreed on by ALPN.
    Http2,
    /// HTTP/2 over TCP, by prior knowledge (RFC 9113 §3.3).
    Http2Clear,
    /// HTTP/3.
    Http3,
}

impl Protocol {
    /// Those that the server speaks in this version. A protocol that comes is added here, and every
    /// case that does not say otherwise is run over it.
    pub const SPOKEN: &[Protocol] = &[
        Protocol::Http1,
        Protocol::Http1Tls,
        Protocol::Http2,
        Protocol::Http2Clear,
        Protocol::Http3,
    ];

    /// The protocol of this word.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn named(word: &str) -> Protocol {
        use Protocol::{Http1, Http1Tls, Http2, Http2Clear, Http3};
        let all = [Http1, Http1Tls, Http2, Http2Clear, Http3];
        let found = all.into_iter().find(|protocol| protocol.as_str() == word);
        found.unwrap_or_else(|| panic!("{word:?} is no protocol"))
    }

    /// The word for it in `PINION_WAYS`.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Http1 => "h1",
            Protocol::Http1Tls => "h1s",
            Protocol::Http2 => "h2",
            Protocol::Http2Clear => "h2c",
            Protocol::Http3 => "h3",
        }
    }

    /// Whether it is HTTP/1, over whatever.
    pub fn is_http1(self) -> bool {
        matches!(self, Protocol::Http1 | Protocol::Http1Tls)
    }

    /// Whether Debian's curl speaks it.
    pub fn is_known_to_curl(self) -> bool {
        self != Protocol::Http3
    }

    /// Whether nobody between the two can read it.
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Protocol::Http1 | Protocol::Http2Clear)
    }

    /// The scheme of its addresses.
    pub fn scheme(self) -> &'static str {
        match self.is_encrypted() {
            true => "https",
            false => "http",
        }
    }

    /// What a client offers in the handshake (RFC 7301).
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Protocol::Http1 | Protocol::Http1Tls => b"http/1.1",
            Protocol::Http2 | Protocol::Http2Clear => b"h2",
            Protocol::Http3 => b"h3",
        }
    }
}
