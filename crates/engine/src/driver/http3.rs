//! The connection between HTTP/3 and the application: the events of QUIC, and their effects on the
//! exchanges.

mod request_stream_input;

use std::sync::Arc;

use pinion_http::h3::event::Fatal;
use pinion_http::h3::frame::ErrorCode;
use pinion_http::refusal::{Refusal, RefusedRequest};
use quinn_proto::{Dir, StreamEvent, StreamId};

use super::multiplexed_requests::{self, abandon, request_content};
use crate::app::App;
use crate::backend::Slot;
use crate::connection::Connection;
use crate::deadline::DeadlineKind;
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::http3::unidirectional_streams::{self, Uni};
use crate::worker_core::WorkerCore;
pub(crate) use request_stream_input::{read, read_wanted};

/// Acts upon all pending events of QUIC.
pub(crate) fn events<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    while let Some(event) = core.http3(slot).0.quic.poll() {
        let is_open = !core.connections.get(slot).is_closing();
        match event {
            quinn_proto::Event::ConnectionLost { .. } => {
                lost(core, slot);
                abandon(app, core, slot, Gone::Peer);
            }
            quinn_proto::Event::Connected if is_open => connected(core, slot),
            quinn_proto::Event::Stream(event) if is_open => {
                stream_event(app, core, slot, &event);
            }
            // A connection that we have closed has no further events of use.
            _ => {}
        }
    }
}

/// Handles the end of the handshake.
fn connected(core: &mut WorkerCore, slot: Slot) {
    core.connections.get(slot).link.received();
    core.http3(slot).0.write_control();
    if core.ending != WorkerEnding::No {
        core.go_away(slot);
    }
}

/// Closes the connection, with the data in its streams.
pub(crate) fn close(core: &mut WorkerCore, slot: Slot, code: ErrorCode) {
    let now = core.instant;
    core.http3(slot).0.close(now, code);
    // No deadline expires while QUIC keeps it.
    core.wheel.cancel(slot);
}

/// Handles a connection that was closed by the client, or lost.
fn lost(core: &mut WorkerCore, slot: Slot) {
    core.http3(slot).0.is_closed = true;
    core.wheel.cancel(slot);
}

fn stream_event<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, event: &StreamEvent) {
    match *event {
        StreamEvent::Opened { dir: Dir::Bi } => {
            while let Some(id) = core.http3(slot).0.accept(Dir::Bi) {
                request_stream_input::opened(app, core, slot, id);
            }
        }
        StreamEvent::Opened { dir: Dir::Uni } => {
            while let Some(id) = core.http3(slot).0.accept(Dir::Uni) {
                core.http3(slot).0.unis.push(Uni::opened(id));
                read_uni(app, core, slot, id);
            }
        }
        StreamEvent::Readable { id } => {
            core.http3(slot).0.on_frame(id);
            match id.dir() {
                Dir::Uni => read_uni(app, core, slot, id),
                Dir::Bi => read(app, core, slot, id),
            }
        }
        StreamEvent::Stopped { id, .. } => stopped(app, core, slot, id),
        StreamEvent::Available { .. } => core.http3(slot).0.write_control(),
        // Queued output is written after all events.
        StreamEvent::Writable { .. } | StreamEvent::Finished { .. } => {}
    }
}

/// Handles a client that wants no more of one of our streams.
fn stopped<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: StreamId) {
    let http3 = core.http3(slot).0;
    if [http3.control, http3.encoder].contains(&Some(id)) {
        // RFC 9114 §6.2.1: "the sender MUST NOT close the control stream"; RFC 9204 §4.2.
        return fail(app, core, slot, ErrorCode::ClosedCriticalStream.into());
    }
    request_stream_input::reset_by_peer(app, core, slot, id);
}

/// Handles an expired deadline. If it returns a code, the connection is to be closed with it.
#[cold]
pub(crate) fn stalled<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    kind: DeadlineKind,
) -> Option<ErrorCode> {
    match kind {
        DeadlineKind::Body | DeadlineKind::Head => {
            request_content::content_stalled(app, core, slot);
            heads_stalled(app, core, slot);
        }
        DeadlineKind::Quiet => core.http3(slot).0.quic.ping(),
        // A client that is late with dropped content is asked to stop, as after each event.
        DeadlineKind::Discard => {}
        DeadlineKind::Window => {
            app.flooded(core.address(slot));
            return Some(ErrorCode::ExcessiveLoad);
        }
        _ => return Some(ErrorCode::NoError),
    }
    None
}

/// Refuses the requests whose heads have not arrived in full in time.
#[cold]
fn heads_stalled<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    let now_ms = core.now.monotonic_ms;
    let settings = Arc::clone(&core.settings);
    let (multiplexed, ..) = core.multiplexed(slot);
    let late =
        multiplexed.all(|stream| stream.awaits_head() && stream.delay_at_random(now_ms, &settings));
    for number in late {
        // The response to one may have ended others.
        let Some(open) = core.http3(slot).0.streams.get(number) else { continue };
        open.request.refuse_late();
        let unknown = RefusedRequest::default();
        multiplexed_requests::refuse(app, core, slot, (number, false), Refusal::Timeout, &unknown);
    }
}

/// Ends the connection with an error, once.
#[cold]
fn fail<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, fatal: Fatal) {
    if core.connections.get(slot).is_closing() {
        return;
    }
    if fatal.budget.is_some() {
        app.flooded(core.address(slot));
    }
    close(core, slot, fatal.code);
    abandon(app, core, slot, Gone::Refused);
}

/// Reads a unidirectional stream.
fn read_uni<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: StreamId) {
    let now_ms = core.now.monotonic_ms;
    if let Err(fatal) = unidirectional_streams::read(core.http3(slot).0, id, now_ms) {
        fail(app, core, slot, fatal);
    }
}

/// Hands the queues of streams to QUIC.
pub(crate) fn pump<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    let WorkerCore { connections, buffers, external, turns, now, .. } = core;
    let now_ms = now.monotonic_ms;
    let Connection { link, protocol, .. } = connections.get(slot);
    let Some(http3) = protocol.http3() else {
        unreachable!("a connection over QUIC speaks HTTP/3")
    };
    for (number, stream, why) in http3.pump(link, buffers, external, turns, now_ms) {
        multiplexed_requests::lose(app, core, slot, (number, stream), why);
    }
}
