//! Writes the frames of the server.

use core::fmt;

use super::close_frame::{CloseFrame, INTERNAL_ERROR, NO_CODE, may_be_sent};
use super::deflate_offer::DeflateAgreement;
use super::deflate_pool::{DeflatePool, MessageCompressor};
use super::frame_head::{ControlKind, FrameKind, MessageKind, ServerFrameHead};
use super::limits::{
    CLOSE_REASON_MAX_BYTES, COMPRESSED_MIN_BYTES, COMPRESSED_PIECE_BYTES,
    COMPRESSOR_WINDOW_BITS_MIN, CONTROL_MAX_BYTES,
};
use super::utf8_check::Utf8Check;

/// Bytes of the head of most compressed frames.
const USUAL_HEAD_BYTES: usize = 4;

/// The reason why a message of an application is not sent. The caller has to close the WebSocket: a
/// part of the message may have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// A message of text is not UTF-8.
    Text,
    /// The compressor has failed.
    Compressor,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "a text message of the application is not UTF-8",
            Self::Compressor => "a message of the application cannot be compressed",
        })
    }
}

impl core::error::Error for MessageError {}

/// Writes the messages of one connection, which come whole or in pieces.
#[derive(Debug)]
pub struct WebSocketWriter {
    /// The compressors and the window bits of the server, if messages are compressed.
    deflate: Option<(DeflatePool, u8)>,
    /// The message of which pieces are missing.
    message: Option<OutgoingMessage>,
}

#[derive(Debug)]
struct OutgoingMessage {
    kind: MessageKind,
    utf8: Utf8Check,
    compressor: Option<MessageCompressor>,
    /// Whether its first frame was written.
    is_begun: bool,
}

impl WebSocketWriter {
    /// Makes the writer of a connection. With an agreement, messages are compressed if that is
    /// likely to gain something.
    #[must_use]
    pub fn new(deflate: Option<(DeflateAgreement, DeflatePool)>) -> WebSocketWriter {
        let deflate = deflate.map(|(agreement, pool)| (pool, agreement.server_window_bits()));
        let deflate = deflate.filter(|(_, bits)| *bits >= COMPRESSOR_WINDOW_BITS_MIN);
        WebSocketWriter { deflate, message: None }
    }

    /// Appends a piece of a message to `out`. The first piece determines the kind of the message;
    /// that of the others does not matter. Pieces of a compressed message may stay in the
    /// compressor until its end.
    ///
    /// # Errors
    /// The message is not sent, or not to its end.
    pub fn write_message(
        &mut self,
        out: &mut Vec<u8>,
        kind: MessageKind,
        piece: &[u8],
        is_end: bool,
    ) -> Result<(), MessageError> {
        let (mut message, is_whole) = match self.message.take() {
            Some(message) => (message, false),
            None => (self.begin(kind, piece.len(), is_end), is_end),
        };
        if message.kind == MessageKind::Text {
            let checked = message.utf8.push(piece);
            let checked = checked.and_then(|()| if is_end { message.utf8.end() } else { Ok(()) });
            checked.map_err(|_| MessageError::Text)?;
        }
        let start = out.len();
        message.write(out, piece, is_end)?;
        if is_whole && message.compressor.is_some() && out.len() - start > piece.len() {
            out.truncate(start);
            message = OutgoingMessage { compressor: None, is_begun: false, ..message };
            message.write(out, piece, is_end)?;
        }
        self.message = (!is_end).then_some(message);
        Ok(())
    }

    fn begin(&self, kind: MessageKind, piece_bytes: usize, is_end: bool) -> OutgoingMessage {
        let is_long = !is_end || piece_bytes >= COMPRESSED_MIN_BYTES;
        let compressor = self.deflate.as_ref().filter(|_| is_long);
        let compressor = compressor.and_then(|(pool, window_bits)| pool.compressor(*window_bits));
        OutgoingMessage { kind, utf8: Utf8Check::default(), compressor, is_begun: false }
    }
}

impl OutgoingMessage {
    fn write(&mut self, out: &mut Vec<u8>, piece: &[u8], is_end: bool) -> Result<(), MessageError> {
        if self.compressor.is_some() {
            return self.write_compressed(out, piece, is_end);
        }
        if !piece.is_empty() || is_end {
            let head = self.head(piece.len(), is_end);
            head.encode(|head| out.extend_from_slice(head));
            out.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Returns the head of the next frame.
    fn head(&mut self, bytes: usize, is_final: bool) -> ServerFrameHead {
        let kind =
            if self.is_begun { FrameKind::Continuation } else { FrameKind::Message(self.kind) };
        let is_compressed = self.compressor.is_some() && !self.is_begun;
        self.is_begun = true;
        ServerFrameHead { kind, is_final, is_compressed, bytes: bytes as u64 }
    }

    fn write_compressed(
        &mut self,
        out: &mut Vec<u8>,
        piece: &[u8],
        is_end: bool,
    ) -> Result<(), MessageError> {
        let mut rest = piece;
        loop {
            let (some, behind) = rest.split_at(rest.len().min(COMPRESSED_PIECE_BYTES));
            rest = behind;
            let is_final = is_end && rest.is_empty();
            let start = out.len();
            out.extend_from_slice(&[0; USUAL_HEAD_BYTES]);
            if let Some(compressor) = &mut self.compressor {
                let compressed = compressor.compress(some, is_final, out);
                compressed.map_err(|_| MessageError::Compressor)?;
            }
            let bytes = out.len() - start - USUAL_HEAD_BYTES;
            if bytes == 0 && !is_final {
                out.truncate(start);
            } else {
                self.head(bytes, is_final).encode(|head| replace_head(out, start, head));
            }
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Puts a head in the place that was left for the usual one.
fn replace_head(out: &mut Vec<u8>, start: usize, head: &[u8]) {
    let end = start + USUAL_HEAD_BYTES;
    if let Some(place) = out.get_mut(start..end)
        && place.len() == head.len()
    {
        place.copy_from_slice(head);
    } else {
        out.splice(start..end, head.iter().copied());
    }
}

/// Appends a ping. At most [`CONTROL_MAX_BYTES`] of its content are sent.
pub fn write_ping(out: &mut Vec<u8>, content: &[u8]) {
    write_control(out, ControlKind::Ping, &[content]);
}

/// Appends a pong, the response to a ping with this content.
pub fn write_pong(out: &mut Vec<u8>, content: &[u8]) {
    write_control(out, ControlKind::Pong, &[content]);
}

/// Appends the frame that closes. With [`NO_CODE`] it is empty; any other code that must not be
/// sent becomes [`INTERNAL_ERROR`]. A reason of more than [`CLOSE_REASON_MAX_BYTES`] is cut.
pub fn write_close(out: &mut Vec<u8>, close: CloseFrame<'_>) {
    let CloseFrame { code, reason } = close;
    if code == NO_CODE {
        return write_control(out, ControlKind::Close, &[]);
    }
    let code = if may_be_sent(code) { code } else { INTERNAL_ERROR };
    let reason = reason.get(..reason.floor_char_boundary(CLOSE_REASON_MAX_BYTES));
    let reason = reason.unwrap_or_default().as_bytes();
    write_control(out, ControlKind::Close, &[&code.to_be_bytes(), reason]);
}

fn write_control(out: &mut Vec<u8>, kind: ControlKind, content: &[&[u8]]) {
    let bytes = content.iter().map(|part| part.len()).sum::<usize>().min(CONTROL_MAX_BYTES);
    let kind = FrameKind::Control(kind);
    let head = ServerFrameHead { kind, is_final: true, is_compressed: false, bytes: bytes as u64 };
    head.encode(|head| out.extend_from_slice(head));
    out.extend(content.iter().copied().flatten().take(bytes));
}
