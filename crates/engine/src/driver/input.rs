//! The use of input, and the buffering of input that cannot be used yet.

use pinion_http::h1::refused_request_hints::glance;

use super::{byte_streams, http1, http2, protocol_detection};
use crate::app::App;
use crate::backend::Slot;
use crate::connection::Protocol;
use crate::http1::Http1;
use crate::multiplexed::Multiplexed;
use crate::worker_buffers::Buffers;
use crate::worker_core::WorkerCore;

/// Uses input as far as that is possible and keeps the rest.
#[inline]
pub(crate) fn take_in<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, input: &[u8]) {
    if core.connections.get(slot).link.input.is_empty() {
        let used = drive(app, core, slot, input);
        keep(app, core, slot, &input[used..]);
    } else if keep(app, core, slot, input) {
        drive_kept_input(app, core, slot);
    }
}

/// Keeps input that cannot be used yet. Returns false if there is no room: the connection is ended
/// then.
#[inline]
fn keep<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, input: &[u8]) -> bool {
    if input.is_empty() {
        return true;
    }
    let WorkerCore { connections, buffers, .. } = core;
    let Buffers { pool, .. } = buffers;
    let connection = connections.get(slot);
    if connection.link.cut.is_some() || connection.link.input.keep(pool, input) {
        return true;
    }
    overflow(app, core, slot);
    false
}

/// Responds with 503 if there is no memory for an incomplete request and nothing else is under way.
#[cold]
fn overflow<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    let connection = core.connections.get(slot);
    if let Protocol::Undetected | Protocol::Http1(Http1::Head { .. }) = connection.protocol {
        let kept = std::mem::take(&mut connection.link.input);
        http1::send_page(app, core, slot, 503, &glance(kept.unused()));
        core.connections.get(slot).link.input = kept;
    } else {
        core.overloaded(slot);
    }
}

/// Continues with input that was kept; returns how many bytes were used.
pub(super) fn drive_kept_input<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) -> usize {
    let mut kept = std::mem::take(&mut core.connections.get(slot).link.input);
    let used = drive(app, core, slot, kept.unused());
    kept.advance(used, &mut core.buffers.pool);
    core.connections.get(slot).link.input = kept;
    used
}

/// Uses as much of `input` as the connection can take now; returns the number of bytes. The rest
/// stays in the input buffer: an incomplete head, or input after a response that is not ready.
#[inline]
fn drive<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, input: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = &input[at..];
        let protocol = &core.connections.get(slot).protocol;
        let before = protocol.phase();
        let used = match protocol {
            Protocol::Http1(Http1::Head { .. }) if rest.is_empty() => return at,
            Protocol::Http1(Http1::Head { .. }) => http1::request(app, core, slot, rest),
            Protocol::Http1(_) => http1::content(app, core, slot, rest),
            Protocol::Undetected => {
                protocol_detection::look(app, core, slot, rest);
                0
            }
            Protocol::Multiplexed(Multiplexed::Http2(_)) => http2::drive(app, core, slot, rest),
            Protocol::ByteStream(_) => byte_streams::input(app, core, slot, rest),
            Protocol::Linger(_) => {
                core.drop_input(slot, rest.len());
                return input.len();
            }
            Protocol::ProxyHeader(_)
            | Protocol::Handshake
            | Protocol::Multiplexed(Multiplexed::Http3(_)) => return at,
            Protocol::Connecting(_) => unreachable!("no content arrives before it is open"),
            Protocol::Closing => return input.len(),
        };
        at += used;
        let connection = core.connections.get(slot);
        if connection.link.cut.is_some() {
            return input.len();
        }
        if used == 0 && connection.protocol.phase() == before {
            return at;
        }
    }
}
