//! The server's side of one WebSocket: messages, the responses to pings, and the closing handshake
//! (RFC 6455 §5.5, §7).

use super::close_frame::{CloseFrame, INTERNAL_ERROR};
use super::deflate_offer::DeflateAgreement;
use super::deflate_pool::DeflatePool;
use super::error::WebSocketError;
use super::frame_head::MessageKind;
use super::frame_reader::{WebSocketEvent, WebSocketReader};
use super::frame_writer::{WebSocketWriter, write_close, write_ping, write_pong};
use super::limits::UNMASKED_BYTES;

/// The number of bytes of the input that were used, and their event.
#[derive(Debug)]
pub struct WebSocketInput {
    /// Bytes at the front of the input that must not be given again.
    pub used: usize,
    /// The event of these bytes.
    pub event: InputEvent,
}

/// An event from a client, as far as it matters to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputEvent {
    /// All of the input was used.
    NeedMore,
    /// The next bytes belong to a message, for which there is no room.
    NeedRoom,
    /// A piece of a message, which was appended to the content.
    Message {
        /// The kind of the message.
        kind: MessageKind,
        /// Bytes that were appended.
        bytes: usize,
        /// Whether the message is complete.
        is_end: bool,
    },
    /// A ping, which was responded to, or a pong: a sign that the client is there.
    Alive,
    /// The client has closed the WebSocket, or has broken the protocol. It sends no further events.
    Closed(ClosedBy),
}

/// The way in which a client's side has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// The client has closed the WebSocket.
    Client {
        /// The close code, [`NO_CODE`](super::close_frame::NO_CODE) if there was none.
        code: u16,
        /// The reason, which may be empty.
        reason: Box<str>,
    },
    /// The client has broken the protocol.
    Error(WebSocketError),
}

/// The state of the closing handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClosingState {
    /// Messages go both ways.
    Open,
    /// The server has closed the WebSocket, and waits for the client to do it too.
    Sent,
    /// Both sides have closed it, or it has failed.
    Over,
}

/// The server's side of one WebSocket. The output is appended to `out`, which the caller sends in
/// order.
#[derive(Debug)]
pub struct WebSocketConnection {
    reader: WebSocketReader,
    writer: WebSocketWriter,
    closing: ClosingState,
}

impl WebSocketConnection {
    /// Begins a WebSocket whose handshake is complete. Messages of the client have at most so many
    /// bytes. With an agreement, messages are compressed by the coders of a pool.
    #[must_use]
    pub fn new(
        message_max_bytes: u64,
        deflate: Option<(DeflateAgreement, DeflatePool)>,
    ) -> WebSocketConnection {
        let pool = deflate.as_ref().map(|(_, pool)| pool.clone());
        WebSocketConnection {
            reader: WebSocketReader::new(message_max_bytes, pool),
            writer: WebSocketWriter::new(deflate),
            closing: ClosingState::Open,
        }
    }

    /// Uses bytes at the front of `input`; see [`WebSocketReader::step`]. Messages that come after
    /// the server has closed the WebSocket are dropped. Each ping appends up to 127 bytes to `out`:
    /// a caller that cannot send them must stop reading.
    pub fn read(
        &mut self,
        input: &[u8],
        room: usize,
        content: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> WebSocketInput {
        let mut used = 0;
        let before = content.len();
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let is_open = self.closing == ClosingState::Open;
            let room = if is_open { room } else { UNMASKED_BYTES };
            let step = match self.reader.step(rest, room, content) {
                Ok(step) => step,
                // The reader has failed before, or fails now.
                Err(_) if self.closing == ClosingState::Over => {
                    return WebSocketInput { used: input.len(), event: InputEvent::NeedMore };
                }
                Err(error) => {
                    self.fail(error, out);
                    let event = InputEvent::Closed(ClosedBy::Error(error));
                    return WebSocketInput { used: input.len(), event };
                }
            };
            used += step.used;
            let event = match step.event {
                WebSocketEvent::NeedMore => InputEvent::NeedMore,
                WebSocketEvent::NeedRoom => InputEvent::NeedRoom,
                WebSocketEvent::Message { .. } if !is_open => {
                    content.truncate(before);
                    continue;
                }
                WebSocketEvent::Message { kind, bytes, is_end } => {
                    InputEvent::Message { kind, bytes, is_end }
                }
                WebSocketEvent::Ping(ping) => {
                    if is_open {
                        write_pong(out, ping);
                    }
                    InputEvent::Alive
                }
                WebSocketEvent::Pong(_) => InputEvent::Alive,
                WebSocketEvent::Close(close) => {
                    if is_open {
                        write_close(out, close);
                    }
                    self.closing = ClosingState::Over;
                    let (code, reason) = (close.code, close.reason.into());
                    InputEvent::Closed(ClosedBy::Client { code, reason })
                }
            };
            return WebSocketInput { used, event };
        }
    }

    /// Appends a piece of a message of the application; see [`WebSocketWriter::write_message`]. It
    /// is dropped if the WebSocket is closed. A message that cannot be sent closes it with
    /// [`INTERNAL_ERROR`].
    pub fn write(&mut self, kind: MessageKind, piece: &[u8], is_end: bool, out: &mut Vec<u8>) {
        if self.closing == ClosingState::Open
            && let Err(_error) = self.writer.write_message(out, kind, piece, is_end)
        {
            self.close(INTERNAL_ERROR, "", out);
        }
    }

    /// Appends a ping, unless the WebSocket is closed.
    pub fn ping(&mut self, content: &[u8], out: &mut Vec<u8>) {
        if self.closing == ClosingState::Open {
            write_ping(out, content);
        }
    }

    /// Closes the WebSocket, unless it is closed; see [`write_close`]. The caller continues to read
    /// until [`WebSocketConnection::is_over`], or until its own timeout.
    pub fn close(&mut self, code: u16, reason: &str, out: &mut Vec<u8>) {
        if self.closing == ClosingState::Open {
            write_close(out, CloseFrame { code, reason });
            self.closing = ClosingState::Sent;
        }
    }

    fn fail(&mut self, error: WebSocketError, out: &mut Vec<u8>) {
        self.close(error.code(), error.reason(), out);
        self.closing = ClosingState::Over;
    }

    /// Returns whether nothing more is sent, and nothing more that comes matters: the connection
    /// closes when all was sent, first by the server (RFC 6455 §7.1.1).
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.closing == ClosingState::Over
    }

    /// Returns whether messages of the application are still sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.closing == ClosingState::Open
    }
}
