//! Reads one response, interim responses included, from the bytes of a connection (RFC 9112).
//!
//! The same bytes give the same heads, content, trailers and errors however they are cut.

use super::limits::{RESPONSE_FIELDS_MAX, RESPONSE_HEAD_MAX_BYTES, ResponseLimits};
use super::request_writer::SentRequest;
use super::response_error::ResponseError;
use super::response_framing::{MessageEnd, ResponseFraming, message_end};
use super::response_head::{ResponseHead, ScannedResponse, check_front, scan_response};
use crate::field::{Fields, KnownField};
use crate::h1::body::{BodyReader, BodyStep};
use crate::h1::head_parser::{HeadStorage, has_blank_line};
use crate::h1::trailers;
use crate::refusal::Refusal;
use crate::request_head::Framing;
use crate::version::Version;

/// Whether more input can come than the caller has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputEnd {
    /// The connection is open.
    Open,
    /// The server has closed its direction in order: by FIN, over TLS after `close_notify` (RFC
    /// 9112 §9.8). Content that the close ends is complete.
    Closed,
    /// The connection is broken: a reset, a timeout, an end without `close_notify`. Only a response
    /// with an announced length can be complete.
    Broken,
}

/// The number of bytes of the input that were used, and their event.
#[derive(Debug)]
pub struct ResponseStep<'a> {
    /// Bytes at the front of the input that need not be given again.
    pub used: usize,
    /// The event of these bytes.
    pub event: ResponseEvent<'a>,
}

/// A part of a response. Events come in this order: any number of `Interim`, one `Head`, any number
/// of `Content`, and `End`; `NeedMore` comes anywhere.
#[derive(Debug)]
pub enum ResponseEvent<'a> {
    /// The rest of the input can only be used with more input, or with room for content. A head
    /// stays in the input until it is whole, and so does a trailer section.
    NeedMore,
    /// An interim response (RFC 9110 §15.2), such as 100 and 103.
    Interim(ResponseHead<'a>),
    /// The head of the final response, or a 101 that the request has asked for. Compare its
    /// `Upgrade` with the protocols that the request offered.
    Head(ResponseHead<'a>),
    /// Some content, never empty and never more than there was room for.
    Content(&'a [u8]),
    /// The response is complete.
    End {
        /// The trailer fields of chunked content. They are never a part of the head's (RFC 9110
        /// §6.5.1), and fields that are forbidden there are left out.
        trailers: Fields<'a>,
        /// Whether and how the connection can be reused.
        persistence: Persistence,
    },
}

/// Whether and how a connection can be reused after a response, as far as the messages decide. The
/// caller checks two more conditions, see [the module](super#reuse-of-a-connection).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Another request may be sent (RFC 9112 §9.3).
    Reuse,
    /// The connection must close.
    Close,
    /// All further bytes, in both directions, are of another protocol (RFC 9110 §7.8, §9.3.6).
    Tunnel,
}

/// Reads the response to one request. It does not buffer: the caller may drop the used bytes.
///
/// Its memory does not depend on the response. A head waits in the caller's buffer, which needs no
/// more than [`RESPONSE_HEAD_MAX_BYTES`]. Each byte is read a bounded number of times, also if the
/// bytes arrive one by one.
#[derive(Clone, Debug)]
pub struct ResponseParser {
    request: SentRequest,
    limits: ResponseLimits,
    /// Interim responses so far.
    interim_responses: usize,
    /// Whether an interim response asked to close, or had fields that no such response has.
    must_close: bool,
    /// The [`Persistence`] that the end of the response reports.
    persistence: Persistence,
    /// Content bytes that were handed out.
    content_bytes: u64,
    state: State,
}

const _: () = assert!(size_of::<ResponseParser>() <= 112, "one for each open request");

/// The part of the response that the parser is in.
#[derive(Clone, Debug)]
enum State {
    /// In a head, of which so many bytes need not be scanned again.
    Head { scanned: usize },
    /// In content with a length or in chunks.
    Framed(BodyReader),
    /// In content that the close of the connection ends.
    UntilClose,
    /// At the end.
    End,
    /// An earlier step has failed with this error, which is final.
    Failed(ResponseError),
}

impl ResponseParser {
    /// Makes a parser of the response to this request.
    #[must_use]
    pub const fn new(request: SentRequest, limits: &ResponseLimits) -> ResponseParser {
        ResponseParser {
            request,
            limits: *limits,
            interim_responses: 0,
            must_close: false,
            persistence: Persistence::Close,
            content_bytes: 0,
            state: State::Head { scanned: 0 },
        }
    }

    /// Returns whether the response is at its end.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Uses bytes at the front of `input`, of content at most `room`. Unused bytes must be at the
    /// front of the next input. After [`ResponseEvent::End`] no more bytes are used.
    ///
    /// `storage` may be shared with all other parsers: it holds nothing between two calls.
    ///
    /// # Errors
    /// Returns the error of the response, in this call and in each one after it. The connection
    /// must close.
    pub fn step<'a>(
        &mut self,
        input: &'a [u8],
        end: InputEnd,
        room: u64,
        storage: &'a mut HeadStorage,
    ) -> Result<ResponseStep<'a>, ResponseError> {
        let step = match &mut self.state {
            State::Head { scanned } => {
                let scanned = *scanned;
                self.head(scanned, input, end, storage)
            }
            State::Framed(_) => self.framed_content(input, end, room, storage),
            State::UntilClose => self.content_until_close(input, end, room),
            State::End => Ok(self.end(0, Fields::EMPTY)),
            State::Failed(error) => Err(*error),
        };
        if let Err(error) = &step {
            self.state = State::Failed(*error);
        }
        step
    }

    /// Reads a head at the front of `input`.
    fn head<'a>(
        &mut self,
        scanned: usize,
        input: &'a [u8],
        end: InputEnd,
        storage: &'a mut HeadStorage,
    ) -> Result<ResponseStep<'a>, ResponseError> {
        let max_bytes = self.limits.head_bytes.min(RESPONSE_HEAD_MAX_BYTES);
        let text = input.get(..max_bytes).unwrap_or(input);
        check_front(text)?;
        let fields_max = self.limits.fields.min(RESPONSE_FIELDS_MAX);
        let mut found = None;
        if scanned == 0 {
            // Most heads come in one piece.
            found = scan_response(text, storage.lines(), fields_max).unwrap_or(None);
        }
        // Errors of a head are reported once it is whole, so always in the same order.
        if found.is_none()
            && has_blank_line(text, 0, scanned).map_err(ResponseError::from_refusal)?
        {
            found = scan_response(text, storage.lines(), fields_max)?;
            debug_assert!(found.is_some(), "a head with its blank line is whole");
        }
        let Some(found) = found else {
            if text.len() >= max_bytes {
                return Err(ResponseError::HeadTooLarge { max_bytes });
            }
            return self.partial_head(text, end);
        };
        let storage: &'a HeadStorage = storage;
        let fields = Fields::new(text, storage.places());
        let used = found.bytes;
        Ok(ResponseStep { used, event: self.whole_head(&found, fields)? })
    }

    /// Waits for more bytes of a head, if more can come.
    fn partial_head<'a>(
        &mut self,
        text: &[u8],
        end: InputEnd,
    ) -> Result<ResponseStep<'a>, ResponseError> {
        match end {
            InputEnd::Open => {
                self.state = State::Head { scanned: text.len() };
                Ok(ResponseStep { used: 0, event: ResponseEvent::NeedMore })
            }
            _ if text.is_empty() && self.interim_responses == 0 => Err(ResponseError::NoResponse),
            _ => Err(ResponseError::HeadIncomplete),
        }
    }

    /// Makes the value of a whole head, and chooses the next state.
    fn whole_head<'a>(
        &mut self,
        found: &ScannedResponse<'a>,
        fields: Fields<'a>,
    ) -> Result<ResponseEvent<'a>, ResponseError> {
        let &ScannedResponse { version, status, reason, known, .. } = found;
        let message_end = if status == 101 {
            self.switching_protocols(found, &fields)?
        } else {
            message_end(self.request, version, status, &fields, &known)?
        };
        let MessageEnd { framing, content_length, keep_alive } = message_end;
        let keep_alive = keep_alive && !self.must_close;
        let head = ResponseHead {
            version,
            status,
            reason,
            fields,
            known,
            framing,
            content_length,
            keep_alive,
        };
        if status < 200 && status != 101 {
            self.interim_responses += 1;
            if self.interim_responses > self.limits.interim_responses {
                let max = self.limits.interim_responses;
                return Err(ResponseError::TooManyInterimResponses { max });
            }
            self.must_close = !keep_alive;
            self.state = State::Head { scanned: 0 };
            return Ok(ResponseEvent::Interim(head));
        }
        self.persistence = match framing {
            ResponseFraming::Tunnel => Persistence::Tunnel,
            _ if keep_alive => Persistence::Reuse,
            _ => Persistence::Close,
        };
        self.state = match framing {
            ResponseFraming::None | ResponseFraming::Tunnel => State::End,
            ResponseFraming::Length(bytes) => {
                State::Framed(BodyReader::new(Framing::Length(bytes), u64::MAX))
            }
            ResponseFraming::Chunked => State::Framed(BodyReader::new(Framing::Chunked, u64::MAX)),
            ResponseFraming::UntilClose => State::UntilClose,
        };
        Ok(ResponseEvent::Head(head))
    }

    /// Accepts a 101 if the request had `Upgrade`, and if the response names the protocol; in
    /// HTTP/1.0 it does not exist (RFC 9110 §7.8, §15.2.2).
    fn switching_protocols(
        &self,
        found: &ScannedResponse<'_>,
        fields: &Fields<'_>,
    ) -> Result<MessageEnd, ResponseError> {
        let protocol = found.known.value(fields, KnownField::Upgrade).unwrap_or_default();
        if !self.request.upgrade || found.version == Version::Http10 || protocol.is_empty() {
            return Err(ResponseError::UnexpectedUpgrade);
        }
        let framing = ResponseFraming::Tunnel;
        Ok(MessageEnd { framing, content_length: None, keep_alive: false })
    }

    /// Reads content that has a length or is in chunks.
    fn framed_content<'a>(
        &mut self,
        input: &'a [u8],
        end: InputEnd,
        room: u64,
        storage: &'a mut HeadStorage,
    ) -> Result<ResponseStep<'a>, ResponseError> {
        let State::Framed(reader) = &mut self.state else {
            unreachable!("framed content has a reader")
        };
        let result = reader.step(input, room);
        let data = if let Ok((_, BodyStep::Data(data))) = result { data } else { &[] };
        let content_bytes = self.content_bytes + data.len() as u64;
        let announced = content_bytes.saturating_add(reader.known_remaining());
        // Chunk lines are charged for the content that they announce and for their extensions.
        // Within a line, a partly read size is not charged yet.
        let charged = u64::MAX - reader.allowance();
        if charged.saturating_sub(announced) > self.limits.chunk_extension_bytes {
            let max_bytes = self.limits.chunk_extension_bytes;
            return Err(ResponseError::ChunkExtensionsTooLarge { max_bytes });
        }
        let max_bytes = self.limits.content_bytes;
        let (used, step) = result.map_err(|refusal| match refusal {
            // The sum of the sizes of all chunks needs more than 64 bits.
            Refusal::ContentTooLarge => ResponseError::ContentTooLarge { max_bytes },
            refusal => ResponseError::from_refusal(refusal),
        })?;
        let is_known = reader.is_in_content() || !data.is_empty();
        if is_known && announced > max_bytes {
            return Err(ResponseError::ContentTooLarge { max_bytes });
        }
        self.content_bytes = content_bytes;
        let waits_for_room = room == 0 && reader.is_in_content() && used < input.len();
        match step {
            BodyStep::Data(data) => Ok(ResponseStep { used, event: ResponseEvent::Content(data) }),
            BodyStep::NeedMore if end != InputEnd::Open && !waits_for_room => {
                Err(ResponseError::ContentIncomplete)
            }
            BodyStep::NeedMore => Ok(ResponseStep { used, event: ResponseEvent::NeedMore }),
            BodyStep::End(section) => {
                let trailers = trailers::read_response(section, storage);
                Ok(self.end(used, trailers.map_err(ResponseError::from_refusal)?))
            }
        }
    }

    /// Reads content that the server ends by closing the connection (RFC 9112 §6.3, rule 8).
    fn content_until_close<'a>(
        &mut self,
        input: &'a [u8],
        end: InputEnd,
        room: u64,
    ) -> Result<ResponseStep<'a>, ResponseError> {
        if input.is_empty() {
            return match end {
                InputEnd::Open => Ok(ResponseStep { used: 0, event: ResponseEvent::NeedMore }),
                InputEnd::Closed => Ok(self.end(0, Fields::EMPTY)),
                InputEnd::Broken => Err(ResponseError::ContentIncomplete),
            };
        }
        let max_bytes = self.limits.content_bytes;
        let allowed = max_bytes - self.content_bytes;
        if allowed == 0 {
            return Err(ResponseError::ContentTooLarge { max_bytes });
        }
        let most = usize::try_from(room.min(allowed)).unwrap_or(usize::MAX);
        let content = input.get(..most).unwrap_or(input);
        if content.is_empty() {
            return Ok(ResponseStep { used: 0, event: ResponseEvent::NeedMore });
        }
        self.content_bytes += content.len() as u64;
        Ok(ResponseStep { used: content.len(), event: ResponseEvent::Content(content) })
    }

    /// Ends the response, after `used` more bytes.
    fn end<'a>(&mut self, used: usize, trailers: Fields<'a>) -> ResponseStep<'a> {
        self.state = State::End;
        let persistence = self.persistence;
        ResponseStep { used, event: ResponseEvent::End { trailers, persistence } }
    }
}
