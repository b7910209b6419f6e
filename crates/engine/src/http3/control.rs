//! The connection itself, beside its exchanges: its beginning, its end, and what it holds.

use pinion_http::h3::frame::ErrorCode;
use quinn_proto::{Dir, StreamId};

use super::{Http3, var_int};
use crate::backend::Slot;
use crate::conn::Conn;
use crate::core::Core;
use crate::deadline::Watch;
use crate::ending::Ending;

/// Counts what QUIC holds, and what the session takes by the work of its client, against the budget
/// for buffers.
pub(crate) fn count(core: &mut Core, slot: Slot) {
    let Core { conns, pool, .. } = core;
    let Some(http3) = conns.get(slot).http3() else { return };
    let bytes = http3.weigh() + http3.session.memory_bytes();
    if bytes != http3.counted_bytes {
        pool.count(bytes);
        pool.release(std::mem::replace(&mut http3.counted_bytes, bytes));
    }
}

/// The handshake is over.
pub(crate) fn connected(core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    conn.link.received();
    if let Some(http3) = conn.http3() {
        http3.write_control();
    }
    if core.ending != Ending::No {
        leave(core, slot);
    }
}

/// A stream that the client has opened, unless one before it has ended the connection.
pub(crate) fn accept(core: &mut Core, slot: Slot, dir: Dir) -> Option<StreamId> {
    let conn = core.conns.get(slot);
    if conn.is_closing() {
        return None;
    }
    conn.http3()?.quic.streams().accept(dir)
}

/// Says that no further requests are taken; said again, that those on their way are not either.
/// Who has had all its requests hears both at once: it may ask for the others again on its next
/// connection (RFC 9114 §5.2).
pub(crate) fn leave(core: &mut Core, slot: Slot) {
    let is_stopping = core.ending != Ending::No;
    let Some(http3) = core.conns.get(slot).http3() else { return };
    let Http3 { session, control_out, .. } = http3;
    http3.is_stopping = is_stopping;
    session.go_away(control_out);
    if !is_stopping {
        session.go_away(control_out);
    }
    http3.write_control();
}

/// Has a deadline begin anew when what it watches has gone on. A window is found shut as soon as
/// QUIC was given what it takes, and that leaves by and by.
pub(crate) fn watch_anew(conn: &mut Conn) {
    let (watch, before) = (conn.link.deadline.watch(), conn.link.progress);
    if matches!(watch, Watch::Window | Watch::Last)
        && conn.http3().is_some_and(|http3| http3.progress(watch) != before)
    {
        conn.link.deadline.pause();
    }
}

/// Closes the connection, with what stands in its streams.
pub(crate) fn close(core: &mut Core, slot: Slot, code: ErrorCode) {
    end(core, slot);
    let now = core.instant;
    if let Some(http3) = core.conns.get(slot).http3() {
        http3.quic.close(now, var_int(code), bytes::Bytes::new());
    }
}

/// The connection is over. QUIC keeps it for a while (RFC 9000 §10.2), and no deadline of it passes
/// meanwhile.
pub(crate) fn end(core: &mut Core, slot: Slot) {
    if let Some(http3) = core.conns.get(slot).http3() {
        http3.is_closed = true;
    }
    core.wheel.cancel(slot);
}
