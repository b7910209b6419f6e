//! HTTP/3 on one connection: bytes of QUIC streams in, exchanges with the application, bytes of
//! streams out. The wire machine itself is `pinion_http::h3`; here it meets QUIC. Frames of an
//! answer stand in the queue of its stream until QUIC takes them.
//!
//! | Module | Holds |
//! |---|---|
//! | `control` | the connection itself: its beginning, its end, what it holds |
//! | `discarded` | the rest of requests that were answered early |
//! | `pump` | from the queues to QUIC, the most urgent first |
//! | `response` | responses into the queues of streams |
//! | `streams` | the open request streams |
//! | `uni` | what comes on the client's streams of one direction |
//! | `unread` | windows for content, and content that waits in QUIC |

pub(crate) mod control;
mod discarded;
pub(crate) mod pump;
pub(crate) mod response;
mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod uni;
pub(crate) mod unread;

use pinion_http::h3::frame::ErrorCode;
use pinion_http::h3::session::{ENCODER_STREAM, Session, SessionSettings};
use pinion_http::limits::Limits;
use quinn_proto::{Dir, StreamId, VarInt};

use crate::deadline::DeadlineWatch;
use crate::limits::{QUIC_SEND_MIN_BYTES, QUIC_SEND_WINDOW_BYTES, QUIC_STREAMS};
use crate::multiplexed::MultiplexedStream;
use discarded::Discarded;
pub(crate) use streams::{Open, Streams};
use uni::Uni;
use unread::Datagrams;

/// See the module's head.
pub(crate) struct Http3 {
    pub(crate) quic: quinn_proto::Connection,
    pub(crate) session: Session,
    pub(crate) streams: Streams,
    /// The client's streams of one direction.
    pub(crate) unis: Vec<Uni>,
    /// Our control stream, once there is leave to open it, and what is to go out on it.
    pub(crate) control: Option<StreamId>,
    pub(crate) control_out: Vec<u8>,
    /// Our encoder stream, once there was something to send on it.
    pub(crate) encoder: Option<StreamId>,
    /// Bytes that wait on all streams.
    pub(crate) queued_bytes: u64,
    /// At least the bytes of the heads that handlers keep.
    pub(crate) open_head_bytes: usize,
    /// The connection is closed, and QUIC keeps it for a while (RFC 9000 §10.2).
    pub(crate) is_closed: bool,
    /// The client was told that the server stops.
    pub(crate) is_stopping: bool,
    /// The incremental stream that last had its turn.
    pub(crate) turn: u32,
    /// Bytes given to QUIC since it last held none.
    pub(crate) given_bytes: u64,
    /// Bytes that QUIC may hold.
    pub(crate) send_window_bytes: u64,
    /// Bytes of QUIC and of the session that are counted against the budget for buffers.
    pub(crate) counted_bytes: usize,
    /// Datagrams that have come since then.
    datagrams: Datagrams,
    /// Requests that were answered early, while their rest is read and dropped.
    discarded: Vec<Discarded>,
}

impl Http3 {
    /// On a connection that has just been accepted.
    pub(crate) fn new(
        quic: quinn_proto::Connection,
        limits: Limits,
        extended_connect: bool,
        now_ms: u64,
    ) -> Self {
        let settings = SessionSettings { limits, streams: QUIC_STREAMS, extended_connect };
        let mut session = Session::new(&settings, now_ms);
        let mut control_out = Vec::new();
        session.open(&mut control_out);
        Self {
            quic,
            session,
            streams: Streams::default(),
            unis: Vec::new(),
            control: None,
            control_out,
            encoder: None,
            queued_bytes: 0,
            open_head_bytes: 0,
            is_closed: false,
            is_stopping: false,
            turn: 0,
            given_bytes: 0,
            send_window_bytes: QUIC_SEND_WINDOW_BYTES,
            counted_bytes: 0,
            datagrams: Datagrams::default(),
            discarded: Vec::new(),
        }
    }

    /// Whether the connection is closed, and QUIC keeps it for a while.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Sends what waits on our control stream.
    pub(crate) fn write_control(&mut self) {
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

    /// Sends what our compression has for the table of the client.
    pub(crate) fn write_encoder(&mut self) {
        let Some(instructions) = self.session.encoder().instructions() else { return };
        if self.encoder.is_none() {
            self.encoder = self.quic.streams().open(Dir::Uni);
            if self.encoder.is_some() {
                instructions.insert(0, ENCODER_STREAM);
            }
        }
        let Some(encoder) = self.encoder else { return };
        if let Ok(bytes) = self.quic.send_stream(encoder).write(instructions) {
            instructions.drain(..bytes);
        }
    }

    /// Ends a stream whose answer cannot be completed.
    pub(crate) fn reset(&mut self, number: u32) -> Option<MultiplexedStream> {
        let open = self.streams.get(number)?;
        let (id, is_tunnel) = (open.id, open.own.state.is_tunnel);
        let code = if is_tunnel { ErrorCode::RequestCancelled } else { ErrorCode::InternalError };
        self.end(id, code)
    }

    /// Ends a request stream in both directions; gives back what was kept with it.
    pub(crate) fn end(&mut self, id: StreamId, code: ErrorCode) -> Option<MultiplexedStream> {
        let code = var_int(code);
        // Whichever is over already.
        let _gone = self.quic.recv_stream(id).stop(code);
        let _gone = self.quic.send_stream(id).reset(code);
        self.streams.remove(number(id)).map(|open| open.own)
    }

    /// Whether something was given to QUIC that the client has not acknowledged. Our control stream
    /// and our encoder stream are never over.
    pub(crate) fn is_unacknowledged(&mut self) -> bool {
        let endless = [self.control, self.encoder].iter().flatten().count();
        self.quic.streams().send_streams() > endless
    }

    /// How much there has been of what this deadline watches: frames of streams that have left, or
    /// acknowledgements that have come, the lower half of their number. Frames that are sent again
    /// count: QUIC does that ever more seldom.
    pub(crate) fn progress(&self, watch: DeadlineWatch) -> u32 {
        let frames = match watch {
            DeadlineWatch::Window => self.quic.stats().frame_tx.stream,
            DeadlineWatch::Last => self.quic.stats().frame_rx.acks,
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
    pub(crate) fn watch(&mut self, watch: DeadlineWatch) -> DeadlineWatch {
        match watch {
            _ if self.is_closed => DeadlineWatch::Nothing,
            _ if self.quic.is_handshaking() => DeadlineWatch::Handshake,
            // The last of an answer is on its way.
            DeadlineWatch::Idle if self.is_unacknowledged() => match self.is_stopping {
                true => DeadlineWatch::Last,
                false => DeadlineWatch::Window,
            },
            DeadlineWatch::Idle if !self.discarded.is_empty() => DeadlineWatch::Discard,
            DeadlineWatch::Nothing
                if self.streams.iter_mut().any(|open| open.own.awaits_head()) =>
            {
                DeadlineWatch::Head
            }
            DeadlineWatch::Nothing => DeadlineWatch::Quiet,
            watch => watch,
        }
    }

    /// Lets QUIC hold no more than the path can use soon, and says how much that may be now. What
    /// it holds cannot be asked for; it is no more than what was given to it since it had nothing.
    pub(crate) fn weigh(&mut self) -> usize {
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
pub(crate) fn var_int(code: ErrorCode) -> VarInt {
    VarInt::from_u32(code.number() as u32)
}

/// The number by which the engine names a request stream: never 0.
pub(crate) fn number(stream: StreamId) -> u32 {
    (stream.index() as u32).wrapping_add(1)
}
