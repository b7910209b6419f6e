//! The step from the queues of streams to frames on the connection: the most urgent first, in turn,
//! as far as the windows and the connection's queue have room (RFC 9113 §6.9, RFC 9218 §10).

use super::Http2;
use crate::deadline::DeadlineKind;
use crate::end_reason::Gone;
use crate::exchange::state::ExchangeStage;
use crate::limits::FRAMED_MAX_BYTES;
use crate::transport_link::TransportLink;
use crate::worker_buffers::Buffers;
use pinion_http::h2::frame::{ErrorCode, FRAME_HEADER_BYTES};

impl Http2 {
    /// Makes frames of the queued content. Returns true if there were any.
    pub(crate) fn pump(&mut self, link: &mut TransportLink, buffers: &mut Buffers) -> bool {
        let mut moved = false;
        loop {
            if buffers.outputs.bytes(link.output) >= FRAMED_MAX_BYTES {
                return moved;
            }
            let Some(id) = self.session.next_ready() else { return moved };
            if !self.frame(id, link, buffers) {
                // The connection is cut before anything else happens on it.
                link.cut = Some(Gone::Overload);
                return true;
            }
            moved = true;
            link.deadline.end(DeadlineKind::Window);
            self.finish(id, link, buffers);
        }
    }

    /// Makes one frame of a stream's content. Returns false if the budget for buffers is spent.
    fn frame(&mut self, id: u32, link: &mut TransportLink, buffers: &mut Buffers) -> bool {
        let Buffers { outputs, pool, mappings, .. } = buffers;
        let Self { session, queued_bytes, .. } = self;
        let room = session.room(id) as u64;
        let Some(stream) = session.own(id) else {
            debug_assert!(false, "a stream that is ready is open");
            return true;
        };
        let (mut source, is_done) = (stream.output, stream.state.sends_no_more());
        let ends_otherwise = stream.trailers.is_some() || stream.state.is_cut_short;
        let waits = outputs.bytes(source);
        let bytes = room.min(waits);
        let is_last = bytes == waits;
        let ends = is_last && is_done && !ends_otherwise;
        session.set_ready(id, !is_last);
        let framed = outputs.of(&mut link.output).append_small(pool, FRAME_HEADER_BYTES, |out| {
            session.data(id, bytes as usize, ends, out);
        });
        let moved = framed && outputs.transfer(&mut source, link.output, bytes, pool, mappings);
        // Bytes that could not be moved still wait.
        *queued_bytes -= waits - outputs.bytes(source);
        if let Some(stream) = session.own(id) {
            stream.output = source;
        }
        moved
    }

    /// Ends a stream whose response is complete and all in frames, or our side of a tunnel; does
    /// nothing before that.
    pub(crate) fn finish(&mut self, id: u32, link: &mut TransportLink, buffers: &mut Buffers) {
        let Buffers { outputs, pool, mappings, ended, .. } = buffers;
        let Self { session, queued_bytes, .. } = self;
        let Some(stream) = session.own(id) else { return };
        if !stream.state.sends_no_more() || outputs.bytes(stream.output) > 0 {
            return;
        }
        let is_over = stream.state.stage == ExchangeStage::Done;
        let is_cut_short = stream.state.is_cut_short;
        let trailers = stream.trailers.take();
        if !is_over && session.is_ended(id) {
            return;
        }
        let room = 2 * FRAME_HEADER_BYTES + 64 + trailers.as_ref().map_or(0, Vec::len);
        let mut gone = None;
        let wrote = outputs.of(&mut link.output).append(pool, room, |out| {
            if is_cut_short {
                gone = session.reset(id, ErrorCode::InternalError, out);
                return;
            }
            if let Some(block) = trailers {
                session.trailers(id, out, |out| out.extend_from_slice(&block));
            } else if !session.is_ended(id) {
                session.data(id, 0, true, out);
            }
            if is_over {
                gone = session.close(id, out);
            }
        });
        if let Some(stream) = gone {
            *queued_bytes -= stream.give_back(outputs, pool, mappings, ended);
        }
        if !wrote {
            link.cut = Some(Gone::Overload);
        }
    }
}
