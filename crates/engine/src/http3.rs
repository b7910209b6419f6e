//! HTTP/3 on one connection: bytes of QUIC streams in, exchanges with the application, bytes of
//! streams out. The wire machine itself is `pinion_http::h3`; here it meets QUIC. Frames of an
//! answer stand in the queue of its stream until QUIC takes them.

pub(crate) mod answer;
mod streams;

use pinion_http::h3::control::UniState;
use pinion_http::h3::event::{Event as Happened, Fatal, StreamError, UniEvent};
use pinion_http::h3::frame::ErrorCode;
use pinion_http::h3::session::{Session, Settings};
use quinn_proto::{Dir, StreamEvent, StreamId, VarInt};

use crate::app::{App, Gone};
use crate::backend::Slot;
use crate::conn::Phase;
use crate::core::Core;
use crate::drain::Ending;
use crate::many::{self, Stream, request};
pub(crate) use streams::{Open, Streams};

/// See the module's head.
pub(crate) struct Http3 {
    pub(crate) quic: quinn_proto::Connection,
    session: Session,
    pub(crate) streams: Streams,
    /// The client's streams of one direction.
    unis: Vec<(StreamId, UniState)>,
    /// Our control stream, once there is leave to open it, and what is to go out on it.
    control: Option<StreamId>,
    control_out: Vec<u8>,
    /// Bytes that wait on all streams.
    pub(crate) queued_bytes: u64,
}

impl Http3 {
    /// On a connection that has just been accepted.
    pub(crate) fn new(quic: quinn_proto::Connection, core: &Core) -> Self {
        let settings = Settings { limits: core.settings.limits, ..Settings::default() };
        let mut session = Session::new(&settings, core.now.monotonic_ms);
        let mut control_out = Vec::new();
        session.open(&mut control_out);
        Self {
            quic,
            session,
            streams: Streams::default(),
            unis: Vec::new(),
            control: None,
            control_out,
            queued_bytes: 0,
        }
    }

    /// Sends what waits on our control stream.
    fn write_control(&mut self) {
        if self.control_out.is_empty() {
            return;
        }
        if self.control.is_none() {
            self.control = self.quic.streams().open(Dir::Uni);
        }
        let Some(control) = self.control else { return };
        if let Ok(bytes) = self.quic.send_stream(control).write(&self.control_out) {
            self.control_out.drain(..bytes);
        }
    }
}

/// The number by which the engine names a request stream: never 0.
pub(crate) fn number(stream: StreamId) -> u32 {
    // Streams are counted up one by one, and a connection does not live so long.
    (stream.index() as u32).wrapping_add(1)
}

/// Acts upon everything that QUIC has to tell. True when the connection is lost.
pub(crate) fn events<A: App>(app: &mut A, core: &mut Core, slot: Slot) -> bool {
    loop {
        let Some(http3) = core.conns.get(slot).http3() else { return true };
        match http3.quic.poll() {
            None => return false,
            Some(quinn_proto::Event::ConnectionLost { .. }) => {
                many::abandon(app, core, slot, Gone::Peer);
                return true;
            }
            Some(quinn_proto::Event::Connected) => connected(core, slot),
            Some(quinn_proto::Event::Stream(event)) => stream_event(app, core, slot, &event),
            Some(_) => {}
        }
    }
}

fn connected(core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    conn.phase = Phase::Http3;
    conn.received();
    if let Some(http3) = conn.http3() {
        http3.write_control();
    }
    if core.ending != Ending::No {
        leave(core, slot);
    }
}

fn stream_event<A: App>(app: &mut A, core: &mut Core, slot: Slot, event: &StreamEvent) {
    match *event {
        StreamEvent::Opened { dir: Dir::Bi } => {
            while let Some(id) = accept(core, slot, Dir::Bi) {
                opened(app, core, slot, id);
            }
        }
        StreamEvent::Opened { dir: Dir::Uni } => {
            while let Some(id) = accept(core, slot, Dir::Uni) {
                let Some(http3) = core.conns.get(slot).http3() else { return };
                http3.unis.push((id, UniState::default()));
                read_uni(app, core, slot, id);
            }
        }
        StreamEvent::Readable { id } if id.dir() == Dir::Uni => read_uni(app, core, slot, id),
        StreamEvent::Readable { id } => read(app, core, slot, id),
        StreamEvent::Stopped { id, .. } => stopped(app, core, slot, id),
        StreamEvent::Available { .. } => {
            if let Some(http3) = core.conns.get(slot).http3() {
                http3.write_control();
            }
        }
        // What waits is written behind all events.
        StreamEvent::Writable { .. } | StreamEvent::Finished { .. } => {}
    }
}

fn accept(core: &mut Core, slot: Slot, dir: Dir) -> Option<StreamId> {
    core.conns.get(slot).http3()?.quic.streams().accept(dir)
}

/// The client has opened a request stream.
fn opened<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: StreamId) {
    let now_ms = core.now.monotonic_ms;
    let Some(http3) = core.conns.get(slot).http3() else { return };
    match http3.session.begin(u64::from(id), now_ms) {
        Ok(request) => {
            http3.streams.add(number(id), Open::new(id, request));
            read(app, core, slot, id);
        }
        Err(error) => failed(app, core, slot, id, error),
    }
}

/// Reads a request stream, as far as what comes is wanted.
pub(crate) fn read<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: StreamId) {
    loop {
        if !step_held(app, core, slot, id) {
            return;
        }
        let Some(http3) = core.conns.get(slot).http3() else { return };
        let Some(open) = http3.streams.get(number(id)) else { return };
        if open.fin || !open.own.takes_input() {
            return;
        }
        let mut stream = http3.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let next = chunks.next(usize::MAX);
        // What there is to transmit goes out behind all events.
        let _transmit = chunks.finalize();
        match next {
            Ok(Some(chunk)) => open.held.extend_from_slice(&chunk.bytes),
            Ok(None) => open.fin = true,
            Err(quinn_proto::ReadError::Blocked) => return,
            Err(quinn_proto::ReadError::Reset(_)) => return reset_by_peer(app, core, slot, id),
        }
    }
}

/// Reads the streams whose content is waited for.
pub(crate) fn read_wanted<A: App>(app: &mut A, core: &mut Core, slot: Slot) {
    let Some(many) = &mut core.conns.get(slot).many else { return };
    for number in many.all(Stream::waits_for_content) {
        let http3 = core.conns.get(slot).http3();
        if let Some(open) = http3.and_then(|http3| http3.streams.get(number)) {
            let id = open.id;
            read(app, core, slot, id);
        }
    }
}

/// Uses what was read; false when the stream is no more.
fn step_held<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: StreamId) -> bool {
    loop {
        let now_ms = core.now.monotonic_ms;
        let mut section = std::mem::take(&mut core.section);
        let Some(http3) = core.conns.get(slot).http3() else { return false };
        let Http3 { session, streams, .. } = http3;
        let Some(open) = streams.get(number(id)) else {
            core.section = section;
            return false;
        };
        if open.request.is_ended() || (open.held.is_empty() && !open.fin) {
            core.section = section;
            return true;
        }
        let held = std::mem::take(&mut open.held);
        let fin = open.fin;
        let step = open.request.step(&held, fin, session, &mut section, now_ms);
        let (used, goes_on) = match step {
            Err(error) => {
                failed(app, core, slot, id, error);
                (held.len(), false)
            }
            Ok(step) => (step.used, happened(app, core, slot, id, &step.event)),
        };
        core.section = section;
        keep(core, slot, id, held, used);
        if !goes_on {
            return core
                .conns
                .get(slot)
                .http3()
                .is_some_and(|http3| http3.streams.get(number(id)).is_some());
        }
    }
}

/// What was not used of `held` waits for more.
fn keep(core: &mut Core, slot: Slot, id: StreamId, mut held: Vec<u8>, used: usize) {
    let http3 = core.conns.get(slot).http3();
    if let Some(open) = http3.and_then(|http3| http3.streams.get(number(id))) {
        held.drain(..used);
        open.held = held;
    }
}

/// Acts upon an event of a request stream. False when it needs more input.
fn happened<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    id: StreamId,
    event: &Happened<'_>,
) -> bool {
    let stream = number(id);
    match *event {
        Happened::NeedMore => return false,
        Happened::Nothing => {}
        Happened::Head { ref head, end } => request::begin(app, core, slot, stream, head, end),
        Happened::HeadRefused { refusal, form, end } => {
            request::refuse(app, core, slot, (stream, end), refusal, form);
        }
        Happened::Data { bytes } => request::content(app, core, slot, stream, bytes, false),
        Happened::Trailers { fields } => request::trailers(app, core, slot, stream, fields),
        Happened::End => {
            request::content(app, core, slot, stream, b"", true);
            return false;
        }
    }
    true
}

/// A request stream, or the whole connection, breaks the rules.
#[cold]
fn failed<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: StreamId, error: StreamError) {
    match error {
        StreamError::Stream(code) => {
            let Some(http3) = core.conns.get(slot).http3() else { return };
            let gone = http3.end(id, code);
            if let Some(own) = gone {
                many::lose(app, core, slot, (number(id), own), Gone::Refused);
            }
        }
        StreamError::Connection(fatal) => fail(app, core, slot, fatal),
    }
}

/// The client has taken a request back, or stopped its answer.
fn reset_by_peer<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: StreamId) {
    let now_ms = core.now.monotonic_ms;
    let Some(http3) = core.conns.get(slot).http3() else { return };
    let Some(own) = http3.end(id, ErrorCode::RequestCancelled) else { return };
    let spent = http3.session.reset_by_peer(now_ms);
    many::lose(app, core, slot, (number(id), own), Gone::Peer);
    if let Err(fatal) = spent {
        fail(app, core, slot, fatal);
    }
}

fn stopped<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: StreamId) {
    let Some(http3) = core.conns.get(slot).http3() else { return };
    if http3.control == Some(id) {
        // RFC 9114 §6.2.1: "the sender MUST NOT close the control stream".
        return fail(app, core, slot, ErrorCode::ClosedCriticalStream.into());
    }
    reset_by_peer(app, core, slot, id);
}

/// Reads a stream of one direction.
fn read_uni<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: StreamId) {
    loop {
        let now_ms = core.now.monotonic_ms;
        let Some(http3) = core.conns.get(slot).http3() else { return };
        let Some(at) = http3.unis.iter().position(|(uni, _)| *uni == id) else { return };
        let mut stream = http3.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let next = chunks.next(usize::MAX);
        let _transmit = chunks.finalize();
        let (bytes, fin) = match next {
            Ok(Some(chunk)) => (chunk.bytes, false),
            Ok(None) | Err(quinn_proto::ReadError::Reset(_)) => (bytes::Bytes::new(), true),
            Err(quinn_proto::ReadError::Blocked) => return,
        };
        let mut rest = &bytes[..];
        loop {
            let Http3 { session, unis, streams, quic, .. } = http3;
            let Some((_, state)) = unis.get_mut(at) else { return };
            match session.uni(state, rest, fin, now_ms) {
                Err(fatal) => return fail(app, core, slot, fatal),
                Ok(step) => {
                    rest = &rest[step.used..];
                    match step.event {
                        UniEvent::Nothing | UniEvent::PeerLeaves | UniEvent::End => {}
                        UniEvent::Priority { stream, priority } => {
                            if let Some(open) = streams.get((stream / 4 + 1) as u32) {
                                open.request.set_priority(priority);
                            }
                        }
                        UniEvent::Stop => {
                            let code =
                                VarInt::from_u32(ErrorCode::StreamCreationError.number() as u32);
                            let _closed = quic.recv_stream(id).stop(code);
                        }
                    }
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        if fin {
            http3.unis.swap_remove(at);
            return;
        }
    }
}

impl Http3 {
    /// Ends a stream whose answer cannot be completed.
    pub(crate) fn reset(&mut self, number: u32) -> Option<Stream> {
        let id = self.streams.get(number)?.id;
        self.end(id, ErrorCode::InternalError)
    }

    /// Ends a request stream in both directions; gives back what was kept with it.
    pub(crate) fn end(&mut self, id: StreamId, code: ErrorCode) -> Option<Stream> {
        let code = VarInt::from_u32(code.number() as u32);
        let _gone = self.quic.recv_stream(id).stop(code);
        let _gone = self.quic.send_stream(id).reset(code);
        self.streams.remove(number(id)).map(|open| open.own)
    }
}

/// Says that no further requests are taken; said again, that those on their way are not either.
pub(crate) fn leave(core: &mut Core, slot: Slot) {
    let Some(http3) = core.conns.get(slot).http3() else { return };
    let Http3 { session, control_out, .. } = http3;
    session.go_away(control_out);
    http3.write_control();
}

/// Ends the connection with an error.
#[cold]
pub(crate) fn fail<A: App>(app: &mut A, core: &mut Core, slot: Slot, fatal: Fatal) {
    close(core, slot, fatal.code);
    many::abandon(app, core, slot, Gone::Refused);
}

/// Closes the connection, with what stands in its streams.
pub(crate) fn close(core: &mut Core, slot: Slot, code: ErrorCode) {
    let Some(http3) = core.conns.get(slot).http3() else { return };
    let code = VarInt::from_u32(code.number() as u32);
    http3.quic.close(std::time::Instant::now(), code, bytes::Bytes::new());
}

/// Hands what waits on streams to QUIC, the most urgent first.
pub(crate) fn pump(core: &mut Core, slot: Slot) {
    let Core { conns, outputs, pool, mappings, external, .. } = core;
    let Some(http3) = conns.get(slot).http3() else { return };
    let Http3 { quic, streams, queued_bytes, session, .. } = http3;
    let mut done = Vec::new();
    for open in streams.iter_mut() {
        let before = outputs.bytes(open.own.output);
        let outcome = answer::hand_over(quic, open, outputs, pool, mappings, external);
        *queued_bytes -= before - outputs.bytes(open.own.output);
        match outcome {
            answer::Outcome::Waits => {}
            answer::Outcome::Whole => {
                session.answered();
                done.push((open.id, None));
            }
            answer::Outcome::Broken => done.push((open.id, Some(ErrorCode::InternalError))),
        }
    }
    for (id, broken) in done {
        let Some(http3) = core.conns.get(slot).http3() else { return };
        let own = match broken {
            Some(code) => http3.end(id, code),
            None => http3.finish(id),
        };
        if let Some(own) = own {
            many::release(core, slot, own);
        }
    }
}

impl Http3 {
    /// Ends a stream whose answer is whole. A client that still sends is told that nobody reads it
    /// (RFC 9114 §4.1.1).
    fn finish(&mut self, id: StreamId) -> Option<Stream> {
        let _already = self.quic.send_stream(id).finish();
        let open = self.streams.remove(number(id))?;
        if !open.fin {
            let code = VarInt::from_u32(ErrorCode::NoError.number() as u32);
            let _ended = self.quic.recv_stream(id).stop(code);
        }
        Some(open.own)
    }
}
