//! The reasons why a request is not written.

use core::fmt;

/// The error of a request that a caller wants to send. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestError {
    /// The method is no token, or longer than
    /// [`METHOD_MAX_BYTES`](crate::limits::METHOD_MAX_BYTES).
    Method,
    /// The target is no target of the method, or its form is not the stated one (RFC 9112 §3.2).
    Target,
    /// The authority is no host with an optional port (RFC 9110 §7.2).
    Authority,
    /// The name of a field is no token (RFC 9110 §5.6.2).
    FieldName {
        /// The number of fields before it.
        position: usize,
    },
    /// The value of a field has a CR, LF, NUL or another control byte (RFC 9110 §5.5).
    FieldValue {
        /// The number of fields before it.
        position: usize,
    },
    /// The field frames the message or controls the connection, so it has its own parameter of the
    /// writer, or does not exist in a request.
    ReservedField {
        /// The name of the field in the usual spelling.
        name: &'static str,
    },
    /// The field is forbidden after the content (RFC 9110 §6.5.1).
    ForbiddenTrailer {
        /// The number of trailer fields before it.
        position: usize,
    },
    /// There are trailers, and the content is not chunked (RFC 9112 §7.1.2).
    TrailersWithoutChunks,
    /// CONNECT and TRACE have no content (RFC 9110 §9.3.6, §9.3.8).
    ContentNotAllowed,
    /// The protocols to switch to are no list of names, or the method is CONNECT (RFC 9110 §7.8).
    Upgrade,
    /// There is more content than was announced, or content after the end.
    ContentTooLong,
    /// Less content than was announced.
    ContentTooShort {
        /// The number of missing bytes.
        missing_bytes: u64,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::Method => "the method is no token",
            Self::Target => "the request target is malformed, or does not fit the method",
            Self::Authority => "the host is malformed",
            Self::FieldName { position } => {
                return write!(f, "the name of field {} is no token", position + 1);
            }
            Self::FieldValue { position } => {
                return write!(f, "the value of field {} has a control character", position + 1);
            }
            Self::ReservedField { name } => {
                return write!(f, "{name} cannot be set: the client writes it");
            }
            Self::ForbiddenTrailer { position } => {
                return write!(f, "trailer field {} is not allowed behind content", position + 1);
            }
            Self::TrailersWithoutChunks => "trailer fields need chunked content",
            Self::ContentNotAllowed => "a request with CONNECT or TRACE has no content",
            Self::Upgrade => "the protocols of Upgrade are malformed, or the method is CONNECT",
            Self::ContentTooLong => "the content is longer than announced",
            Self::ContentTooShort { missing_bytes } => {
                return write!(f, "the content is {missing_bytes} bytes shorter than announced");
            }
        })
    }
}

impl core::error::Error for RequestError {}
