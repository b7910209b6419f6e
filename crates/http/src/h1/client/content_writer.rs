//! Frames the content of a request: by its length, or in chunks (RFC 9112 §6.2, §7.1).

use super::request_error::RequestError;
use super::request_writer::{RequestContent, field_line, reserved_field};
use crate::field::Field;
use crate::h1::response_encoder::{CHUNK_END, chunk_prefix};
use crate::h1::trailers::is_forbidden;

/// Writes the content of one request, never more or less than its head announced.
#[derive(Debug)]
pub struct ContentWriter {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The number of bytes that are missing.
    Length(u64),
    /// Chunks may follow.
    Chunked,
    /// The last chunk was written.
    Ended,
}

impl ContentWriter {
    pub(crate) const fn new(content: RequestContent) -> ContentWriter {
        let state = match content {
            RequestContent::Length(bytes) => State::Length(bytes),
            RequestContent::Chunked => State::Chunked,
        };
        ContentWriter { state }
    }

    /// Returns whether the request is complete: only then may another one follow it on the
    /// connection.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        matches!(self.state, State::Ended | State::Length(0))
    }

    /// Appends a piece of content with its framing.
    ///
    /// # Errors
    /// [`RequestError::ContentTooLong`]; `out` is then as it was.
    pub fn write(&mut self, out: &mut Vec<u8>, content: &[u8]) -> Result<(), RequestError> {
        let end = self.frame(out, content.len() as u64)?;
        out.extend_from_slice(content);
        out.extend_from_slice(end);
        Ok(())
    }

    /// Appends the framing before a piece of content with so many bytes, and returns the bytes that
    /// must follow the piece. It is for content that is sent without a copy.
    ///
    /// # Errors
    /// [`RequestError::ContentTooLong`]; `out` is then as it was.
    pub fn frame(&mut self, out: &mut Vec<u8>, bytes: u64) -> Result<&'static [u8], RequestError> {
        match &mut self.state {
            // An empty chunk would end the content.
            _ if bytes == 0 => Ok(b""),
            State::Length(missing) => {
                *missing = missing.checked_sub(bytes).ok_or(RequestError::ContentTooLong)?;
                Ok(b"")
            }
            State::Chunked => {
                chunk_prefix(out, bytes);
                Ok(CHUNK_END)
            }
            State::Ended => Err(RequestError::ContentTooLong),
        }
    }

    /// Ends the content: appends the last chunk and the trailers, or checks that all bytes of a
    /// length were written. It does nothing if the content is complete.
    ///
    /// # Errors
    /// Refuses content that is too short, and trailers that are malformed, forbidden, or after
    /// content without chunks. `out` is unchanged then, and the request is not complete.
    pub fn end<'f>(
        &mut self,
        out: &mut Vec<u8>,
        trailers: impl IntoIterator<Item = Field<'f>>,
    ) -> Result<(), RequestError> {
        let mut trailers = trailers.into_iter();
        match self.state {
            State::Chunked => {
                let before = out.len();
                let written = last_chunk(out, trailers);
                match written {
                    Ok(()) => self.state = State::Ended,
                    Err(_) => out.truncate(before),
                }
                written
            }
            State::Length(missing_bytes) if missing_bytes > 0 => {
                Err(RequestError::ContentTooShort { missing_bytes })
            }
            State::Length(_) | State::Ended => match trailers.next() {
                Some(_) => Err(RequestError::TrailersWithoutChunks),
                None => Ok(()),
            },
        }
    }
}

/// Appends the last chunk and the trailer section.
fn last_chunk<'f>(
    out: &mut Vec<u8>,
    trailers: impl Iterator<Item = Field<'f>>,
) -> Result<(), RequestError> {
    out.extend_from_slice(b"0\r\n");
    for (position, field) in trailers.enumerate() {
        if reserved_field(field.name).is_some() || is_forbidden(field.name) {
            return Err(RequestError::ForbiddenTrailer { position });
        }
        field_line(out, position, field)?;
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}
