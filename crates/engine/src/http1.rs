//! HTTP/1 on one connection: bytes in, exchanges with the application, bytes queued. The wire
//! machine itself is `pinion_http::h1`; here it meets the connection.

pub(crate) mod answer;

use pinion_http::field::KnownField;
use pinion_http::h1::body::{BodyReader, Step};
use pinion_http::h1::encode::{self, ConnectionFields};
use pinion_http::h1::glance::{PageForm, glance};
use pinion_http::h1::head::{self, Parsed};
use pinion_http::h1::trailers;
use pinion_http::limits::BODY_DISCARD_MAX_BYTES;
use pinion_http::method::Method;
use pinion_http::negotiate::prefers_text;
use pinion_http::prepared::{Prepared, PreparedBody};
use pinion_http::refusal::Refusal;
use pinion_http::request::{Framing, RequestHead};
use pinion_http::version::Version;

use crate::app::{App, Event, Gone, OwnAnswer, RawEvent};
use crate::backend::Slot;
use crate::conn::Phase;
use crate::core::Core;
use crate::drain::Ending;
use crate::exchange::{Exchange, ExchangeState, Stage};
use crate::http2;
use crate::limits::{CLOSE_AT_ONCE_MAX_BYTES, LINGER_MAX_BYTES, OUTPUT_HIGH_WATER_BYTES};
use crate::preface;
use crate::raw::RawStream;

/// Uses as much of `input` as the connection can take now; returns how many bytes that was. The
/// rest waits in the stash: an incomplete head, or what comes behind an answer that is not ready.
#[inline]
pub(crate) fn drive<A: App>(app: &mut A, core: &mut Core, slot: Slot, input: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = &input[at..];
        let phase = core.conns.get(slot).phase;
        let used = match phase {
            Phase::Head => {
                if rest.is_empty() || core.queued_bytes(slot) >= OUTPUT_HIGH_WATER_BYTES {
                    return at;
                }
                request(app, core, slot, rest)
            }
            Phase::Preface => {
                preface::look(app, core, slot, rest);
                0
            }
            Phase::Http2 => http2::drive(app, core, slot, rest),
            Phase::Body => body(app, core, slot, rest),
            Phase::Handshake | Phase::Http3 | Phase::Answer => return at,
            Phase::Raw => raw(app, core, slot, rest),
            Phase::Linger => {
                drop_input(core, slot, rest.len());
                return input.len();
            }
            Phase::Closing => return input.len(),
        };
        at += used;
        let conn = core.conns.get(slot);
        if conn.exchange.stage == Stage::Aborted {
            return input.len();
        }
        if used == 0 && conn.phase == phase {
            return at;
        }
    }
}

/// Reads one request head and lets the application answer. Returns the bytes used, 0 when the head
/// is not whole yet.
#[inline]
fn request<A: App>(app: &mut A, core: &mut Core, slot: Slot, input: &[u8]) -> usize {
    let scanned = std::mem::take(&mut core.conns.get(slot).scanned) as usize;
    let mut storage = std::mem::take(&mut core.heads);
    let used = match head::parse(input, scanned, &mut storage, &core.settings.limits) {
        Ok(Parsed::Head { head, bytes }) => {
            begin(app, core, slot, &head);
            bytes
        }
        Ok(Parsed::Partial { scanned }) => {
            core.conns.get(slot).scanned = scanned as u32;
            0
        }
        Err(refusal) => {
            refuse(app, core, slot, refusal.status(), glance(input));
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
    conn.received();
    conn.begins_one();
    // Behind CONNECT a client may send what is meant for its tunnel without waiting for the answer.
    // There is no tunnel, and those bytes must not be read as requests (RFC 9110 §9.3.6).
    let tunnel = head.method == Method::Connect;
    let may_stay = !draining && !tunnel && last_allowed.is_none_or(|last| conn.begun < last);
    conn.client_closes = !head.keep_alive;
    conn.exchange = ExchangeState {
        stage: Stage::Open,
        open: true,
        head_only: head.method == Method::Head,
        http10: head.version == Version::Http10,
        keep_alive: head.keep_alive && may_stay,
        expects_continue: head.expect_continue,
        ..ExchangeState::default()
    };
    conn.phase = match head.framing {
        Framing::None => Phase::Answer,
        framing => {
            conn.body = BodyReader::new(framing, body_max);
            conn.exchange.text_page = prefers_text(head.values(KnownField::Accept));
            Phase::Body
        }
    };
    app.exchange(Event::Head(head), &mut Exchange { core, slot, stream: 0 });
    after_event(app, core, slot);
}

/// Looks at what the application did with an event and moves the connection on.
#[inline]
pub(crate) fn after_event<A: App>(app: &mut A, core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    match conn.exchange.stage {
        Stage::Done => complete(core, slot),
        Stage::Open | Stage::Streaming if conn.wants_too_much() => {
            body_refused(app, core, slot, Refusal::ContentTooLarge);
        }
        Stage::Open if !conn.exchange.waiting => {
            let why_not = if conn.body.fits() { 500 } else { Refusal::ContentTooLarge.status() };
            answer_page(app, core, slot, why_not);
        }
        Stage::Upgraded => {
            conn.phase = Phase::Raw;
            conn.begins_one();
            conn.exchange = ExchangeState::of_stream(conn.ended);
            app.raw(RawEvent::Open, &mut RawStream { core, slot });
            after_raw(core, slot);
        }
        Stage::None | Stage::Open | Stage::Streaming | Stage::Aborted => {}
    }
}

/// The answer is complete; what about the connection?
#[inline]
fn complete(core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    let state = conn.exchange;
    let body_unread = conn.phase == Phase::Body && !conn.body.is_at_end();
    if !state.keep_alive {
        // A client that asked to close should send nothing more, but some send a line end too many
        // (RFC 9112 §2.2). It costs nothing once the answers have reached them.
        let may_send = body_unread || !conn.client_closes;
        let out_bytes = conn.sent_bytes + core.queued_bytes(slot);
        return core.conns.get(slot).end(may_send || out_bytes > CLOSE_AT_ONCE_MAX_BYTES);
    }
    if conn.must_end_behind_content() {
        return conn.end(true);
    }
    conn.exchange = ExchangeState::default();
    if body_unread {
        conn.dropped = 0;
    } else {
        conn.phase = Phase::Head;
    }
}

/// Takes body bytes: to the application as far as it wants them, or away.
fn body<A: App>(app: &mut A, core: &mut Core, slot: Slot, input: &[u8]) -> usize {
    let conn = core.conns.get(slot);
    let discard = conn.exchange.stage == Stage::None;
    if !discard && !conn.exchange.reads {
        return 0;
    }
    let room = if discard { u64::MAX } else { conn.exchange.wanted };
    let (used, step) = match conn.body.step(input, room) {
        Ok(step) => step,
        Err(refusal) => {
            body_refused(app, core, slot, refusal);
            return 0;
        }
    };
    match step {
        Step::NeedMore => {}
        Step::End(_) if discard => conn.phase = Phase::Head,
        Step::End(section) => body_end(app, core, slot, section),
        Step::Data(data) if discard => {
            core.content_bytes += data.len();
            conn.dropped = conn.dropped.saturating_add(data.len() as u32);
            if u64::from(conn.dropped) > BODY_DISCARD_MAX_BYTES {
                conn.end(true);
            }
        }
        Step::Data(data) => {
            core.content_bytes += data.len();
            conn.received();
            conn.exchange.wanted -= data.len() as u64;
            app.exchange(Event::Body(data), &mut Exchange { core, slot, stream: 0 });
            after_event(app, core, slot);
        }
    }
    used
}

/// The body is complete; `section` is what stands behind chunked content.
fn body_end<A: App>(app: &mut A, core: &mut Core, slot: Slot, section: &[u8]) {
    let mut storage = std::mem::take(&mut core.heads);
    match trailers::read(section, &mut storage) {
        Ok(fields) => {
            core.conns.get(slot).phase = Phase::Answer;
            app.exchange(Event::BodyEnd(fields), &mut Exchange { core, slot, stream: 0 });
            after_event(app, core, slot);
        }
        Err(refusal) => body_refused(app, core, slot, refusal),
    }
    core.heads = storage;
}

/// The body is malformed or too long. A head that is out already cannot be taken back: cut.
#[cold]
fn body_refused<A: App>(app: &mut A, core: &mut Core, slot: Slot, refusal: Refusal) {
    let state = &mut core.conns.get(slot).exchange;
    let stage = state.stage;
    let form = state.page_form();
    if std::mem::take(&mut state.open) {
        app.exchange(Event::Gone(Gone::Refused), &mut Exchange { core, slot, stream: 0 });
    }
    match stage {
        Stage::Open => refuse(app, core, slot, refusal.status(), form),
        Stage::None => core.conns.get(slot).end(true),
        _ => core.conns.get(slot).exchange.stage = Stage::Aborted,
    }
}

/// Hands bytes of a stream to the application, as far as it wants them.
fn raw<A: App>(app: &mut A, core: &mut Core, slot: Slot, input: &[u8]) -> usize {
    let wanted = &mut core.conns.get(slot).exchange.wanted;
    let now = usize::try_from(*wanted).unwrap_or(usize::MAX).min(input.len());
    if now == 0 {
        return 0;
    }
    *wanted -= now as u64;
    core.content_bytes += now;
    app.raw(RawEvent::Bytes(&input[..now]), &mut RawStream { core, slot });
    after_raw(core, slot);
    now
}

/// Looks at what the application did with an event of a stream.
pub(crate) fn after_raw(core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    if conn.exchange.stage == Stage::Done {
        conn.end(true);
    }
}

/// Refuses the bytes of the peer: an error page, then no more (RFC 9112 §2.2, §9.6).
#[cold]
pub(crate) fn refuse<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    status: u16,
    form: PageForm,
) {
    let PageForm { head_only, text: text_page } = form;
    let conn = core.conns.get(slot);
    conn.exchange =
        ExchangeState { stage: Stage::Open, head_only, text_page, ..ExchangeState::default() };
    answer_page(app, core, slot, status);
}

/// Refuses what is no request at all with a page of its own.
#[cold]
pub(crate) fn refuse_with<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    page: impl FnOnce(&[u8]) -> Prepared<'_>,
) {
    core.conns.get(slot).exchange = ExchangeState { stage: Stage::Open, ..Default::default() };
    answer_last(app, core, slot, |app| page(app.page_fields()));
}

/// Answers the open exchange with the page of a status and ends the connection.
#[cold]
fn answer_page<A: App>(app: &mut A, core: &mut Core, slot: Slot, status: u16) {
    let text = core.conns.get(slot).exchange.text_page;
    answer_last(app, core, slot, |app| app.error_page(status, text));
}

/// Answers the open exchange with a page and ends the connection.
fn answer_last<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    page: impl FnOnce(&A) -> Prepared<'_>,
) {
    let conn = core.conns.get(slot);
    let (head_only, peer) = (conn.exchange.head_only, conn.peer);
    // In a handshake nothing is sealed yet. What a listener tells its clients of TLS is worth
    // nothing where anybody could have written it (RFC 6797 §7.2).
    let in_clear = conn.phase == Phase::Handshake;
    conn.end(true);
    let queued_bytes = core.queued_bytes(slot);
    let answer = page(app);
    let status = answer.status;
    let PreparedBody::Bytes(body) = answer.body else { unreachable!("a page is bytes") };
    let Core { conns, outputs, pool, tails, .. } = core;
    let conn = conns.get(slot);
    let tail = if in_clear { tails.bare_line() } else { tails.line(conn.listener) };
    let output = outputs.of(&mut conn.output);
    let room = answer::HEAD_FIXED_BYTES + encode::prepared_bytes(&answer) + tail.len();
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

/// Counts what a lingering peer still sends; too much ends the patience. Who asked to close and
/// sends more nevertheless may not be done with that.
pub(crate) fn drop_input(core: &mut Core, slot: Slot, bytes: usize) {
    core.content_bytes += bytes;
    let conn = core.conns.get(slot);
    conn.linger |= bytes > 0 && conn.close_when_sent && !conn.ended;
    conn.dropped = conn.dropped.saturating_add(bytes as u32);
    if u64::from(conn.dropped) > LINGER_MAX_BYTES {
        conn.exchange.stage = Stage::Aborted;
    }
}
