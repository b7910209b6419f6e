//! Reads the frames of a client from pieces of any size.

use super::close_frame::CloseFrame;
use super::deflate_pool::{CoderStep, DeflatePool, MessageDecompressor, TAIL};
use super::error::WebSocketError;
use super::frame_head::{ClientFrameHead, ControlKind, FrameKind, MessageKind};
use super::limits::{
    COMPRESSED_FREE_BYTES, COMPRESSED_RATIO_MAX, CONTROL_MAX_BYTES, FRAME_HEAD_MAX_BYTES,
    UNMASKED_BYTES,
};
use super::mask::Mask;
use super::utf8_check::Utf8Check;

/// The number of bytes of the input that were used, and their event.
#[derive(Debug)]
pub struct WebSocketStep<'a> {
    /// Bytes at the front of the input that must not be given again.
    pub used: usize,
    /// The event of these bytes.
    pub event: WebSocketEvent<'a>,
}

/// An event from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebSocketEvent<'a> {
    /// All of the input was used, and it contained nothing else.
    NeedMore,
    /// The next bytes belong to a message, for which there is no room.
    NeedRoom,
    /// A piece of a message, which was appended to the content. Only the last piece may be empty.
    Message {
        /// The kind of the message.
        kind: MessageKind,
        /// Bytes that were appended.
        bytes: usize,
        /// Whether the message is complete.
        is_end: bool,
    },
    /// A ping; a pong with the same content has to be sent.
    Ping(&'a [u8]),
    /// A pong.
    Pong(&'a [u8]),
    /// The client closes the WebSocket. Whatever follows is ignored.
    Close(CloseFrame<'a>),
}

/// Reads the frames of one connection. Content of messages is appended to a buffer of the caller,
/// unmasked and decompressed, and never more than it has room for. Text was checked to be UTF-8 as
/// far as it was given. Only control frames are collected.
///
/// The same bytes give the same events and errors however they are cut, except for where the pieces
/// of a message begin and end, and how much was given of a message that fails.
#[derive(Debug)]
pub struct WebSocketReader {
    message_max_bytes: u64,
    /// The decompressors, if frames may be compressed.
    deflate: Option<DeflatePool>,
    /// The message that is not complete.
    message: Option<IncomingMessage>,
    state: ReaderState,
    /// The head of a frame of which some bytes are missing.
    head: [u8; FRAME_HEAD_MAX_BYTES],
    head_bytes: usize,
    /// The content of a control frame.
    control: [u8; CONTROL_MAX_BYTES],
    control_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum ReaderState {
    /// The head of a frame.
    Head,
    /// Content of a message; so many bytes of the frame are missing.
    Content { missing: u64, mask: Mask, is_final: bool },
    /// The end of a compressed message, of which so many bytes were used.
    Tail { used: usize },
    /// Content of a control frame; so many bytes are missing.
    Control { kind: ControlKind, missing: usize, mask: Mask },
    /// The client has closed the WebSocket.
    Closed,
    /// An earlier step has failed with this error, which is final.
    Failed(WebSocketError),
}

#[derive(Debug)]
struct IncomingMessage {
    kind: MessageKind,
    /// Bytes of output of the decompressor.
    decompressed_bytes: u64,
    /// Bytes of all frames that have begun.
    frame_bytes: u64,
    utf8: Utf8Check,
    decompressor: Option<MessageDecompressor>,
    /// The decompressor has filled the room, and may have more without any input.
    has_more: bool,
}

/// The event that was found, without its content.
enum FoundEvent {
    NeedMore,
    NeedRoom,
    Message { kind: MessageKind, bytes: usize, is_end: bool },
    Control(ControlKind),
}

impl WebSocketReader {
    /// Makes the reader of a connection. Messages have at most so many bytes after they were
    /// decompressed. With a pool they may be compressed.
    #[must_use]
    pub const fn new(message_max_bytes: u64, deflate: Option<DeflatePool>) -> WebSocketReader {
        WebSocketReader {
            message_max_bytes,
            deflate,
            message: None,
            state: ReaderState::Head,
            head: [0; FRAME_HEAD_MAX_BYTES],
            head_bytes: 0,
            control: [0; CONTROL_MAX_BYTES],
            control_bytes: 0,
        }
    }

    /// Uses bytes at the front of `input`, up to the end of a frame or of a piece of a message, of
    /// which at most `room` bytes are appended to `content`. Unused bytes must be at the front of
    /// the next input. No piece of a message is returned without room, also not an empty one.
    ///
    /// # Errors
    /// Returns the error of the frames, in this call and in each one after it. The connection must
    /// close. No byte of the faulty part was appended.
    pub fn step<'a>(
        &'a mut self,
        input: &[u8],
        room: usize,
        content: &mut Vec<u8>,
    ) -> Result<WebSocketStep<'a>, WebSocketError> {
        let before = content.len();
        let mut used = 0;
        let found = self.advance(input, room, content, &mut used).inspect_err(|&error| {
            content.truncate(before);
            self.state = ReaderState::Failed(error);
            self.message = None;
        })?;
        let event = match found {
            FoundEvent::NeedMore => WebSocketEvent::NeedMore,
            FoundEvent::NeedRoom => WebSocketEvent::NeedRoom,
            FoundEvent::Message { kind, bytes, is_end } => {
                WebSocketEvent::Message { kind, bytes, is_end }
            }
            FoundEvent::Control(kind) => self.control_event(kind)?,
        };
        Ok(WebSocketStep { used, event })
    }

    fn advance(
        &mut self,
        input: &[u8],
        room: usize,
        content: &mut Vec<u8>,
        used: &mut usize,
    ) -> Result<FoundEvent, WebSocketError> {
        loop {
            let rest = input.get(*used..).unwrap_or_default();
            match self.state {
                ReaderState::Head if rest.is_empty() => return Ok(FoundEvent::NeedMore),
                ReaderState::Head => *used += self.head(rest)?,
                ReaderState::Control { kind, missing, mask } => {
                    let bytes = missing.min(rest.len());
                    let piece = rest.get(..bytes).unwrap_or_default();
                    let at = self.control_bytes;
                    let Some(space) = self.control.get_mut(at..at + bytes) else {
                        return Err(WebSocketError::ControlLength);
                    };
                    space.copy_from_slice(piece);
                    mask.apply(space);
                    self.control_bytes += bytes;
                    *used += bytes;
                    if bytes == missing {
                        self.state = ReaderState::Head;
                        return Ok(FoundEvent::Control(kind));
                    }
                    let mut mask = mask;
                    mask.advance(bytes);
                    let missing = missing - bytes;
                    self.state = ReaderState::Control { kind, missing, mask };
                    return Ok(FoundEvent::NeedMore);
                }
                ReaderState::Content { missing: 1.., .. }
                    if rest.is_empty() && !self.message.as_ref().is_some_and(|m| m.has_more) =>
                {
                    return Ok(FoundEvent::NeedMore);
                }
                ReaderState::Content { .. } | ReaderState::Tail { .. } if room == 0 => {
                    return Ok(FoundEvent::NeedRoom);
                }
                ReaderState::Content { .. } | ReaderState::Tail { .. } => {
                    if let Some(found) = self.content(rest, room, content, used)? {
                        return Ok(found);
                    }
                }
                ReaderState::Closed => {
                    *used = input.len();
                    return Ok(FoundEvent::NeedMore);
                }
                ReaderState::Failed(error) => return Err(error),
            }
        }
    }

    /// Uses bytes of a head, which is begun as soon as it is whole.
    fn head(&mut self, input: &[u8]) -> Result<usize, WebSocketError> {
        let mut used = 0;
        loop {
            let length = match self.head {
                [first, second, ..] if self.head_bytes >= 2 => {
                    ClientFrameHead::length([first, second], self.deflate.is_some())?
                }
                _ => 2,
            };
            if self.head_bytes == length && length > 2 {
                self.head_bytes = 0;
                let head = ClientFrameHead::parse(self.head.get(..length).unwrap_or_default())?;
                self.begin(head)?;
                return Ok(used);
            }
            let rest = input.get(used..).unwrap_or_default();
            let bytes = rest.len().min(length - self.head_bytes);
            if bytes == 0 {
                return Ok(used);
            }
            let at = self.head_bytes;
            if let Some(space) = self.head.get_mut(at..at + bytes) {
                space.copy_from_slice(rest.get(..bytes).unwrap_or_default());
            }
            self.head_bytes += bytes;
            used += bytes;
        }
    }

    /// Begins a frame.
    fn begin(&mut self, head: ClientFrameHead) -> Result<(), WebSocketError> {
        let ClientFrameHead { kind, is_final, is_compressed, bytes, mask } = head;
        match kind {
            FrameKind::Control(kind) => {
                self.control_bytes = 0;
                let missing = bytes as usize;
                self.state = ReaderState::Control { kind, missing, mask };
                return Ok(());
            }
            FrameKind::Message(_) if self.message.is_some() => {
                return Err(WebSocketError::MessageInMessage);
            }
            FrameKind::Message(kind) => {
                let decompressor = match &self.deflate {
                    Some(pool) if is_compressed => {
                        Some(pool.decompressor().ok_or(WebSocketError::TooManyCompressed)?)
                    }
                    _ => None,
                };
                let utf8 = Utf8Check::default();
                self.message = Some(IncomingMessage {
                    kind,
                    decompressed_bytes: 0,
                    frame_bytes: 0,
                    utf8,
                    decompressor,
                    has_more: false,
                });
            }
            FrameKind::Continuation => {}
        }
        let max_bytes = self.message_max_bytes;
        let message = self.message.as_mut().ok_or(WebSocketError::NoMessage)?;
        message.announce(bytes, max_bytes)?;
        self.state = ReaderState::content(bytes, mask, is_final, message);
        Ok(())
    }

    /// Uses content of a message for which there is room, or ends the message.
    fn content(
        &mut self,
        input: &[u8],
        room: usize,
        content: &mut Vec<u8>,
        used: &mut usize,
    ) -> Result<Option<FoundEvent>, WebSocketError> {
        let before = content.len();
        let max_bytes = self.message_max_bytes;
        let message = self.message.as_mut().ok_or(WebSocketError::NoMessage)?;
        let mut is_end = false;
        let mut result = Ok(());
        match self.state {
            ReaderState::Content { missing, mut mask, is_final } => {
                let fitting = usize::try_from(missing).unwrap_or(usize::MAX).min(input.len());
                let piece = input.get(..fitting).unwrap_or_default();
                let bytes;
                (bytes, result) = message.take(piece, mask, room, max_bytes, content);
                mask.advance(bytes);
                *used += bytes;
                let missing = missing - bytes as u64;
                is_end = missing == 0 && is_final && message.decompressor.is_none();
                self.state = ReaderState::content(missing, mask, is_final, message);
            }
            ReaderState::Tail { used } => {
                let rest = TAIL.get(used..).unwrap_or_default();
                let step;
                (step, result) = message.decompress(rest, room, max_bytes, content);
                let used = used + step.used;
                is_end = used == TAIL.len() && !message.has_more;
                self.state = ReaderState::Tail { used };
            }
            _ => {}
        }
        // The text before malformed data is checked as well: if it is not UTF-8, that is the first
        // error.
        is_end &= result.is_ok();
        let piece = content.get(before..).unwrap_or_default();
        if message.kind == MessageKind::Text {
            let checked = message.utf8.push(piece);
            let checked = checked.and_then(|()| if is_end { message.utf8.end() } else { Ok(()) });
            checked.map_err(|_| WebSocketError::Text)?;
        }
        result?;
        let (kind, bytes) = (message.kind, piece.len());
        if is_end {
            self.message = None;
            self.state = ReaderState::Head;
        }
        // A compressed piece may become nothing.
        Ok((bytes > 0 || is_end).then_some(FoundEvent::Message { kind, bytes, is_end }))
    }

    /// Returns the event of a control frame that is complete.
    fn control_event(&mut self, kind: ControlKind) -> Result<WebSocketEvent<'_>, WebSocketError> {
        let content = self.control.get(..self.control_bytes).unwrap_or_default();
        match kind {
            ControlKind::Ping => Ok(WebSocketEvent::Ping(content)),
            ControlKind::Pong => Ok(WebSocketEvent::Pong(content)),
            ControlKind::Close => {
                self.message = None;
                let close = CloseFrame::parse(content);
                self.state = match close {
                    Ok(_) => ReaderState::Closed,
                    Err(error) => ReaderState::Failed(error),
                };
                close.map(WebSocketEvent::Close)
            }
        }
    }
}

impl ReaderState {
    /// Returns the state after the head of a frame, or after some of its content.
    const fn content(
        missing: u64,
        mask: Mask,
        is_final: bool,
        message: &IncomingMessage,
    ) -> ReaderState {
        match (missing, is_final) {
            _ if message.has_more => Self::Content { missing, mask, is_final },
            (0, false) => Self::Head,
            (0, true) if message.decompressor.is_some() => Self::Tail { used: 0 },
            _ => Self::Content { missing, mask, is_final },
        }
    }
}

impl IncomingMessage {
    /// Counts the bytes of a frame. A message that will be too long fails before it comes.
    fn announce(&mut self, bytes: u64, max_bytes: u64) -> Result<(), WebSocketError> {
        self.frame_bytes = self.frame_bytes.saturating_add(bytes);
        let most = if self.decompressor.is_some() {
            max_bytes.saturating_mul(COMPRESSED_RATIO_MAX).saturating_add(COMPRESSED_FREE_BYTES)
        } else {
            max_bytes
        };
        let is_within = self.frame_bytes <= most;
        if is_within { Ok(()) } else { Err(WebSocketError::MessageTooLarge { max_bytes }) }
    }

    /// Appends the decoded form of a part of a piece. Returns how many bytes of the piece were
    /// used, and the error after them.
    fn take(
        &mut self,
        piece: &[u8],
        mask: Mask,
        room: usize,
        max_bytes: u64,
        content: &mut Vec<u8>,
    ) -> (usize, Result<(), WebSocketError>) {
        if self.decompressor.is_none() {
            let piece = piece.get(..room).unwrap_or(piece);
            let before = content.len();
            content.extend_from_slice(piece);
            mask.apply(content.get_mut(before..).unwrap_or_default());
            return (piece.len(), Ok(()));
        }
        let mut unmasked = [0; UNMASKED_BYTES];
        let bytes = piece.len().min(UNMASKED_BYTES);
        let unmasked = unmasked.get_mut(..bytes).unwrap_or_default();
        unmasked.copy_from_slice(piece.get(..bytes).unwrap_or_default());
        mask.apply(unmasked);
        let (step, result) = self.decompress(unmasked, room, max_bytes, content);
        (step.used, result)
    }

    /// Appends the decompressed form of a part of the input. Returns the error after it.
    fn decompress(
        &mut self,
        input: &[u8],
        room: usize,
        max_bytes: u64,
        content: &mut Vec<u8>,
    ) -> (CoderStep, Result<(), WebSocketError>) {
        let before = content.len();
        let mut done = CoderStep { used: 0, written: 0 };
        while let Some(decompressor) = &mut self.decompressor {
            // One byte more than the limit shows that there are more.
            let within = max_bytes.saturating_sub(self.decompressed_bytes);
            let most = usize::try_from(within.saturating_add(1)).unwrap_or(usize::MAX);
            let most = (room - done.written).min(most).min(UNMASKED_BYTES);
            let at = before + done.written;
            content.resize(at + most, 0);
            let rest = input.get(done.used..).unwrap_or_default();
            let space = content.get_mut(at..).unwrap_or_default();
            let (step, result) = decompressor.step(rest, space);
            content.truncate(at + step.written);
            done.used += step.used;
            done.written += step.written;
            self.decompressed_bytes += step.written as u64;
            if self.decompressed_bytes > max_bytes {
                content.pop();
                return (done, Err(WebSocketError::MessageTooLarge { max_bytes }));
            }
            if result.is_err() {
                return (done, Err(WebSocketError::Compression));
            }
            self.has_more = step.written == most;
            if !self.has_more || done.written >= room {
                break;
            }
        }
        (done, Ok(()))
    }
}
