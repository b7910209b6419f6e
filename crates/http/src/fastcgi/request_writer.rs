//! Writes the beginning of a request: `FCGI_BEGIN_REQUEST` (§5.1) and the variables (§5.2).

use super::content_writer::FastCgiContentWriter;
use super::limits::RECORD_CONTENT_MAX_BYTES;
use super::record::{BEGIN_REQUEST, HEADER_BYTES, PARAMS, header, padding};
use crate::cgi::limits::VARIABLES_MAX_BYTES;
use crate::cgi::variable_error::{VariableError, check_variable};
use crate::h1::client::request_writer::{RequestContent, SentRequest};
use crate::method::Method;

/// The role of an application that responds to requests (§5.1: `FCGI_RESPONDER`).
const RESPONDER: u16 = 1;

/// A request to be written.
#[derive(Clone, Copy, Debug)]
pub struct FastCgiRequest {
    /// The method. Its name is sent as the variable `REQUEST_METHOD`.
    pub method: Method,
    /// The length of the content. [`RequestContent::Chunked`] is content of an unknown length,
    /// which ends with its stream. Applications that read the variable `CONTENT_LENGTH` then read
    /// no content, such as php-fpm.
    pub content: RequestContent,
    /// Whether the application is asked to keep the connection open after the response
    /// (`FCGI_KEEP_CONN`, §5.1). It is ignored if the length of the content is not known: php-fpm
    /// ends such a request in order and then resets the connection, because content is left.
    pub keep_connection: bool,
}

/// The result of [`write_request`].
#[derive(Debug)]
pub struct WrittenFastCgi {
    /// The request for the [reader](super::response_reader::FastCgiReader::new) of the response.
    pub request: SentRequest,
    /// Frames the content.
    pub content: FastCgiContentWriter,
}

/// Appends the beginning of a request, and its end if it has no content. `fill` adds the variables,
/// in any order; see [`RequestVariables::visit`](crate::cgi::variables::RequestVariables::visit).
///
/// # Errors
/// Refuses a malformed variable and more than [`VARIABLES_MAX_BYTES`] of them, and returns the
/// error of `fill`. `out` is unchanged then.
pub fn write_request(
    out: &mut Vec<u8>,
    request: &FastCgiRequest,
    fill: impl FnOnce(&mut ParamsWriter<'_>) -> Result<(), VariableError>,
) -> Result<WrittenFastCgi, VariableError> {
    let before = out.len();
    let keeps = request.keep_connection && request.content != RequestContent::Chunked;
    let [role_1, role_0] = RESPONDER.to_be_bytes();
    out.extend_from_slice(&header(BEGIN_REQUEST, 8, 0));
    out.extend_from_slice(&[role_1, role_0, u8::from(keeps), 0, 0, 0, 0, 0]);
    let mut params = ParamsWriter::new(out);
    if let Err(error) = fill(&mut params) {
        out.truncate(before);
        return Err(error);
    }
    params.end();
    let content = FastCgiContentWriter::new(out, request.content);
    let request = SentRequest {
        method: request.method,
        upgrade: false,
        close: !keeps,
        expects_continue: false,
    };
    Ok(WrittenFastCgi { request, content })
}

/// Writes name-value pairs (§3.4) to records of type `FCGI_PARAMS`. A pair that does not fit into a
/// record continues in the next one: the records are one stream.
#[derive(Debug)]
pub struct ParamsWriter<'a> {
    out: &'a mut Vec<u8>,
    /// The offset of the header of the open record.
    record: usize,
    /// Bytes of all pairs.
    bytes: usize,
}

impl<'a> ParamsWriter<'a> {
    fn new(out: &'a mut Vec<u8>) -> ParamsWriter<'a> {
        let record = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        ParamsWriter { out, record, bytes: 0 }
    }

    /// Appends a variable.
    ///
    /// # Errors
    /// Refuses a malformed variable, and one with which all of them are longer than
    /// [`VARIABLES_MAX_BYTES`].
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), VariableError> {
        check_variable(name, value)?;
        let pair_bytes = 8 + name.len() + value.len();
        if self.bytes + pair_bytes > VARIABLES_MAX_BYTES {
            return Err(VariableError::TooLarge);
        }
        self.bytes += pair_bytes;
        self.length(name.len());
        self.length(value.len());
        self.append(name);
        self.append(value);
        Ok(())
    }

    /// Appends a length: one byte up to 127, else four with the highest bit set (§3.4).
    fn length(&mut self, bytes: usize) {
        match u8::try_from(bytes) {
            Ok(length @ ..0x80) => self.append(&[length]),
            _ => self.append(&(bytes as u32 | 1 << 31).to_be_bytes()),
        }
    }

    /// Appends bytes of the stream.
    fn append(&mut self, mut bytes: &[u8]) {
        loop {
            let room = RECORD_CONTENT_MAX_BYTES - self.content_bytes();
            let (piece, rest) = bytes.split_at(room.min(bytes.len()));
            self.out.extend_from_slice(piece);
            if rest.is_empty() {
                return;
            }
            bytes = rest;
            self.close();
            self.record = self.out.len();
            self.out.extend_from_slice(&[0; HEADER_BYTES]);
        }
    }

    fn content_bytes(&self) -> usize {
        self.out.len() - self.record - HEADER_BYTES
    }

    /// Completes the open record.
    fn close(&mut self) {
        let content = self.content_bytes();
        let padding = padding(content);
        self.out.resize(self.out.len() + usize::from(padding), 0);
        let header = header(PARAMS, content as u16, padding);
        if let Some(place) = self.out.get_mut(self.record..self.record + HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
    }

    /// Completes the stream, which ends with an empty record (§3.3).
    fn end(mut self) {
        let is_empty = self.content_bytes() == 0;
        self.close();
        if !is_empty {
            self.out.extend_from_slice(&header(PARAMS, 0, 0));
        }
    }
}
