//! Requests of multiplexed connections: their heads, their next step after each event, and their
//! ends.

pub(crate) mod request_content;

use pinion_http::error_page::ErrorFormat;
use pinion_http::field::KnownField;
use pinion_http::method::Method;
use pinion_http::negotiate::preferred_error_format;
use pinion_http::prepared_response::PreparedBody;
use pinion_http::refusal::{Refusal, RefusedRequest};
use pinion_http::request_head::RequestHead;

use crate::app::{App, Event, OwnResponse};
use crate::backend::Slot;
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::exchange::state::{Carrier, ExchangeStage, ExchangeState};
use crate::exchange::{Exchange, RangeSource};
use crate::exchange_address::Address;
use crate::limits::STREAM_LOW_WATER_BYTES;
use crate::multiplexed::MultiplexedStream;
use crate::protocol_dispatch::Response;
use crate::stream_event::Notice;
use crate::worker_core::WorkerCore;

use super::exchange_end_events::report_exchange_ends;
use request_content::{content_refused, deliver};

/// Opens an exchange for `head`; `end` is whether no content follows.
pub(crate) fn begin<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: u32,
    head: &RequestHead<'_>,
    end: bool,
) {
    let state = ExchangeState {
        stage: ExchangeStage::Open,
        head_only: head.method == Method::Head,
        expects_continue: head.expect_continue,
        error_format: if end {
            ErrorFormat::default()
        } else {
            preferred_error_format(head.values(KnownField::Accept))
        },
        ..ExchangeState::default()
    };
    if !core.multiplexed(slot).0.has_room_for_head(head) {
        let request = state.refused_request();
        return refuse(app, core, slot, (id, end), Refusal::OpenHeadsTooLarge, &request);
    }
    let content_max_bytes = core.settings.limits.body_bytes;
    open(core, slot, id, |stream| {
        stream.begin(state);
        stream.ended = end;
        stream.announced_bytes = MultiplexedStream::announced(head.framing);
        stream.content_max_bytes = content_max_bytes;
    });
    report_exchange_ends(app, core);
    app.exchange(Event::Head(head), &mut Exchange { core, slot, carrier: Carrier::Stream(id) });
    after_event(app, core, slot, id);
    core.multiplexed(slot).0.count_head(id, head);
}

/// Returns the stream with this number, while it is open: it may end within any event of the
/// application, and before its input is used.
#[inline]
fn find_stream(core: &mut WorkerCore, slot: Slot, id: u32) -> Option<&mut MultiplexedStream> {
    core.multiplexed(slot).0.stream(id)
}

/// Ends a stream whose response is complete, or our side of a tunnel, as soon as all output is on
/// its way.
fn finish(core: &mut WorkerCore, slot: Slot, id: u32) {
    let (multiplexed, link, buffers) = core.multiplexed(slot);
    multiplexed.finish(id, link, buffers);
}

/// Begins a new stream, and counts it.
#[inline]
fn open(core: &mut WorkerCore, slot: Slot, id: u32, begin: impl FnOnce(&mut MultiplexedStream)) {
    let last_allowed = core.settings.requests_per_connection;
    let connection = core.connections.get(slot);
    connection.link.received();
    connection.count_exchange();
    let is_last = last_allowed.is_some_and(|last| connection.exchanges_begun >= last);
    let Some(stream) = find_stream(core, slot, id) else {
        unreachable!("a stream whose head has been read is open")
    };
    begin(stream);
    if is_last && core.ending == WorkerEnding::No {
        core.go_away(slot);
    }
}

/// Responds to a request that cannot be handed on.
#[cold]
pub(crate) fn refuse<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    (id, end): (u32, bool),
    refusal: Refusal,
    request: &RefusedRequest<'_>,
) {
    let &RefusedRequest { head_only, error_format, .. } = request;
    let state = ExchangeState {
        stage: ExchangeStage::Refused,
        head_only,
        error_format,
        ..ExchangeState::default()
    };
    open(core, slot, id, |stream| {
        stream.begin(state);
        stream.ended = end;
    });
    respond_with_page(app, core, slot, id, refusal.status(), request);
}

/// Checks the actions of the application on an event and moves the exchange on.
pub(crate) fn after_event<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: u32) {
    loop {
        let Some(stream) = find_stream(core, slot, id) else { return };
        let wants_too_much = stream.state.wanted.is_some() && stream.is_too_much();
        match stream.state.stage {
            ExchangeStage::Done => return finish(core, slot, id),
            ExchangeStage::Open | ExchangeStage::Streaming if wants_too_much => {
                return content_refused(app, core, slot, id, Refusal::ContentTooLarge);
            }
            ExchangeStage::Open if !stream.state.waiting => {
                let status = if stream.fits() { 500 } else { Refusal::ContentTooLarge.status() };
                let request = stream.state.refused_request();
                return respond_with_page(app, core, slot, id, status, &request);
            }
            ExchangeStage::Broken | ExchangeStage::Aborted => return cut(app, core, slot, id),
            ExchangeStage::Head | ExchangeStage::Refused => return,
            ExchangeStage::Streaming if stream.state.has_finished => finish(core, slot, id),
            ExchangeStage::Open | ExchangeStage::Streaming => {}
        }
        if !deliver(app, core, slot, id) {
            return;
        }
    }
}

/// Checks the actions of the application on the exchanges of a connection outside of their events.
pub(crate) fn after_events<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    for id in core.multiplexed(slot).0.all(|stream| !stream.awaits_head()) {
        after_event(app, core, slot, id);
    }
}

/// Marks an exchange that cannot continue; `behind` is called then.
#[cold]
fn give_up(
    core: &mut WorkerCore,
    slot: Slot,
    id: u32,
    why: Gone,
    behind: impl FnOnce(&mut WorkerCore),
) {
    if let Some(stream) = find_stream(core, slot, id) {
        stream.give_up(why);
        behind(core);
    }
}

/// Resets a stream whose response cannot be completed.
#[cold]
fn cut<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: u32) {
    let (multiplexed, link, buffers) = core.multiplexed(slot);
    if let Some(stream) = multiplexed.reset(id, link, buffers) {
        let why = stream.given_up.unwrap_or(Gone::Peer);
        lose(app, core, slot, (id, stream), why);
    }
}

/// Responds to an exchange with the page of a status.
#[cold]
fn respond_with_page<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: u32,
    status: u16,
    request: &RefusedRequest<'_>,
) {
    let peer = core.connections.get(slot).peer;
    let Some(stream) = find_stream(core, slot, id) else { return };
    stream.state.stage = ExchangeStage::Done;
    let queued_bytes = core.queued_bytes(slot);
    let page = app.error_page(status, request);
    let PreparedBody::Bytes(body) = page.body else { unreachable!("a page is bytes") };
    let response = Response::of(core, slot, Carrier::Stream(id));
    if let Some(Err(why)) = response.map(|mut response| response.prepared(&page, RangeSource::None))
    {
        core.give_up(slot, why);
    }
    let body_bytes = if request.head_only { 0 } else { body.len() as u64 };
    let bytes = core.queued_bytes(slot).saturating_sub(queued_bytes);
    let status = page.status;
    let mut address = core.address(slot);
    address.exchange = id;
    app.answered(address, OwnResponse { status, peer, body_bytes, bytes });
    finish(core, slot, id);
}

/// Ends the exchange of a stream that has gone.
pub(crate) fn lose<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    (id, stream): (u32, MultiplexedStream),
    why: Gone,
) {
    let is_open = stream.state.stage.is_open();
    let (multiplexed, _, buffers) = core.multiplexed(slot);
    let dropped_bytes = multiplexed.release(stream, buffers);
    if dropped_bytes > 0 {
        core.connections.get(slot).link.owes_sent = true;
        app.dropped(Address { exchange: id, ..core.address(slot) }, dropped_bytes);
    }
    if is_open {
        app.exchange(Event::Gone(why), &mut Exchange { core, slot, carrier: Carrier::Stream(id) });
    }
    report_exchange_ends(app, core);
}

/// Ends all exchanges, because the connection ends.
pub(crate) fn abandon<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, why: Gone) {
    while let Some(stream) = core.multiplexed(slot).0.pop() {
        lose(app, core, slot, stream, why);
    }
}

/// Passes an event of one exchange to the application.
pub(crate) fn notify<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: u32,
    notice: Notice,
) {
    if !find_stream(core, slot, id).is_some_and(|stream| stream.state.stage.is_open()) {
        return;
    }
    app.exchange(notice.for_exchange(), &mut Exchange { core, slot, carrier: Carrier::Stream(id) });
    after_event(app, core, slot, id);
}

/// Passes due events of exchanges to the application. `take` returns the event of a stream, given
/// the bytes that wait on it, and marks it as delivered. Returns true if there were any.
pub(crate) fn notify_each<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    take: impl Fn(&mut MultiplexedStream, u64) -> Option<Notice>,
) -> bool {
    let mut has_reported = false;
    loop {
        let (multiplexed, _, buffers) = core.multiplexed(slot);
        let next = multiplexed.find(|id, stream| {
            let queued_bytes = buffers.outputs.bytes(stream.output);
            take(stream, queued_bytes).map(|notice| (id, notice))
        });
        let Some((id, notice)) = next else { return has_reported };
        has_reported = true;
        notify(app, core, slot, id, notice);
    }
}

/// Informs the application that there is room again on streams that had none.
pub(crate) fn report_writable<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) -> bool {
    notify_each(app, core, slot, |stream, queued_bytes| {
        let is_due = stream.state.owes_writable && queued_bytes <= STREAM_LOW_WATER_BYTES;
        stream.state.owes_writable &= !is_due;
        is_due.then_some(Notice::Writable)
    })
}

/// Sends the `Deadline` event to the exchanges whose deadline has passed. Returns false if the
/// connection has only one exchange at a time.
pub(crate) fn deadline<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) -> bool {
    if core.connections.get(slot).protocol.multiplexed().is_none() {
        return false;
    }
    let now_ms = core.now.monotonic_ms;
    notify_each(app, core, slot, |stream, _| {
        let is_due = stream.app_deadline_ms > 0 && stream.app_deadline_ms <= now_ms;
        if is_due {
            stream.app_deadline_ms = 0;
        }
        is_due.then_some(Notice::Deadline)
    });
    let (multiplexed, link, _) = core.multiplexed(slot);
    link.app_deadline_ms = multiplexed.app_deadline_ms();
    true
}

/// Sends the event that the server stops to every open exchange.
pub(crate) fn report_stopping<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    for id in core.multiplexed(slot).0.all(|_| true) {
        notify(app, core, slot, id, Notice::Stopping);
    }
}
