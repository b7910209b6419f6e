//! What is done to the streams of connections that carry many exchanges, whatever carries them.

use super::{Many, Stream};
use crate::backend::Slot;
use crate::conn::Conn;
use crate::core::Core;
use crate::exchange::state::Stage;
use crate::gone::Gone;
use crate::http2::control;
use crate::http2::pump;
use crate::http3;
use crate::limits::{STREAM_HIGH_WATER_BYTES, UNREAD_MAX_BYTES};

/// The stream with this number, if it is open.
#[inline]
pub(crate) fn own(core: &mut Core, slot: Slot, id: u32) -> Option<&mut Stream> {
    core.conns.get(slot).protocol.many()?.own(id)
}

/// Ends a stream whose answer cannot be completed; gives back what was kept with it.
pub(crate) fn reset(core: &mut Core, slot: Slot, id: u32) -> Option<Stream> {
    match core.conns.get(slot).protocol.many()? {
        Many::Http2(_) => control::reset(core, slot, id),
        Many::Http3(http3) => http3.reset(id),
    }
}

/// Ends a stream whose answer is complete and all on its way; later, when it is not.
pub(crate) fn finish(core: &mut Core, slot: Slot, id: u32) {
    if core.conns.get(slot).http2().is_some() {
        pump::finish(core, slot, id);
    }
}

/// Says that no further requests are taken; said again, that those on their way are not either.
pub(crate) fn leave(core: &mut Core, slot: Slot) {
    match core.conns.get(slot).protocol.many() {
        Some(Many::Http2(_)) => control::leave(core, slot),
        Some(Many::Http3(_)) => http3::control::leave(core, slot),
        None => {}
    }
}

/// Gives back what a stream that is no more has held, and says how many bytes of its answer waited.
pub(crate) fn release(core: &mut Core, slot: Slot, mut stream: Stream) -> u64 {
    let Core { conns, outputs, pool, mappings, encoders, .. } = core;
    encoders.give_back(&mut stream.state.encoder, pool);
    let bytes = stream.give_back(outputs, pool, mappings);
    if let Some(many) = conns.get(slot).protocol.many() {
        *many.queued_bytes_mut() -= bytes;
    }
    bytes
}

/// Sets the deadline that the application has asked for on a stream, in milliseconds; 0 is none.
pub(crate) fn set_deadline(core: &mut Core, slot: Slot, id: u32, at_ms: u64) {
    if let Some(stream) = own(core, slot, id) {
        stream.asked_ms = at_ms;
    }
    wake_at_earliest(core, slot);
}

/// Has the connection wake up at the earliest deadline that an exchange has asked for.
pub(crate) fn wake_at_earliest(core: &mut Core, slot: Slot) {
    let Conn { link, protocol, .. } = core.conns.get(slot);
    let Some(many) = protocol.many() else { return };
    let mut earliest_ms = u64::MAX;
    many.find(|_, stream| {
        if stream.asked_ms > 0 {
            earliest_ms = earliest_ms.min(stream.asked_ms);
        }
        None::<()>
    });
    link.asked_ms = if earliest_ms == u64::MAX { 0 } else { earliest_ms };
}

/// Whether more content is welcome on a stream.
pub(crate) fn has_room(core: &mut Core, slot: Slot, id: u32) -> bool {
    let Core { conns, outputs, .. } = core;
    let stream = conns.get(slot).protocol.many().and_then(|many| many.own(id));
    stream.is_some_and(|stream| outputs.bytes(stream.output) < STREAM_HIGH_WATER_BYTES)
}

/// Keeps content that nobody has wanted yet.
pub(crate) fn keep(core: &mut Core, slot: Slot, id: u32, bytes: &[u8]) -> bool {
    let Core { conns, pool, .. } = core;
    let stream = conns.get(slot).protocol.many().and_then(|many| many.own(id));
    bytes.is_empty()
        || stream.is_some_and(|stream| stream.unread.keep_up_to(pool, bytes, UNREAD_MAX_BYTES))
}

/// The application wants more content.
pub(crate) fn want(core: &mut Core, slot: Slot, id: u32) {
    let now_ms = core.now.monotonic_ms;
    if let Some(stream) = own(core, slot, id) {
        stream.waits_since_ms = now_ms;
    }
}

/// The exchange cannot go on: its stream is reset behind this event. False when it is no more.
#[cold]
pub(crate) fn mark_given_up(core: &mut Core, slot: Slot, id: u32, why: Gone) -> bool {
    let Some(stream) = own(core, slot, id) else { return false };
    stream.state.stage = Stage::Aborted;
    stream.given_up = Some(why);
    true
}
