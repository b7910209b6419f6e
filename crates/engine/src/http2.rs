//! HTTP/2 on one connection: bytes in, exchanges with the application, frames queued. The wire
//! machine itself is `pinion_http::h2`; here it meets the connection. Content waits in a queue for
//! each stream, and is put into frames only when the connection has room for it.

pub(crate) mod answer;
pub(crate) mod pump;

use pinion_http::h2::event::Event as Happened;
use pinion_http::h2::frame::ErrorCode;
use pinion_http::h2::session::{Session, Settings};

use crate::app::App;
use crate::backend::Slot;
use crate::conn::Protocol;
use crate::core::Core;
use crate::deadline::Watch;
use crate::ending::Ending;
use crate::gone::Gone;
use crate::limits::OUTPUT_HIGH_WATER_BYTES;
use crate::many::{Many, Stream, abandon, lose, request};

/// See the module's head.
pub(crate) struct Http2 {
    pub(crate) session: Session<Stream>,
    /// Bytes of content that wait on all streams.
    pub(crate) queued_bytes: u64,
    /// Bytes of the session that are counted against the budget for buffers.
    pub(crate) counted_bytes: usize,
}

impl Http2 {
    /// What a deadline has to watch, when the exchanges by themselves ask for `watch`.
    pub(crate) fn watch(&self, watch: Watch) -> Watch {
        // Who knows that the server leaves has nothing more to ask for here.
        if watch == Watch::Idle && self.session.is_leaving() { Watch::Last } else { watch }
    }

    /// Takes an open stream away, without a word to the peer.
    pub(crate) fn pop(&mut self) -> Option<(u32, Stream)> {
        let (id, _) = self.session.each_own().next()?;
        let stream = self.session.reset(id, ErrorCode::Cancel, &mut Vec::new())?;
        Some((id, std::mem::take(stream)))
    }
}

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

/// Uses as much of `input` as the connection can take now; returns how many bytes that was.
pub(crate) fn drive<A: App>(app: &mut A, core: &mut Core, slot: Slot, input: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let conn = core.conns.get(slot);
        if conn.link.cut.is_some() || conn.http2().is_none() {
            return input.len();
        }
        let output = conn.link.output;
        if core.outputs.bytes(output) >= OUTPUT_HIGH_WATER_BYTES {
            return at;
        }
        let mut section = std::mem::take(&mut core.section);
        let mut control = std::mem::take(&mut core.control);
        let now_ms = core.now.monotonic_ms;
        let Some(http2) = core.conns.get(slot).http2() else { return input.len() };
        let (rest, mut place) = (&input[at..], None);
        let step = http2.session.step(rest, &mut section, &mut place, now_ms, &mut control);
        send(core, slot, &control);
        control.clear();
        core.control = control;
        at += step.used;
        let goes_on = happened(app, core, slot, &step.event);
        core.section = section;
        if !goes_on {
            count(core, slot);
            return at;
        }
    }
}

/// Counts what the session takes, by the work of its client, against the budget for buffers.
fn count(core: &mut Core, slot: Slot) {
    let Core { conns, pool, .. } = core;
    let Some(http2) = conns.get(slot).http2() else { return };
    let bytes = http2.session.memory_bytes();
    if bytes != http2.counted_bytes {
        pool.count(bytes);
        pool.release(std::mem::replace(&mut http2.counted_bytes, bytes));
    }
}

/// Acts upon an event. False when it needs more input.
fn happened<A: App>(app: &mut A, core: &mut Core, slot: Slot, event: &Happened<'_>) -> bool {
    match *event {
        Happened::NeedMore => return false,
        // What can be sent now is, behind all of the input.
        Happened::Nothing | Happened::Opened => {}
        Happened::Head { stream, head, end } => request::begin(app, core, slot, stream, head, end),
        Happened::HeadRefused { stream, refusal, form, end } => {
            request::refuse(app, core, slot, (stream, end), refusal, form);
        }
        Happened::Data { stream, bytes, end } => {
            request::content(app, core, slot, stream, bytes, end);
        }
        Happened::Trailers { stream, fields } => {
            request::trailers(app, core, slot, stream, fields);
        }
        Happened::Reset { stream, by_peer, .. } => {
            let why = if by_peer { Gone::Peer } else { Gone::Refused };
            let own = core.conns.get(slot).http2().and_then(|http2| http2.session.left());
            if let Some(own) = own.map(std::mem::take) {
                lose(app, core, slot, (stream, own), why);
            }
        }
        Happened::Fatal { budget, .. } => {
            if budget.is_some() {
                app.flooded(core.address(slot));
            }
            abandon(app, core, slot, Gone::Refused);
            core.end(slot, true);
        }
    }
    true
}

/// Queues frames of the connection itself.
pub(super) fn send(core: &mut Core, slot: Slot, frames: &[u8]) {
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

/// What the peer should have done did not come in time.
#[cold]
pub(crate) fn stalled<A: App>(app: &mut A, core: &mut Core, slot: Slot, watch: Watch) {
    match watch {
        Watch::Body => return request::content_stalled(app, core, slot),
        Watch::Idle | Watch::Last => finish(core, slot),
        // A frame that is not whole, or a window that stays shut.
        _ => {
            let code = ErrorCode::EnhanceYourCalm;
            with_control(core, slot, |http2, control| http2.session.fail(code, control));
            app.flooded(core.address(slot));
        }
    }
    abandon(app, core, slot, Gone::Stalled);
    core.end(slot, true);
}

/// Ends a connection on which nothing is left to be done; false when there is.
pub(crate) fn is_over(core: &mut Core, slot: Slot) -> bool {
    let conn = core.conns.get(slot);
    let is_over = conn.http2().is_some_and(|http2| http2.session.is_finished());
    if is_over {
        core.end(slot, true);
    }
    is_over
}
