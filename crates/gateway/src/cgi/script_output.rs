//! The output of a script as a response: a document (RFC 3875 §6), or a whole response of HTTP/1 if
//! the name of the script begins with `nph-` (§5).

use std::fmt;

use pinion_http::cgi::error::CgiError;
use pinion_http::cgi::response_event::GatewayEvent;
use pinion_http::cgi::response_reader::CgiReader;
use pinion_http::field::Fields;
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::client::request_writer::SentRequest;
use pinion_http::h1::client::response_error::ResponseError;
use pinion_http::h1::client::response_parser::{InputEnd, ResponseEvent, ResponseParser};
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::method::Method;

use crate::limits::MALFORMED_LINE_SHOWN_BYTES;

/// The prefix of the names of scripts that write HTTP themselves (non-parsed header).
const NPH_PREFIX: &[u8] = b"nph-";

/// Reads the output of one script.
#[derive(Debug)]
pub(super) struct ScriptOutput {
    reader: OutputReader,
    /// A part of a head that is not whole yet.
    pending: Vec<u8>,
    /// The beginning of a line that is no field line, escaped.
    malformed_line: Option<Box<str>>,
}

#[derive(Debug)]
enum OutputReader {
    Document(CgiReader),
    Http(ResponseParser),
}

/// A part of a response.
#[derive(Clone, Copy, Debug)]
pub(super) enum OutputEvent<'a> {
    /// Its head.
    Head {
        status: u16,
        fields: Fields<'a>,
        content_length: Option<u64>,
    },
    Content(&'a [u8]),
    /// The response is that to a GET for this path and query, in place of a head.
    LocalRedirect(&'a [u8]),
}

/// A fault in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputError {
    /// It is no document.
    Document(CgiError),
    /// It is no response of HTTP/1.
    Http(ResponseError),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document(error) => error.fmt(f),
            Self::Http(error) => error.fmt(f),
        }
    }
}

/// The result of one step of a reader.
enum OutputStep<'a> {
    Part(OutputEvent<'a>),
    /// Nothing for the client. If no byte was used, more output is needed.
    Nothing,
    End,
}

impl ScriptOutput {
    /// Makes a reader for a request and the script with a path.
    pub(super) fn new(method: Method, path: &[u8]) -> Self {
        let request = SentRequest { method, upgrade: false, close: true, expects_continue: false };
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let limits = ResponseLimits::default();
        let reader = if name.starts_with(NPH_PREFIX) {
            OutputReader::Http(ResponseParser::new(request, &limits))
        } else {
            OutputReader::Document(CgiReader::new(request, &limits))
        };
        Self { reader, pending: Vec::new(), malformed_line: None }
    }

    /// Returns whether the script writes HTTP itself.
    pub(super) fn is_http(&self) -> bool {
        matches!(self.reader, OutputReader::Http(_))
    }

    /// Takes the line that is no field line, if that was the fault, for messages.
    pub(super) fn take_malformed_line(&mut self) -> Option<Box<str>> {
        self.malformed_line.take()
    }

    /// Reads the next output, and passes on the parts of the response in it. Returns whether the
    /// response is at its end.
    ///
    /// # Errors
    /// The fault in the output.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        end: InputEnd,
        storage: &mut HeadStorage,
        mut give: impl FnMut(OutputEvent<'_>),
    ) -> Result<bool, OutputError> {
        let mut joined = std::mem::take(&mut self.pending);
        if !joined.is_empty() {
            joined.extend_from_slice(bytes);
        }
        let mut input = if joined.is_empty() { bytes } else { &joined };
        loop {
            let (used, step) = match self.reader.step(input, end, storage) {
                Ok(step) => step,
                Err(error) => {
                    self.malformed_line = self.reader.malformed_line(input);
                    return Err(error);
                }
            };
            input = input.get(used..).unwrap_or_default();
            match step {
                OutputStep::End => return Ok(true),
                OutputStep::Part(event) => give(event),
                OutputStep::Nothing if used == 0 => {
                    self.pending = input.to_vec();
                    return Ok(false);
                }
                OutputStep::Nothing => {}
            }
        }
    }
}

impl OutputReader {
    /// Returns the beginning of the line that is no field line, escaped.
    fn malformed_line(&self, input: &[u8]) -> Option<Box<str>> {
        let Self::Document(reader) = self else { return None };
        let line = reader.malformed_line(input)?;
        let shown = line.get(..MALFORMED_LINE_SHOWN_BYTES).unwrap_or(line);
        let more = if shown.len() < line.len() { "..." } else { "" };
        Some(format!("{}{more}", shown.escape_ascii()).into())
    }

    fn step<'a>(
        &'a mut self,
        input: &'a [u8],
        end: InputEnd,
        storage: &'a mut HeadStorage,
    ) -> Result<(usize, OutputStep<'a>), OutputError> {
        let (used, event) = match self {
            Self::Document(reader) => {
                let step = reader.step(input, end, u64::MAX, storage);
                let step = step.map_err(OutputError::Document)?;
                match step.event {
                    GatewayEvent::Response(event) => (step.used, event),
                    GatewayEvent::LocalRedirect(target) => {
                        let event = OutputEvent::LocalRedirect(target);
                        return Ok((step.used, OutputStep::Part(event)));
                    }
                    // Only FastCGI has them.
                    GatewayEvent::Stderr(_) => return Ok((step.used, OutputStep::Nothing)),
                }
            }
            Self::Http(parser) => {
                let step = parser.step(input, end, u64::MAX, storage);
                let step = step.map_err(OutputError::Http)?;
                (step.used, step.event)
            }
        };
        let step = match event {
            // Scripts send no interim responses (RFC 3875 §6.3.3): this server has sent its own.
            ResponseEvent::NeedMore | ResponseEvent::Interim(_) => OutputStep::Nothing,
            ResponseEvent::Head(head) => {
                let (status, content_length) = (head.status, head.content_length);
                let fields = head.fields;
                OutputStep::Part(OutputEvent::Head { status, fields, content_length })
            }
            ResponseEvent::Content(bytes) => OutputStep::Part(OutputEvent::Content(bytes)),
            ResponseEvent::End { .. } => OutputStep::End,
        };
        Ok((used, step))
    }
}

#[cfg(test)]
mod tests;
