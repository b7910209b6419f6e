//! Writes the head of a request: the variables in a netstring.

use crate::cgi::limits::VARIABLES_MAX_BYTES;
use crate::cgi::variable_error::{VariableError, check_variable};
use crate::h1::client::content_writer::ContentWriter;
use crate::h1::client::request_writer::{RequestContent, SentRequest};
use crate::h1::response_encoder::decimal;
use crate::method::Method;

/// The result of [`write_request`].
#[derive(Debug)]
pub struct WrittenScgi {
    /// The request for the [reader](crate::cgi::response_reader::CgiReader::new) of the response.
    pub request: SentRequest,
    /// Counts the content, which has no framing.
    pub content: ContentWriter,
}

/// Appends the head of a request with so many bytes of content. `CONTENT_LENGTH` and `SCGI` are
/// written first, and `fill` adds the other variables; see
/// [`RequestVariables::visit`](crate::cgi::variables::RequestVariables::visit).
///
/// # Errors
/// Refuses content of an unknown length, a malformed variable, and more than
/// [`VARIABLES_MAX_BYTES`] of them, and returns the error of `fill`. `out` is unchanged then.
pub fn write_request(
    out: &mut Vec<u8>,
    method: Method,
    content: RequestContent,
    fill: impl FnOnce(&mut ScgiPairs<'_>) -> Result<(), VariableError>,
) -> Result<WrittenScgi, VariableError> {
    let RequestContent::Length(bytes) = content else {
        return Err(VariableError::LengthRequired);
    };
    let start = out.len();
    out.extend_from_slice(b"CONTENT_LENGTH\0");
    decimal(out, bytes);
    out.extend_from_slice(b"\0SCGI\x001\0");
    if let Err(error) = fill(&mut ScgiPairs { start, out }) {
        out.truncate(start);
        return Err(error);
    }
    // The length is only known now, and belongs before the pairs.
    let pairs_end = out.len();
    decimal(out, (pairs_end - start) as u64);
    out.push(b':');
    let length_bytes = out.len() - pairs_end;
    out.get_mut(start..).unwrap_or_default().rotate_right(length_bytes);
    out.push(b',');
    let request = SentRequest { method, upgrade: false, close: true, expects_continue: false };
    Ok(WrittenScgi { request, content: ContentWriter::new(content) })
}

/// Writes pairs of names and values, each ended by a NUL.
#[derive(Debug)]
pub struct ScgiPairs<'a> {
    start: usize,
    out: &'a mut Vec<u8>,
}

impl ScgiPairs<'_> {
    /// Appends a variable; each name must come once. `CONTENT_LENGTH` and `SCGI` are left out,
    /// since they were written before.
    ///
    /// # Errors
    /// Refuses a malformed variable, and one with which all of them are longer than
    /// [`VARIABLES_MAX_BYTES`].
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), VariableError> {
        check_variable(name, value)?;
        if matches!(name, b"CONTENT_LENGTH" | b"SCGI") {
            return Ok(());
        }
        let bytes = self.out.len() - self.start + name.len() + value.len() + 2;
        if bytes > VARIABLES_MAX_BYTES {
            return Err(VariableError::TooLarge);
        }
        for part in [name, value] {
            self.out.extend_from_slice(part);
            self.out.push(0);
        }
        Ok(())
    }
}
