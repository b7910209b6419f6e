//! The errors in the output of a program that should be a response.

use core::fmt;

/// The error in the output of a CGI program, or of an application behind FastCGI or SCGI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CgiError {
    /// The output ended without a byte.
    NoOutput,
    /// The output begins with a blank line, so there is no field (RFC 3875 §6.2: each kind of
    /// response has at least one).
    NoFields,
    /// The output ended within the head.
    HeadIncomplete,
    /// The head is longer than the limit, in bytes.
    HeadTooLarge {
        /// The limit, [`ResponseLimits::head_bytes`](crate::h1::client::limits::ResponseLimits):
        /// responses of programs have the same limits as those of HTTP/1 servers.
        max_bytes: usize,
    },
    /// The head has more field lines than the limit.
    TooManyFields {
        /// The limit, [`ResponseLimits::fields`](crate::h1::client::limits::ResponseLimits).
        max: usize,
    },
    /// The head has a control byte: the program wrote binary data without a head.
    ControlByteInHead,
    /// A line of the head is not a field line (RFC 3875 §6.3).
    MalformedFieldLine,
    /// A field occurs more than once that may occur only once (RFC 3875 §6.3).
    RepeatedField {
        /// The name of the field in the usual spelling.
        name: &'static str,
    },
    /// `Status` is not a code from 200 to 999 with an optional reason phrase (RFC 3875 §6.3.3).
    InvalidStatus,
    /// `Location` is empty, or a local path that is not a valid request target (RFC 3875 §6.3.2).
    InvalidLocation,
    /// `Content-Length` is not a decimal number (RFC 9110 §8.6).
    InvalidContentLength,
    /// The output is longer than `Content-Length` announced.
    ContentTooLong,
    /// The output is shorter than `Content-Length` announced.
    ContentTooShort {
        /// The number of missing bytes.
        missing_bytes: u64,
    },
    /// The output broke off: the connection was reset, or a timeout expired. How much is missing is
    /// not known.
    OutputAborted,
    /// More content than the limit.
    ContentTooLarge {
        /// The limit, [`ResponseLimits::content_bytes`](crate::h1::client::limits::ResponseLimits).
        max_bytes: u64,
    },
}

impl fmt::Display for CgiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NoOutput => "the program wrote no response",
            Self::NoFields => "the response begins with a blank line instead of header fields",
            Self::HeadIncomplete => "the output ended within the response's head",
            Self::HeadTooLarge { max_bytes } => {
                return write!(f, "the response's head is longer than {max_bytes} bytes");
            }
            Self::TooManyFields { max } => {
                return write!(f, "the response has more than {max} fields");
            }
            Self::ControlByteInHead => "the response's head has a control character",
            Self::MalformedFieldLine => "the response has a malformed field line",
            Self::RepeatedField { name } => {
                return write!(f, "the response has more than one {name}");
            }
            Self::InvalidStatus => "the response's Status is no status code",
            Self::InvalidLocation => "the response's Location is malformed",
            Self::InvalidContentLength => "the response's Content-Length is malformed",
            Self::ContentTooLong => "the response's content is longer than its Content-Length",
            Self::ContentTooShort { missing_bytes } => {
                return write!(
                    f,
                    "the response's content is {missing_bytes} bytes shorter than its \
                     Content-Length"
                );
            }
            Self::OutputAborted => "the output broke off within the response's content",
            Self::ContentTooLarge { max_bytes } => {
                return write!(f, "the response's content is longer than {max_bytes} bytes");
            }
        })
    }
}

impl core::error::Error for CgiError {}
