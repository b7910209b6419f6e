//! Reads one response from the records of a connection (§3.3, §5).

use super::error::FastCgiError;
use super::limits::{IGNORED_RECORDS_MAX, STDERR_MAX_BYTES, STDERR_READ_MAX_BYTES};
use super::record::{RecordHeader, RecordKind, VERSION};
use crate::cgi::output::{CgiOutput, OutputPart};
use crate::cgi::response_event::{GatewayEvent, GatewayStep};
use crate::field::Fields;
use crate::h1::client::limits::ResponseLimits;
use crate::h1::client::request_writer::SentRequest;
use crate::h1::client::response_parser::{InputEnd, Persistence, ResponseEvent};
use crate::h1::head_parser::HeadStorage;

/// Reads the response to one request. It does not buffer content: the caller may drop the used
/// bytes.
///
/// The same bytes give the same heads, content and errors however they are cut. A head in one
/// record and one piece is read from the input; only a head in several is copied.
#[derive(Clone, Debug)]
pub struct FastCgiReader {
    output: CgiOutput,
    record: OpenRecord,
    /// The application has ended these streams.
    is_stdout_ended: bool,
    is_stderr_ended: bool,
    /// Bytes of the error stream.
    stderr_bytes: u64,
    /// Records that said nothing.
    ignored_records: u32,
    /// Whether the header of a record has come.
    has_begun: bool,
    /// The exit status of the application.
    app_status: Option<u32>,
    state: State,
}

const _: () = assert!(size_of::<FastCgiReader>() <= 176, "one for each open request");

/// The record that is read, and how much of it is missing.
#[derive(Clone, Copy, Debug)]
struct OpenRecord {
    kind: RecordKind,
    content_bytes: u16,
    padding_bytes: u8,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// The end of the request has come; padding may be missing.
    Ending,
    /// The response is complete.
    End(Persistence),
    /// An earlier step has failed with this error, which is final.
    Failed(FastCgiError),
}

/// The meaning of the bytes before `used`.
enum OutputFound {
    NeedMore,
    Head { start: usize },
    Content { start: usize },
    Stderr { start: usize },
    End(Persistence),
}

/// The use of the bytes of a record.
enum RecordPart {
    /// They are used up, and the reader continues with the next ones.
    Continue,
    /// More bytes, or more room for content, must come first.
    Wait {
        needs_room: bool,
    },
    Found(OutputFound),
}

impl FastCgiReader {
    /// Makes a reader of the response to this request.
    #[must_use]
    pub const fn new(request: SentRequest, limits: &ResponseLimits) -> FastCgiReader {
        let kind = RecordKind::Management;
        FastCgiReader {
            output: CgiOutput::new(request, limits),
            record: OpenRecord { kind, content_bytes: 0, padding_bytes: 0 },
            is_stdout_ended: false,
            is_stderr_ended: false,
            stderr_bytes: 0,
            ignored_records: 0,
            has_begun: false,
            app_status: None,
            state: State::Open,
        }
    }

    /// Returns whether the response is at its end.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        matches!(self.state, State::End(_))
    }

    /// Returns the exit status of the application, if it has ended the request (§5.5). It is 0 for
    /// success by convention, and changes nothing about the response.
    #[must_use]
    pub const fn app_status(&self) -> Option<u32> {
        self.app_status
    }

    /// Uses bytes at the front of `input`, of content at most `room`. Unused bytes must be at the
    /// front of the next input. After [`ResponseEvent::End`] no more bytes are used.
    ///
    /// The persistence at the end is [`Persistence::Reuse`] if the application has ended the
    /// request and was asked to keep the connection. The conditions of
    /// [HTTP/1](crate::h1::client#reuse-of-a-connection) hold as well: the request is complete, and
    /// no bytes follow the response.
    ///
    /// `storage` may be shared with all other readers: it holds nothing between two calls.
    ///
    /// # Errors
    /// Returns the error of the response, in this call and in each one after it. The connection
    /// must close.
    pub fn step<'a>(
        &'a mut self,
        input: &'a [u8],
        end: InputEnd,
        room: u64,
        storage: &'a mut HeadStorage,
    ) -> Result<GatewayStep<'a>, FastCgiError> {
        let found = match self.state {
            State::Open | State::Ending => self.advance(input, end, room),
            State::End(persistence) => Ok((0, OutputFound::End(persistence))),
            State::Failed(error) => return Err(error),
        };
        let (used, found) = found.inspect_err(|&error| self.state = State::Failed(error))?;
        let slice = |start| input.get(start..used).unwrap_or_default();
        let event = match found {
            OutputFound::NeedMore => GatewayEvent::Response(ResponseEvent::NeedMore),
            OutputFound::Content { start } => {
                GatewayEvent::Response(ResponseEvent::Content(slice(start)))
            }
            OutputFound::Stderr { start } => GatewayEvent::Stderr(slice(start)),
            OutputFound::Head { start } => {
                let Self { output, state, .. } = self;
                let event = output.head_event(slice(start), storage);
                event.inspect_err(|&error| *state = State::Failed(error.into()))?
            }
            OutputFound::End(persistence) => {
                self.state = State::End(persistence);
                let trailers = Fields::EMPTY;
                GatewayEvent::Response(ResponseEvent::End { trailers, persistence })
            }
        };
        Ok(GatewayStep { used, event })
    }

    /// Uses bytes up to the end of the next event.
    fn advance(
        &mut self,
        input: &[u8],
        end: InputEnd,
        room: u64,
    ) -> Result<(usize, OutputFound), FastCgiError> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let (bytes, part) = self.part(rest, used, room)?;
            used += bytes;
            match part {
                RecordPart::Continue => {}
                RecordPart::Found(found) => return Ok((used, found)),
                RecordPart::Wait { needs_room } if needs_room || end == InputEnd::Open => {
                    return Ok((used, OutputFound::NeedMore));
                }
                RecordPart::Wait { .. } if !self.has_begun && rest.is_empty() => {
                    return Err(FastCgiError::NoResponse);
                }
                RecordPart::Wait { .. } => return Err(FastCgiError::Aborted),
            }
        }
    }

    /// Uses bytes of one record, of its padding, or of the header of the next one. `start` is where
    /// `rest` is in the input.
    fn part(
        &mut self,
        rest: &[u8],
        start: usize,
        room: u64,
    ) -> Result<(usize, RecordPart), FastCgiError> {
        const WAIT: RecordPart = RecordPart::Wait { needs_room: false };
        let OpenRecord { kind, content_bytes, padding_bytes } = self.record;
        if content_bytes == 0 && padding_bytes == 0 {
            return if matches!(self.state, State::Ending) {
                let close = self.output.is_last();
                let persistence = if close { Persistence::Close } else { Persistence::Reuse };
                Ok((0, RecordPart::Found(OutputFound::End(persistence))))
            } else {
                self.header(rest)
            };
        }
        if rest.is_empty() {
            return Ok((0, WAIT));
        }
        if content_bytes == 0 {
            let bytes = rest.len().min(usize::from(padding_bytes));
            self.record.padding_bytes -= bytes as u8;
            return Ok((bytes, RecordPart::Continue));
        }
        let content = rest.get(..usize::from(content_bytes)).unwrap_or(rest);
        let (bytes, part) = match kind {
            RecordKind::Stdout => match self.output.take(content, room)? {
                (0, OutputPart::Nothing) => (0, RecordPart::Wait { needs_room: true }),
                (bytes, OutputPart::Nothing) => (bytes, RecordPart::Continue),
                (bytes, OutputPart::Head) => {
                    (bytes, RecordPart::Found(OutputFound::Head { start }))
                }
                (bytes, OutputPart::Content) => {
                    (bytes, RecordPart::Found(OutputFound::Content { start }))
                }
                (bytes, OutputPart::TooMuch) => {
                    (bytes, RecordPart::Found(OutputFound::End(Persistence::Close)))
                }
            },
            RecordKind::Stderr => self.stderr(content.len(), start)?,
            RecordKind::Management => (content.len(), RecordPart::Continue),
            RecordKind::EndRequest => match content.as_array() {
                None => (0, WAIT),
                Some(body) => {
                    self.end_request(body)?;
                    (content.len(), RecordPart::Continue)
                }
            },
        };
        self.record.content_bytes -= bytes as u16;
        Ok((bytes, part))
    }

    /// Reads the header of a record.
    fn header(&mut self, rest: &[u8]) -> Result<(usize, RecordPart), FastCgiError> {
        if let Some(&version) = rest.first().filter(|&&version| version != VERSION) {
            return Err(FastCgiError::Version { version });
        }
        let Some(bytes) = rest.first_chunk() else {
            return Ok((0, RecordPart::Wait { needs_room: false }));
        };
        let RecordHeader { kind, content_bytes, padding_bytes } = RecordHeader::parse(bytes)?;
        self.has_begun = true;
        self.record = OpenRecord { kind, content_bytes, padding_bytes };
        let is_ended = match kind {
            RecordKind::Stdout => &mut self.is_stdout_ended,
            RecordKind::Stderr => &mut self.is_stderr_ended,
            RecordKind::Management => return self.ignore(bytes.len()),
            RecordKind::EndRequest if content_bytes == 8 => {
                return Ok((bytes.len(), RecordPart::Continue));
            }
            RecordKind::EndRequest => return Err(FastCgiError::EndRequest),
        };
        match (content_bytes, *is_ended) {
            (0, false) => *is_ended = true,
            (0, true) => return self.ignore(bytes.len()),
            (_, true) => return Err(FastCgiError::StreamEnded),
            (_, false) => {}
        }
        Ok((bytes.len(), RecordPart::Continue))
    }

    /// Counts a record that is ignored.
    fn ignore(&mut self, bytes: usize) -> Result<(usize, RecordPart), FastCgiError> {
        self.ignored_records += 1;
        if self.ignored_records > IGNORED_RECORDS_MAX {
            return Err(FastCgiError::TooManyRecords);
        }
        Ok((bytes, RecordPart::Continue))
    }

    /// Returns bytes of the error stream, up to the limit.
    fn stderr(&mut self, bytes: usize, start: usize) -> Result<(usize, RecordPart), FastCgiError> {
        let given = STDERR_MAX_BYTES.saturating_sub(self.stderr_bytes);
        let given = usize::try_from(given).unwrap_or(usize::MAX).min(bytes);
        let (bytes, part) = match given {
            0 => (bytes, RecordPart::Continue),
            _ => (given, RecordPart::Found(OutputFound::Stderr { start })),
        };
        self.stderr_bytes += bytes as u64;
        if self.stderr_bytes > STDERR_READ_MAX_BYTES {
            return Err(FastCgiError::StderrTooLarge);
        }
        Ok((bytes, part))
    }

    /// Reads the body of the record that ends the request (§5.5).
    fn end_request(&mut self, body: &[u8; 8]) -> Result<(), FastCgiError> {
        let [app_3, app_2, app_1, app_0, status, ..] = *body;
        self.app_status = Some(u32::from_be_bytes([app_3, app_2, app_1, app_0]));
        match status {
            0 => self.output.end()?,
            1 => return Err(FastCgiError::CannotMultiplex),
            2 => return Err(FastCgiError::Overloaded),
            3 => return Err(FastCgiError::UnknownRole),
            status => return Err(FastCgiError::ProtocolStatus { status }),
        }
        self.state = State::Ending;
        Ok(())
    }
}
