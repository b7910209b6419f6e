//! The connection between byte streams and the application.

use crate::app::{App, RawEvent};
use crate::backend::Slot;
use crate::byte_stream::StreamState;
use crate::connection::Conn;
use crate::deadline::DeadlineWatch;
use crate::linger::Remaining;
use crate::raw_stream::RawStream;
use crate::worker_core::WorkerCore;

/// Informs the application of a stream that has begun.
pub(crate) fn open<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    tell(app, core, slot, RawEvent::Open);
}

/// Passes an event of a stream to the application, and moves the connection on.
pub(crate) fn tell<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, event: RawEvent<'_>) {
    app.raw(event, &mut RawStream { core, slot });
    after_event(core, slot);
}

/// Checks the actions of the application on a stream, and moves the connection on.
pub(crate) fn after_event(core: &mut WorkerCore, slot: Slot) {
    let stream = core.conns.get(slot).protocol.byte_stream();
    if stream.is_some_and(|stream| stream.state == StreamState::Closed) {
        core.end(slot, Remaining::Strays);
    }
}

/// Hands bytes to the application, as far as it wants them; returns the number of bytes.
pub(crate) fn input<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, input: &[u8]) -> usize {
    let Conn { link, protocol, .. } = core.conns.get(slot);
    let Some(stream) = protocol.byte_stream() else {
        unreachable!("input goes to the protocol of its connection")
    };
    let now = usize::try_from(stream.wanted).unwrap_or(usize::MAX).min(input.len());
    if now == 0 {
        return 0;
    }
    stream.wanted -= now as u64;
    stream.awaits_first_byte = false;
    link.deadline.is_over(DeadlineWatch::FirstByte);
    link.deadline.is_over(DeadlineWatch::StreamIdle);
    core.content_bytes += now;
    tell(app, core, slot, RawEvent::Bytes(&input[..now]));
    now
}
