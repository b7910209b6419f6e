//! The reasons why a response cannot be used.

use core::fmt;

use crate::limits::{FIELDS_MAX, TRAILER_MAX_BYTES};
use crate::refusal::Refusal;

/// The error of a response. The connection must close, since the beginning of the next response is
/// no longer certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseError {
    /// The status line breaks the grammar, or the bytes are no HTTP/1 at all (RFC 9112 §4).
    MalformedStatusLine,
    /// The version is neither HTTP/1.0 nor HTTP/1.1 (RFC 9112 §2.3).
    UnsupportedVersion,
    /// A CR or LF outside of a CRLF (RFC 9112 §2.2).
    MisplacedLineEnd,
    /// A field line breaks the grammar: folded, space before the colon, control byte
    /// (RFC 9112 §5).
    MalformedFieldLine,
    /// The head is longer than the limit, in bytes.
    HeadTooLarge {
        /// The limit, [`ResponseLimits::head_bytes`](super::limits::ResponseLimits::head_bytes).
        max_bytes: usize,
    },
    /// The head has more field lines than the limit.
    TooManyFields {
        /// The limit, [`ResponseLimits::fields`](super::limits::ResponseLimits::fields).
        max: usize,
    },
    /// More interim responses than the limit.
    TooManyInterimResponses {
        /// The limit,
        /// [`ResponseLimits::interim_responses`](super::limits::ResponseLimits::interim_responses).
        max: usize,
    },
    /// `Content-Length` is no decimal number, or there are several that differ (RFC 9112 §6.3).
    InvalidContentLength,
    /// `Transfer-Encoding` came twice, beside `Content-Length`, in HTTP/1.0, or does not end in one
    /// `chunked` (RFC 9112 §6.1, §6.3).
    AmbiguousTransferEncoding,
    /// A transfer coding other than `chunked` (RFC 9112 §6.1).
    UnsupportedTransferCoding,
    /// The chunked framing is broken (RFC 9112 §7.1).
    MalformedChunk,
    /// More bytes of chunk extensions than the limit (RFC 9112 §7.1.1).
    ChunkExtensionsTooLarge {
        /// The limit, [`ResponseLimits::chunk_extension_bytes`].
        ///
        /// [`ResponseLimits::chunk_extension_bytes`]:
        ///     super::limits::ResponseLimits::chunk_extension_bytes
        max_bytes: u64,
    },
    /// A trailer field line breaks the grammar (RFC 9112 §7.1.2).
    MalformedTrailer,
    /// The trailer section is longer than [`TRAILER_MAX_BYTES`].
    TrailersTooLarge,
    /// The trailer section has more than [`FIELDS_MAX`] field lines.
    TooManyTrailers,
    /// More content than the limit.
    ContentTooLarge {
        /// The limit,
        /// [`ResponseLimits::content_bytes`](super::limits::ResponseLimits::content_bytes).
        max_bytes: u64,
    },
    /// A 101 that the request did not ask for, that names no protocol, or that came in HTTP/1.0
    /// (RFC 9110 §7.8).
    UnexpectedUpgrade,
    /// The connection ended without a byte of a response. If it was used before, and the method is
    /// idempotent, the request may be sent again on another one (RFC 9112 §9.3.1).
    NoResponse,
    /// The connection ended within a head, or between an interim response and the final one.
    HeadIncomplete,
    /// The connection ended before the content did (RFC 9112 §8).
    ContentIncomplete,
}

impl ResponseError {
    /// Converts an error of the parts of the parser that requests and responses share.
    pub(super) const fn from_refusal(refusal: Refusal) -> ResponseError {
        match refusal {
            Refusal::LineEnd => ResponseError::MisplacedLineEnd,
            Refusal::FieldLine => ResponseError::MalformedFieldLine,
            Refusal::ContentLength => ResponseError::InvalidContentLength,
            Refusal::TransferEncoding => ResponseError::AmbiguousTransferEncoding,
            Refusal::TransferCoding => ResponseError::UnsupportedTransferCoding,
            Refusal::Chunk => ResponseError::MalformedChunk,
            Refusal::Trailer => ResponseError::MalformedTrailer,
            // These come from the trailer section. Callers convert those of the head, since they
            // know its limits.
            Refusal::HeadTooLarge => ResponseError::TrailersTooLarge,
            Refusal::TooManyFields => ResponseError::TooManyTrailers,
            // Not reached: the parser reports its own limit instead.
            Refusal::ContentTooLarge => ResponseError::ContentTooLarge { max_bytes: u64::MAX },
            // Parsing of responses never returns these: they are about request lines, fields of
            // requests and their timeouts.
            Refusal::RequestLine
            | Refusal::EmptyLines
            | Refusal::Target
            | Refusal::Host
            | Refusal::Timeout
            | Refusal::TargetTooLong
            | Refusal::Expectation
            | Refusal::OpenHeadsTooLarge
            | Refusal::MethodTooLong
            | Refusal::Version => ResponseError::MalformedStatusLine,
        }
    }
}

/// A number of bytes as messages show it: in KiB if it is a multiple of 1024.
struct DisplayedSize(u64);

impl fmt::Display for DisplayedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1024 && bytes.is_multiple_of(1024) => {
                write!(f, "{} KiB", bytes / 1024)
            }
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::MalformedStatusLine => "the response does not begin with a status line of HTTP/1",
            Self::UnsupportedVersion => "the response is neither HTTP/1.0 nor HTTP/1.1",
            Self::MisplacedLineEnd => "the response's head has a CR or LF that ends no line",
            Self::MalformedFieldLine => "the response has a malformed field line",
            Self::HeadTooLarge { max_bytes } => {
                let max = DisplayedSize(max_bytes as u64);
                return write!(f, "the response's head is longer than {max}");
            }
            Self::TooManyFields { max } => {
                return write!(f, "the response has more than {max} fields");
            }
            Self::TooManyInterimResponses { max } => {
                return write!(f, "more than {max} interim responses came before the response");
            }
            Self::InvalidContentLength => "the response's Content-Length is malformed or ambiguous",
            Self::AmbiguousTransferEncoding => "the response's Transfer-Encoding is ambiguous",
            Self::UnsupportedTransferCoding => {
                "the response has a transfer coding other than chunked"
            }
            Self::MalformedChunk => "the response's content has a malformed chunk",
            Self::ChunkExtensionsTooLarge { max_bytes } => {
                let max = DisplayedSize(max_bytes);
                return write!(f, "the response's chunk extensions are longer than {max}");
            }
            Self::MalformedTrailer => "the response has a malformed trailer field",
            Self::TrailersTooLarge => {
                let max = DisplayedSize(TRAILER_MAX_BYTES as u64);
                return write!(f, "the response's trailers are longer than {max}");
            }
            Self::TooManyTrailers => {
                return write!(f, "the response has more than {FIELDS_MAX} trailer fields");
            }
            Self::ContentTooLarge { max_bytes } => {
                let max = DisplayedSize(max_bytes);
                return write!(f, "the response's content is longer than {max}");
            }
            Self::UnexpectedUpgrade => "the server switched to a protocol that was not asked for",
            Self::NoResponse => "the connection was closed without a response",
            Self::HeadIncomplete => "the connection was closed within the response's head",
            Self::ContentIncomplete => "the connection was closed within the response's content",
        })
    }
}

impl core::error::Error for ResponseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_limits() {
        for (error, text) in [
            (
                ResponseError::HeadTooLarge { max_bytes: 64 * 1024 },
                "the response's head is longer than 64 KiB",
            ),
            (
                ResponseError::HeadTooLarge { max_bytes: 1000 },
                "the response's head is longer than 1000 bytes",
            ),
            (ResponseError::TooManyFields { max: 200 }, "the response has more than 200 fields"),
            (
                ResponseError::TooManyInterimResponses { max: 32 },
                "more than 32 interim responses came before the response",
            ),
            (
                ResponseError::ChunkExtensionsTooLarge { max_bytes: 16 * 1024 },
                "the response's chunk extensions are longer than 16 KiB",
            ),
            (ResponseError::TrailersTooLarge, "the response's trailers are longer than 8 KiB"),
            (ResponseError::TooManyTrailers, "the response has more than 100 trailer fields"),
            (
                ResponseError::ContentTooLarge { max_bytes: 0 },
                "the response's content is longer than 0 bytes",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
