//! The rest of requests that were responded to early. It is read and dropped for a while, because
//! some clients read nothing before they have sent all; then the client is asked to stop (RFC 9114
//! §4.1.1). The bounds are those of lingering over HTTP/1, except for the bytes.

use pinion_http::h3::frame::ErrorCode;
use pinion_http::limits::BODY_DISCARD_MAX_BYTES;
use quinn_proto::{ReadError, StreamId};

use super::unread_content::Unread;
use super::{Http3, Open, number, var_int};
use crate::limits::{LINGER_CONTENT_MS, LINGER_MAX_MS};

/// A request whose response was complete before all of the request had arrived.
pub(super) struct Discarded {
    id: StreamId,
    /// Bytes that are read and dropped before the client is asked to stop.
    left_bytes: u64,
    /// The time at which input last arrived; the next field is the time at which the client is
    /// asked to stop in any case. Both are in milliseconds.
    came_ms: u64,
    until_ms: u64,
    pub(super) unread: Unread,
}

impl Discarded {
    /// Returns when the client is asked to stop if no input arrives, in milliseconds.
    fn due_ms(&self) -> u64 {
        self.until_ms.min(self.came_ms.saturating_add(LINGER_CONTENT_MS))
    }
}

impl Http3 {
    /// Ends a stream whose response is complete. The rest of its request is read and dropped for a
    /// while.
    pub(super) fn finish(&mut self, id: StreamId, now_ms: u64) -> Option<Open> {
        let _already = self.quic.send_stream(id).finish();
        let mut open = self.streams.remove(number(id))?;
        if !open.fin && self.discarded.try_reserve(1).is_ok() {
            self.discarded.push(Discarded {
                id,
                left_bytes: BODY_DISCARD_MAX_BYTES,
                came_ms: now_ms,
                until_ms: now_ms.saturating_add(LINGER_MAX_MS),
                unread: std::mem::take(&mut open.unread),
            });
            self.discard(id, now_ms);
        } else if !open.fin {
            let _ended = self.quic.recv_stream(id).stop(var_int(ErrorCode::NoError));
        }
        Some(open)
    }

    /// Drops input of a request that was responded to early. Returns false if this is none, or no
    /// input has arrived.
    pub(crate) fn discard(&mut self, id: StreamId, now_ms: u64) -> bool {
        let Some(index) = self.discarded.iter().position(|discarded| discarded.id == id) else {
            return false;
        };
        let discarded = &mut self.discarded[index];
        let before_bytes = discarded.left_bytes;
        let mut stream = self.quic.recv_stream(id);
        let is_over = match stream.read(true) {
            Err(_) => true,
            Ok(mut chunks) => loop {
                match chunks.next(usize::MAX) {
                    Err(ReadError::Blocked) => break false,
                    Err(ReadError::Reset(_)) | Ok(None) => break true,
                    Ok(Some(chunk)) => {
                        let bytes = chunk.bytes.len();
                        discarded.unread.read(bytes);
                        discarded.left_bytes = discarded.left_bytes.saturating_sub(bytes as u64);
                    }
                }
            },
        };
        discarded.unread.drained();
        let is_too_much = discarded.left_bytes == 0;
        let has_come = discarded.left_bytes < before_bytes;
        if has_come {
            discarded.came_ms = now_ms;
        }
        if is_too_much {
            let _ended = stream.stop(var_int(ErrorCode::NoError));
        }
        if is_over || is_too_much {
            self.discarded.swap_remove(index);
        }
        has_come
    }

    /// Returns the count of unread bytes of a request that was responded to early, if this is one.
    pub(super) fn discarded_unread(&mut self, id: StreamId) -> Option<&mut Unread> {
        let discarded = self.discarded.iter_mut().find(|discarded| discarded.id == id);
        discarded.map(|discarded| &mut discarded.unread)
    }

    /// Returns when the first client of a request that was responded to early is asked to stop if
    /// no input arrives, in milliseconds.
    pub(crate) fn discard_due_ms(&self) -> Option<u64> {
        self.discarded.iter().map(Discarded::due_ms).min()
    }

    /// Asks clients to stop that have sent nothing for long, or have sent for too long.
    pub(crate) fn stop_late_discards(&mut self, now_ms: u64) {
        let Self { discarded, quic, .. } = self;
        discarded.retain(|discarded| {
            let delay_at_random = discarded.due_ms() <= now_ms;
            if delay_at_random {
                let _ended = quic.recv_stream(discarded.id).stop(var_int(ErrorCode::NoError));
            }
            !delay_at_random
        });
    }
}
