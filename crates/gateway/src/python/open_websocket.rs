//! One WebSocket between a client and an ASGI application, once the application has accepted it:
//! messages of the client to the process, as many as it wants, and those of the process to the
//! client, as many as there is room for.

use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::ContentRoom;
use pinion_http::python::frame_writer::{
    MESSAGE_PIECE_MAX_BYTES, MessagePiece, write_closed, write_gone, write_message, write_room,
};
use pinion_http::python::limits::INITIAL_ROOM_BYTES;
use pinion_http::websocket::close_frame::{INTERNAL_ERROR, NORMAL};
use pinion_http::websocket::connection::{ClosedBy, InputEvent, WebSocketConnection};
use pinion_http::websocket::frame_head::MessageKind;

use super::limits::{ROOM_STEP_BYTES, WANTED_MAX_BYTES, WEBSOCKET_CLOSE_MS, WEBSOCKET_PING_MS};
use crate::limits::TUNNEL_STALL_MS;
use crate::tunnel_side::TunnelEnd;

/// One WebSocket between a client and an ASGI application, once the application has accepted it.
pub(super) struct OpenWebSocket {
    pub(super) client: TunnelEnd,
    codec: WebSocketConnection,
    /// The number of the request on the connection to the process.
    number: u32,
    /// The process has nothing to do with it any more, or was notified of that.
    has_left_process: bool,
    /// The client's side is open.
    is_open: bool,
    /// Frames for the client from before its side was open.
    early: Vec<u8>,
    /// Bytes that have come from the client and wait until the process wants them.
    input: Vec<u8>,
    /// Bytes that the process wants and has not got.
    wanted_bytes: u64,
    /// Bytes that the process has sent since it was allowed more.
    sent_bytes: u32,
    /// Since when enough waits for the client, in monotonic milliseconds.
    full_since_ms: Option<u64>,
    /// Since when the client was asked to close it, in monotonic milliseconds.
    closing_since_ms: Option<u64>,
    /// The time when the client was last heard of, in monotonic milliseconds.
    heard_ms: u64,
    /// The time when a ping was sent after that, in monotonic milliseconds.
    pinged_ms: Option<u64>,
}

/// Whether a WebSocket stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum WebSocketLife {
    Continues,
    /// It is over, for the client and for the process.
    Over,
}

impl OpenWebSocket {
    pub(super) fn new(
        client: TunnelEnd,
        codec: WebSocketConnection,
        number: u32,
        now_ms: u64,
    ) -> Self {
        Self {
            client,
            codec,
            number,
            has_left_process: false,
            is_open: false,
            early: Vec::new(),
            input: Vec::new(),
            wanted_bytes: 0,
            sent_bytes: 0,
            full_since_ms: None,
            closing_since_ms: None,
            heard_ms: now_ms,
            pinged_ms: None,
        }
    }

    pub(super) fn has_left_process(&self) -> bool {
        self.has_left_process
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Continues after the client's side was opened.
    pub(super) fn opened(&mut self, connections: &mut Connections<'_>) {
        self.is_open = true;
        self.heard_ms = connections.now().monotonic_ms;
        let early = std::mem::take(&mut self.early);
        self.write(&early, connections);
        self.client.want(connections);
        self.wait(connections);
    }

    /// Takes bytes that have come from the client. Frames for the process are added to `frames`.
    pub(super) fn bytes(
        &mut self,
        bytes: &[u8],
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        self.client.credit = self.client.credit.saturating_sub(bytes.len() as u64);
        self.heard_ms = connections.now().monotonic_ms;
        self.pinged_ms = None;
        if self.input.is_empty() {
            return self.read(bytes, frames, connections);
        }
        self.input.extend_from_slice(bytes);
        self.read_waiting(frames, connections)
    }

    /// Continues after the client has taken the bytes that waited for it.
    pub(super) fn writable(
        &mut self,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        self.full_since_ms = None;
        self.wait(connections);
        self.give_room(frames);
        self.read_waiting(frames, connections)
    }

    /// Ends a WebSocket whose client has left without closing it.
    pub(super) fn left(&mut self, frames: &mut Vec<u8>) -> WebSocketLife {
        if !self.has_left_process {
            self.has_left_process = true;
            write_gone(frames, self.number);
        }
        WebSocketLife::Over
    }

    /// Records that the process wants so many bytes more.
    pub(super) fn wanted(
        &mut self,
        bytes: u32,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        self.wanted_bytes += u64::from(bytes);
        if self.wanted_bytes > WANTED_MAX_BYTES {
            return self.violated(frames, connections);
        }
        self.read_waiting(frames, connections)
    }

    /// Sends a piece of a message of the process, of which so many bytes count.
    pub(super) fn message(
        &mut self,
        (kind, piece, is_end): (MessageKind, &[u8], bool),
        room_bytes: u32,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        self.sent_bytes = self.sent_bytes.saturating_add(room_bytes);
        if self.sent_bytes > INITIAL_ROOM_BYTES {
            return self.violated(frames, connections);
        }
        let mut out = Vec::new();
        self.codec.write(kind, piece, is_end, &mut out);
        self.write(&out, connections);
        if !self.codec.is_open() {
            // A message that cannot be sent.
            self.closes(connections);
        }
        self.give_room(frames);
        WebSocketLife::Continues
    }

    /// Closes it, unless it is closed, and waits for the client to do so too.
    pub(super) fn close(
        &mut self,
        code: u16,
        reason: &str,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        if self.codec.is_open() {
            let mut out = Vec::new();
            self.codec.close(code, reason, &mut out);
            self.write(&out, connections);
            self.closes(connections);
        }
        // Bytes that wait for the process are not for it any more.
        self.read_waiting(frames, connections)
    }

    /// Closes the WebSocket because the server stops.
    pub(super) fn stop(
        &mut self,
        code: u16,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        self.notify_closed(code, "", frames);
        self.close(code, "", frames, connections)
    }

    /// Ends the WebSocket after the last frame of the process. `is_whole` is true if the
    /// application has returned.
    pub(super) fn ended(
        &mut self,
        is_whole: bool,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        self.has_left_process = true;
        self.close(if is_whole { NORMAL } else { INTERNAL_ERROR }, "", frames, connections)
    }

    /// Ends the connection because the process has violated the protocol.
    pub(super) fn violated(
        &mut self,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        // It is over for the process, and not for the client.
        let _ = self.left(frames);
        self.close(INTERNAL_ERROR, "", frames, connections)
    }

    /// Handles a deadline that has passed.
    pub(super) fn deadline(
        &mut self,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        let now_ms = connections.now().monotonic_ms;
        if now_ms < self.due_ms(now_ms) {
            self.wait(connections);
            return WebSocketLife::Continues;
        }
        let is_lost = self.pinged_ms.is_some()
            || self.closing_since_ms.is_some()
            || self.full_since_ms.is_some();
        if is_lost {
            self.client.abort(connections);
            return self.left(frames);
        }
        let mut out = Vec::new();
        self.codec.ping(b"", &mut out);
        self.write(&out, connections);
        self.pinged_ms = Some(now_ms);
        self.wait(connections);
        WebSocketLife::Continues
    }

    /// Returns whether the process has to want something before the client is read on.
    fn waits_for_process(&self) -> bool {
        !self.input.is_empty()
    }

    /// Returns the time when it needs attention next, in monotonic milliseconds.
    fn due_ms(&self, now_ms: u64) -> u64 {
        if let Some(since_ms) = self.closing_since_ms {
            return since_ms + WEBSOCKET_CLOSE_MS;
        }
        if let Some(since_ms) = self.full_since_ms {
            return since_ms + TUNNEL_STALL_MS;
        }
        if self.waits_for_process() {
            // Bytes that the client has sent meanwhile were not read.
            return now_ms + WEBSOCKET_PING_MS;
        }
        self.pinged_ms.unwrap_or(self.heard_ms) + WEBSOCKET_PING_MS
    }

    fn wait(&self, connections: &mut Connections<'_>) {
        if self.is_open {
            let now_ms = connections.now().monotonic_ms;
            self.client.wait(self.due_ms(now_ms).saturating_sub(now_ms), connections);
        }
    }

    fn closes(&mut self, connections: &mut Connections<'_>) {
        self.closing_since_ms = Some(connections.now().monotonic_ms);
        self.wait(connections);
    }

    /// Reads the bytes from the client that were not read yet.
    fn read_waiting(
        &mut self,
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        let input = std::mem::take(&mut self.input);
        self.read(&input, frames, connections)
    }

    /// Reads bytes from the client. Bytes that the process does not want yet wait.
    fn read(
        &mut self,
        mut input: &[u8],
        frames: &mut Vec<u8>,
        connections: &mut Connections<'_>,
    ) -> WebSocketLife {
        let mut out = Vec::new();
        while self.full_since_ms.is_none() {
            let wanted = usize::try_from(self.wanted_bytes).unwrap_or(usize::MAX);
            let room = wanted.saturating_sub(1).min(MESSAGE_PIECE_MAX_BYTES);
            let codec = &mut self.codec;
            let mut event = InputEvent::NeedMore;
            let counted = write_message(frames, self.number, |content| {
                let read = codec.read(input, room, content, &mut out);
                input = input.get(read.used..).unwrap_or_default();
                event = read.event;
                let InputEvent::Message { kind, is_end, .. } = event else { return None };
                Some(MessagePiece { is_binary: kind == MessageKind::Binary, is_end })
            });
            self.wanted_bytes = self.wanted_bytes.saturating_sub(counted.into());
            match event {
                InputEvent::NeedMore | InputEvent::NeedRoom => break,
                InputEvent::Message { .. } => {}
                InputEvent::Alive => {
                    self.write(&out, connections);
                    out.clear();
                }
                InputEvent::Closed(by) => {
                    match by {
                        ClosedBy::Client { code, reason } => {
                            self.notify_closed(code, &reason, frames);
                        }
                        ClosedBy::Error(error) => {
                            self.notify_closed(error.code(), error.reason(), frames);
                        }
                    }
                    self.write(&out, connections);
                    return WebSocketLife::Over;
                }
            }
        }
        self.input.extend_from_slice(input);
        if self.is_open && self.input.is_empty() && self.full_since_ms.is_none() {
            self.client.want(connections);
        }
        WebSocketLife::Continues
    }

    /// Notifies the process that it is closed.
    fn notify_closed(&mut self, code: u16, reason: &str, frames: &mut Vec<u8>) {
        if !self.has_left_process {
            self.has_left_process = true;
            write_closed(frames, self.number, code, reason);
        }
    }

    /// Sends frames to the client.
    fn write(&mut self, bytes: &[u8], connections: &mut Connections<'_>) {
        if bytes.is_empty() {
            return;
        }
        if !self.is_open {
            return self.early.extend_from_slice(bytes);
        }
        let is_full = self.client.write(bytes, connections) == ContentRoom::Full;
        if is_full && self.full_since_ms.is_none() {
            self.full_since_ms = Some(connections.now().monotonic_ms);
            self.wait(connections);
        }
    }

    /// Allows the process to send more once the client has taken enough.
    pub(super) fn give_room(&mut self, frames: &mut Vec<u8>) {
        let is_due = self.sent_bytes >= ROOM_STEP_BYTES && self.full_since_ms.is_none();
        if is_due && self.is_open && !self.has_left_process {
            write_room(frames, self.number, std::mem::take(&mut self.sent_bytes));
        }
    }
}
