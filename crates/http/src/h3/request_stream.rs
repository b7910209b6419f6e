//! One request stream (RFC 9114 §4.1, §7.2).

use super::event::{Fatal, RequestStreamEvent, Step, StreamError};
use super::frame::{ErrorCode, FRAME_HEADER_MAX_BYTES, FrameHeader, Kind};
use super::limits::{BLOCK_MAX_BYTES, SKIP_UNIT_BYTES};
use super::session::{Session, SessionSettings};
use crate::field_section::FieldSection;
use crate::flood_budget::{Budget, Budgets};
use crate::hpack::CompressionError;
use crate::multiplexed_request_head::{self, Rejected, of_section};
use crate::priority::Priority;
use crate::qpack::decoder;
use crate::refusal::Refusal;
use crate::request_head::{Place, Room};
use crate::version::Version;

/// Input that a step may need at once. The window that the transport opens for a stream must not
/// be smaller.
pub const INPUT_MAX_BYTES: usize = FRAME_HEADER_MAX_BYTES + BLOCK_MAX_BYTES;

/// The state of a request stream; [`Session::begin`] makes one.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestStream {
    stage: MessageStage,
    part: FrameRest,
    /// The part of the announced `Content-Length` that has not arrived.
    content_left: Option<u64>,
    priority: Priority,
    /// The priority is from a frame, which the field does not change.
    prioritized: bool,
    /// The request was refused for its head: its response is no work worth doing.
    refused: bool,
    /// The request is an extended CONNECT (RFC 9220 §3).
    is_tunnel: bool,
}

const _: () = assert!(size_of::<RequestStream>() <= 48, "one per request");

/// The stage of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MessageStage {
    /// The head is to come.
    #[default]
    Begin,
    /// Content, and trailers perhaps.
    Content,
    /// The content has ended, the stream has not.
    Behind,
    /// The client's side of the stream has ended.
    Ended,
}

/// The rest of a frame that has begun.
#[derive(Clone, Copy, Debug, Default)]
enum FrameRest {
    #[default]
    None,
    Content(u64),
    Skip(u64),
}

/// The received bytes, and whether the stream ends behind them.
#[derive(Clone, Copy)]
struct Input<'a> {
    bytes: &'a [u8],
    fin: bool,
}

impl RequestStream {
    /// Creates a stream of which only a priority, if anything, has arrived.
    pub(super) fn new(priority: Option<Priority>) -> RequestStream {
        RequestStream {
            priority: priority.unwrap_or_default(),
            prioritized: priority.is_some(),
            ..RequestStream::default()
        }
    }

    /// Uses the front of the input, at most one frame of it. `fin` says that the stream ends after
    /// the input: a caller that sets it early learns early that no content follows. `section`
    /// receives the decoded fields, and can be the same for all connections; a head is put in
    /// `place`, a fresh one for each step.
    ///
    /// [`RequestStreamEvent::NeedMore`] comes with no bytes used, any other event but
    /// [`RequestStreamEvent::End`] with some. Steps are to be made until it comes, or until all is
    /// used; with `fin` until the end was said, for which the input may be empty.
    ///
    /// # Errors
    /// The stream ends, or the connection. Input is ignored from now on.
    #[inline]
    pub fn step<'a>(
        &mut self,
        input: &'a [u8],
        fin: bool,
        session: &mut Session,
        section: &'a mut FieldSection,
        place: &'a mut Place<'a>,
        now_ms: u64,
    ) -> Result<Step<'a>, StreamError> {
        let input = Input { bytes: input, fin };
        let result = self.frame(input, session, (section, place), now_ms);
        if let Err(error) = result {
            self.stage = MessageStage::Ended;
            if let StreamError::Stream(_) = error {
                session.budgets.spend(Budget::Resets, now_ms)?;
            }
        }
        result
    }

    /// Returns the urgency of the response, for the order of sending from the head on (RFC 9218
    /// §10).
    #[inline]
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Sets the priority that a frame has named; a head that has not arrived does not change it
    /// (RFC 9218 §7).
    pub fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
        self.prioritized = true;
    }

    /// Records that the request is answered although its head has not arrived: all further bytes
    /// are ignored.
    pub fn refuse_late(&mut self) {
        self.refused = true;
        self.stage = MessageStage::Ended;
    }

    /// Returns whether the request was refused for its head.
    #[inline]
    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Returns whether content comes next, if `input` shows it. Otherwise it is the rest of a
    /// frame's header, another frame, or the end of the stream.
    #[must_use]
    pub fn is_in_content(&self, input: &[u8]) -> bool {
        match self.part {
            FrameRest::Content(_) => true,
            FrameRest::Skip(_) => false,
            FrameRest::None => FrameHeader::read(input)
                .is_some_and(|header| header.kind == Kind::Data && header.bytes > 0),
        }
    }

    /// Returns whether the client's side of the stream has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.stage == MessageStage::Ended
    }

    /// Handles one frame, or the next part of one.
    #[inline]
    fn frame<'a>(
        &mut self,
        input: Input<'a>,
        session: &mut Session,
        room: Room<'a>,
        now_ms: u64,
    ) -> Result<Step<'a>, StreamError> {
        match self.part {
            _ if self.stage == MessageStage::Ended => return Ok(nothing(input.bytes.len())),
            FrameRest::Content(left) => return self.content_part(left, 0, input),
            FrameRest::Skip(left) => return self.skip_part(left, input, session, now_ms),
            FrameRest::None if input.bytes.is_empty() && input.fin => return self.end(),
            FrameRest::None => {}
        }
        let Some(header) = FrameHeader::read(input.bytes) else { return need_more(input) };
        match header.kind {
            Kind::Headers => self.headers(&header, input, session, room, now_ms),
            Kind::Data => self.data(&header, input, session, now_ms),
            Kind::Unknown => {
                session.budgets.spend(Budget::Trifles, now_ms)?;
                self.skip(header.bytes);
                Ok(nothing(header.own_bytes))
            }
            // RFC 9114 §7.2, RFC 9218 §7.2: those of the control stream, and none of a client.
            _ => Err(unexpected()),
        }
    }

    /// Handles HEADERS.
    #[inline]
    fn headers<'a>(
        &mut self,
        header: &FrameHeader,
        input: Input<'a>,
        session: &mut Session,
        (section, place): Room<'a>,
        now_ms: u64,
    ) -> Result<Step<'a>, StreamError> {
        let limits = &session.settings.limits;
        // RFC 9114 §4.4: nothing but DATA, once it is a tunnel.
        if self.stage == MessageStage::Behind || self.is_tunnel {
            return Err(unexpected());
        }
        if header.bytes > BLOCK_MAX_BYTES as u64 {
            return self.long_headers(header, input, session, section, now_ms);
        }
        let used = header.own_bytes + header.bytes as usize;
        let Some(payload) = input.bytes.get(header.own_bytes..used) else {
            return need_more(input);
        };
        decoder::decode(payload, section, limits).map_err(|_| unreadable())?;
        let event = if self.stage == MessageStage::Begin {
            let end = input.fin && used == input.bytes.len();
            self.request(end, (section, place), session, now_ms)
        } else {
            self.trailers(section)
        }?;
        Ok(Step { used, event })
    }

    /// Handles the request.
    #[inline]
    fn request<'a>(
        &mut self,
        end: bool,
        (section, place): Room<'a>,
        session: &mut Session,
        now_ms: u64,
    ) -> Result<RequestStreamEvent<'a>, StreamError> {
        let section: &'a FieldSection = section;
        let fields = section.fields();
        let SessionSettings { limits, extended_connect, .. } = &session.settings;
        let head = of_section(Version::Http3, section, end, limits, *extended_connect);
        if !self.prioritized {
            self.priority = Priority::of(&head.as_ref().map_or(fields, |head| head.fields));
        }
        self.stage = if end { MessageStage::Ended } else { MessageStage::Content };
        match head {
            Ok(head) => {
                self.content_left = multiplexed_request_head::content_length(&head);
                self.is_tunnel = head.protocol.is_some();
                Ok(RequestStreamEvent::Head { head: place.insert(head), end })
            }
            Err(Rejected::Refused(refusal)) => {
                session.budgets.spend(Budget::Heads, now_ms)?;
                self.refused = true;
                Ok(RequestStreamEvent::HeadRefused { refusal, fields, end })
            }
            Err(Rejected::Malformed) => Err(StreamError::Stream(ErrorCode::MessageError)),
        }
    }

    /// Handles HEADERS over the limit. No table needs to be kept, so the rest of them can be
    /// skipped.
    #[cold]
    fn long_headers<'a>(
        &mut self,
        header: &FrameHeader,
        input: Input<'a>,
        session: &mut Session,
        section: &'a mut FieldSection,
        now_ms: u64,
    ) -> Result<Step<'a>, StreamError> {
        if self.stage != MessageStage::Begin {
            return Err(StreamError::Stream(ErrorCode::ExcessiveLoad));
        }
        let used = header.own_bytes + BLOCK_MAX_BYTES;
        let Some(front) = input.bytes.get(header.own_bytes..used) else {
            return need_more(input);
        };
        // The method comes before other fields, and `Accept` perhaps.
        match decoder::decode(front, section, &session.settings.limits) {
            Ok(_) | Err(CompressionError::Truncated) => {}
            Err(_) => return Err(unreadable()),
        }
        session.budgets.spend(Budget::Heads, now_ms)?;
        self.refused = true;
        self.skip(header.bytes - BLOCK_MAX_BYTES as u64);
        self.stage = MessageStage::Content;
        let fields = section.fields();
        let refusal = Refusal::HeadTooLarge;
        Ok(Step { used, event: RequestStreamEvent::HeadRefused { refusal, fields, end: false } })
    }

    /// Handles the end of the content, by fields.
    #[cold]
    fn trailers<'a>(
        &mut self,
        section: &'a mut FieldSection,
    ) -> Result<RequestStreamEvent<'a>, StreamError> {
        let malformed = self.content_left.is_some_and(|left| left > 0)
            || multiplexed_request_head::trailers(section).is_err();
        if !multiplexed_request_head::trailers_fit(section) {
            return Err(StreamError::Stream(ErrorCode::ExcessiveLoad));
        }
        if malformed {
            return Err(StreamError::Stream(ErrorCode::MessageError));
        }
        self.stage = MessageStage::Behind;
        section.retain(multiplexed_request_head::keep_trailer);
        Ok(RequestStreamEvent::Trailers { fields: section.fields() })
    }

    /// Begins a DATA frame.
    #[inline]
    fn data<'a>(
        &mut self,
        header: &FrameHeader,
        input: Input<'a>,
        session: &mut Session,
        now_ms: u64,
    ) -> Result<Step<'a>, StreamError> {
        if self.stage != MessageStage::Content {
            return Err(unexpected());
        }
        if header.bytes == 0 {
            session.budgets.spend(Budget::Trifles, now_ms)?;
            return Ok(nothing(header.own_bytes));
        }
        // RFC 9114 §4.1.2: the length of all DATA together is that of `Content-Length`.
        if let Some(left) = &mut self.content_left {
            let malformed = StreamError::Stream(ErrorCode::MessageError);
            *left = left.checked_sub(header.bytes).ok_or(malformed)?;
        }
        self.content_part(header.bytes, header.own_bytes, input)
    }

    /// Returns the present part of a DATA frame, after the first `used` bytes of the input.
    #[inline]
    fn content_part<'a>(
        &mut self,
        left: u64,
        used: usize,
        input: Input<'a>,
    ) -> Result<Step<'a>, StreamError> {
        let rest = input.bytes.get(used..).unwrap_or_default();
        let bytes = rest.get(..at_most(left, rest.len())).unwrap_or_default();
        let left = left - bytes.len() as u64;
        self.part = if left > 0 { FrameRest::Content(left) } else { FrameRest::None };
        match (bytes, used) {
            ([], 0) => need_more(input),
            ([], _) => Ok(nothing(used)),
            _ => Ok(Step { used: used + bytes.len(), event: RequestStreamEvent::Data { bytes } }),
        }
    }

    /// Skips the present part of a frame that is ignored.
    fn skip_part<'a>(
        &mut self,
        mut left: u64,
        input: Input<'a>,
        session: &mut Session,
        now_ms: u64,
    ) -> Result<Step<'a>, StreamError> {
        let used = at_most(left, input.bytes.len());
        if used == 0 {
            return need_more(input);
        }
        spend_skipped(&mut session.budgets, &mut left, used as u64, now_ms)?;
        self.skip(left);
        Ok(nothing(used))
    }

    /// Skips so many bytes of a frame.
    fn skip(&mut self, bytes: u64) {
        self.part = if bytes > 0 { FrameRest::Skip(bytes) } else { FrameRest::None };
    }

    /// Handles the end of the stream, between frames.
    fn end<'a>(&mut self) -> Result<Step<'a>, StreamError> {
        let code = match (self.stage, self.content_left) {
            // RFC 9114 §4.1: no whole request.
            (MessageStage::Begin, _) => ErrorCode::RequestIncomplete,
            (MessageStage::Content, Some(1..)) => ErrorCode::MessageError,
            _ => {
                self.stage = MessageStage::Ended;
                return Ok(Step { used: 0, event: RequestStreamEvent::End });
            }
        };
        Err(StreamError::Stream(code))
    }
}

/// Passes over `used` of the bytes that are `left`.
pub(super) fn spend_skipped(
    budgets: &mut Budgets,
    left: &mut u64,
    used: u64,
    now_ms: u64,
) -> Result<(), Budget> {
    let units = *left / SKIP_UNIT_BYTES - (*left - used) / SKIP_UNIT_BYTES;
    *left -= used;
    (0..units).try_for_each(|_| budgets.spend(Budget::Trifles, now_ms))
}

/// Returns how many of `left` bytes are among `bytes` of input.
fn at_most(left: u64, bytes: usize) -> usize {
    usize::try_from(left).map_or(bytes, |left| left.min(bytes))
}

/// Returns a step that waits for the rest of a frame, which must come (RFC 9114 §7.1).
#[inline]
fn need_more<'a>(input: Input<'_>) -> Result<Step<'a>, StreamError> {
    if input.fin {
        return Err(Fatal::from(ErrorCode::FrameError).into());
    }
    Ok(Step { used: 0, event: RequestStreamEvent::NeedMore })
}

fn nothing<'a>(used: usize) -> Step<'a> {
    Step { used, event: RequestStreamEvent::Nothing }
}

/// Returns the error of a frame that is not allowed there (RFC 9114 §4.1, §7.2).
#[cold]
fn unexpected() -> StreamError {
    Fatal::from(ErrorCode::FrameUnexpected).into()
}

/// Returns the error of a section that cannot be decoded (RFC 9204 §2.2).
#[cold]
fn unreadable() -> StreamError {
    Fatal::from(ErrorCode::QpackDecompressionFailed).into()
}
