//! The end of a connection behind its last response. What the peer still sends is read and dropped
//! for a while: a plain close would reset the connection under the response (RFC 9112 §9.6).

use crate::backend::Slot;
use crate::conn::Protocol;
use crate::core::Core;
use crate::gone::Gone;
use crate::limits::LINGER_MAX_BYTES;

/// See the module's head.
pub(crate) struct Linger {
    /// The last response has not left in full.
    pub(crate) is_sending: bool,
    /// The peer may still be sending: it is read from once the response has left.
    pub(crate) reads_on: bool,
    /// It spoke HTTP/2, where a client goes on speaking while it reads.
    pub(crate) was_http2: bool,
    /// Bytes that were dropped.
    dropped: u32,
}

impl Core {
    /// Nothing more comes behind what is queued; gives back what the protocol held. `reads_on`: the
    /// peer may still be sending.
    pub(crate) fn end(&mut self, slot: Slot, reads_on: bool) {
        let Self { conns, pool, encoders, .. } = self;
        let conn = conns.get(slot);
        let linger = Linger {
            is_sending: true,
            reads_on: reads_on && !conn.link.ended,
            was_http2: conn.protocol.http2().is_some(),
            dropped: 0,
        };
        conn.link.asked_ms = 0;
        let before = std::mem::replace(&mut conn.protocol, Protocol::Linger(linger));
        before.give_back(encoders, pool);
    }
}

/// Counts what a lingering peer still sends; too much ends the patience. Who asked to close and
/// sends more nevertheless may not be done with that.
pub(crate) fn drop_input(core: &mut Core, slot: Slot, bytes: usize) {
    core.content_bytes += bytes;
    let conn = core.conns.get(slot);
    let Protocol::Linger(linger) = &mut conn.protocol else { return };
    linger.reads_on |= bytes > 0 && linger.is_sending && !conn.link.ended;
    linger.dropped = linger.dropped.saturating_add(bytes as u32);
    if u64::from(linger.dropped) > LINGER_MAX_BYTES {
        conn.link.cut.get_or_insert(Gone::Peer);
    }
}
