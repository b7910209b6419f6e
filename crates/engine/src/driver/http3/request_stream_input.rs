//! Input of request streams, read as far as it is wanted: unread input gives no flow-control window
//! back (RFC 9000 §4).

use bytes::Bytes;
use pinion_http::h3::event::{RequestStreamEvent as Happened, StreamError};
use pinion_http::h3::frame::ErrorCode;
use pinion_http::multiplexed_request_head::refused_request;
use quinn_proto::{Connection, ReadError, StreamId};

use super::fail;
use crate::app::App;
use crate::backend::Slot;
use crate::buffer_pool::Pool;
use crate::deadline::DeadlineKind;
use crate::driver::multiplexed_requests::{self, request_content};
use crate::end_reason::Gone;
use crate::http3::{Http3, Open, number};
use crate::limits::{CHUNK_BYTES, QUIC_REQUESTS_MAX};
use crate::multiplexed::MultiplexedStream;
use crate::worker_core::WorkerCore;

/// Begins a request on a stream that the client has opened.
pub(super) fn opened<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: StreamId) {
    let now_ms = core.now.monotonic_ms;
    let (http3, ..) = core.http3(slot);
    match http3.session.begin(u64::from(id), now_ms) {
        Ok(request) => {
            http3.streams.add(number(id), Open::new(id, request, now_ms));
            if number(id) >= QUIC_REQUESTS_MAX {
                core.go_away(slot);
            }
            read(app, core, slot, id);
            if open(core, slot, id).is_some_and(|open| open.own.awaits_head()) {
                // It has less time than content.
                core.connections.get(slot).link.deadline.end(DeadlineKind::Body);
            }
        }
        Err(error) => failed(app, core, slot, id, error),
    }
}

/// Returns the stream, if it is open.
fn open(core: &mut WorkerCore, slot: Slot, id: StreamId) -> Option<&mut Open> {
    core.http3(slot).0.streams.get(number(id))
}

/// Reads a request stream as far as its input is wanted, or is dropped because the request was
/// responded to early.
pub(crate) fn read<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: StreamId) {
    if open(core, slot, id).is_none() {
        let now_ms = core.now.monotonic_ms;
        let (http3, link, _) = core.http3(slot);
        if http3.discard(id, now_ms) {
            // The next part of it has its full time.
            link.deadline.end(DeadlineKind::Discard);
        }
        return;
    }
    if use_held(app, core, slot, id) {
        read_on(app, core, slot, id);
    }
    if let Some(open) = open(core, slot, id) {
        open.own.content_follows = open.is_in_content();
    }
}

/// Reads the input after the kept part.
fn read_on<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: StreamId) {
    loop {
        let (Http3 { quic, streams, .. }, _, buffers) = core.http3(slot);
        let Some(open) = streams.get(number(id)) else { return };
        if open.fin || !open.own.takes_input(open.is_in_content()) {
            return;
        }
        let goes_on = match receive(quic, open, &mut buffers.pool) {
            Came::Nothing => return,
            Came::Bytes(bytes) => use_bytes(app, core, slot, id, &bytes),
            Came::Held => use_held(app, core, slot, id),
            Came::Reset => return reset_by_peer(app, core, slot, id),
            Came::TooMuch => return overloaded(app, core, slot, id),
        };
        if !goes_on {
            return;
        }
    }
}

/// The result of reading from a stream.
enum Came {
    Nothing,
    /// Bytes of a stream of which no earlier ones are kept.
    Bytes(Bytes),
    /// The bytes were appended to the ones kept before.
    Held,
    Reset,
    /// There is not enough memory for the bytes.
    TooMuch,
}

/// Takes the next bytes, and notes whether they are the last: that shows a request without content.
/// QUIC joins thousands of waiting frames to one piece, so a piece has a limit.
fn receive(quic: &mut Connection, open: &mut Open, pool: &mut Pool) -> Came {
    let Open { unread, own: MultiplexedStream { held, .. }, .. } = open;
    let mut stream = quic.recv_stream(open.id);
    // Frames that have to be sent when these are dropped leave after all events.
    let Ok(mut chunks) = stream.read(true) else { return Came::Nothing };
    let first = match chunks.next(CHUNK_BYTES) {
        Err(ReadError::Blocked) => {
            unread.drained();
            return Came::Nothing;
        }
        Err(ReadError::Reset(_)) => return Came::Reset,
        Ok(None) => Bytes::new(),
        Ok(Some(chunk)) => chunk.bytes,
    };
    unread.read(first.len());
    open.fin = first.is_empty();
    let mut second = Bytes::new();
    if !open.fin {
        match chunks.next(CHUNK_BYTES) {
            Err(ReadError::Blocked) => unread.drained(),
            Err(ReadError::Reset(_)) => return Came::Reset,
            Ok(None) => open.fin = true,
            Ok(Some(chunk)) => {
                unread.read(chunk.bytes.len());
                second = chunk.bytes;
            }
        }
    }
    if open.fin {
        unread.ended();
    }
    if held.is_empty() && second.is_empty() {
        return Came::Bytes(first);
    }
    let is_kept = [first, second].iter().all(|part| part.is_empty() || held.keep(pool, part));
    if is_kept { Came::Held } else { Came::TooMuch }
}

/// Uses bytes that were just read; returns false if the stream no longer exists.
fn use_bytes<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: StreamId,
    bytes: &[u8],
) -> bool {
    let rest = bytes.get(steps(app, core, slot, id, bytes)..).unwrap_or_default();
    let (http3, _, buffers) = core.http3(slot);
    let Some(open) = http3.streams.get(number(id)) else { return false };
    let is_kept = rest.is_empty() || open.own.held.keep(&mut buffers.pool, rest);
    if !is_kept {
        overloaded(app, core, slot, id);
    }
    is_kept
}

/// Uses bytes that were kept; returns false if the stream no longer exists.
fn use_held<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: StreamId) -> bool {
    let Some(open) = open(core, slot, id) else { return false };
    if open.own.held.is_empty() && !open.fin {
        return true;
    }
    let mut held = std::mem::take(&mut open.own.held);
    let used = steps(app, core, slot, id, held.unused());
    held.advance(used, &mut core.buffers.pool);
    match self::open(core, slot, id) {
        Some(open) => open.own.held = held,
        None => {
            held.give_back(&mut core.buffers.pool);
            return false;
        }
    }
    true
}

/// Steps the wire machine over `input` as far as its parts are wanted; returns how many bytes were
/// used.
fn steps<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: StreamId,
    input: &[u8],
) -> usize {
    let now_ms = core.now.monotonic_ms;
    let mut at = 0;
    loop {
        let WorkerCore { connections, section, .. } = core;
        let Some(Http3 { session, streams, .. }) = connections.get(slot).http3() else {
            unreachable!("a connection over QUIC speaks HTTP/3")
        };
        let Some(Open { request, own, fin, .. }) = streams.get(number(id)) else { return at };
        if request.is_ended() {
            // Input after the end of the request is not wanted.
            return input.len();
        }
        if !own.takes_input(request.is_in_content(&input[at..])) {
            return at;
        }
        let mut section = std::mem::take(section);
        let mut place = None;
        let rest = &input[at..];
        let step = request.step(rest, *fin, session, &mut section, &mut place, now_ms);
        let goes_on = match step {
            Ok(step) => {
                at += step.used;
                happened(app, core, slot, id, &step.event)
            }
            Err(error) => {
                failed(app, core, slot, id, error);
                false
            }
        };
        core.section = section;
        if !goes_on {
            return at;
        }
    }
}

/// Ends the stream because there is no memory for the client's input.
#[cold]
fn overloaded<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: StreamId) {
    if let Some(own) = core.http3(slot).0.end(id, ErrorCode::ExcessiveLoad) {
        multiplexed_requests::lose(app, core, slot, (number(id), own), Gone::Overload);
    }
}

/// Reads the streams whose content is waited for.
pub(crate) fn read_wanted<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot) {
    let (multiplexed, ..) = core.multiplexed(slot);
    for number in multiplexed.all(MultiplexedStream::waits_for_content) {
        // Reading one stream may have ended others.
        if let Some(open) = core.http3(slot).0.streams.get(number) {
            let id = open.id;
            read(app, core, slot, id);
        }
    }
}

/// Acts upon an event of a request stream. Returns false if it needs more input.
fn happened<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: StreamId,
    event: &Happened<'_>,
) -> bool {
    let stream = number(id);
    match *event {
        Happened::NeedMore => return false,
        Happened::Nothing => {}
        Happened::Head { head, end } => {
            multiplexed_requests::begin(app, core, slot, stream, head, end);
        }
        Happened::HeadRefused { refusal, fields, end } => {
            let request = refused_request(&fields);
            multiplexed_requests::refuse(app, core, slot, (stream, end), refusal, &request);
        }
        Happened::Data { bytes } => {
            request_content::content(app, core, slot, stream, bytes, false);
        }
        Happened::Trailers { fields } => {
            request_content::trailers(app, core, slot, stream, fields);
        }
        Happened::End => {
            request_content::content(app, core, slot, stream, b"", true);
            return false;
        }
    }
    true
}

/// Ends a request stream, or the whole connection, that breaks the rules.
#[cold]
fn failed<A: App>(
    app: &mut A,
    core: &mut WorkerCore,
    slot: Slot,
    id: StreamId,
    error: StreamError,
) {
    match error {
        StreamError::Stream(code) => {
            if let Some(own) = core.http3(slot).0.end(id, code) {
                multiplexed_requests::lose(app, core, slot, (number(id), own), Gone::Refused);
            }
        }
        StreamError::Connection(fatal) => fail(app, core, slot, fatal),
    }
}

/// Ends a request that the client has cancelled, or whose response it has stopped.
pub(super) fn reset_by_peer<A: App>(app: &mut A, core: &mut WorkerCore, slot: Slot, id: StreamId) {
    let now_ms = core.now.monotonic_ms;
    let (http3, ..) = core.http3(slot);
    // The stream may have ended before this report of it.
    let Some(own) = http3.end(id, ErrorCode::RequestCancelled) else { return };
    let spent = http3.session.reset_by_peer(now_ms);
    multiplexed_requests::lose(app, core, slot, (number(id), own), Gone::Peer);
    if let Err(fatal) = spent {
        fail(app, core, slot, fatal);
    }
}
