//! The frame that closes a WebSocket: its code and its reason (RFC 6455 §5.5.1, §7.4).

use super::error::WebSocketError;

/// The purpose was fulfilled.
pub const NORMAL: u16 = 1000;
/// The server shuts down, or the page was left.
pub const GOING_AWAY: u16 = 1001;
/// The peer breaks the protocol.
pub const PROTOCOL_ERROR: u16 = 1002;
/// The message is of a type that is not accepted here.
pub const UNSUPPORTED_DATA: u16 = 1003;
/// The frame had no code. It is never sent.
pub const NO_CODE: u16 = 1005;
/// The connection ended without a frame that closes it. It is never sent.
pub const ABNORMAL: u16 = 1006;
/// The message does not have the form of its type: text that is not UTF-8.
pub const INVALID_DATA: u16 = 1007;
/// The message is too long.
pub const TOO_BIG: u16 = 1009;
/// The server has failed.
pub const INTERNAL_ERROR: u16 = 1011;
/// The server has too much to do.
pub const TRY_AGAIN: u16 = 1013;

/// Returns whether a peer may send this code: those of RFC 6455 and of the registry of IANA that
/// may be in a frame, and those of applications and libraries.
#[must_use]
pub const fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// The contents of a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseFrame<'a> {
    /// The code, [`NO_CODE`] if there is none.
    pub code: u16,
    /// The reason, which is for people and may be empty.
    pub reason: &'a str,
}

impl<'a> CloseFrame<'a> {
    /// Parses the bytes after the head of the frame.
    pub(super) fn parse(content: &'a [u8]) -> Result<CloseFrame<'a>, WebSocketError> {
        let Some((code, reason)) = content.split_first_chunk() else {
            let is_empty = content.is_empty();
            let none = CloseFrame { code: NO_CODE, reason: "" };
            return if is_empty { Ok(none) } else { Err(WebSocketError::CloseLength) };
        };
        let code = u16::from_be_bytes(*code);
        if !may_be_sent(code) {
            return Err(WebSocketError::CloseCode { code });
        }
        let reason = core::str::from_utf8(reason).map_err(|_| WebSocketError::CloseReason)?;
        Ok(CloseFrame { code, reason })
    }
}
