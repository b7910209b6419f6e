//! Delivers the events and the input of byte streams to the application.

use crate::app::{App, ByteStreamEvent};
use crate::backend::Slot;
use crate::byte_stream::StreamState;
use crate::byte_stream_handle::ByteStreamHandle;
use crate::connection::Connection;
use crate::deadline::DeadlineKind;
use crate::linger::Remaining;
use crate::worker_core::WorkerCore;

/// Informs the application of a byte stream that has begun.
pub(crate) fn open<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    deliver_event(app, core, slot, ByteStreamEvent::Open);
}

/// Delivers an event of a byte stream, and then ends the connection if the application has closed
/// the stream.
pub(crate) fn deliver_event<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    event: ByteStreamEvent<'_>,
) {
    app.byte_stream_event(event, &mut ByteStreamHandle { core, slot });
    after_event(core, slot);
}

/// Ends the connection after its queued output, if the application has closed the byte stream.
pub(crate) fn after_event(core: &mut WorkerCore, slot: Slot) {
    let stream = core.connections.get(slot).protocol.byte_stream();
    if stream.is_some_and(|stream| stream.state == StreamState::Closed) {
        core.end(slot, Remaining::UselessInput);
    }
}

/// Delivers as many bytes of `input` to the application as it wants. Returns their number.
pub(crate) fn input<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, input: &[u8]) -> usize {
    let Connection { link, protocol, .. } = core.connections.get(slot);
    let Some(stream) = protocol.byte_stream() else {
        unreachable!("this is only called for connections that carry a byte stream")
    };
    let taken = usize::try_from(stream.wanted_bytes).unwrap_or(usize::MAX).min(input.len());
    if taken == 0 {
        return 0;
    }
    stream.wanted_bytes -= taken as u64;
    stream.awaits_first_byte = false;
    link.deadline.end(DeadlineKind::FirstByte);
    link.deadline.end(DeadlineKind::StreamIdle);
    core.consumed_content_bytes += taken;
    deliver_event(app, core, slot, ByteStreamEvent::Bytes(&input[..taken]));
    taken
}
