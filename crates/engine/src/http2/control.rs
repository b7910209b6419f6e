//! Frames of a connection itself, beside those of its exchanges.

use pinion_http::h2::frame::ErrorCode;
use pinion_http::h2::session::{Session, Settings};

use super::Http2;
use crate::backend::Slot;
use crate::conn::Protocol;
use crate::core::Core;
use crate::ending::Ending;
use crate::linger::Remaining;
use crate::many::{Many, Stream};

/// Begins HTTP/2 on a connection whose first bytes are still to come.
pub(crate) fn begin(core: &mut Core, slot: Slot) {
    let settings = Settings { limits: core.settings.limits, ..Settings::default() };
    let mut session = Session::new(&settings);
    let mut control = Vec::new();
    session.open(&mut control);
    let conn = core.conns.get(slot);
    let http2 = Http2 { session, queued_bytes: 0, counted_bytes: 0 };
    conn.protocol = Protocol::Many(Many::Http2(Box::new(http2)));
    send(core, slot, &control);
    if core.ending != Ending::No {
        leave(core, slot);
    }
}

/// Counts what the session takes, by the work of its client, against the budget for buffers.
pub(crate) fn count(core: &mut Core, slot: Slot) {
    let Core { conns, pool, .. } = core;
    let Some(http2) = conns.get(slot).http2() else { return };
    if pool.missing_bytes() > 0 {
        http2.session.shrink_windows();
    }
    let bytes = http2.session.memory_bytes();
    if bytes != http2.counted_bytes {
        pool.count(bytes);
        pool.release(std::mem::replace(&mut http2.counted_bytes, bytes));
    }
}

/// Queues frames of the connection itself.
pub(crate) fn send(core: &mut Core, slot: Slot, frames: &[u8]) {
    if frames.is_empty() {
        return;
    }
    let (output, pool) = core.output(slot);
    if !output.append_bytes(pool, frames) {
        core.overloaded(slot);
    }
}

/// Says that no further requests are taken; said again, that those on their way are not either.
pub(crate) fn leave(core: &mut Core, slot: Slot) {
    with_control(core, slot, |http2, control| http2.session.go_away(control));
}

/// Says all that is left to say, to a client that is not waited for any longer.
pub(crate) fn finish(core: &mut Core, slot: Slot) {
    with_control(core, slot, |http2, control| http2.session.finish(control));
}

/// Ends a stream whose answer cannot be completed; gives back what was kept with it.
pub(crate) fn reset(core: &mut Core, slot: Slot, id: u32) -> Option<Stream> {
    let code = ErrorCode::InternalError;
    let act = |http2: &mut Http2, control: &mut Vec<u8>| {
        http2.session.reset(id, code, control).map(std::mem::take)
    };
    with_control(core, slot, act).flatten()
}

/// Has the session write frames of the connection itself.
pub(crate) fn with_control<R>(
    core: &mut Core,
    slot: Slot,
    act: impl FnOnce(&mut Http2, &mut Vec<u8>) -> R,
) -> Option<R> {
    let mut control = std::mem::take(&mut core.control);
    let result = core.conns.get(slot).http2().map(|http2| act(http2, &mut control));
    send(core, slot, &control);
    control.clear();
    core.control = control;
    result
}

/// Ends a connection on which nothing is left to be done; false when there is.
pub(crate) fn is_over(core: &mut Core, slot: Slot) -> bool {
    let conn = core.conns.get(slot);
    let is_over = conn.http2().is_some_and(|http2| http2.session.is_finished());
    if is_over {
        core.end(slot, Remaining::Strays);
    }
    is_over
}

/// The application has consumed content of a stream: the client may send more.
pub(crate) fn consumed(core: &mut Core, slot: Slot, id: u32, bytes: usize) {
    // Over HTTP/3 nothing is read that is not wanted, and reading gives the window back.
    if bytes > 0 {
        with_control(core, slot, |http2, control| http2.session.consumed(id, bytes, control));
    }
}
