//! HTTP/3 on one connection: bytes of QUIC streams in, exchanges with the application, bytes of
//! streams out. The wire machine itself is `pinion_http::h3`; here it meets QUIC. Frames of a
//! response wait in the queue of its stream until QUIC takes them.
//!
//! | Module | Holds |
//! |---|---|
//! | `connection_lifecycle` | the connection itself: its beginning, its end, its memory |
//! | `discarded_requests` | the rest of requests that were responded to early |
//! | `send_scheduler` | from the queues to QUIC, the most urgent first |
//! | `response` | responses into the queues of streams |
//! | `request_stream_table` | the open request streams |
//! | `unidirectional_streams` | input of the client's unidirectional streams |
//! | `unread_content` | windows for content, and content that waits in QUIC |

pub(crate) mod connection_lifecycle;
mod discarded_requests;
mod request_stream_table;
pub(crate) mod response;
pub(crate) mod send_scheduler;
#[cfg(test)]
mod tests;
pub(crate) mod unidirectional_streams;
pub(crate) mod unread_content;

use pinion_http::h3::frame::ErrorCode;
use pinion_http::h3::session::{ENCODER_STREAM, Session, SessionSettings};
use pinion_http::limits::Limits;
use quinn_proto::{Dir, StreamId, VarInt};

use crate::deadline::DeadlineKind;
use crate::limits::{QUIC_SEND_MIN_BYTES, QUIC_SEND_WINDOW_BYTES, QUIC_STREAMS};
use crate::multiplexed::MultiplexedStream;
use discarded_requests::Discarded;
pub(crate) use request_stream_table::{Open, Streams};
use unidirectional_streams::Uni;
use unread_content::Datagrams;

/// The state of HTTP/3 on one connection.
pub(crate) struct Http3 {
    pub(crate) quic: quinn_proto::Connection,
    pub(crate) session: Session,
    pub(crate) streams: Streams,
    /// The client's unidirectional streams.
    pub(crate) unis: Vec<Uni>,
    /// Our control stream, once the client allows to open it; the next field holds its queued
    /// output.
    pub(crate) control: Option<StreamId>,
    pub(crate) control_out: Vec<u8>,
    /// Our QPACK encoder stream, once there was something to send on it.
    pub(crate) encoder: Option<StreamId>,
    /// Bytes that wait on all streams.
    pub(crate) queued_bytes: u64,
    /// An upper bound of the bytes of the heads that handlers keep.
    pub(crate) open_head_bytes: usize,
    /// Whether the connection is closed while QUIC keeps it for a while (RFC 9000 §10.2).
    pub(crate) is_closed: bool,
    /// Whether the client was informed that the server stops.
    pub(crate) is_stopping: bool,
    /// The incremental stream that last had its turn.
    pub(crate) turn: u32,
    /// Bytes given to QUIC since it last held none.
    pub(crate) given_bytes: u64,
    /// The maximum number of bytes that QUIC may hold.
    pub(crate) send_window_bytes: u64,
    /// Bytes of QUIC and of the session that are counted against the memory budget for buffers.
    pub(crate) counted_bytes: usize,
    /// Datagrams that have arrived since then.
    datagrams: Datagrams,
    /// Requests that were responded to early, while their rest is read and dropped.
    discarded: Vec<Discarded>,
}

impl Http3 {
    /// Creates the state for a connection that has just been accepted.
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

    /// Returns whether the connection is closed while QUIC keeps it for a while.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Sends the queued output of our control stream.
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

    /// Sends the instructions of our QPACK encoder for the client's table.
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

    /// Resets a stream whose response cannot be completed.
    pub(crate) fn reset(&mut self, number: u32) -> Option<MultiplexedStream> {
        let open = self.streams.get(number)?;
        let (id, is_tunnel) = (open.id, open.own.state.is_tunnel);
        let code = if is_tunnel { ErrorCode::RequestCancelled } else { ErrorCode::InternalError };
        self.end(id, code)
    }

    /// Ends a request stream in both directions; returns the state that was kept with it.
    pub(crate) fn end(&mut self, id: StreamId, code: ErrorCode) -> Option<MultiplexedStream> {
        let code = var_int(code);
        // Either direction may be over already.
        let _gone = self.quic.recv_stream(id).stop(code);
        let _gone = self.quic.send_stream(id).reset(code);
        self.streams.remove(number(id)).map(|open| open.own)
    }

    /// Returns whether QUIC holds bytes that the client has not acknowledged. Our control stream
    /// and our encoder stream never end.
    pub(crate) fn is_unacknowledged(&mut self) -> bool {
        let endless = [self.control, self.encoder].iter().flatten().count();
        self.quic.streams().send_streams() > endless
    }

    /// Returns the counter of the progress that this deadline watches: frames of streams that were
    /// sent, or acknowledgements that were received, modulo 2^32. Retransmitted frames count: QUIC
    /// sends them ever more seldom.
    pub(crate) fn progress(&self, kind: DeadlineKind) -> u32 {
        let frames = match kind {
            DeadlineKind::Window => self.quic.stats().frame_tx.stream,
            DeadlineKind::Last => self.quic.stats().frame_rx.acks,
            _ => 0,
        };
        frames as u32
    }

    /// Returns whether nothing is under way in either direction.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.streams.len() == 0 && !self.is_unacknowledged()
    }

    /// Returns whether the client has finished all its requests and has all responses.
    pub(crate) fn is_done(&mut self) -> bool {
        self.session.has_left() && self.is_idle()
    }

    /// Returns the kind of deadline that the connection needs if the exchanges alone need `kind`.
    pub(crate) fn deadline_kind(&mut self, kind: DeadlineKind) -> DeadlineKind {
        match kind {
            _ if self.is_closed => DeadlineKind::Nothing,
            _ if self.quic.is_handshaking() => DeadlineKind::Handshake,
            // The last part of a response is on its way.
            DeadlineKind::Idle if self.is_unacknowledged() => {
                if self.is_stopping {
                    DeadlineKind::Last
                } else {
                    DeadlineKind::Window
                }
            }
            DeadlineKind::Idle if !self.discarded.is_empty() => DeadlineKind::Discard,
            DeadlineKind::Nothing if self.streams.iter_mut().any(|open| open.own.awaits_head()) => {
                DeadlineKind::Head
            }
            DeadlineKind::Nothing => DeadlineKind::Quiet,
            kind => kind,
        }
    }

    /// Limits the bytes that QUIC holds to the number that the path can use soon, and returns the
    /// most that it may hold now. QUIC does not report how much it holds; it is no more than was
    /// given to it since it was last empty.
    pub(crate) fn weigh(&mut self) -> usize {
        if self.given_bytes == 0 {
            return 0;
        }
        if !self.is_unacknowledged() {
            self.given_bytes = 0;
            return 0;
        }
        // Twice the congestion window: the bytes on their way, and as many to follow.
        let path_bytes = 2 * self.quic.congestion_state().window();
        let window_bytes = path_bytes.clamp(QUIC_SEND_MIN_BYTES, QUIC_SEND_WINDOW_BYTES);
        if window_bytes != self.send_window_bytes {
            self.send_window_bytes = window_bytes;
            self.quic.set_send_window(window_bytes);
        }
        self.given_bytes.min(window_bytes) as usize
    }
}

/// Converts an error code to the form of QUIC.
pub(crate) fn var_int(code: ErrorCode) -> VarInt {
    VarInt::from_u32(code.number() as u32)
}

/// Returns the number that identifies a request stream in the engine: never 0.
pub(crate) fn number(stream: StreamId) -> u32 {
    (stream.index() as u32).wrapping_add(1)
}
