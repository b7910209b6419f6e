//! The reasons why a response over FastCGI cannot be used.

use core::fmt;

use super::limits::{IGNORED_RECORDS_MAX, STDERR_READ_MAX_BYTES};
use crate::cgi::error::CgiError;

/// The error of a response over FastCGI. The connection must close, because the begin of the next
/// record, or its request, is no longer certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FastCgiError {
    /// The connection ended without a byte of a response. If it was used before, and the method is
    /// idempotent, the request may be sent again on another one.
    NoResponse,
    /// The connection ended before the end of the request, so the response may have been cut
    /// anywhere, also where its output had an end.
    Aborted,
    /// A record of another version than 1 (§3.3), or no FastCGI at all.
    Version {
        /// The first byte of the record.
        version: u8,
    },
    /// A record of a type that no application sends (§8).
    RecordType {
        /// The type.
        kind: u8,
    },
    /// A record of another request, or a management record that belongs to one (§3.3).
    RequestId {
        /// The number of the request.
        id: u16,
    },
    /// A record of a stream that was ended before (§3.3).
    StreamEnded,
    /// A record that ends a request has not the 8 bytes of its body (§5.5).
    EndRequest,
    /// The application has ended the request because it serves one request of a connection at a
    /// time (§5.5: `FCGI_CANT_MPX_CONN`).
    CannotMultiplex,
    /// The application has refused the request because something ran out (§5.5:
    /// `FCGI_OVERLOADED`). Another application may serve it.
    Overloaded,
    /// The application is no responder (§5.5: `FCGI_UNKNOWN_ROLE`).
    UnknownRole,
    /// The application has ended the request with a status that does not exist (§5.5).
    ProtocolStatus {
        /// The status.
        status: u8,
    },
    /// More than [`IGNORED_RECORDS_MAX`] records that are ignored.
    TooManyRecords,
    /// More than [`STDERR_READ_MAX_BYTES`] on the error stream.
    StderrTooLarge,
    /// The output is no response.
    Output(CgiError),
}

impl From<CgiError> for FastCgiError {
    fn from(error: CgiError) -> FastCgiError {
        FastCgiError::Output(error)
    }
}

impl fmt::Display for FastCgiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NoResponse => "the connection was closed without a response",
            Self::Aborted => "the connection was closed before the end of the request",
            Self::Version { version } => {
                return write!(f, "a FastCGI record has version {version} instead of 1");
            }
            Self::RecordType { kind } => {
                return write!(f, "a FastCGI record has the unexpected type {kind}");
            }
            Self::RequestId { id } => {
                return write!(f, "a FastCGI record has the unexpected request number {id}");
            }
            Self::StreamEnded => "a FastCGI record follows the end of its stream",
            Self::EndRequest => "the FastCGI record at the end of the request is malformed",
            Self::CannotMultiplex => "the application refused a second request on the connection",
            Self::Overloaded => "the application is overloaded",
            Self::UnknownRole => "the application is no FastCGI responder",
            Self::ProtocolStatus { status } => {
                return write!(f, "the application ended the request with the status {status}");
            }
            Self::TooManyRecords => {
                return write!(
                    f,
                    "the application sent more than {IGNORED_RECORDS_MAX} FastCGI records \
                     without content"
                );
            }
            Self::StderrTooLarge => {
                let max = STDERR_READ_MAX_BYTES / (1024 * 1024);
                return write!(f, "the application wrote more than {max} MiB to its error stream");
            }
            Self::Output(error) => return error.fmt(f),
        })
    }
}

impl core::error::Error for FastCgiError {}
