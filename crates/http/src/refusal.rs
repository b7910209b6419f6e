//! The reasons why a peer's bytes are refused, and the one table that maps each reason to a status.

use crate::error_page::ErrorFormat;

/// The error in the bytes of a peer. The response is an error page of [`Refusal::status`], and the
/// connection closes: the end of the message is no longer certain (RFC 9112 §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The request line breaks the grammar (RFC 9112 §3).
    RequestLine,
    /// More empty lines before the request line than RFC 9112 §2.2 asks to bear.
    EmptyLines,
    /// A CR or LF outside of a CRLF (RFC 9112 §2.2).
    LineEnd,
    /// The target breaks the grammar of its form (RFC 9112 §3.2).
    Target,
    /// A field line breaks the grammar: folded, space before the colon, control byte
    /// (RFC 9112 §5).
    FieldLine,
    /// `Host` is missing, came twice, or is no authority (RFC 9112 §3.2).
    Host,
    /// `Content-Length` is no single decimal number (RFC 9112 §6.3).
    ContentLength,
    /// `Transfer-Encoding` came twice, beside `Content-Length`, in HTTP/1.0, or does not end in
    /// one `chunked` (RFC 9112 §6.1, §6.3).
    TransferEncoding,
    /// The chunked framing is broken (RFC 9112 §7.1).
    Chunk,
    /// A trailer field line breaks the grammar (RFC 9112 §7.1.2).
    Trailer,
    /// A head, or content that the server waits for, did not arrive in time (RFC 9110 §15.5.9).
    Timeout,
    /// More content than the limit (RFC 9110 §15.5.14).
    ContentTooLarge,
    /// The target is over the limit (RFC 9110 §15.5.15).
    TargetTooLong,
    /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
    Expectation,
    /// The head, or the trailer section, is over the limit (RFC 6585 §5).
    HeadTooLarge,
    /// More field lines than the limit (RFC 6585 §5).
    TooManyFields,
    /// The heads of all open requests of the connection are over the limit together (RFC 6585 §5).
    OpenHeadsTooLarge,
    /// The method token is longer than any this server knows (RFC 9112 §3).
    MethodTooLong,
    /// A transfer coding other than `chunked` (RFC 9112 §6.1).
    TransferCoding,
    /// A major version other than 1 (RFC 9110 §15.6.6).
    Version,
}

impl Refusal {
    /// Returns the status of the response.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.row().0
    }

    /// Returns the error in a few words: for the log, and for a page that is to say more than the
    /// reason phrase.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().1
    }

    const fn row(self) -> (u16, &'static str) {
        match self {
            Refusal::RequestLine => (400, "malformed request line"),
            Refusal::EmptyLines => (400, "empty lines before the request line"),
            Refusal::LineEnd => (400, "bare CR or LF"),
            Refusal::Target => (400, "malformed request target"),
            Refusal::FieldLine => (400, "malformed field line"),
            Refusal::Host => (400, "missing, repeated or malformed Host"),
            Refusal::ContentLength => (400, "malformed or repeated Content-Length"),
            Refusal::TransferEncoding => (400, "ambiguous Transfer-Encoding"),
            Refusal::Chunk => (400, "malformed chunk"),
            Refusal::Trailer => (400, "malformed trailer field"),
            Refusal::Timeout => (408, "the request did not come in time"),
            Refusal::ContentTooLarge => (413, "content over the limit"),
            Refusal::TargetTooLong => (414, "request target over the limit"),
            Refusal::Expectation => (417, "unknown expectation"),
            Refusal::HeadTooLarge => (431, "request head over the limit"),
            Refusal::TooManyFields => (431, "too many fields"),
            Refusal::OpenHeadsTooLarge => (431, "heads of open requests over the limit"),
            Refusal::MethodTooLong => (501, "unknown method"),
            Refusal::TransferCoding => (501, "unknown transfer coding"),
            Refusal::Version => (505, "unsupported HTTP version"),
        }
    }
}

/// The known facts of a request that is refused: enough for the page of its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedRequest<'h> {
    /// The method is HEAD: the response has no content (RFC 9110 §9.3.2).
    pub head_only: bool,
    /// The form of the page that `Accept` prefers.
    pub error_format: ErrorFormat,
    /// The path of its target as sent, which starts with a slash; `None` if that is not known.
    pub path: Option<&'h [u8]>,
    /// The host that it is for, with or without a port: a valid
    /// [`Authority`](crate::host::Authority). `None` if it names none, or more than one.
    pub authority: Option<&'h [u8]>,
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for Refusal {}
