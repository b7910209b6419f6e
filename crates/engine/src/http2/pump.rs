//! Content from the queues of streams into frames on the connection: the most urgent first, in
//! turn, as far as the windows and the connection's queue have room (RFC 9113 §6.9, RFC 9218 §10).

use super::Http2;
use crate::backend::Slot;
use crate::conn::Conn;
use crate::core::Core;
use crate::deadline::Watch;
use crate::exchange::state::Stage;
use crate::limits::FRAMED_MAX_BYTES;
use pinion_http::h2::frame::FRAME_HEADER_BYTES;

/// Makes frames of what waits. True when there were any.
pub(crate) fn pump(core: &mut Core, slot: Slot) -> bool {
    let mut moved = false;
    loop {
        let Conn { link, protocol, .. } = core.conns.get(slot);
        let (output, Some(http2)) = (link.output, protocol.http2()) else { return moved };
        if core.outputs.bytes(output) >= FRAMED_MAX_BYTES {
            return moved;
        }
        let Some(id) = http2.session.next_ready() else { return moved };
        if !frame(core, slot, id) {
            core.overloaded(slot);
            // It is cut before anything else.
            return true;
        }
        moved = true;
        core.conns.get(slot).link.deadline.is_over(Watch::Window);
        finish(core, slot, id);
    }
}

/// One frame of a stream's content. False when the budget for buffers is spent.
fn frame(core: &mut Core, slot: Slot, id: u32) -> bool {
    let Core { conns, outputs, pool, mappings, .. } = core;
    let Conn { link, protocol, .. } = conns.get(slot);
    let (index, Some(http2)) = (&mut link.output, protocol.http2()) else { return true };
    let Http2 { session, queued_bytes, .. } = http2;
    let room = session.room(id) as u64;
    let Some(stream) = session.own(id) else { return true };
    let (mut source, is_done) = (stream.output, stream.state.stage == Stage::Done);
    let has_trailers = stream.trailers.is_some();
    let waits = outputs.bytes(source);
    let bytes = room.min(waits);
    let is_last = bytes == waits;
    let ends = is_last && is_done && !has_trailers;
    session.set_ready(id, !is_last);
    let framed = outputs.of(index).append_small(pool, FRAME_HEADER_BYTES, |out| {
        session.data(id, bytes as usize, ends, out);
    });
    let moved = framed && outputs.transfer(&mut source, *index, bytes, pool, mappings);
    // What could not be moved still waits.
    *queued_bytes -= waits - outputs.bytes(source);
    if let Some(stream) = session.own(id) {
        stream.output = source;
    }
    moved
}

/// Ends a stream whose answer is complete and all in frames.
pub(crate) fn finish(core: &mut Core, slot: Slot, id: u32) {
    let Core { conns, outputs, pool, mappings, .. } = core;
    let Conn { link, protocol, .. } = conns.get(slot);
    let (index, Some(http2)) = (&mut link.output, protocol.http2()) else { return };
    let Http2 { session, queued_bytes, .. } = http2;
    let Some(stream) = session.own(id) else { return };
    let is_over = stream.state.stage == Stage::Done && outputs.bytes(stream.output) == 0;
    if !is_over {
        return;
    }
    let trailers = stream.trailers.take();
    let room = 2 * FRAME_HEADER_BYTES + 64 + trailers.as_ref().map_or(0, Vec::len);
    let mut gone = None;
    let wrote = outputs.of(index).append(pool, room, |out| {
        if let Some(block) = trailers {
            session.trailers(id, out, |out| out.extend_from_slice(&block));
        } else if !session.is_ended(id) {
            session.data(id, 0, true, out);
        }
        gone = session.close(id, out);
    });
    if let Some(stream) = gone {
        *queued_bytes -= stream.give_back(outputs, pool, mappings);
    }
    if !wrote {
        core.overloaded(slot);
    }
}
