//! The connection between HTTP/1 and the application: requests from bytes, and the next step of the
//! connection after each event.

use pinion_http::h1::head_parser::Parsed;
use pinion_http::h1::refused_request_hints::glance;
use pinion_http::h1::response_encoder::{self, ConnectionFields};
use pinion_http::h1::trailers;
use pinion_http::prepared_response::{Prepared, PreparedBody};
use pinion_http::refusal::{Refusal, RefusedRequest};
use pinion_http::request_head::RequestHead;

use super::byte_streams;
use super::exchange_end_events::take_http1_end;
use crate::app::{App, Event, OwnResponse};
use crate::backend::Slot;
use crate::connection::{Connection, Protocol};
use crate::drain_state::WorkerEnding;
use crate::end_reason::Gone;
use crate::exchange::Exchange;
use crate::exchange::state::{Carrier, ExchangeStage};
use crate::http1::request_input::ContentStep;
use crate::http1::response::HEAD_FIXED_BYTES;
use crate::http1::{AfterResponse, Http1, OpenExchange};
use crate::limits::OUTPUT_HIGH_WATER_BYTES;
use crate::linger::Remaining;
use crate::worker_buffers::Buffers;
use crate::worker_core::WorkerCore;

/// The reason why a connection speaks HTTP/1 here.
const IS_HTTP1: &str = "input goes to the protocol of its connection, and events come from it";

/// Reads one request head and lets the application respond. Returns the number of bytes used, 0 if
/// the head is not complete yet.
#[inline]
pub(crate) fn request<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    input: &[u8],
) -> usize {
    if core.queued_bytes(slot) >= OUTPUT_HIGH_WATER_BYTES {
        return 0;
    }
    let WorkerCore { connections, heads, settings, .. } = core;
    let Protocol::Http1(http1) = &mut connections.get(slot).protocol else {
        unreachable!("{IS_HTTP1}")
    };
    let mut storage = std::mem::take(heads);
    let used = match http1.head(input, &mut storage, &settings.limits) {
        Ok(Parsed::Head { head, bytes }) => {
            begin(app, core, slot, &head);
            bytes
        }
        Ok(Parsed::Partial { .. }) => 0,
        Err(refusal) => {
            send_page(app, core, slot, refusal.status(), &glance(input));
            0
        }
    };
    core.heads = storage;
    used
}

/// Opens an exchange for `head`.
#[inline]
fn begin<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, head: &RequestHead<'_>) {
    let WorkerCore { connections, settings, ending, .. } = core;
    let connection = connections.get(slot);
    connection.link.received();
    connection.count_exchange();
    let is_last =
        settings.requests_per_connection.is_some_and(|last| connection.exchanges_begun >= last);
    let may_stay = *ending == WorkerEnding::No && !is_last;
    let Protocol::Http1(http1) = &mut connection.protocol else {
        unreachable!("its head was read")
    };
    *http1 = Http1::Exchange(OpenExchange::new(head, settings.limits.body_bytes, may_stay));
    // The end of the previous exchange.
    if let Some(number) = take_http1_end(core, slot) {
        app.ended(number);
    }
    deliver_event(app, core, slot, Event::Head(head));
}

/// Passes an event of the exchange to the application, and moves the connection on.
#[inline]
pub(crate) fn deliver_event<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    event: Event<'_>,
) {
    app.exchange(event, &mut Exchange { core, slot, carrier: Carrier::Connection });
    after_event(app, core, slot);
}

/// Checks the actions of the application on an event and moves the connection on.
#[inline]
pub(crate) fn after_event<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    let connection = core.connections.get(slot);
    let open = match &mut connection.protocol {
        Protocol::Http1(Http1::Exchange(open)) => open,
        Protocol::Http1(Http1::Upgraded) => {
            let _stream = connection.begin_stream();
            return byte_streams::open(app, core, slot);
        }
        _ => return,
    };
    match open.state.stage {
        ExchangeStage::Done => complete(core, slot),
        ExchangeStage::Open | ExchangeStage::Streaming if open.wants_too_much() => {
            content_refused(app, core, slot, Refusal::ContentTooLarge);
        }
        ExchangeStage::Open if !open.state.waiting => {
            let why_not = if open.fits() { 500 } else { Refusal::ContentTooLarge.status() };
            let request = open.state.refused_request();
            send_page(app, core, slot, why_not, &request);
        }
        ExchangeStage::Head | ExchangeStage::Refused => {}
        ExchangeStage::Open
        | ExchangeStage::Streaming
        | ExchangeStage::Broken
        | ExchangeStage::Aborted => {}
    }
}

/// Ends the connection after its complete response, or makes it wait for the next request.
#[inline]
fn complete(core: &mut WorkerCore, slot: Slot) {
    let WorkerCore { connections, buffers, .. } = core;
    let Connection { link, protocol, .. } = connections.get(slot);
    let Protocol::Http1(http1) = protocol else { unreachable!("{IS_HTTP1}") };
    let Http1::Exchange(open) = http1 else { unreachable!("its response is complete") };
    link.app_deadline_ms = 0;
    match open.after_response(|| link.sent_bytes + buffers.waiting_bytes(link)) {
        AfterResponse::Idle => *http1 = Http1::IDLE,
        AfterResponse::Discard => http1.discard_content(),
        AfterResponse::End(remaining) => core.end(slot, remaining),
    }
}

/// Takes bytes of content: the application gets those that it wants, the others are dropped.
pub(crate) fn content<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    input: &[u8],
) -> usize {
    let WorkerCore { connections, consumed_content_bytes, .. } = core;
    let Connection { link, protocol, .. } = connections.get(slot);
    let Protocol::Http1(http1) = protocol else { unreachable!("{IS_HTTP1}") };
    let (used, came) = http1.content(input);
    match came {
        ContentStep::Nothing => {}
        ContentStep::Dropped(bytes) => *consumed_content_bytes += bytes,
        ContentStep::TooMuch(bytes) => {
            *consumed_content_bytes += bytes;
            core.end(slot, Remaining::Content);
        }
        ContentStep::Bytes(bytes) => {
            *consumed_content_bytes += bytes.len();
            link.received();
            deliver_event(app, core, slot, Event::Body(bytes));
        }
        ContentStep::End(section) => content_end(app, core, slot, section),
        ContentStep::Refused(refusal) => content_refused(app, core, slot, refusal),
    }
    used
}

/// Ends the content; `section` is the trailer section after chunked content.
fn content_end<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, section: &[u8]) {
    let mut storage = std::mem::take(&mut core.heads);
    match trailers::read(section, &mut storage) {
        Ok(fields) => {
            let Some(open) = exchange_of(core, slot) else {
                unreachable!("content is read while its exchange is open")
            };
            open.content = None;
            deliver_event(app, core, slot, Event::BodyEnd(fields));
        }
        Err(refusal) => content_refused(app, core, slot, refusal),
    }
    core.heads = storage;
}

/// Refuses content that is malformed, too long or late. The application may respond, since it knows
/// the request. If a head was sent already, it cannot be taken back, and the connection is cut.
#[cold]
pub(crate) fn content_refused<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    refusal: Refusal,
) {
    let carrier = Carrier::Connection;
    let Some(open) = exchange_of(core, slot) else { return core.give_up(slot, Gone::Peer) };
    // The beginning of the next request is not certain, regardless of the response (RFC 9112 §9.6).
    (open.keep_alive, open.client_closes) = (false, false);
    if open.state.stage == ExchangeStage::Open {
        app.exchange(Event::Refused(refusal), &mut Exchange { core, slot, carrier });
        if core.connections.get(slot).link.cut.is_some() {
            return;
        }
    }
    let Some(OpenExchange { state, .. }) = exchange_of(core, slot) else {
        unreachable!("an exchange ends behind its event")
    };
    let (stage, request) = (state.stage, state.refused_request());
    if stage == ExchangeStage::Done {
        return core.end(slot, remaining_behind(refusal.status()));
    }
    if state.stage.take_open() {
        let why = Gone::from(refusal);
        app.exchange(Event::Gone(why), &mut Exchange { core, slot, carrier });
    }
    match stage {
        ExchangeStage::Open => send_page(app, core, slot, refusal.status(), &request),
        _ => core.give_up(slot, Gone::Peer),
    }
}

/// Returns the input that follows the response to a request whose content is not complete. A client
/// that was late once gets less time than others.
fn remaining_behind(status: u16) -> Remaining {
    if status == Refusal::Timeout.status() { Remaining::UselessInput } else { Remaining::Content }
}

/// Returns the exchange that is open on a connection.
fn exchange_of(core: &mut WorkerCore, slot: Slot) -> Option<&mut OpenExchange> {
    core.connections.get(slot).protocol.http1().and_then(Http1::exchange)
}

/// Refuses bytes that are no request at all with a page of their own.
#[cold]
pub(crate) fn refuse_with<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    page: impl FnOnce(&[u8]) -> Prepared<'_>,
) {
    send_last(app, core, slot, Remaining::UselessInput, false, |app| page(app.page_fields()));
}

/// Responds with the page of a status and ends the connection: to bytes that are no request, to a
/// request that cannot be handed on, or to one without a response of the application (RFC 9112
/// §2.2, §9.6).
#[cold]
pub(crate) fn send_page<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    status: u16,
    request: &RefusedRequest<'_>,
) {
    let is_complete = exchange_of(core, slot).is_some_and(|open| open.content.is_none());
    let remaining = if is_complete { Remaining::UselessInput } else { remaining_behind(status) };
    let head_only = request.head_only;
    send_last(app, core, slot, remaining, head_only, |app| app.error_page(status, request));
}

/// Responds with a page and ends the connection.
fn send_last<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    remaining: Remaining,
    head_only: bool,
    page: impl FnOnce(&mut A) -> Prepared<'_>,
) {
    let connection = core.connections.get(slot);
    let peer = connection.peer;
    // In a handshake nothing is encrypted yet. Fields of a TLS listener have no value on a
    // connection that anybody could have forged (RFC 6797 §7.2).
    let in_clear = matches!(connection.protocol, Protocol::Handshake);
    core.end(slot, remaining);
    let queued_bytes = core.queued_bytes(slot);
    let response = page(app);
    let status = response.status;
    let PreparedBody::Bytes(body) = response.body else { unreachable!("a page is bytes") };
    let WorkerCore { connections, tails, buffers, .. } = core;
    let Buffers { outputs, pool, .. } = buffers;
    let connection = connections.get(slot);
    let tail = if in_clear { tails.bare_line() } else { tails.line(connection.listener()) };
    let output = outputs.of(&mut connection.link.output);
    let room = HEAD_FIXED_BYTES + response_encoder::prepared_bytes(&response) + tail.len();
    let wrote = output.append(pool, room, |out| {
        response_encoder::prepared(out, &response, ConnectionFields::Close, tail);
    });
    if !wrote || !(head_only || output.append_bytes(pool, body)) {
        core.overloaded(slot);
    }
    let body_bytes = if head_only { 0 } else { body.len() as u64 };
    let bytes = core.queued_bytes(slot) - queued_bytes;
    app.answered(core.address(slot), OwnResponse { status, peer, body_bytes, bytes });
}
