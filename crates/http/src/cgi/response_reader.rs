//! Reads the response of a program whose output is the bytes of a pipe or a connection.

use super::error::CgiError;
use super::output::{CgiOutput, OutputPart};
use super::response_event::{GatewayEvent, GatewayStep};
use crate::field::Fields;
use crate::h1::client::limits::ResponseLimits;
use crate::h1::client::request_writer::SentRequest;
use crate::h1::client::response_parser::{InputEnd, Persistence, ResponseEvent};
use crate::h1::head_parser::HeadStorage;

/// Reads the response to one request from the output of a CGI program, or from the connection to an
/// SCGI application. The end of the output is the end of the response.
///
/// The same bytes give the same heads, content and errors however they are cut. A head that arrives
/// in one piece is read from the input; only a head in several pieces is copied.
#[derive(Clone, Debug)]
pub struct CgiReader {
    output: CgiOutput,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// The response is complete.
    End,
    /// An earlier step has failed with this error, which is final.
    Failed(CgiError),
}

/// The meaning of the bytes before `used`.
enum OutputFound {
    NeedMore,
    Head { start: usize },
    Content { start: usize },
    End,
}

impl CgiReader {
    /// Makes a reader of the response to this request, of which only the method matters.
    #[must_use]
    pub const fn new(request: SentRequest, limits: &ResponseLimits) -> CgiReader {
        let request = SentRequest { close: true, ..request };
        CgiReader { output: CgiOutput::new(request, limits), state: State::Open }
    }

    /// Returns whether the response is at its end.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Uses bytes at the front of `input`, of content at most `room`. Unused bytes must be at the
    /// front of the next input. After [`ResponseEvent::End`] no more bytes are used, and its
    /// persistence is always [`Persistence::Close`].
    ///
    /// `end` is [`InputEnd::Closed`] once the program has closed its output. If it was killed, or
    /// a time is over, it is [`InputEnd::Broken`], and the response is not complete.
    ///
    /// `storage` may be shared with all other readers: it holds nothing between two calls.
    ///
    /// # Errors
    /// Returns the error of the response, in this call and in each one after it.
    pub fn step<'a>(
        &'a mut self,
        input: &'a [u8],
        end: InputEnd,
        room: u64,
        storage: &'a mut HeadStorage,
    ) -> Result<GatewayStep<'a>, CgiError> {
        let found = match self.state {
            State::Open => self.advance(input, end, room),
            State::End => Ok((0, OutputFound::End)),
            State::Failed(error) => return Err(error),
        };
        let (used, found) = found.inspect_err(|&error| self.state = State::Failed(error))?;
        let slice = |start| input.get(start..used).unwrap_or_default();
        let event = match found {
            OutputFound::NeedMore => GatewayEvent::Response(ResponseEvent::NeedMore),
            OutputFound::Content { start } => {
                GatewayEvent::Response(ResponseEvent::Content(slice(start)))
            }
            OutputFound::Head { start } => {
                let Self { output, state } = self;
                let event = output.head_event(slice(start), storage);
                event.inspect_err(|&error| *state = State::Failed(error))?
            }
            OutputFound::End => {
                self.state = State::End;
                let persistence = Persistence::Close;
                let trailers = Fields::EMPTY;
                GatewayEvent::Response(ResponseEvent::End { trailers, persistence })
            }
        };
        Ok(GatewayStep { used, event })
    }

    /// Returns the line that [`CgiError::MalformedFieldLine`] is about, for messages: the first one
    /// of the head that is no field line. `input` is that of the step that has failed.
    #[must_use]
    pub fn malformed_line<'a>(&'a self, input: &'a [u8]) -> Option<&'a [u8]> {
        match self.state {
            State::Failed(CgiError::MalformedFieldLine) => self.output.malformed_line(input),
            _ => None,
        }
    }

    fn advance(
        &mut self,
        input: &[u8],
        end: InputEnd,
        room: u64,
    ) -> Result<(usize, OutputFound), CgiError> {
        let mut used = 0;
        while let Some(rest @ [_, ..]) = input.get(used..) {
            let start = used;
            let (bytes, part) = self.output.take(rest, room)?;
            used += bytes;
            match part {
                OutputPart::Nothing if bytes == 0 => return Ok((used, OutputFound::NeedMore)),
                OutputPart::Nothing => {}
                OutputPart::Head => return Ok((used, OutputFound::Head { start })),
                OutputPart::Content => return Ok((used, OutputFound::Content { start })),
                OutputPart::TooMuch => return Ok((used, OutputFound::End)),
            }
        }
        match end {
            InputEnd::Open => Ok((used, OutputFound::NeedMore)),
            InputEnd::Closed => self.output.end().map(|()| (used, OutputFound::End)),
            InputEnd::Broken => Err(self.output.end().err().unwrap_or(CgiError::OutputAborted)),
        }
    }
}
