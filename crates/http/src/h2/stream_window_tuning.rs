//! The windows for the data that the client sends (RFC 9113 §5.2, §6.9).
//!
//! The window of the connection is returned as content arrives, so it is never closed. Memory is
//! bounded by the windows of the streams: the bytes that the client may send on a stream and the
//! received bytes that were not consumed are together no more than the stream window, so a stream
//! that is not read stops, and takes nothing from the others.
//!
//! The stream window begins with the default of the protocol and grows to what one round trip can
//! carry. A round trip is the time between a PING and its acknowledgement: if half of a window was
//! consumed in that time, then the window holds the client back, and it grows.

use super::frame::{self, WINDOW_DEFAULT_BYTES};
use super::limits::{
    MEASURE_ATTEMPTS, MEASURE_PAUSE_WINDOWS, STREAM_WINDOW_MAX_BYTES, WINDOW_GROWTH,
};
use super::session::Session;
use super::stream_table::StreamSlot;

/// The payload of the PING whose acknowledgement ends a measured round trip.
pub(super) const ROUND_TRIP_PING: [u8; 8] = *b"windows.";

/// The size of stream windows on one connection, and the round trip that is being measured.
#[derive(Debug)]
pub(super) struct StreamWindow {
    /// Bytes.
    bytes: u32,
    /// Bytes of content that were consumed since the PING was sent, or, while none is
    /// outstanding, that have to be consumed before the next is.
    consumed: u32,
    is_measuring: bool,
    /// The number of round trips that are measured one after the other, with this one.
    attempts: u8,
}

impl StreamWindow {
    pub(super) const fn new() -> Self {
        Self { bytes: WINDOW_DEFAULT_BYTES, consumed: 0, is_measuring: false, attempts: 1 }
    }

    /// Records that content of a stream arrives, and measures a round trip, unless the window
    /// cannot grow or too little is left to come.
    #[inline]
    pub(super) fn arrives<S>(&mut self, stream: &StreamSlot<S>, out: &mut Vec<u8>) {
        let is_long = stream.content_left.is_none_or(|left| left > u64::from(self.bytes / 4));
        let is_due = !self.is_measuring && self.consumed == 0;
        if is_due && is_long && !stream.peer_ended && self.bytes < STREAM_WINDOW_MAX_BYTES {
            self.is_measuring = true;
            frame::ping(out, 0, ROUND_TRIP_PING);
        }
    }

    /// Counts content that was consumed.
    #[inline]
    pub(super) fn consumes(&mut self, bytes: u32) {
        self.consumed = if self.is_measuring {
            self.consumed.saturating_add(bytes)
        } else {
            self.consumed.saturating_sub(bytes)
        };
    }

    /// Ends a round trip. Returns whether the window has grown, or `None` if no round trip was
    /// measured.
    fn measured(&mut self) -> Option<bool> {
        if !std::mem::take(&mut self.is_measuring) {
            return None;
        }
        let is_full = self.consumed >= self.bytes / 2;
        (self.consumed, self.attempts) = match () {
            // The next content was sent before the client knows of the larger window.
            () if is_full => (self.bytes, 1),
            () if self.attempts == MEASURE_ATTEMPTS => (MEASURE_PAUSE_WINDOWS * self.bytes, 1),
            () => (0, self.attempts + 1),
        };
        if is_full {
            self.bytes = (WINDOW_GROWTH * self.bytes).min(STREAM_WINDOW_MAX_BYTES);
        }
        Some(is_full)
    }

    /// Begins anew with the default, because memory is short.
    pub(super) fn shrink(&mut self) {
        self.bytes = WINDOW_DEFAULT_BYTES;
    }

    /// Opens the window of a stream if at least a quarter of it is to be opened: one WINDOW_UPDATE
    /// for many frames, and a client that sends in bursts has three quarters in each. Behind that,
    /// a stream of which all was consumed has an open window.
    #[inline]
    pub(super) fn renew<S>(&self, id: u32, stream: &mut StreamSlot<S>, out: &mut Vec<u8>) {
        let room = i64::from(stream.receive_window);
        let increment = i64::from(self.bytes) - room - i64::from(stream.unread);
        let all_may_come = stream.content_left.is_some_and(|left| left as i64 <= room);
        if increment < i64::from(self.bytes / 4) || stream.peer_ended || all_may_come {
            return;
        }
        frame::window_update(out, id, increment as u32);
        stream.receive_window += increment as i32;
    }
}

impl<S: Default> Session<S> {
    /// Handles the acknowledgement of the PING of a round trip: windows that have grown open for
    /// the streams that are read. Returns false if there was none.
    #[cold]
    pub(super) fn round_trip_ended(&mut self, out: &mut Vec<u8>) -> bool {
        let measured = self.stream_window.measured();
        if measured == Some(true) {
            for (id, stream) in self.streams.each().filter(|(_, stream)| stream.is_read) {
                self.stream_window.renew(id, stream, out);
            }
        }
        measured.is_some()
    }
}
