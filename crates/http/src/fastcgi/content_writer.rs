//! Frames the content of a request in records of type `FCGI_STDIN` (§5.3).

use super::limits::RECORD_CONTENT_MAX_BYTES;
use super::record::{ABORT_REQUEST, HEADER_BYTES, STDIN, header, padding};
use crate::h1::client::request_error::RequestError;
use crate::h1::client::request_writer::RequestContent;

/// Writes the content of one request, never more or less than its length. The end of the stream is
/// written with the last byte of a known length.
#[derive(Debug)]
pub struct FastCgiContentWriter {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The number of bytes that are missing; never 0.
    Length(u64),
    /// Any number of bytes may follow.
    Stream,
    /// The end of the stream was written.
    Ended,
}

/// The record that asks the application to end the request, because the client has left (§5.4). The
/// application ends it, soon or once it is done; its connection is not used again.
pub const ABORT: [u8; HEADER_BYTES] = header(ABORT_REQUEST, 0, 0);

/// The bytes around a piece of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramedPiece {
    /// The number of bytes of the content in the piece; the rest needs records of its own.
    pub bytes: u64,
    /// The bytes that must follow the piece: padding, and perhaps the end of the stream.
    pub end: &'static [u8],
}

/// The padding of a record, and the record that ends the stream.
const PADDED_END: [u8; 7 + HEADER_BYTES] = {
    let mut bytes = [0; 7 + HEADER_BYTES];
    let (_, end) = bytes.split_at_mut(7);
    end.copy_from_slice(&header(STDIN, 0, 0));
    bytes
};

impl FastCgiContentWriter {
    /// Makes the writer of content, and ends the stream at once if there is none.
    pub(super) fn new(out: &mut Vec<u8>, content: RequestContent) -> FastCgiContentWriter {
        let state = match content {
            RequestContent::Length(0) => {
                out.extend_from_slice(&header(STDIN, 0, 0));
                State::Ended
            }
            RequestContent::Length(bytes) => State::Length(bytes),
            RequestContent::Chunked => State::Stream,
        };
        FastCgiContentWriter { state }
    }

    /// Returns whether the request is complete: only then may another one follow it on the
    /// connection.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Appends a piece of content in as many records as it needs.
    ///
    /// # Errors
    /// [`RequestError::ContentTooLong`]; `out` is then as it was.
    pub fn write(&mut self, out: &mut Vec<u8>, content: &[u8]) -> Result<(), RequestError> {
        self.check(content.len() as u64)?;
        for piece in content.chunks(RECORD_CONTENT_MAX_BYTES) {
            let FramedPiece { bytes, end } = self.frame(out, piece.len() as u64)?;
            debug_assert_eq!(bytes, piece.len() as u64, "a piece fits into a record");
            out.extend_from_slice(piece);
            out.extend_from_slice(end);
        }
        Ok(())
    }

    /// Appends the header of a piece of content with so many bytes, and returns the bytes that must
    /// follow the piece. A piece has at most [`RECORD_CONTENT_MAX_BYTES`]. It is for content that
    /// is sent without a copy.
    ///
    /// # Errors
    /// [`RequestError::ContentTooLong`]; `out` is then as it was.
    pub fn frame(&mut self, out: &mut Vec<u8>, bytes: u64) -> Result<FramedPiece, RequestError> {
        self.check(bytes)?;
        let content = bytes.min(RECORD_CONTENT_MAX_BYTES as u64) as u16;
        let bytes = u64::from(content);
        // An empty record would end the stream.
        if content == 0 {
            return Ok(FramedPiece { bytes, end: b"" });
        }
        let padding = padding(usize::from(content));
        out.extend_from_slice(&header(STDIN, content, padding));
        let front = PADDED_END.len() - HEADER_BYTES - usize::from(padding);
        let back = match self.state {
            State::Length(missing) if missing == bytes => {
                self.state = State::Ended;
                PADDED_END.len()
            }
            State::Length(missing) => {
                self.state = State::Length(missing - bytes);
                PADDED_END.len() - HEADER_BYTES
            }
            _ => PADDED_END.len() - HEADER_BYTES,
        };
        Ok(FramedPiece { bytes, end: PADDED_END.get(front..back).unwrap_or_default() })
    }

    /// Checks that so many bytes of content may follow.
    fn check(&self, bytes: u64) -> Result<(), RequestError> {
        let allowed = match self.state {
            State::Length(missing) => missing,
            State::Stream => u64::MAX,
            State::Ended => 0,
        };
        if bytes > allowed { Err(RequestError::ContentTooLong) } else { Ok(()) }
    }

    /// Ends the content: appends the end of the stream, or checks that all bytes of a length were
    /// written. It does nothing if the content is complete.
    ///
    /// # Errors
    /// [`RequestError::ContentTooShort`]; the request is then not complete.
    pub fn end(&mut self, out: &mut Vec<u8>) -> Result<(), RequestError> {
        match self.state {
            State::Length(missing_bytes) => Err(RequestError::ContentTooShort { missing_bytes }),
            State::Stream => {
                out.extend_from_slice(&header(STDIN, 0, 0));
                self.state = State::Ended;
                Ok(())
            }
            State::Ended => Ok(()),
        }
    }
}
