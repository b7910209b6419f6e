//! One connection of HTTP/3: the state that all of its streams share.

use super::event::{Fatal, StreamError};
use super::frame::{self, ErrorCode, kind, setting, stream};
use super::request_stream::RequestStream;
use super::varint;
use crate::flood_budget::{Budget, Budgets};
use crate::goaway_state::Leaving;
use crate::limits::{Limits, STREAMS_MAX};
use crate::priority::{EarlyPriorities, Priority};
use crate::qpack::dynamic_encoder::Encoder;

/// The settings of a listener.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// Request streams that the transport lets a client have open at once.
    pub streams: u16,
    /// The limits of a request head.
    pub limits: Limits,
    /// Whether requests may be an extended CONNECT, which is announced to the client (RFC 9220 §3).
    pub extended_connect: bool,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings { streams: STREAMS_MAX, limits: Limits::default(), extended_connect: false }
    }
}

/// The begin of the encoder stream of this side (RFC 9204 §4.2). Like the control stream, it must
/// not end while the connection lives.
pub const ENCODER_STREAM: u8 = stream::ENCODER as u8;

/// Between the numbers of two request streams in a row (RFC 9000 §2.1).
pub(super) const REQUEST_STEP: u64 = 4;

/// The highest number of a request stream.
const REQUEST_MAX: u64 = varint::MAX - 3;

/// One connection of HTTP/3.
#[derive(Debug)]
pub struct Session {
    pub(super) settings: SessionSettings,
    pub(super) budgets: Budgets,
    leaving: Leaving,
    /// The request stream that follows the last one that has begun.
    pub(super) next_request: u64,
    /// Streams from this one on are not accepted.
    accepted_end: u64,
    /// Priorities of streams that have not begun.
    early: EarlyPriorities<u64>,
    /// Compresses the fields of responses.
    pub(super) encoder: Encoder,
    /// The state of the unidirectional streams of the client.
    pub(super) heard: super::unidirectional_streams::Heard,
}

impl Session {
    /// Creates a connection of which no bytes have arrived.
    #[must_use]
    pub fn new(settings: &SessionSettings, now_ms: u64) -> Session {
        let mut budgets = Budgets::new();
        budgets.begin(now_ms);
        Session {
            settings: *settings,
            budgets,
            leaving: Leaving::No,
            next_request: 0,
            accepted_end: varint::MAX,
            early: EarlyPriorities::new(),
            encoder: Encoder::default(),
            heard: super::unidirectional_streams::Heard::default(),
        }
    }

    /// Writes the begin of the control stream of this side (RFC 9114 §6.2.1): the one stream it
    /// opens, before anything else. It must not end while the connection lives; a client that asks
    /// for that breaks the connection with
    /// [`ClosedCriticalStream`](ErrorCode::ClosedCriticalStream).
    ///
    /// The capacities of QPACK are left out: unsaid they are 0.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        varint::write(out, stream::CONTROL);
        let head_bytes = self.settings.limits.head_bytes as u64;
        let always = [setting::MAX_FIELD_SECTION_SIZE, head_bytes, setting::RESERVED, 0];
        if self.settings.extended_connect {
            let [name, bytes, reserved, zero] = always;
            let all = [name, bytes, setting::ENABLE_CONNECT_PROTOCOL, 1, reserved, zero];
            return frame::of_numbers(out, kind::SETTINGS, &all);
        }
        frame::of_numbers(out, kind::SETTINGS, &always);
    }

    /// Begins a request stream that the client has opened. The numbers must come in their order, as
    /// a transport reports them.
    ///
    /// # Errors
    /// Fails when this side leaves: the stream ends, unread. It also fails when there was too much
    /// of that.
    pub fn begin(&mut self, stream: u64, now_ms: u64) -> Result<RequestStream, StreamError> {
        debug_assert!(stream.is_multiple_of(REQUEST_STEP), "no request stream");
        self.next_request = self.next_request.max(stream + REQUEST_STEP);
        let priority = self.early.take(stream);
        if stream >= self.accepted_end {
            self.budgets.spend(Budget::Trifles, now_ms)?;
            return Err(StreamError::Stream(ErrorCode::RequestRejected));
        }
        Ok(RequestStream::new(priority))
    }

    /// Records that a request stream was reset by the client, or its response stopped, before the
    /// response was complete.
    ///
    /// # Errors
    /// Fails when there was too much of that.
    pub fn reset_by_peer(&mut self, now_ms: u64) -> Result<(), Fatal> {
        Ok(self.budgets.spend(Budget::Resets, now_ms)?)
    }

    /// Records that the response to a request was complete.
    #[inline]
    pub fn answered(&mut self, request: &RequestStream) {
        if !request.is_refused() {
            self.budgets.answered();
        }
    }

    /// Sends GOAWAY on the control stream (RFC 9114 §5.2). The first one asks the client to open no
    /// more streams, while streams under way are still accepted; a second one, at least a round
    /// trip later, names the first stream that is not accepted.
    pub fn go_away(&mut self, out: &mut Vec<u8>) {
        let stream = match self.leaving {
            Leaving::No => {
                self.leaving = Leaving::Announced;
                REQUEST_MAX
            }
            Leaving::Announced => {
                self.leaving = Leaving::Final;
                self.accepted_end = self.next_request.min(REQUEST_MAX);
                self.accepted_end
            }
            Leaving::Final => return,
        };
        frame::of_numbers(out, kind::GO_AWAY, &[stream]);
    }

    /// Returns whether the client knows the first stream that is not accepted.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.leaving == Leaving::Final
    }

    /// Bytes of memory beside the session itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.early.memory_bytes() + self.heard.memory_bytes() + self.encoder.memory_bytes()
    }

    /// Returns the encoder, which compresses the fields of responses. The caller sends its
    /// instructions on a stream that begins with [`ENCODER_STREAM`].
    #[inline]
    pub fn encoder(&mut self) -> &mut Encoder {
        &mut self.encoder
    }

    /// Keeps a priority that has come ahead of its stream. There cannot be more of them than
    /// streams that the transport lets the client open (RFC 9218 §7.2).
    pub(super) fn keep_early_priority(
        &mut self,
        stream: u64,
        priority: Priority,
    ) -> Result<(), Fatal> {
        let ahead = (stream - self.next_request) / REQUEST_STEP;
        let streams = self.settings.streams;
        if ahead >= u64::from(streams) || !self.early.set(stream, priority, usize::from(streams)) {
            return Err(ErrorCode::IdError.into());
        }
        Ok(())
    }
}
