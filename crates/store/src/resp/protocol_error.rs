//! Errors after which a connection cannot continue, because its input is not a command.

use std::fmt;

/// A violation of the protocol. The texts are those of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    /// The number of arguments is not a number, or is too large.
    MultibulkLength,
    /// A client that has not authenticated sends too many arguments.
    UnauthenticatedMultibulkLength,
    /// The line with the number of arguments has no end.
    MultibulkLine,
    /// The length of an argument is not a number, or is too large.
    BulkLength,
    /// A client that has not authenticated sends a long argument.
    UnauthenticatedBulkLength,
    /// The line with the length of an argument has no end.
    BulkLine,
    /// An argument begins with another byte than `$`.
    ExpectedBulk {
        /// The byte.
        found: u8,
    },
    /// A command in one line has no end.
    InlineLength,
    /// A command in one line has a quote that is not closed.
    UnbalancedQuotes,
    /// The line is one of an HTTP request: a malicious page makes a browser send commands.
    CrossProtocol,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MultibulkLength => "invalid multibulk length",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::MultibulkLine => "too big mbulk count string",
            Self::BulkLength => "invalid bulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            Self::BulkLine => "too big bulk count string",
            Self::ExpectedBulk { found } => {
                let found = if found.is_ascii_control() { b'?' } else { *found };
                return write!(f, "expected '$', got '{}'", char::from(found));
            }
            Self::InlineLength => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::CrossProtocol => "this is not an HTTP server",
        })
    }
}

impl std::error::Error for ProtocolError {}
