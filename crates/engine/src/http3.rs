//! HTTP/3 on one connection: bytes of QUIC streams in, exchanges with the application, bytes of
//! streams out. The wire machine itself is `pinion_http::h3`; here it meets QUIC. Frames of an
//! answer stand in the queue of its stream until QUIC takes them.
//!
//! | Module | Holds |
//! |---|---|
//! | `answer` | answers into the queues of streams |
//! | `input` | what comes on request streams |
//! | `pump` | from the queues to QUIC, the most urgent first |
//! | `streams` | the open request streams |
//! | `uni` | what comes on the client's streams of one direction |

pub(crate) mod answer;
mod input;
mod pump;
mod streams;
#[cfg(test)]
mod tests;
mod uni;

use pinion_http::h1::glance::PageForm;
use pinion_http::h3::control::UniState;
use pinion_http::h3::event::Fatal;
use pinion_http::h3::frame::ErrorCode;
use pinion_http::h3::session::{Session, Settings};
use pinion_http::refusal::Refusal;
use quinn_proto::{Dir, StreamEvent, StreamId, VarInt};

use crate::app::App;
use crate::backend::Slot;
use crate::conn::Conn;
use crate::core::Core;
use crate::deadline::Watch;
use crate::ending::Ending;
use crate::gone::Gone;
use crate::limits::{QUIC_SEND_MIN_BYTES, QUIC_SEND_WINDOW_BYTES, QUIC_STREAMS};
use crate::many::{self, Stream, request};
pub(crate) use input::read_wanted;
pub(crate) use pump::pump;
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
    /// The connection is closed, and QUIC keeps it for a while (RFC 9000 §10.2).
    is_closed: bool,
    /// The client was told that the server stops.
    is_stopping: bool,
    /// The incremental stream that last had its turn.
    turn: u32,
    /// Bytes given to QUIC since it last held none.
    given_bytes: u64,
    /// Bytes that QUIC may hold.
    send_window_bytes: u64,
    /// Bytes of QUIC and of the session that are counted against the budget for buffers.
    pub(crate) counted_bytes: usize,
}

impl Http3 {
    /// On a connection that has just been accepted.
    pub(crate) fn new(quic: quinn_proto::Connection, core: &Core) -> Self {
        let settings = Settings { limits: core.settings.limits, streams: QUIC_STREAMS };
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
            is_closed: false,
            is_stopping: false,
            turn: 0,
            given_bytes: 0,
            send_window_bytes: QUIC_SEND_WINDOW_BYTES,
            counted_bytes: 0,
        }
    }

    /// Whether the connection is closed, and QUIC keeps it for a while.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
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

    /// Ends a stream whose answer cannot be completed.
    pub(crate) fn reset(&mut self, number: u32) -> Option<Stream> {
        let id = self.streams.get(number)?.id;
        self.end(id, ErrorCode::InternalError)
    }

    /// Ends a request stream in both directions; gives back what was kept with it.
    fn end(&mut self, id: StreamId, code: ErrorCode) -> Option<Stream> {
        let code = var_int(code);
        // Whichever is over already.
        let _gone = self.quic.recv_stream(id).stop(code);
        let _gone = self.quic.send_stream(id).reset(code);
        self.streams.remove(number(id)).map(|open| open.own)
    }

    /// Whether something was given to QUIC that the client has not acknowledged. Our control stream
    /// is never over.
    fn is_unacknowledged(&mut self) -> bool {
        self.quic.streams().send_streams() > usize::from(self.control.is_some())
    }

    /// How much there has been of what this deadline watches: frames of streams that have left, or
    /// acknowledgements that have come, the lower half of their number. Frames that are sent again
    /// count: QUIC does that ever more seldom.
    pub(crate) fn progress(&self, watch: Watch) -> u32 {
        let frames = match watch {
            Watch::Window => self.quic.stats().frame_tx.stream,
            Watch::Last => self.quic.stats().frame_rx.acks,
            _ => 0,
        };
        frames as u32
    }

    /// Whether nothing is under way in either direction.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.streams.len() == 0 && !self.is_unacknowledged()
    }

    /// Whether the client has had all its requests and all answers.
    pub(crate) fn is_done(&mut self) -> bool {
        self.session.has_left() && self.is_idle()
    }

    /// What a deadline has to watch, when the exchanges by themselves ask for `watch`.
    pub(crate) fn watch(&mut self, watch: Watch) -> Watch {
        match watch {
            _ if self.is_closed => Watch::Nothing,
            _ if self.quic.is_handshaking() => Watch::Handshake,
            // The last of an answer is on its way.
            Watch::Idle if self.is_unacknowledged() => match self.is_stopping {
                true => Watch::Last,
                false => Watch::Window,
            },
            Watch::Nothing if self.streams.iter_mut().any(|open| open.own.awaits_head()) => {
                Watch::Head
            }
            Watch::Nothing => Watch::Quiet,
            watch => watch,
        }
    }

    /// Lets QUIC hold no more than the path can use soon, and says how much that may be now. What
    /// it holds cannot be asked for; it is no more than what was given to it since it had nothing.
    fn weigh(&mut self) -> usize {
        if self.given_bytes == 0 {
            return 0;
        }
        if !self.is_unacknowledged() {
            self.given_bytes = 0;
            return 0;
        }
        // Twice the congestion window: what is on its way, and as much to follow.
        let path_bytes = 2 * self.quic.congestion_state().window();
        let window_bytes = path_bytes.clamp(QUIC_SEND_MIN_BYTES, QUIC_SEND_WINDOW_BYTES);
        if window_bytes != self.send_window_bytes {
            self.send_window_bytes = window_bytes;
            self.quic.set_send_window(window_bytes);
        }
        self.given_bytes.min(window_bytes) as usize
    }
}

/// An error code as QUIC has it.
fn var_int(code: ErrorCode) -> VarInt {
    VarInt::from_u32(code.number() as u32)
}

/// The number by which the engine names a request stream: never 0.
fn number(stream: StreamId) -> u32 {
    (stream.index() as u32).wrapping_add(1)
}

/// Counts what QUIC holds, and what the session takes by the work of its client, against the budget
/// for buffers.
pub(crate) fn count(core: &mut Core, slot: Slot) {
    let Core { conns, pool, .. } = core;
    let Some(http3) = conns.get(slot).http3() else { return };
    let bytes = http3.weigh() + http3.session.memory_bytes();
    if bytes != http3.counted_bytes {
        pool.count(bytes);
        pool.release(std::mem::replace(&mut http3.counted_bytes, bytes));
    }
}

/// Acts upon everything that QUIC has to tell.
pub(crate) fn events<A: App>(app: &mut A, core: &mut Core, slot: Slot) {
    while let Some(event) = core.conns.get(slot).http3().and_then(|http3| http3.quic.poll()) {
        let is_open = !core.conns.get(slot).is_closing();
        match event {
            quinn_proto::Event::ConnectionLost { .. } => {
                end(core, slot);
                many::abandon(app, core, slot, Gone::Peer);
            }
            quinn_proto::Event::Connected if is_open => connected(core, slot),
            quinn_proto::Event::Stream(event) if is_open => {
                stream_event(app, core, slot, &event);
            }
            // What we have closed has nothing more to tell.
            _ => {}
        }
    }
}

/// The handshake is over.
fn connected(core: &mut Core, slot: Slot) {
    let conn = core.conns.get(slot);
    conn.link.received();
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
                input::opened(app, core, slot, id);
            }
        }
        StreamEvent::Opened { dir: Dir::Uni } => {
            while let Some(id) = accept(core, slot, Dir::Uni) {
                let Some(http3) = core.conns.get(slot).http3() else { return };
                http3.unis.push((id, UniState::default()));
                uni::read(app, core, slot, id);
            }
        }
        StreamEvent::Readable { id } if id.dir() == Dir::Uni => uni::read(app, core, slot, id),
        StreamEvent::Readable { id } => input::read(app, core, slot, id),
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

/// A stream that the client has opened, unless one before it has ended the connection.
fn accept(core: &mut Core, slot: Slot, dir: Dir) -> Option<StreamId> {
    let conn = core.conns.get(slot);
    if conn.is_closing() {
        return None;
    }
    conn.http3()?.quic.streams().accept(dir)
}

/// The client wants nothing more of one of our streams.
fn stopped<A: App>(app: &mut A, core: &mut Core, slot: Slot, id: StreamId) {
    let Some(http3) = core.conns.get(slot).http3() else { return };
    if http3.control == Some(id) {
        // RFC 9114 §6.2.1: "the sender MUST NOT close the control stream".
        return fail(app, core, slot, ErrorCode::ClosedCriticalStream.into());
    }
    input::reset_by_peer(app, core, slot, id);
}

/// Says that no further requests are taken; said again, that those on their way are not either.
/// Who has had all its requests hears both at once: it may ask for the others again on its next
/// connection (RFC 9114 §5.2).
pub(crate) fn leave(core: &mut Core, slot: Slot) {
    let is_stopping = core.ending != Ending::No;
    let Some(http3) = core.conns.get(slot).http3() else { return };
    let Http3 { session, control_out, .. } = http3;
    http3.is_stopping = is_stopping;
    session.go_away(control_out);
    if !is_stopping {
        session.go_away(control_out);
    }
    http3.write_control();
}

/// Has a deadline begin anew when what it watches has gone on. A window is found shut as soon as
/// QUIC was given what it takes, and that leaves by and by.
pub(crate) fn watch_anew(conn: &mut Conn) {
    let (watch, before) = (conn.link.deadline.watch(), conn.link.progress);
    if matches!(watch, Watch::Window | Watch::Last)
        && conn.http3().is_some_and(|http3| http3.progress(watch) != before)
    {
        conn.link.deadline.pause();
    }
}

/// What the deadline watched has not come. With a code the connection is to be closed with it.
#[cold]
pub(crate) fn stalled<A: App>(
    app: &mut A,
    core: &mut Core,
    slot: Slot,
    watch: Watch,
) -> Option<ErrorCode> {
    let conn = core.conns.get(slot);
    let Some(http3) = conn.http3() else { return Some(ErrorCode::NoError) };
    match watch {
        Watch::Body | Watch::Head => {
            request::content_stalled(app, core, slot);
            heads_stalled(app, core, slot);
        }
        Watch::Quiet => http3.quic.ping(),
        Watch::Window => {
            app.flooded(core.address(slot));
            return Some(ErrorCode::ExcessiveLoad);
        }
        _ => return Some(ErrorCode::NoError),
    }
    None
}

/// Heads have not come whole in time.
#[cold]
fn heads_stalled<A: App>(app: &mut A, core: &mut Core, slot: Slot) {
    let Core { conns, settings, now, .. } = core;
    let Some(many) = conns.get(slot).protocol.many() else { return };
    let is_late =
        |stream: &Stream| stream.awaits_head() && stream.is_late(now.monotonic_ms, settings);
    for number in many.all(is_late) {
        let http3 = core.conns.get(slot).http3();
        if let Some(open) = http3.and_then(|http3| http3.streams.get(number)) {
            open.request.refuse_late();
        }
        let form = PageForm::default();
        request::refuse(app, core, slot, (number, false), Refusal::Timeout, form);
    }
}

/// Ends the connection with an error, once.
#[cold]
fn fail<A: App>(app: &mut A, core: &mut Core, slot: Slot, fatal: Fatal) {
    if core.conns.get(slot).is_closing() {
        return;
    }
    if fatal.budget.is_some() {
        app.flooded(core.address(slot));
    }
    close(core, slot, fatal.code);
    many::abandon(app, core, slot, Gone::Refused);
}

/// Closes the connection, with what stands in its streams.
pub(crate) fn close(core: &mut Core, slot: Slot, code: ErrorCode) {
    end(core, slot);
    let now = core.instant;
    if let Some(http3) = core.conns.get(slot).http3() {
        http3.quic.close(now, var_int(code), bytes::Bytes::new());
    }
}

/// The connection is over. QUIC keeps it for a while (RFC 9000 §10.2), and no deadline of it passes
/// meanwhile.
fn end(core: &mut Core, slot: Slot) {
    if let Some(http3) = core.conns.get(slot).http3() {
        http3.is_closed = true;
    }
    core.wheel.cancel(slot);
}
