//! HTTP/2 on one connection: bytes in, exchanges with the application, frames queued. The wire
//! machine itself is `pinion_http::h2`; here it meets the connection. Content waits in a queue for
//! each stream, and is put into frames only when the connection has room for it.

pub(crate) mod answer;
pub(crate) mod pump;
pub(crate) mod request;
mod stream;

use pinion_http::h2::event::Event as Happened;
use pinion_http::h2::frame::ErrorCode;
use pinion_http::h2::session::{Session, Settings};

use crate::app::{App, Event, Gone};
use crate::backend::Slot;
use crate::conn::{Phase, Watch};
use crate::core::Core;
use crate::drain::Ending;
use crate::exchange::{Exchange, Stage};
use crate::limits::{OUTPUT_HIGH_WATER_BYTES, STREAM_HIGH_WATER_BYTES, STREAM_LOW_WATER_BYTES};
use crate::output::Outputs;
use crate::service::Notice;
pub(crate) use stream::Stream;

/// See the module's head.
pub(crate) struct Http2 {
    pub(crate) session: Session<Stream>,
    /// Bytes of content that wait on all streams.
    pub(crate) queued_bytes: u64,
    /// Bytes of the session that are counted against the budget for buffers.
    pub(crate) counted_bytes: usize,
}

impl Http2 {
    /// Whether nothing more comes of its exchanges without the peer's doing, once what is in frames
    /// has left.
    pub(crate) fn rests(&self) -> bool {
        self.queued_bytes > 0 || self.session.open_streams() == 0
    }

    /// Bytes of the budget for buffers that streams hold.
    pub(crate) fn held_bytes(&mut self, outputs: &mut Outputs) -> usize {
        let held = |(_, stream): (u32, &mut Stream)| {
            let output = outputs.get(stream.output).map_or(0, |output| output.held_bytes());
            output + stream.unread.held_bytes()
        };
        let counted_bytes = self.counted_bytes;
        self.session.each_own().map(held).sum::<usize>() + counted_bytes
    }

    /// What a deadline has to watch, beside bytes that do not come or leave.
    pub(crate) fn watch(&mut self) -> Watch {
        if self.session.open_streams() == 0 {
            return Watch::Idle;
        }
        if self.session.each_own().any(|(_, stream)| stream.waits_for_content()) {
            return Watch::Body;
        }
        // What waits, waits for a window.
        if self.queued_bytes > 0 { Watch::Window } else { Watch::Nothing }
    }
}

/// Begins HTTP/2 on a connection whose first bytes are still to come.
pub(crate) fn begin(core: &mut Core, slot: Slot) {
    let settings = Settings { limits: core.settings.limits, ..Settings::default() };
    let mut session = Session::new(&settings);
    let mut control = Vec::new();
    session.open(&mut control);
    let conn = core.conns.get(slot);
    conn.phase = Phase::Http2;
    conn.http2 = Some(Box::new(Http2 { session, queued_bytes: 0, counted_bytes: 0 }));
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
        if conn.exchange.stage == Stage::Aborted || conn.phase != Phase::Http2 {
            return input.len();
        }
        let output = conn.output;
        if core.outputs.bytes(output) >= OUTPUT_HIGH_WATER_BYTES {
            return at;
        }
        let mut section = std::mem::take(&mut core.section);
        let mut control = std::mem::take(&mut core.control);
        let now_ms = core.now.monotonic_ms;
        let Some(http2) = &mut core.conns.get(slot).http2 else { return input.len() };
        let step = http2.session.step(&input[at..], &mut section, now_ms, &mut control);
        send(core, slot, &control);
        control.clear();
        core.control = control;
        at += step.used;
        let goes_on = happened(app, core, slot, step.event);
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
    let Some(http2) = &mut conns.get(slot).http2 else { return };
    let bytes = http2.session.memory_bytes();
    if bytes != http2.counted_bytes {
        pool.count(bytes);
        pool.release(std::mem::replace(&mut http2.counted_bytes, bytes));
    }
}

/// Acts upon an event. False when it needs more input.
fn happened<A: App>(app: &mut A, core: &mut Core, slot: Slot, event: Happened<'_, Stream>) -> bool {
    match event {
        Happened::NeedMore => return false,
        // What can be sent now is, behind all of the input.
        Happened::Nothing | Happened::Opened | Happened::PeerLeaves { .. } => {}
        Happened::Head { stream, head, end } => request::begin(app, core, slot, stream, &head, end),
        Happened::HeadRefused { stream, refusal, form, end } => {
            request::refuse(app, core, slot, (stream, end), refusal, form);
        }
        Happened::Data { stream, bytes, end } => {
            request::content(app, core, slot, stream, bytes, end);
        }
        Happened::Trailers { stream, fields } => {
            request::trailers(app, core, slot, stream, fields);
        }
        Happened::Reset { stream, own, by_peer, .. } => {
            let why = if by_peer { Gone::Peer } else { Gone::Refused };
            lose(app, core, slot, (stream, own), why);
        }
        Happened::Fatal { .. } => {
            abandon(app, core, slot, Gone::Refused);
            core.conns.get(slot).end(true);
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

/// Has the session write frames of the connection itself.
pub(super) fn with_control<R>(
    core: &mut Core,
    slot: Slot,
    act: impl FnOnce(&mut Http2, &mut Vec<u8>) -> R,
) -> Option<R> {
    let mut control = std::mem::take(&mut core.control);
    let result = core.conns.get(slot).http2.as_mut().map(|http2| act(http2, &mut control));
    send(core, slot, &control);
    control.clear();
    core.control = control;
    result
}

/// Gives back what a stream that is no more has held.
pub(super) fn release(core: &mut Core, slot: Slot, stream: Stream) {
    let unread_bytes = stream.unread.len();
    let Core { conns, outputs, pool, mappings, .. } = core;
    let bytes = stream.give_back(outputs, pool, mappings);
    if let Some(http2) = &mut conns.get(slot).http2 {
        http2.queued_bytes -= bytes;
    }
    request::consumed(core, slot, unread_bytes);
}

/// A stream has gone under its exchange.
pub(super) fn lose<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    (id, stream): (u32, Stream),
    why: Gone,
) {
    let is_open = stream.state.open;
    release(core, slot, stream);
    if is_open {
        app.exchange(Event::Gone(why), &mut Exchange { core, slot, stream: id });
    }
}

/// Ends all exchanges, because the connection does.
pub(crate) fn abandon<A: App>(app: &mut A, core: &mut Core, slot: Slot, why: Gone) {
    let mut nobody = Vec::new();
    loop {
        let Some(http2) = &mut core.conns.get(slot).http2 else { return };
        let Some((id, _)) = http2.session.each_own().next() else { return };
        nobody.clear();
        let Some(stream) = http2.session.reset(id, ErrorCode::Cancel, &mut nobody) else { return };
        lose(app, core, slot, (id, stream), why);
    }
}

/// Tells the application of one exchange.
pub(crate) fn notify<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: u32, notice: Notice) {
    let Some(http2) = &mut core.conns.get(slot).http2 else { return };
    if !http2.session.own(id).is_some_and(|stream| stream.state.open) {
        return;
    }
    app.exchange(notice.for_exchange(), &mut Exchange { core, slot, stream: id });
    request::after_event(app, core, slot, id);
}

/// Tells the application of exchanges that have something coming. `take` finds out what that is,
/// with the bytes that wait on the stream, and takes it away. True when there was any.
pub(crate) fn notify_each<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    take: impl Fn(&mut Stream, u64) -> Option<Notice>,
) -> bool {
    let mut told = false;
    loop {
        let Core { conns, outputs, .. } = &mut *core;
        let Some(http2) = &mut conns.get(slot).http2 else { return told };
        let next = http2.session.each_own().find_map(|(id, stream)| {
            let queued_bytes = outputs.bytes(stream.output);
            take(stream, queued_bytes).map(|notice| (id, notice))
        });
        let Some((id, notice)) = next else { return told };
        told = true;
        notify(app, core, slot, id, notice);
    }
}

/// Tells the application that there is room again on streams that had none.
pub(crate) fn tell_writable<A: App>(app: &mut A, core: &mut Core, slot: Slot) -> bool {
    notify_each(app, core, slot, |stream, queued_bytes| {
        let is_due = stream.state.owes_writable && queued_bytes <= STREAM_LOW_WATER_BYTES;
        stream.state.owes_writable &= !is_due;
        is_due.then_some(Notice::Writable)
    })
}

/// Tells the application of exchanges whose deadline has passed. False when this is no HTTP/2.
pub(crate) fn deadline<A: App>(app: &mut A, core: &mut Core, slot: Slot) -> bool {
    if core.conns.get(slot).http2.is_none() {
        return false;
    }
    let now_ms = core.now.monotonic_ms;
    notify_each(app, core, slot, |stream, _| {
        let deadline_ms = &mut stream.state.deadline_ms;
        let is_due = *deadline_ms > 0 && *deadline_ms <= now_ms;
        if is_due {
            *deadline_ms = 0;
        }
        is_due.then_some(Notice::Deadline)
    });
    set_deadline(core, slot);
    true
}

/// Tells the application of every open exchange that the server stops.
pub(crate) fn tell_stopping<A: App>(app: &mut A, core: &mut Core, slot: Slot) {
    let Some(http2) = &mut core.conns.get(slot).http2 else { return };
    let open: Vec<u32> = http2.session.each_own().map(|(id, _)| id).collect();
    for id in open {
        notify(app, core, slot, id, Notice::Stopping);
    }
}

/// What the peer should have done did not come in time.
#[cold]
pub(crate) fn stalled<A: App>(app: &mut A, core: &mut Core, slot: Slot, watch: Watch) {
    match watch {
        Watch::Body => return request::content_stalled(app, core, slot),
        Watch::Idle => {
            leave(core, slot);
            leave(core, slot);
        }
        // A frame that is not whole, or a window that stays shut.
        _ => {
            let code = ErrorCode::EnhanceYourCalm;
            with_control(core, slot, |http2, control| http2.session.fail(code, control));
        }
    }
    abandon(app, core, slot, Gone::Stalled);
    core.conns.get(slot).end(true);
}

/// Ends a connection on which nothing is left to be done; false when there is.
pub(crate) fn is_over(core: &mut Core, slot: Slot) -> bool {
    let conn = core.conns.get(slot);
    let is_finished = conn.http2.as_ref().is_some_and(|http2| http2.session.is_finished());
    let is_over = conn.phase == Phase::Http2 && is_finished;
    if is_over {
        conn.end(true);
    }
    is_over
}

/// Has the connection wake up at the earliest deadline that an exchange has asked for.
pub(crate) fn set_deadline(core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    let Some(http2) = &mut conn.http2 else { return };
    let deadlines = http2.session.each_own().map(|(_, stream)| stream.state.deadline_ms);
    let earliest_ms = deadlines.filter(|&deadline_ms| deadline_ms > 0).min();
    conn.exchange.deadline_ms = earliest_ms.unwrap_or(0);
}

/// Whether more content is welcome on a stream.
pub(crate) fn has_room(core: &mut Core, slot: Slot, id: u32) -> bool {
    let Core { conns, outputs, .. } = core;
    let stream = conns.get(slot).http2.as_mut().and_then(|http2| http2.session.own(id));
    stream.is_some_and(|stream| outputs.bytes(stream.output) < STREAM_HIGH_WATER_BYTES)
}
