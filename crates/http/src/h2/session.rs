//! One connection of HTTP/2.

use super::data_frames::DataRest;
use super::event::{Event, Step, StepFault};
use super::frame::{
    self, ErrorCode, FRAME_DEFAULT_BYTES, FRAME_HEADER_BYTES, FrameHeader, Kind, PREFACE,
    STREAM_MAX, TABLE_DEFAULT_BYTES, WINDOW_DEFAULT_BYTES, setting,
};
use super::headers_frames::Gathering;
use super::limits;
use super::stream_table::{StreamSlot, Streams};
use super::stream_window_tuning::StreamWindow;
use crate::field_section::FieldSection;
use crate::flood_budget::{Budget, Budgets};
use crate::goaway_state::Leaving;
use crate::hpack::decoder::Decoder;
use crate::hpack::dynamic_encoder::Encoder;
use crate::limits::{Limits, STREAMS_MAX};
use crate::priority::{EarlyPriorities, Priority};
use crate::request_head::{Place, Room};

/// Input that a step may need at once: the longest frame that is accepted.
pub const INPUT_MAX_BYTES: usize = FRAME_HEADER_BYTES + FRAME_DEFAULT_BYTES as usize;

/// The settings of a listener.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// Streams open at once; at most [`STREAMS_MAX`] of them are of use.
    pub streams: u16,
    /// The window of the connection, see [`limits::CONNECTION_WINDOW_BYTES`]. The protocol cannot
    /// announce less than 65535.
    pub connection_window_bytes: u32,
    /// The limits of a request head.
    pub limits: Limits,
    /// Whether requests may be an extended CONNECT, which is announced to the client (RFC 8441 §3).
    pub extended_connect: bool,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            streams: STREAMS_MAX,
            connection_window_bytes: limits::CONNECTION_WINDOW_BYTES,
            limits: Limits::default(),
            extended_connect: false,
        }
    }
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client has to send its preface.
    Preface,
    /// The client's SETTINGS after the preface are expected (RFC 9113 §3.4).
    First,
    Open,
    /// Over; GOAWAY with an error was written.
    Failed,
}

/// The settings of the client (RFC 9113 §6.5.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    pub(super) stream_window: i32,
    pub(super) frame_bytes: u32,
}

/// One connection of HTTP/2. `S` is the data that the caller keeps with each open stream.
#[derive(Debug)]
pub struct Session<S> {
    pub(super) settings: SessionSettings,
    pub(super) phase: Phase,
    pub(super) leaving: Leaving,
    pub(super) peer: PeerSettings,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) streams: Streams<S>,
    pub(super) budgets: Budgets,
    /// The highest stream the client has opened.
    pub(super) last_stream: u32,
    /// The highest stream that is processed.
    pub(super) accepted_max: u32,
    /// The last streams that the client has left out when it opened a higher one.
    pub(super) skipped: (u32, u32),
    /// Streams that this side has ended and the client has not, as a ring.
    pub(super) ignored: Vec<Ignored>,
    pub(super) ignored_next: u16,
    /// Priorities of streams that have not begun.
    pub(super) early: EarlyPriorities<u32>,
    /// DATA that may be sent on the connection.
    pub(super) send_window: i32,
    /// DATA that has arrived, of which the window of the connection was not yet returned.
    pub(super) unreturned: u32,
    pub(super) stream_window: StreamWindow,
    /// A field block of which more is to come.
    pub(super) gathering: Option<Gathering>,
    /// A DATA frame of which more is to come.
    pub(super) part: Option<DataRest>,
}

// Most connections are idle most of the time.
const _: () = assert!(size_of::<Session<[u64; 64]>>() <= 352, "one per connection");

impl<S: Default> Session<S> {
    /// Creates a connection of which no bytes have arrived.
    #[must_use]
    pub fn new(settings: &SessionSettings) -> Session<S> {
        let connection_window = settings.connection_window_bytes;
        Session {
            settings: SessionSettings {
                streams: settings.streams.min(STREAMS_MAX),
                connection_window_bytes: connection_window.clamp(WINDOW_DEFAULT_BYTES, STREAM_MAX),
                ..*settings
            },
            phase: Phase::Preface,
            leaving: Leaving::No,
            peer: PeerSettings {
                stream_window: WINDOW_DEFAULT_BYTES as i32,
                frame_bytes: FRAME_DEFAULT_BYTES,
            },
            decoder: Decoder::new(TABLE_DEFAULT_BYTES as usize),
            encoder: Encoder::new(),
            streams: Streams::new(),
            budgets: Budgets::new(),
            last_stream: 0,
            accepted_max: STREAM_MAX,
            skipped: (0, 0),
            ignored: Vec::new(),
            ignored_next: 0,
            early: EarlyPriorities::new(),
            send_window: WINDOW_DEFAULT_BYTES as i32,
            unreturned: 0,
            stream_window: StreamWindow::new(),
            gathering: None,
            part: None,
        }
    }

    /// Writes the begin of every connection (RFC 9113 §3.4). Nothing may be written before.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        let SessionSettings { streams, connection_window_bytes, limits, extended_connect } =
            self.settings;
        let head_bytes = u32::try_from(limits.head_bytes).unwrap_or(u32::MAX);
        let settings = [
            (setting::MAX_CONCURRENT_STREAMS, u32::from(streams)),
            (setting::MAX_HEADER_LIST_SIZE, head_bytes),
            (setting::NO_RFC7540_PRIORITIES, 1),
            (setting::ENABLE_CONNECT_PROTOCOL, 1),
        ];
        let count = if extended_connect { settings.len() } else { settings.len() - 1 };
        frame::settings(out, settings.get(..count).unwrap_or(&settings));
        let more = connection_window_bytes - WINDOW_DEFAULT_BYTES;
        if more > 0 {
            frame::window_update(out, 0, more);
        }
    }

    /// Uses the front of the input, at most one frame of it. The output is appended to `out`;
    /// fields are decoded into `section`, which can be the same for all connections; a head is put
    /// in `place`, a fresh one for each step.
    ///
    /// [`Event::NeedMore`] comes with no bytes used, any other event with some.
    #[inline]
    pub fn step<'a>(
        &mut self,
        input: &'a [u8],
        section: &'a mut FieldSection,
        place: &'a mut Place<'a>,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        match self.frame(input, (section, place), now_ms, out) {
            Ok(step) => step,
            Err(fault) => {
                let (code, budget) = match fault {
                    StepFault::Broken(code) => (code, None),
                    StepFault::Excess(budget) => (ErrorCode::EnhanceYourCalm, Some(budget)),
                };
                self.fail(code, out);
                Step { used: input.len(), event: Event::Fatal { code, budget } }
            }
        }
    }

    /// Streams that are open: each is owed a response, or the rest of one.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns whether nothing is to be done before the next request of the client: no stream is
    /// open, and no client has to be asked to stop sending the rest of a request.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.streams.len() == 0 && !self.ignored.iter().any(|entry| entry.to_be_stopped)
    }

    /// Returns whether the connection has come to its end: it has failed, or this side has sent its
    /// last GOAWAY, and is [at rest](Self::is_at_rest). A client that sends GOAWAY closes the
    /// connection on its own.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let leaves = self.leaving == Leaving::Final;
        self.phase == Phase::Failed || (leaves && self.is_at_rest())
    }

    /// Returns whether this side has sent GOAWAY.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
    }

    /// Returns whether a field block has begun and is incomplete, though each frame of it that has
    /// arrived is whole. No other frame can come before its end (RFC 9113 §6.10).
    #[inline]
    #[must_use]
    pub fn is_within_head(&self) -> bool {
        self.gathering.is_some()
    }

    /// Returns the caller's data for an open stream. For a new stream it is the default, or the
    /// data that was [left](Self::left) in its place.
    #[inline]
    pub fn own(&mut self, stream: u32) -> Option<&mut S> {
        self.streams.get_mut(stream).map(|stream| &mut stream.own)
    }

    /// Returns the data of the stream that was removed last. It stays in its place until another
    /// stream begins there, which finds it unchanged; so the caller empties it.
    pub fn left(&mut self) -> Option<&mut S> {
        self.streams.left().map(|gone| &mut gone.own)
    }

    /// Returns all open streams with the caller's data for them, in no order.
    pub fn each_own(&mut self) -> impl Iterator<Item = (u32, &mut S)> {
        self.streams.each().map(|(id, stream)| (id, &mut stream.own))
    }

    /// Bytes of memory beside the session itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let gathered = self.gathering.as_ref().map_or(0, Gathering::memory_bytes);
        let ignored = self.ignored.capacity() * size_of::<Ignored>();
        let early = self.early.memory_bytes();
        let tables = self.decoder.memory_bytes() + self.encoder.memory_bytes();
        self.streams.memory_bytes() + tables + gathered + ignored + early
    }

    /// Handles one frame, or the next part of one.
    #[inline]
    fn frame<'a>(
        &mut self,
        input: &'a [u8],
        room: Room<'a>,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Step<'a>, StepFault> {
        match self.phase {
            Phase::Open | Phase::First => {}
            Phase::Preface => return self.preface(input, now_ms),
            Phase::Failed => return Ok(Step { used: input.len(), event: Event::Nothing }),
        }
        if let Some(part) = self.part {
            return Ok(self.data_part(part, 0, input));
        }
        let Some(header) = FrameHeader::read(input) else { return Ok(need_more()) };
        self.check(&header, input)?;
        if header.kind == Kind::Data {
            return self.received_data(&header, input, now_ms, out);
        }
        let used = FRAME_HEADER_BYTES + header.bytes as usize;
        let Some(payload) = input.get(FRAME_HEADER_BYTES..used) else { return Ok(need_more()) };
        let event = match header.kind {
            Kind::Headers => self.headers(&header, payload, room, now_ms, out),
            Kind::Continuation => self.continuation(&header, payload, room, now_ms, out),
            _ => self.control(&header, payload, now_ms, out),
        }?;
        Ok(Step { used, event })
    }

    /// Reads the preface of the client (RFC 9113 §3.4).
    #[cold]
    fn preface<'a>(&mut self, input: &'a [u8], now_ms: u64) -> Result<Step<'a>, StepFault> {
        if input.starts_with(PREFACE) {
            self.phase = Phase::First;
            self.budgets.begin(now_ms);
            return Ok(Step { used: PREFACE.len(), event: Event::Nothing });
        }
        if PREFACE.starts_with(input) {
            return Ok(need_more());
        }
        Err(ErrorCode::ProtocolError.into())
    }

    /// Checks all that the header alone decides.
    #[inline]
    fn check(&self, header: &FrameHeader, input: &[u8]) -> Result<(), StepFault> {
        // RFC 9113 §4.2. Any frame so long ends the connection, so that none needs to be skipped.
        if header.bytes > FRAME_DEFAULT_BYTES {
            return Err(ErrorCode::FrameSizeError.into());
        }
        if self.phase == Phase::First
            && (header.kind != Kind::Settings || header.has(frame::flag::ACK))
        {
            return Err(ErrorCode::ProtocolError.into());
        }
        // RFC 9113 §4.3, §6.2: nothing may come between the parts of a field block.
        if let Some(gathering) = &self.gathering
            && (header.kind != Kind::Continuation || header.stream != gathering.stream)
        {
            return Err(ErrorCode::ProtocolError.into());
        }
        debug_assert!(input.len() >= FRAME_HEADER_BYTES, "a header was read");
        Ok(())
    }

    /// Returns the state of the stream that a frame names.
    #[inline]
    pub(super) fn whereabouts(&self, stream: u32) -> Whereabouts {
        if self.streams.get(stream).is_some() {
            Whereabouts::Open
        } else if stream.is_multiple_of(2) || stream > self.last_stream {
            // The numbers of streams that a server opens are even, and this one opens none.
            Whereabouts::Idle
        } else if stream > self.accepted_max
            || self.ignored.iter().any(|entry| entry.stream == stream)
        {
            Whereabouts::Ignored
        } else {
            Whereabouts::Closed
        }
    }

    /// Opens a stream for a request of the client; `None` when there is no memory for it.
    #[inline]
    pub(super) fn open_stream(
        &mut self,
        id: u32,
        priority: Priority,
    ) -> Option<&mut StreamSlot<S>> {
        self.streams.open(id, self.peer.stream_window, priority)
    }

    /// Ends an open stream for a fault of the client.
    #[cold]
    pub(super) fn stream_error<'a>(
        &mut self,
        stream: u32,
        code: ErrorCode,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, StepFault> {
        self.budgets.spend(Budget::Resets, now_ms)?;
        Ok(match self.reset(stream, code, out) {
            Some(_) => Event::Reset { stream, code, by_peer: false },
            None => Event::Nothing,
        })
    }

    /// Ignores further frames for this stream, as far as its window goes.
    pub(super) fn ignore(&mut self, ignored: Ignored) {
        if self.ignored.len() < limits::IGNORED_STREAMS_MAX {
            self.ignored.push(ignored);
        } else if let Some(oldest) = self.ignored.get_mut(usize::from(self.ignored_next)) {
            *oldest = ignored;
            self.ignored_next = (self.ignored_next + 1) % limits::IGNORED_STREAMS_MAX as u16;
        }
    }
}

/// A stream that this side has ended and the client has not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ignored {
    pub(super) stream: u32,
    /// Bytes that the client may still send on it.
    pub(super) window: i32,
    /// Whether the PING after the response is still unanswered.
    pub(super) is_asked: bool,
    /// Whether the client has to be asked to stop, once it has read the whole response and has used
    /// its window up.
    pub(super) to_be_stopped: bool,
}

impl Ignored {
    /// Creates the entry of a stream for which nothing more is sent.
    pub(super) fn silently(stream: u32, window: i32) -> Self {
        Self { stream, window, is_asked: false, to_be_stopped: false }
    }

    /// Counts DATA that is ignored.
    pub(super) fn pass_over(&mut self, bytes: u32, out: &mut Vec<u8>) -> Result<(), StepFault> {
        let left = i64::from(self.window) - i64::from(bytes);
        self.window = i32::try_from(left.max(0)).unwrap_or(i32::MAX);
        self.stop_if_due(out);
        if left < 0 { Err(ErrorCode::StreamClosed.into()) } else { Ok(()) }
    }

    /// Records that the client has read the response.
    pub(super) fn has_read(&mut self, out: &mut Vec<u8>) {
        self.is_asked = false;
        self.stop_if_due(out);
    }

    fn stop_if_due(&mut self, out: &mut Vec<u8>) {
        if self.window == 0 && !self.is_asked {
            self.stop(out);
        }
    }

    /// Asks the client to stop, if that is necessary.
    pub(super) fn stop(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.to_be_stopped) {
            frame::reset_stream(out, self.stream, ErrorCode::NoError);
        }
    }
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// No frame has opened it yet.
    Idle,
    Open,
    /// This side has ended the stream, and the client may not know yet.
    Ignored,
    /// Both sides know that it has ended.
    Closed,
}

/// Returns a step that waits for the rest of a frame.
#[inline]
pub(super) fn need_more<'a>() -> Step<'a> {
    Step { used: 0, event: Event::NeedMore }
}
