//! HTTP/1 meets the application: requests from bytes, and what becomes of the connection behind
//! each event.

use pinion_http::field::KnownField;
use pinion_http::h1::body::{BodyReader, Step};
use pinion_http::h1::encode::{self, ConnectionFields};
use pinion_http::h1::glance::glance;
use pinion_http::h1::head::{self, Parsed};
use pinion_http::h1::trailers;
use pinion_http::limits::BODY_DISCARD_MAX_BYTES;
use pinion_http::method::Method;
use pinion_http::negotiate::prefers_text;
use pinion_http::prepared::{Prepared, PreparedBody};
use pinion_http::refusal::{Refusal, RefusedRequest};
use pinion_http::request::{Framing, RequestHead};
use pinion_http::version::Version;

use super::raw;
use crate::app::{App, Event, OwnAnswer};
use crate::backend::Slot;
use crate::conn::Protocol;
use crate::core::Core;
use crate::ending::Ending;
use crate::exchange::Exchange;
use crate::exchange::state::{Carrier, ExchangeState, Stage};
use crate::gone::Gone;
use crate::http1::response::HEAD_FIXED_BYTES;
use crate::http1::{Http1, OpenExchange};
use crate::limits::{CLOSE_AT_ONCE_MAX_BYTES, OUTPUT_HIGH_WATER_BYTES};
use crate::linger::Remaining;

/// Reads one request head and lets the application answer. Returns the bytes used, 0 when the head
/// is not whole yet.
#[inline]
pub(crate) fn request<A: App>(app: &mut A, core: &mut Core, slot: Slot, input: &[u8]) -> usize {
    if input.is_empty() || core.queued_bytes(slot) >= OUTPUT_HIGH_WATER_BYTES {
        return 0;
    }
    let looked_through = match &mut core.conns.get(slot).protocol {
        Protocol::Http1(Http1::Head { scanned }) => std::mem::take(scanned) as usize,
        _ => 0,
    };
    let mut storage = std::mem::take(&mut core.heads);
    let used = match head::parse(input, looked_through, &mut storage, &core.settings.limits) {
        Ok(Parsed::Head { head, bytes }) => {
            begin(app, core, slot, &head);
            bytes
        }
        Ok(Parsed::Partial { scanned }) => {
            let scanned = scanned as u32;
            core.conns.get(slot).protocol = Protocol::Http1(Http1::Head { scanned });
            0
        }
        Err(refusal) => {
            answer_page(app, core, slot, refusal.status(), &glance(input));
            0
        }
    };
    core.heads = storage;
    used
}

/// Opens an exchange for `head`.
#[inline]
fn begin<A: App>(app: &mut A, core: &mut Core, slot: Slot, head: &RequestHead<'_>) {
    let last_allowed = core.settings.requests_per_connection;
    let body_max = core.settings.limits.body_bytes;
    let draining = core.ending != Ending::No;
    let conn = core.conns.get(slot);
    conn.link.received();
    conn.begins_one();
    // Behind CONNECT a client may send what is meant for its tunnel without waiting for the answer.
    // There is no tunnel, and those bytes must not be read as requests (RFC 9110 §9.3.6).
    let tunnel = head.method == Method::Connect;
    let may_stay = !draining && !tunnel && last_allowed.is_none_or(|last| conn.begun < last);
    let has_content = !matches!(head.framing, Framing::None);
    let state = ExchangeState {
        stage: Stage::Open,
        open: true,
        head_only: head.method == Method::Head,
        http10: head.version == Version::Http10,
        expects_continue: head.expect_continue,
        text_page: has_content && prefers_text(head.values(KnownField::Accept)),
        ..ExchangeState::default()
    };
    conn.protocol = Protocol::Http1(Http1::Exchange(OpenExchange {
        state,
        content: has_content.then(|| BodyReader::new(head.framing, body_max)),
        keep_alive: head.keep_alive && may_stay,
        client_closes: !head.keep_alive,
        is_chunked: false,
    }));
    tell(app, core, slot, Event::Head(head));
}

/// Tells the application of the exchange, and moves the connection on.
#[inline]
pub(crate) fn tell<A: App>(app: &mut A, core: &mut Core, slot: Slot, event: Event<'_>) {
    app.exchange(event, &mut Exchange { core, slot, carrier: Carrier::Connection });
    after_event(app, core, slot);
}

/// Looks at what the application did with an event and moves the connection on.
#[inline]
fn after_event<A: App>(app: &mut A, core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    let Some(open) = conn.protocol.http1().and_then(Http1::exchange) else { return };
    match open.state.stage {
        Stage::Done => complete(core, slot),
        Stage::Open | Stage::Streaming if open.wants_too_much() => {
            body_refused(app, core, slot, Refusal::ContentTooLarge);
        }
        Stage::Open if !open.state.waiting => {
            let why_not = if open.fits() { 500 } else { Refusal::ContentTooLarge.status() };
            let request = open.state.refused_request();
            answer_page(app, core, slot, why_not, &request);
        }
        Stage::Upgraded => {
            conn.begin_stream();
            raw::open(app, core, slot);
        }
        Stage::None | Stage::Open | Stage::Streaming | Stage::Aborted => {}
    }
}

/// The answer is complete; what about the connection?
#[inline]
fn complete(core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    let Some(open) = conn.protocol.http1().and_then(Http1::exchange) else { return };
    let is_unread = open.content.as_ref().is_some_and(|content| !content.is_at_end());
    if !open.keep_alive {
        // A client that asked to close should send nothing more, but some send a line end too many
        // (RFC 9112 §2.2). It costs nothing once the answers have reached them.
        let may_send = !open.client_closes;
        let out_bytes = conn.link.sent_bytes + core.queued_bytes(slot);
        let remaining = match () {
            () if is_unread => Remaining::Content,
            () if may_send || out_bytes > CLOSE_AT_ONCE_MAX_BYTES => Remaining::Strays,
            () => Remaining::Nothing,
        };
        return core.end(slot, remaining);
    }
    if open.must_end_behind_content() {
        return core.end(slot, Remaining::Content);
    }
    let next = match open.content.take().filter(|_| is_unread) {
        Some(content) => Http1::Discard { content, dropped: 0 },
        None => Http1::IDLE,
    };
    conn.link.asked_ms = 0;
    conn.protocol = Protocol::Http1(next);
}

/// Takes body bytes: to the application as far as it wants them, or away.
pub(crate) fn body<A: App>(app: &mut A, core: &mut Core, slot: Slot, input: &[u8]) -> usize {
    let Core { conns, content_bytes, .. } = core;
    let conn = conns.get(slot);
    let step = match conn.protocol.http1() {
        Some(Http1::Discard { content, dropped }) => {
            let step = content.step(input, u64::MAX);
            let Ok((used, step)) = step else {
                core.end(slot, Remaining::Content);
                return 0;
            };
            match step {
                Step::NeedMore => {}
                Step::End(_) => conn.protocol = Protocol::Http1(Http1::IDLE),
                Step::Data(data) => {
                    *content_bytes += data.len();
                    *dropped = dropped.saturating_add(data.len() as u32);
                    if u64::from(*dropped) > BODY_DISCARD_MAX_BYTES {
                        core.end(slot, Remaining::Content);
                    }
                }
            }
            return used;
        }
        Some(Http1::Exchange(OpenExchange { state, content: Some(content), .. })) => {
            let Some(wanted) = &mut state.wanted else { return 0 };
            let step = content.step(input, *wanted);
            if let Ok((_, Step::Data(data))) = &step {
                *content_bytes += data.len();
                *wanted -= data.len() as u64;
                conn.link.received();
            }
            step
        }
        _ => return 0,
    };
    match step {
        Ok((used, step)) => {
            match step {
                Step::NeedMore => {}
                Step::End(section) => body_end(app, core, slot, section),
                Step::Data(data) => tell(app, core, slot, Event::Body(data)),
            }
            used
        }
        Err(refusal) => {
            body_refused(app, core, slot, refusal);
            0
        }
    }
}

/// The body is complete; `section` is what stands behind chunked content.
fn body_end<A: App>(app: &mut A, core: &mut Core, slot: Slot, section: &[u8]) {
    let mut storage = std::mem::take(&mut core.heads);
    match trailers::read(section, &mut storage) {
        Ok(fields) => {
            let http1 = core.conns.get(slot).protocol.http1();
            if let Some(open) = http1.and_then(Http1::exchange) {
                open.content = None;
            }
            tell(app, core, slot, Event::BodyEnd(fields));
        }
        Err(refusal) => body_refused(app, core, slot, refusal),
    }
    core.heads = storage;
}

/// The body is malformed, too long or late. The application may answer, which knows the request; a
/// head that is out already cannot be taken back: cut.
#[cold]
pub(crate) fn body_refused<A: App>(app: &mut A, core: &mut Core, slot: Slot, refusal: Refusal) {
    let carrier = Carrier::Connection;
    let Some(open) = exchange_of(core, slot) else { return core.give_up(slot, Gone::Peer) };
    // Where the next request would begin is not certain, whoever answers (RFC 9112 §9.6).
    (open.keep_alive, open.client_closes) = (false, false);
    if open.state.stage == Stage::Open && open.state.open {
        app.exchange(Event::Refused(refusal), &mut Exchange { core, slot, carrier });
        if core.conns.get(slot).link.cut.is_some() {
            return;
        }
    }
    let Some(OpenExchange { state, .. }) = exchange_of(core, slot) else { return };
    let (stage, request) = (state.stage, state.refused_request());
    if stage == Stage::Done {
        return core.end(slot, remaining_behind(refusal.status()));
    }
    if std::mem::take(&mut state.open) {
        let why = Gone::from(refusal);
        app.exchange(Event::Gone(why), &mut Exchange { core, slot, carrier });
    }
    match stage {
        Stage::Open => answer_page(app, core, slot, refusal.status(), &request),
        _ => core.give_up(slot, Gone::Peer),
    }
}

/// What comes behind the response to a request whose content is not complete. A client that was
/// late once is not waited for as long as others.
fn remaining_behind(status: u16) -> Remaining {
    if status == Refusal::Timeout.status() { Remaining::Strays } else { Remaining::Content }
}

/// The exchange that is open on a connection.
fn exchange_of(core: &mut Core, slot: Slot) -> Option<&mut OpenExchange> {
    core.conns.get(slot).protocol.http1().and_then(Http1::exchange)
}

/// Refuses what is no request at all with a page of its own.
#[cold]
pub(crate) fn refuse_with<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    page: impl FnOnce(&[u8]) -> Prepared<'_>,
) {
    answer_last(app, core, slot, Remaining::Strays, false, |app| page(app.page_fields()));
}

/// Answers with the page of a status and ends the connection: of bytes that are no request, of a
/// request that cannot be handed on, or of one that the application does not answer (RFC 9112 §2.2,
/// §9.6).
#[cold]
pub(crate) fn answer_page<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    status: u16,
    request: &RefusedRequest<'_>,
) {
    let is_complete = exchange_of(core, slot).is_some_and(|open| open.content.is_none());
    let remaining = if is_complete { Remaining::Strays } else { remaining_behind(status) };
    let head_only = request.head_only;
    answer_last(app, core, slot, remaining, head_only, |app| app.error_page(status, request));
}

/// Answers with a page and ends the connection.
fn answer_last<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    remaining: Remaining,
    head_only: bool,
    page: impl FnOnce(&mut A) -> Prepared<'_>,
) {
    let conn = core.conns.get(slot);
    let peer = conn.peer;
    // In a handshake nothing is sealed yet. What a listener tells its clients of TLS is worth
    // nothing where anybody could have written it (RFC 6797 §7.2).
    let in_clear = matches!(conn.protocol, Protocol::Handshake);
    core.end(slot, remaining);
    let queued_bytes = core.queued_bytes(slot);
    let answer = page(app);
    let status = answer.status;
    let PreparedBody::Bytes(body) = answer.body else { unreachable!("a page is bytes") };
    let Core { conns, outputs, pool, tails, .. } = core;
    let conn = conns.get(slot);
    let tail = if in_clear { tails.bare_line() } else { tails.line(conn.listener) };
    let output = outputs.of(&mut conn.link.output);
    let room = HEAD_FIXED_BYTES + encode::prepared_bytes(&answer) + tail.len();
    let wrote = output.append(pool, room, |out| {
        encode::prepared(out, &answer, ConnectionFields::Close, tail);
    });
    if !wrote || !(head_only || output.append_bytes(pool, body)) {
        core.overloaded(slot);
    }
    let body_bytes = if head_only { 0 } else { body.len() as u64 };
    let bytes = core.queued_bytes(slot) - queued_bytes;
    app.answered(core.address(slot), OwnAnswer { status, peer, body_bytes, bytes });
}
