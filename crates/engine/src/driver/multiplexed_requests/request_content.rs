//! The content of the requests of multiplexed connections: it is given to the application as far as
//! that wants it, kept before that, and refused if it is too long or late.

use std::sync::Arc;

use pinion_http::field::Fields;
use pinion_http::h1::trailers;
use pinion_http::refusal::Refusal;

use super::{after_event, cut, find_stream, finish, give_up, respond_with_page};
use crate::app::{App, Event};
use crate::backend::Slot;
use crate::end_reason::Gone;
use crate::exchange::Exchange;
use crate::exchange::state::{Carrier, ExchangeStage};
use crate::multiplexed::MultiplexedStream;
use crate::worker_core::WorkerCore;

/// Takes content of a request that has arrived; `end` is whether it was the last.
pub(crate) fn content<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: u32,
    bytes: &[u8],
    end: bool,
) {
    core.connections.get(slot).link.received();
    core.consumed_content_bytes += bytes.len();
    let now_ms = core.now.monotonic_ms;
    let Some(stream) = find_stream(core, slot, id) else { return };
    stream.waits_since_ms = now_ms;
    stream.came_bytes += bytes.len() as u64;
    stream.ended |= end;
    if !stream.state.stage.is_unanswered() {
        // The request got its response without its content.
        return;
    }
    if stream.state.wanted.is_some() && stream.is_too_much() {
        return content_refused(app, core, slot, id, Refusal::ContentTooLarge);
    }
    if stream.unread.is_empty()
        && !bytes.is_empty()
        && let Some(wanted) = &mut stream.state.wanted
        && *wanted >= bytes.len() as u64
    {
        *wanted -= bytes.len() as u64;
        consumed(core, slot, id, bytes.len());
        app.exchange(
            Event::Body(bytes),
            &mut Exchange { core, slot, carrier: Carrier::Stream(id) },
        );
        return after_event(app, core, slot, id);
    }
    let (multiplexed, _, buffers) = core.multiplexed(slot);
    if !multiplexed.keep(id, bytes, &mut buffers.pool) {
        return give_up(core, slot, id, Gone::Overload, |core| after_event(app, core, slot, id));
    }
    if deliver(app, core, slot, id) {
        after_event(app, core, slot, id);
    }
}

/// Takes the trailers after the content.
pub(crate) fn trailers<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: u32,
    fields: Fields<'_>,
) {
    let Some(stream) = find_stream(core, slot, id) else { return };
    stream.ended = true;
    for field in fields.iter() {
        for part in [field.name, b": ", field.value, b"\r\n"] {
            stream.unread_trailers.extend_from_slice(part);
        }
    }
    if deliver(app, core, slot, id) {
        after_event(app, core, slot, id);
    }
}

/// Informs the application, once for each exchange with a complete request, that the peer sends no
/// more. Returns true if there were any.
#[cold]
pub(crate) fn report_input_end<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) -> bool {
    let owes = |stream: &MultiplexedStream| stream.ended && stream.state.awaits_input_end();
    let waiting = core.multiplexed(slot).0.all(owes);
    for &id in &waiting {
        // It may have ended with the event of another one.
        let Some(stream) = find_stream(core, slot, id).filter(|stream| owes(stream)) else {
            continue;
        };
        stream.state.input_end_reported = true;
        let exchange = &mut Exchange { core, slot, carrier: Carrier::Stream(id) };
        app.exchange(Event::InputEnd, exchange);
        after_event(app, core, slot, id);
    }
    !waiting.is_empty()
}

/// Ends the requests whose content is waited for, because the peer sends no more: they can never be
/// complete, others go on. Returns true if there were any.
#[cold]
pub(crate) fn content_ends<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) -> bool {
    let (multiplexed, ..) = core.multiplexed(slot);
    let waiting = multiplexed.all(MultiplexedStream::waits_for_content);
    for &id in &waiting {
        give_up(core, slot, id, Gone::Peer, |core| cut(app, core, slot, id));
    }
    !waiting.is_empty()
}

/// Refuses the requests whose awaited content is late. Requests whose wait has begun since then
/// have their full time.
#[cold]
pub(crate) fn content_stalled<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    let now_ms = core.now.monotonic_ms;
    let settings = Arc::clone(&core.settings);
    let (multiplexed, ..) = core.multiplexed(slot);
    let delay_at_random = |stream: &MultiplexedStream| {
        stream.awaits_body() && stream.delay_at_random(now_ms, &settings)
    };
    for id in multiplexed.all(delay_at_random) {
        content_refused(app, core, slot, id, Refusal::Timeout);
    }
}

/// Ends a request whose content waits unread while memory is short: it gets a response of 503, or
/// its stream is reset if the response has begun.
#[cold]
pub(crate) fn give_up_unread<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: u32) {
    let Some(stream) = find_stream(core, slot, id) else { return };
    if stream.state.stage != ExchangeStage::Open {
        return give_up(core, slot, id, Gone::Overload, |core| cut(app, core, slot, id));
    }
    let request = stream.state.refused_request();
    if stream.state.stage.take_open() {
        let carrier = Carrier::Stream(id);
        app.exchange(Event::Gone(Gone::Overload), &mut Exchange { core, slot, carrier });
    }
    respond_with_page(app, core, slot, id, 503, &request);
}

/// Hands on the next piece of kept content, or its end; returns false if none is wanted or there.
pub(super) fn deliver<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: u32) -> bool {
    let Some(stream) = find_stream(core, slot, id) else { return false };
    let Some(wanted) = &mut stream.state.wanted else { return false };
    if !stream.state.stage.is_unanswered() || stream.end_reported {
        return false;
    }
    if stream.unread.is_empty() {
        if stream.ended {
            stream.end_reported = true;
            deliver_end(app, core, slot, id);
            return true;
        }
        return false;
    }
    let bytes = (stream.unread.len() as u64).min(*wanted) as usize;
    if bytes == 0 {
        return false;
    }
    *wanted -= bytes as u64;
    let mut unread = std::mem::take(&mut stream.unread);
    consumed(core, slot, id, bytes);
    let piece = &unread.unused()[..bytes];
    app.exchange(Event::Body(piece), &mut Exchange { core, slot, carrier: Carrier::Stream(id) });
    unread.advance(bytes, &mut core.buffers.pool);
    match find_stream(core, slot, id) {
        Some(stream) => stream.unread = unread,
        None => unread.give_back(&mut core.buffers.pool),
    }
    true
}

/// Informs the application that the content is complete, unless there was none.
fn deliver_end<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: u32) {
    let Some(stream) = find_stream(core, slot, id) else { return };
    if stream.announced_bytes == Some(0) && stream.came_bytes == 0 {
        return;
    }
    let mut section = std::mem::take(&mut stream.unread_trailers);
    if !section.is_empty() {
        section.extend_from_slice(b"\r\n");
    }
    let mut storage = std::mem::take(&mut core.heads);
    // The trailers were parsed once already, so they are valid.
    let fields = trailers::read(&section, &mut storage).unwrap_or(Fields::EMPTY);
    app.exchange(
        Event::BodyEnd(fields),
        &mut Exchange { core, slot, carrier: Carrier::Stream(id) },
    );
    core.heads = storage;
}

/// Returns flow-control credit for content that the application has consumed: the client may send
/// more.
fn consumed(core: &mut WorkerCore, slot: Slot, id: u32, bytes: usize) {
    let (multiplexed, link, buffers) = core.multiplexed(slot);
    multiplexed.consumed(id, bytes, link, buffers);
}

/// Refuses content that is too long, or late. The application may respond, since it knows the
/// request. If a head was sent already, it cannot be taken back, and the stream is cut.
#[cold]
pub(super) fn content_refused<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: u32,
    refusal: Refusal,
) {
    let carrier = Carrier::Stream(id);
    let Some(stream) = find_stream(core, slot, id) else { return };
    if stream.state.stage == ExchangeStage::Open {
        app.exchange(Event::Refused(refusal), &mut Exchange { core, slot, carrier });
    }
    let Some(stream) = find_stream(core, slot, id) else { return };
    let stage = stream.state.stage;
    if stage == ExchangeStage::Done {
        return finish(core, slot, id);
    }
    let request = stream.state.refused_request();
    if stream.state.stage.take_open() {
        let why = Gone::from(refusal);
        app.exchange(Event::Gone(why), &mut Exchange { core, slot, carrier });
    }
    match stage {
        ExchangeStage::Open => respond_with_page(app, core, slot, id, refusal.status(), &request),
        _ => cut(app, core, slot, id),
    }
}
