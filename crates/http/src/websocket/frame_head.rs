//! Heads of frames (RFC 6455 §5.2).

use super::error::WebSocketError;
use super::limits::{CONTROL_MAX_BYTES, FRAME_HEAD_MAX_BYTES};
use super::mask::Mask;

const FIN: u8 = 0x80;
/// The bit that says that a message is compressed (RFC 7692 §6).
const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x30;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Text in UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// The beginning of a message, or all of it.
    Message(MessageKind),
    /// More of a message.
    Continuation,
    /// A control frame.
    Control(ControlKind),
}

/// The type of a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ControlKind {
    Close,
    Ping,
    Pong,
}

impl FrameKind {
    const fn of(opcode: u8) -> Result<FrameKind, WebSocketError> {
        Ok(match opcode {
            0 => Self::Continuation,
            1 => Self::Message(MessageKind::Text),
            2 => Self::Message(MessageKind::Binary),
            8 => Self::Control(ControlKind::Close),
            9 => Self::Control(ControlKind::Ping),
            10 => Self::Control(ControlKind::Pong),
            opcode => return Err(WebSocketError::Opcode { opcode }),
        })
    }

    const fn opcode(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Message(MessageKind::Text) => 1,
            Self::Message(MessageKind::Binary) => 2,
            Self::Control(ControlKind::Close) => 8,
            Self::Control(ControlKind::Ping) => 9,
            Self::Control(ControlKind::Pong) => 10,
        }
    }
}

/// The head of a frame of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientFrameHead {
    pub(super) kind: FrameKind,
    pub(super) is_final: bool,
    pub(super) is_compressed: bool,
    pub(super) bytes: u64,
    pub(super) mask: Mask,
}

impl ClientFrameHead {
    /// Returns the length of a head that begins with these two bytes, and checks them.
    /// `has_deflate` says that frames may be compressed.
    pub(super) fn length(start: [u8; 2], has_deflate: bool) -> Result<usize, WebSocketError> {
        let [first, second] = start;
        if first & RESERVED != 0 || (first & COMPRESSED != 0 && !has_deflate) {
            return Err(WebSocketError::ReservedBits);
        }
        let kind = FrameKind::of(first & OPCODE)?;
        if first & COMPRESSED != 0 && !matches!(kind, FrameKind::Message(_)) {
            return Err(WebSocketError::ReservedBits);
        }
        let length = second & !MASKED;
        if matches!(kind, FrameKind::Control(_)) {
            if first & FIN == 0 {
                return Err(WebSocketError::FragmentedControl);
            }
            if usize::from(length) > CONTROL_MAX_BYTES {
                return Err(WebSocketError::ControlLength);
            }
        }
        if second & MASKED == 0 {
            return Err(WebSocketError::NotMasked);
        }
        Ok(match length {
            126 => 8,
            127 => FRAME_HEAD_MAX_BYTES,
            _ => 6,
        })
    }

    /// Reads a head, whose first two bytes were checked and which is as long as they say.
    pub(super) fn parse(head: &[u8]) -> Result<ClientFrameHead, WebSocketError> {
        let [first, second, rest @ ..] = head else { return Err(WebSocketError::LengthForm) };
        let Some((length, mask)) = rest.split_last_chunk() else {
            return Err(WebSocketError::LengthForm);
        };
        let long = length.iter().fold(0, |bytes, byte| bytes << 8 | u64::from(*byte));
        let (bytes, is_shortest) = match length.len() {
            0 => (u64::from(second & !MASKED), true),
            2 => (long, long > 125),
            _ => (long, long > u64::from(u16::MAX) && long <= i64::MAX as u64),
        };
        if !is_shortest {
            return Err(WebSocketError::LengthForm);
        }
        Ok(ClientFrameHead {
            kind: FrameKind::of(first & OPCODE)?,
            is_final: first & FIN != 0,
            is_compressed: first & COMPRESSED != 0,
            bytes,
            mask: Mask(*mask),
        })
    }
}

/// The head of a frame of the server, which has no mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerFrameHead {
    pub(super) kind: FrameKind,
    pub(super) is_final: bool,
    pub(super) is_compressed: bool,
    pub(super) bytes: u64,
}

impl ServerFrameHead {
    /// Passes the head to `write`: two bytes, or four or ten with a longer length.
    pub(super) fn encode(self, write: impl FnOnce(&[u8])) {
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        let first =
            self.kind.opcode() | flag(self.is_final, FIN) | flag(self.is_compressed, COMPRESSED);
        match self.bytes {
            bytes @ 0..=125 => write(&[first, bytes as u8]),
            bytes @ 126..=0xffff => {
                let [high, low] = (bytes as u16).to_be_bytes();
                write(&[first, 126, high, low]);
            }
            bytes => {
                let [a, b, c, d, e, f, g, h] = bytes.to_be_bytes();
                write(&[first, 127, a, b, c, d, e, f, g, h]);
            }
        }
    }
}
