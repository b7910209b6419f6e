//! Errors of commands, with the texts that clients of Redis expect.

use std::borrow::Cow;
use std::fmt;

/// An error reply, with its prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Cow<'static, str>);

impl Error {
    /// Returns an error with this text.
    pub(crate) const fn constant(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Creates an error with this text, which must not contain a line break.
    pub(crate) fn new(text: String) -> Self {
        debug_assert!(!text.contains(['\r', '\n']), "an error is one line: {text:?}");
        Self(Cow::Owned(text))
    }

    /// Returns whether it is [`TOO_MUCH_WORK`].
    pub(crate) fn is_too_much_work(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The internal error of a command that must be executed as a job and has changed nothing yet. It
/// has no text and is never sent to a client.
pub(crate) const TOO_MUCH_WORK: Error = Error::constant("");

pub(crate) const WRONG_TYPE: Error =
    Error::constant("WRONGTYPE Operation against a key holding the wrong kind of value");
pub(crate) const SYNTAX: Error = Error::constant("ERR syntax error");
pub(crate) const NOT_AN_INTEGER: Error =
    Error::constant("ERR value is not an integer or out of range");
pub(crate) const NOT_A_FLOAT: Error = Error::constant("ERR value is not a valid float");
pub(crate) const OVERFLOW: Error = Error::constant("ERR increment or decrement would overflow");
pub(crate) const NO_SUCH_KEY: Error = Error::constant("ERR no such key");
pub(crate) const INDEX_OUT_OF_RANGE: Error = Error::constant("ERR index out of range");
pub(crate) const NOT_FINITE: Error = Error::constant("ERR increment would produce NaN or Infinity");
pub(crate) const TOO_LONG: Error =
    Error::constant("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
pub(crate) const OUT_OF_MEMORY: Error =
    Error::constant("OOM command not allowed when used memory > 'maxmemory'.");
pub(crate) const NO_AUTHENTICATION: Error = Error::constant("NOAUTH Authentication required.");
pub(crate) const EXEC_ABORTED: Error =
    Error::constant("EXECABORT Transaction discarded because of previous errors.");
