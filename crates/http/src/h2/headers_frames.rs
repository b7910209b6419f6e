//! HEADERS and CONTINUATION (RFC 9113 §6.2, §6.10): the beginning of a stream, or the end of its
//! content.

use super::control::depends_on_itself;
use super::event::{Event, StepFault};
use super::frame::{ErrorCode, FrameHeader, WINDOW_DEFAULT_BYTES, flag};
use super::limits::{BLOCK_MAX_BYTES, CONTINUATION_MIN_BYTES};
use super::session::{Ignored, Session, SessionSettings, Whereabouts};
use crate::field_section::FieldSection;
use crate::flood_budget::Budget;
use crate::hpack::CompressionError;
use crate::multiplexed_request_head::{self, Rejected, of_section};
use crate::priority::Priority;
use crate::request_head::Room;
use crate::version::Version;

/// The first parts of a field block.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) stream: u32,
    end: bool,
    block: Vec<u8>,
}

impl Gathering {
    pub(super) fn memory_bytes(&self) -> usize {
        self.block.capacity()
    }
}

impl<S: Default> Session<S> {
    /// Handles HEADERS.
    #[inline]
    pub(super) fn headers<'a>(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        room: Room<'a>,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, StepFault> {
        // RFC 9113 §5.1.1: the streams of a client have odd numbers.
        if header.stream.is_multiple_of(2) {
            return Err(ErrorCode::ProtocolError.into());
        }
        let block = field_block(header, payload)?;
        let end = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.section(header.stream, end, block, room, now_ms, out);
        }
        let stream = header.stream;
        self.gathering = Some(Gathering { stream, end, block: block.to_vec() });
        Ok(Event::Nothing)
    }

    /// Handles CONTINUATION.
    #[cold]
    pub(super) fn continuation<'a>(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        room: Room<'a>,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, StepFault> {
        let Some(mut gathering) = self.gathering.take() else {
            return Err(ErrorCode::ProtocolError.into());
        };
        if gathering.block.len() + payload.len() > BLOCK_MAX_BYTES {
            return Err(Budget::Block.into());
        }
        gathering.block.extend_from_slice(payload);
        if header.has(flag::END_HEADERS) {
            let Gathering { stream, end, block } = gathering;
            return self.section(stream, end, &block, room, now_ms, out);
        }
        if payload.len() < CONTINUATION_MIN_BYTES {
            self.budgets.spend(Budget::Trifles, now_ms)?;
        }
        self.gathering = Some(gathering);
        Ok(Event::Nothing)
    }

    /// Handles a whole field block. It is decoded even if its stream is refused, so that the table
    /// of the compression stays that of the client (RFC 9113 §4.3).
    #[inline]
    fn section<'a>(
        &mut self,
        stream: u32,
        end: bool,
        block: &[u8],
        room: Room<'a>,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, StepFault> {
        match self.decoder.decode(block, room.0, &self.settings.limits) {
            Ok(_) => {}
            Err(CompressionError::Work) => return Err(Budget::Block.into()),
            Err(_) => return Err(ErrorCode::CompressionError.into()),
        }
        match self.whereabouts(stream) {
            Whereabouts::Idle if stream > self.accepted_max => {
                self.last_stream = stream;
                self.budgets.spend(Budget::Trifles, now_ms)?;
                Ok(Event::Nothing)
            }
            Whereabouts::Idle => self.request(stream, end, room, now_ms, out),
            Whereabouts::Open => self.received_trailers(stream, end, room.0, now_ms, out),
            Whereabouts::Ignored => {
                if end {
                    self.settled(stream);
                }
                self.budgets.spend(Budget::Trifles, now_ms)?;
                Ok(Event::Nothing)
            }
            // RFC 9113 §5.1.1: a stream with a lower number than the highest was closed implicitly
            // when that was opened.
            Whereabouts::Closed if (self.skipped.0..=self.skipped.1).contains(&stream) => {
                Err(ErrorCode::ProtocolError.into())
            }
            Whereabouts::Closed => Err(ErrorCode::StreamClosed.into()),
        }
    }

    /// Handles a request on a new stream.
    #[inline]
    fn request<'a>(
        &mut self,
        stream: u32,
        end: bool,
        room: Room<'a>,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, StepFault> {
        if stream > self.last_stream + 2 {
            self.skipped = (self.last_stream + 1, stream - 1);
        }
        self.last_stream = stream;
        if self.streams.len() >= usize::from(self.settings.streams) {
            return self.refuse(stream, end, ErrorCode::RefusedStream, now_ms, out);
        }
        let (section, place) = room;
        let section: &'a FieldSection = section;
        let fields = section.fields();
        let SessionSettings { limits, extended_connect, .. } = &self.settings;
        let head = of_section(Version::Http2, section, end, limits, *extended_connect);
        match head {
            Ok(_) => {}
            Err(Rejected::Refused(_)) => self.budgets.spend(Budget::Heads, now_ms)?,
            Err(Rejected::Malformed) => {
                return self.refuse(stream, end, ErrorCode::ProtocolError, now_ms, out);
            }
        }
        // RFC 9218 §7: a frame that came ahead of the request wins.
        let named = head.as_ref().map_or(fields, |head| head.fields);
        let priority = self.early.take(stream).unwrap_or_else(|| Priority::of(&named));
        let content_left = head.as_ref().ok().and_then(multiplexed_request_head::content_length);
        let is_tunnel = head.as_ref().is_ok_and(|head| head.protocol.is_some());
        let Some(open) = self.open_stream(stream, priority) else {
            return self.refuse(stream, end, ErrorCode::RefusedStream, now_ms, out);
        };
        open.peer_ended = end;
        open.content_left = content_left;
        open.refused = head.is_err();
        open.is_tunnel = is_tunnel;
        match head {
            Ok(head) => Ok(Event::Head { stream, head: place.insert(head), end }),
            Err(Rejected::Refused(refusal)) => {
                Ok(Event::HeadRefused { stream, refusal, fields, end })
            }
            Err(Rejected::Malformed) => Err(ErrorCode::InternalError.into()),
        }
    }

    /// Ends a stream that no event has reported.
    #[cold]
    fn refuse<'a>(
        &mut self,
        stream: u32,
        end: bool,
        code: ErrorCode,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, StepFault> {
        self.budgets.spend(Budget::Resets, now_ms)?;
        self.early.take(stream);
        super::frame::reset_stream(out, stream, code);
        if !end {
            self.ignore(Ignored::silently(stream, WINDOW_DEFAULT_BYTES as i32));
        }
        Ok(Event::Nothing)
    }

    /// Handles the end of the content of an open stream (RFC 9113 §8.1).
    #[cold]
    fn received_trailers<'a>(
        &mut self,
        stream: u32,
        end: bool,
        section: &'a mut FieldSection,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, StepFault> {
        let Some(open) = self.streams.get_mut(stream) else { return Ok(Event::Nothing) };
        // RFC 9113 §8.5: nothing but DATA, once it is a tunnel.
        let malformed = !end
            || open.is_tunnel
            || open.content_left.is_some_and(|left| left > 0)
            || multiplexed_request_head::trailers(section).is_err();
        let code = if open.peer_ended {
            // RFC 9113 §5.1: "half-closed (remote)".
            ErrorCode::StreamClosed
        } else if !multiplexed_request_head::trailers_fit(section) {
            ErrorCode::EnhanceYourCalm
        } else if malformed {
            ErrorCode::ProtocolError
        } else {
            open.peer_ended = true;
            section.retain(multiplexed_request_head::keep_trailer);
            return Ok(Event::Trailers { stream, fields: section.fields() });
        };
        self.stream_error(stream, code, now_ms, out)
    }
}

/// Returns the field block in HEADERS, without padding and the deprecated fields of priority (RFC
/// 9113 §6.2, §5.3.2).
#[inline]
fn field_block<'p>(header: &FrameHeader, payload: &'p [u8]) -> Result<&'p [u8], StepFault> {
    let (padding, mut rest) = match (header.has(flag::PADDED), payload) {
        (false, _) => (0, payload),
        (true, [padding, rest @ ..]) => (usize::from(*padding), rest),
        (true, []) => return Err(ErrorCode::FrameSizeError.into()),
    };
    if header.has(flag::PRIORITY) {
        if depends_on_itself(header.stream, rest) {
            return Err(ErrorCode::ProtocolError.into());
        }
        rest = rest.get(5..).ok_or(ErrorCode::FrameSizeError)?;
    }
    let bytes = rest.len().checked_sub(padding).ok_or(ErrorCode::ProtocolError)?;
    Ok(rest.get(..bytes).unwrap_or_default())
}
