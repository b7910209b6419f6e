//! The output: heads, content, trailers, and the end of streams and of the connection.

use super::frame::{self, ErrorCode, FRAME_HEADER_BYTES, FrameHeader, Kind, STREAM_MAX, flag};
use super::limits::DRIBBLE_BYTES;
use super::session::{Ignored, Phase, Session};
use super::stream_table::StreamSlot;
use crate::goaway_state::Leaving;
use crate::hpack::dynamic_encoder::Encoder;
use crate::limits::BODY_DISCARD_MAX_BYTES;
use crate::priority::Priority;

/// The PING whose answer tells that the client knows that this side leaves.
pub(super) const LEAVING_PING: [u8; 8] = *b"leaving.";

/// The begin of the payload of the PING after a response; the number of the stream follows.
const ANSWERED: [u8; 4] = *b"done";

/// Returns the payload of the PING after a complete response.
fn answered_ping(stream: u32) -> [u8; 8] {
    let mut payload = [0; 8];
    payload[..4].copy_from_slice(&ANSWERED);
    payload[4..].copy_from_slice(&stream.to_be_bytes());
    payload
}

/// Returns the stream whose response a PING reports as complete.
pub(super) fn stream_answered(payload: [u8; 8]) -> Option<u32> {
    let stream = payload.strip_prefix(&ANSWERED)?;
    stream.as_array().map(|bytes| u32::from_be_bytes(*bytes))
}

impl<S: Default> Session<S> {
    /// Writes a head: a final one, or interim ones before it. `block` appends the field block, by
    /// the encoder of the connection or by [`crate::hpack::static_encoder`]. With `end` nothing
    /// follows, and the stream is to be [closed](Self::close).
    ///
    /// Says whether the stream is open for it; if not, nothing is written.
    #[inline]
    pub fn head(
        &mut self,
        stream: u32,
        end: bool,
        out: &mut Vec<u8>,
        block: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    ) -> bool {
        let Some(open) = self.streams.get_mut(stream) else { return false };
        if open.ended {
            return false;
        }
        open.ended = end;
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        self.encoder.begin(out);
        block(&mut self.encoder, out);
        let bytes = out.len() - start - FRAME_HEADER_BYTES;
        let end_stream = if end { flag::END_STREAM } else { 0 };
        if bytes > self.peer.frame_bytes as usize {
            cut(out, start, stream, end_stream, self.peer.frame_bytes as usize);
        } else if let Some(place) = out.get_mut(start..start + FRAME_HEADER_BYTES) {
            let flags = flag::END_HEADERS | end_stream;
            let header = FrameHeader { bytes: bytes as u32, kind: Kind::Headers, flags, stream };
            place.copy_from_slice(&header.wire());
        }
        true
    }

    /// Writes the trailer fields, and with them the end of the content; see [`head`](Self::head).
    pub fn trailers(
        &mut self,
        stream: u32,
        out: &mut Vec<u8>,
        block: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        self.head(stream, true, out, |_, out| block(out))
    }

    /// Bytes of content that may go out on a stream now, in one frame: 0 when a window is shut, or
    /// the stream is not open for content.
    #[inline]
    #[must_use]
    pub fn room(&self, stream: u32) -> usize {
        match self.streams.get(stream) {
            Some(open) if !open.ended => {
                let window = open.send_window.min(self.send_window).max(0);
                (window as u32).min(self.peer.frame_bytes) as usize
            }
            _ => 0,
        }
    }

    /// Writes the header of a DATA frame, after which the caller appends the content: no more than
    /// there is [room](Self::room), and perhaps none, when it is the end. With `end` the caller
    /// [closes](Self::close) the stream after it.
    ///
    /// Says whether the stream is open for it; if not, nothing is written.
    #[inline]
    pub fn data(&mut self, stream: u32, bytes: usize, end: bool, out: &mut Vec<u8>) -> bool {
        let room = self.room(stream);
        let Some(open) = self.streams.get_mut(stream).filter(|open| !open.ended) else {
            return false;
        };
        assert!(bytes <= room, "content beyond the window");
        open.ended = end;
        open.send_window -= bytes as i32;
        self.send_window -= bytes as i32;
        // A client that keeps a window so small that it is used up at once earns nothing for that.
        let dribble = bytes < DRIBBLE_BYTES && (open.send_window <= 0 || self.send_window <= 0);
        if !dribble {
            self.budgets.sent_data(bytes);
        }
        self.streams.had_turn(stream);
        let flags = if end { flag::END_STREAM } else { 0 };
        FrameHeader { bytes: bytes as u32, kind: Kind::Data, flags, stream }.write(out);
        true
    }

    /// Returns whether the last frame of a stream's answer is written.
    #[must_use]
    pub fn is_ended(&self, stream: u32) -> bool {
        self.streams.get(stream).is_none_or(|open| open.ended)
    }

    /// Removes a stream whose response is complete, after its last frame has been written; returns
    /// the caller's data for it. A client whose response is incomplete learns of that by an error.
    /// A client that is still sending may go on for a while, because some clients read nothing
    /// before they have sent all; then it is asked to stop (RFC 9113 §8.1), once it has answered
    /// the PING behind the response: some clients treat a stream that is reset before they have
    /// read its response as failed.
    ///
    /// The returned data is [left](Self::left) by the stream.
    #[inline]
    pub fn close(&mut self, stream: u32, out: &mut Vec<u8>) -> Option<&mut S> {
        let open = self.streams.get(stream)?;
        if !open.ended {
            return self.reset(stream, ErrorCode::InternalError, out);
        }
        if !open.refused {
            self.budgets.answered();
        }
        if !open.peer_ended {
            let ignored = discard(stream, open, out);
            self.ignore(ignored);
        }
        self.streams.remove(stream).map(|gone| &mut gone.own)
    }

    /// Records that the client has read the response of a stream on which it may still be sending.
    /// Returns whether a PING behind that response was still unanswered.
    #[cold]
    pub(super) fn has_read(&mut self, stream: u32, out: &mut Vec<u8>) -> bool {
        let leaves = self.is_leaving();
        let ignored = self.ignored.iter_mut().find(|entry| entry.stream == stream);
        ignored.is_some_and(|entry| {
            let was_asked = entry.is_asked;
            entry.has_read(out);
            if leaves {
                entry.stop(out);
            }
            was_asked
        })
    }

    /// Records that the client need not be asked any more to stop.
    #[cold]
    pub(super) fn settled(&mut self, stream: u32) {
        if let Some(entry) = self.ignored.iter_mut().find(|entry| entry.stream == stream) {
            entry.to_be_stopped = false;
        }
    }

    /// Ends a stream; returns the caller's data for it, as [`close`](Self::close) does.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) -> Option<&mut S> {
        let &StreamSlot { peer_ended, receive_window: window, .. } = self.streams.get(stream)?;
        frame::reset_stream(out, stream, code);
        if !peer_ended {
            self.ignore(Ignored::silently(stream, window));
        }
        self.streams.remove(stream).map(|gone| &mut gone.own)
    }

    /// Sets another priority for a response than the client has requested (RFC 9218 §8).
    pub fn set_priority(&mut self, stream: u32, priority: Priority) {
        self.streams.set_priority(stream, priority);
    }

    /// Sets whether a stream has content that could be sent.
    #[inline]
    pub fn set_ready(&mut self, stream: u32, ready: bool) {
        self.streams.set_ready(stream, ready);
    }

    /// Returns the stream whose content is sent next, of those that are ready and have
    /// [room](Self::room): the most urgent, and in turn (RFC 9218 §10).
    #[inline]
    #[must_use]
    pub fn next_ready(&self) -> Option<u32> {
        if self.send_window <= 0 {
            return None;
        }
        self.streams.next_ready()
    }

    /// Returns whether content waits only for the client: streams are [ready](Self::set_ready), and
    /// their windows are shut. It serves a deadline, since a client can leave it so for ever.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.streams.has_ready() && self.next_ready().is_none()
    }

    /// Sends GOAWAY (RFC 9113 §6.8). The first one asks the client to open no more streams, while
    /// streams under way are still accepted; a second one, or the response of the client, lets it
    /// name the last of them.
    pub fn go_away(&mut self, out: &mut Vec<u8>) {
        match (self.phase, self.leaving) {
            (Phase::Failed, _) | (_, Leaving::Final) => {}
            (_, Leaving::No) => {
                self.leaving = Leaving::Announced;
                // The connection ends as soon as all who have read their responses have stopped.
                self.ignored.iter_mut().filter(|entry| !entry.is_asked).for_each(|e| e.stop(out));
                frame::go_away(out, STREAM_MAX, ErrorCode::NoError);
                frame::ping(out, 0, LEAVING_PING);
            }
            (_, Leaving::Announced) => {
                self.leaving = Leaving::Final;
                self.accepted_max = self.last_stream;
                frame::go_away(out, self.last_stream, ErrorCode::NoError);
            }
        }
    }

    /// Says all that is left to say, to a client that is not waited for any longer.
    #[cold]
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.go_away(out);
        self.go_away(out);
        self.ignored.iter_mut().for_each(|entry| entry.stop(out));
    }

    /// Ends the connection with an error: the caller sends the written bytes, then closes it.
    #[cold]
    pub fn fail(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        if self.phase != Phase::Failed {
            self.phase = Phase::Failed;
            self.gathering = None;
            frame::go_away(out, self.last_stream.min(self.accepted_max), code);
        }
    }
}

/// Opens the window of a stream whose response is complete, up to the amount of the remaining
/// content that is read and dropped.
fn discard<S>(id: u32, stream: &StreamSlot<S>, out: &mut Vec<u8>) -> Ignored {
    const MOST: i32 = BODY_DISCARD_MAX_BYTES as i32;
    let mut window = stream.receive_window.max(0);
    let fits = |window: i32| stream.content_left.is_some_and(|left| left <= window as u64);
    if !fits(window) && window < MOST {
        frame::window_update(out, id, (MOST - stream.receive_window) as u32);
        window = MOST;
    }
    let to_be_stopped = !fits(window);
    if to_be_stopped {
        frame::ping(out, 0, answered_ping(id));
    }
    Ignored { stream: id, window, is_asked: to_be_stopped, to_be_stopped }
}

/// Splits a field block that begins at `start` into as many frames as it needs.
#[cold]
fn cut(out: &mut Vec<u8>, start: usize, stream: u32, end_stream: u8, frame_bytes: usize) {
    let block = out.split_off(start + FRAME_HEADER_BYTES);
    out.truncate(start);
    let count = block.len().div_ceil(frame_bytes);
    for (index, part) in block.chunks(frame_bytes).enumerate() {
        let kind = if index == 0 { Kind::Headers } else { Kind::Continuation };
        let mut flags = if index == 0 { end_stream } else { 0 };
        if index + 1 == count {
            flags |= flag::END_HEADERS;
        }
        FrameHeader { bytes: part.len() as u32, kind, flags, stream }.write(out);
        out.extend_from_slice(part);
    }
}
