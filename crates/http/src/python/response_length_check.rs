//! Whether the content of a response is as long as its head says.

use super::response_head::PythonResponseHead;
use crate::cgi::error::CgiError;
use crate::h1::client::limits::ResponseLimits;
use crate::method::Method;
use crate::status::never_has_content;

/// Counts the content of one response. Content of a response that has none, such as that to HEAD,
/// is dropped; applications send it all the same.
#[derive(Clone, Copy, Debug)]
pub struct ResponseContentCheck {
    has_content: bool,
    /// Bytes that `Content-Length` announces and that have not arrived.
    missing: Option<u64>,
    /// Bytes that the limit still allows.
    allowed: u64,
    max_bytes: u64,
}

impl ResponseContentCheck {
    /// Makes the check of the response with this head to a request with this method. It uses only
    /// the limit [`ResponseLimits::content_bytes`].
    #[must_use]
    pub const fn new(
        method: Method,
        head: &PythonResponseHead<'_>,
        limits: &ResponseLimits,
    ) -> ResponseContentCheck {
        ResponseContentCheck {
            has_content: has_content(method, head.status),
            missing: head.content_length,
            allowed: limits.content_bytes,
            max_bytes: limits.content_bytes,
        }
    }

    /// Returns which of the bytes that the process has sent are content of the response: all, or
    /// none of them.
    ///
    /// # Errors
    /// Refuses content that is longer than `Content-Length` or the limit. The response cannot be
    /// completed then.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], CgiError> {
        Ok(if self.take_file(bytes.len() as u64)? { bytes } else { b"" })
    }

    /// Returns whether a part of a file with so many bytes is content of the response.
    ///
    /// # Errors
    /// Returns errors as [`ResponseContentCheck::take`] does.
    pub fn take_file(&mut self, length: u64) -> Result<bool, CgiError> {
        if !self.has_content {
            return Ok(false);
        }
        if self.missing.is_some_and(|missing| length > missing) {
            return Err(CgiError::ContentTooLong);
        }
        let max_bytes = self.max_bytes;
        self.allowed =
            self.allowed.checked_sub(length).ok_or(CgiError::ContentTooLarge { max_bytes })?;
        self.missing = self.missing.map(|missing| missing - length);
        Ok(true)
    }

    /// Checks that the content may end here.
    ///
    /// # Errors
    /// [`CgiError::ContentTooShort`]: the response is not complete.
    pub const fn end(&self) -> Result<(), CgiError> {
        match self.missing {
            Some(missing_bytes @ 1..) if self.has_content => {
                Err(CgiError::ContentTooShort { missing_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether a response has content at all.
pub(super) const fn has_content(method: Method, status: u16) -> bool {
    !matches!(method, Method::Head) && !never_has_content(status)
}
