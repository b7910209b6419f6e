//! Content that clients send: windows for what nobody has read yet, and the rest of requests that
//! were answered early.
//!
//! QUIC returns the window of a connection only as streams are read (RFC 9000 §4.1). So each stream
//! with content opens it further, by as much as may wait on that stream, and that much of the
//! budget for buffers is reserved for it: content that nobody reads takes nothing from the other
//! streams of its connection.

use pinion_http::h3::frame::ErrorCode;
use pinion_http::limits::BODY_DISCARD_MAX_BYTES;
use quinn_proto::{ReadError, StreamId, VarInt};

use super::streams::Open;
use super::{Http3, number, var_int};
use crate::buffers::Buffers;
use crate::limits::{
    QUIC_CONNECTION_WINDOW_BYTES, QUIC_STREAM_WINDOW_BYTES, QUIC_UPLOAD_MIN_BYTES,
};
use crate::multiplexed::Stream;

/// The rest of a request that was answered early.
pub(super) struct Discarded {
    id: StreamId,
    /// Bytes that are read and dropped, before the client is told to stop.
    left_bytes: u64,
}

impl Open {
    /// Bytes of the connection's window that this stream may take. One that is not read can fill
    /// its whole window; the content of one that is read doubles in a round trip, as the path has
    /// room.
    fn window_bytes(&self) -> usize {
        let Stream { announced_bytes, came_bytes, .. } = self.own;
        if self.fin || self.own.awaits_head() {
            return 0;
        }
        let least = u64::from(QUIC_UPLOAD_MIN_BYTES);
        let most = u64::from(QUIC_STREAM_WINDOW_BYTES);
        let window_bytes = if self.own.waits_for_content() {
            came_bytes.next_power_of_two().clamp(least, most)
        } else {
            most
        };
        let left_bytes = announced_bytes.map(|bytes| bytes.saturating_sub(came_bytes));
        window_bytes.min(left_bytes.unwrap_or(u64::MAX)) as usize
    }
}

impl Http3 {
    /// Ends a stream whose response is complete. The rest of its request is read and dropped for a
    /// while, because some clients read nothing before they have sent all.
    pub(super) fn finish(&mut self, id: StreamId) -> Option<Open> {
        let _already = self.quic.send_stream(id).finish();
        let open = self.streams.remove(number(id))?;
        if !open.fin && self.discarded.try_reserve(1).is_ok() {
            self.discarded.push(Discarded { id, left_bytes: BODY_DISCARD_MAX_BYTES });
            self.discard(id);
        } else if !open.fin {
            let _ended = self.quic.recv_stream(id).stop(var_int(ErrorCode::NoError));
        }
        Some(open)
    }

    /// Drops what came of a request that was answered early, if this is one. A client that has
    /// more to send than is read is told to stop (RFC 9114 §4.1.1).
    pub(crate) fn discard(&mut self, id: StreamId) {
        let Some(place) = self.discarded.iter().position(|discarded| discarded.id == id) else {
            return;
        };
        let left_bytes = &mut self.discarded[place].left_bytes;
        let mut stream = self.quic.recv_stream(id);
        let is_over = match stream.read(true) {
            Err(_) => true,
            Ok(mut chunks) => loop {
                match chunks.next(usize::MAX) {
                    Err(ReadError::Blocked) => break false,
                    Err(ReadError::Reset(_)) | Ok(None) => break true,
                    Ok(Some(chunk)) => {
                        *left_bytes = left_bytes.saturating_sub(chunk.bytes.len() as u64);
                    }
                }
            },
        };
        let is_too_much = *left_bytes == 0;
        if is_too_much {
            let _ended = stream.stop(var_int(ErrorCode::NoError));
        }
        if is_over || is_too_much {
            self.discarded.swap_remove(place);
        }
    }

    /// Reserves memory for the content that may come on the streams of a connection, and opens its
    /// window by as much.
    pub(crate) fn reserve(&mut self, buffers: &mut Buffers) {
        let wanted_bytes: usize = self.streams.iter_mut().map(|open| open.window_bytes()).sum();
        let reserved_bytes = self.reserved_bytes;
        if wanted_bytes == reserved_bytes {
            return;
        }
        if wanted_bytes < reserved_bytes {
            buffers.pool.release(reserved_bytes - wanted_bytes);
        } else if !buffers.pool.reserve_outside_reserve(wanted_bytes - reserved_bytes) {
            // Streams share the window that there is.
            return;
        }
        self.reserved_bytes = wanted_bytes;
        let window_bytes = u64::from(QUIC_CONNECTION_WINDOW_BYTES) + wanted_bytes as u64;
        self.quic.set_receive_window(VarInt::try_from(window_bytes).unwrap_or(VarInt::MAX));
    }
}
