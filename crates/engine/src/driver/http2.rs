//! The connection between HTTP/2 and the application: frames in, and their effects on the
//! exchanges.

use pinion_http::h2::event::Event as Happened;
use pinion_http::h2::frame::ErrorCode;
use pinion_http::multiplexed_request_head::refused_request;

use super::multiplexed_requests::{self, abandon, lose, request_content};
use crate::app::App;
use crate::backend::Slot;
use crate::deadline::DeadlineKind;
use crate::end_reason::Gone;
use crate::limits::OUTPUT_HIGH_WATER_BYTES;
use crate::linger::Remaining;
use crate::worker_core::WorkerCore;

/// Uses as much of `input` as the connection can take now; returns the number of bytes.
pub(crate) fn drive<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, input: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let connection = core.connections.get(slot);
        if connection.link.cut.is_some() || connection.http2().is_none() {
            return input.len();
        }
        let output = connection.link.output;
        if core.buffers.outputs.bytes(output) >= OUTPUT_HIGH_WATER_BYTES {
            return at;
        }
        let mut section = std::mem::take(&mut core.section);
        let now_ms = core.now.monotonic_ms;
        let Some((http2, link, buffers)) = core.http2(slot) else {
            unreachable!("it has just spoken HTTP/2")
        };
        let (rest, mut place) = (&input[at..], None);
        let step = http2.with_control(link, buffers, |session, control| {
            session.step(rest, &mut section, &mut place, now_ms, control)
        });
        at += step.used;
        let goes_on = happened(app, core, slot, &step.event);
        core.section = section;
        if !goes_on {
            if let Some((http2, _, buffers)) = core.http2(slot) {
                http2.count(buffers);
            }
            return at;
        }
    }
}

/// Acts upon an event. Returns false if it needs more input.
fn happened<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, event: &Happened<'_>) -> bool {
    match *event {
        Happened::NeedMore => return false,
        // Output is sent after all of the input.
        Happened::Nothing | Happened::Opened => {}
        Happened::Head { stream, head, end } => {
            multiplexed_requests::begin(app, core, slot, stream, head, end);
        }
        Happened::HeadRefused { stream, refusal, fields, end } => {
            let request = refused_request(&fields);
            multiplexed_requests::refuse(app, core, slot, (stream, end), refusal, &request);
        }
        Happened::Data { stream, bytes, end } => {
            request_content::content(app, core, slot, stream, bytes, end);
        }
        Happened::Trailers { stream, fields } => {
            request_content::trailers(app, core, slot, stream, fields);
        }
        Happened::Reset { stream, by_peer, .. } => {
            let why = if by_peer { Gone::Peer } else { Gone::Refused };
            let own = core.connections.get(slot).http2().and_then(|http2| http2.session.left());
            if let Some(own) = own.map(std::mem::take) {
                lose(app, core, slot, (stream, own), why);
            }
        }
        Happened::Fatal { budget, .. } => {
            if budget.is_some() {
                app.flooded(core.address(slot));
            }
            abandon(app, core, slot, Gone::Refused);
            core.end(slot, Remaining::UselessInput);
        }
    }
    true
}

/// Handles a deadline of the peer that has expired.
#[cold]
pub(crate) fn stalled<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, kind: DeadlineKind) {
    if kind == DeadlineKind::Body {
        return request_content::content_stalled(app, core, slot);
    }
    let Some((http2, link, buffers)) = core.http2(slot) else {
        unreachable!("this is only called for connections of HTTP/2")
    };
    if matches!(kind, DeadlineKind::Idle | DeadlineKind::Last) {
        http2.finish_all(link, buffers);
    } else {
        // The cause is an incomplete frame, or a window that stays shut.
        let code = ErrorCode::EnhanceYourCalm;
        http2.with_control(link, buffers, |session, control| session.fail(code, control));
        app.flooded(core.address(slot));
    }
    abandon(app, core, slot, Gone::Stalled);
    core.end(slot, Remaining::UselessInput);
}
