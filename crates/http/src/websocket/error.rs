//! The errors of a client.

use core::fmt;

use super::close_frame::{INVALID_DATA, PROTOCOL_ERROR, TOO_BIG, TRY_AGAIN};

/// The reason why a WebSocket fails (RFC 6455 §7.1.7). The client gets the
/// [code](WebSocketError::code), and its connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WebSocketError {
    /// A reserved bit is set for which no extension was agreed on, or on a frame that may not have
    /// it.
    ReservedBits,
    /// A frame of an unknown type.
    Opcode {
        /// The type.
        opcode: u8,
    },
    /// A frame without a mask.
    NotMasked,
    /// A control frame in pieces.
    FragmentedControl,
    /// A control frame with more than 125 bytes.
    ControlLength,
    /// A length in more bytes than it needs, or above 63 bits.
    LengthForm,
    /// A frame continues a message, and there is none.
    NoMessage,
    /// A message begins before the one before it has ended.
    MessageInMessage,
    /// A frame that closes has one byte of content.
    CloseLength,
    /// A frame that closes has a code that must not be sent.
    CloseCode {
        /// The code.
        code: u16,
    },
    /// The reason in a frame that closes is not UTF-8.
    CloseReason,
    /// A message of text is not UTF-8.
    Text,
    /// A compressed message is no valid deflate.
    Compression,
    /// A message is over the limit.
    MessageTooLarge {
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// So many compressed messages arrive at the same time that there is no memory for another one.
    TooManyCompressed,
}

impl WebSocketError {
    /// Returns the code with which the client's connection is closed.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::ReservedBits
            | Self::Opcode { .. }
            | Self::NotMasked
            | Self::FragmentedControl
            | Self::ControlLength
            | Self::LengthForm
            | Self::NoMessage
            | Self::MessageInMessage
            | Self::CloseLength
            | Self::CloseCode { .. } => PROTOCOL_ERROR,
            Self::CloseReason | Self::Text | Self::Compression => INVALID_DATA,
            Self::MessageTooLarge { .. } => TOO_BIG,
            Self::TooManyCompressed => TRY_AGAIN,
        }
    }

    /// Returns the error in a few words, as the client receives it.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ReservedBits => "reserved bits are set",
            Self::Opcode { .. } => "unknown opcode",
            Self::NotMasked => "the frame is not masked",
            Self::FragmentedControl => "fragmented control frame",
            Self::ControlLength => "control frame over 125 bytes",
            Self::LengthForm => "malformed length",
            Self::NoMessage => "continuation without a message",
            Self::MessageInMessage => "the message before has not ended",
            Self::CloseLength => "malformed close frame",
            Self::CloseCode { .. } => "invalid close code",
            Self::CloseReason => "the close reason is not UTF-8",
            Self::Text => "the text is not UTF-8",
            Self::Compression => "malformed compressed message",
            Self::MessageTooLarge { .. } => "message over the limit",
            Self::TooManyCompressed => "too many compressed messages",
        }
    }
}

impl fmt::Display for WebSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())?;
        match *self {
            Self::Opcode { opcode } => write!(f, " {opcode}"),
            Self::CloseCode { code } => write!(f, " {code}"),
            Self::MessageTooLarge { max_bytes } => write!(f, " of {max_bytes} bytes"),
            _ => Ok(()),
        }
    }
}

impl core::error::Error for WebSocketError {}
