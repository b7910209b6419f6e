//! Finds the end of a head in output that comes in pieces.

use super::error::CgiError;

/// Looks for the blank line of a head, each byte once. Lines end with LF or CRLF (RFC 3875 §6.2:
/// `NL`).
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadEnd {
    line: LineState,
}

#[derive(Clone, Copy, Debug)]
enum LineState {
    /// At the front of a line.
    Front,
    /// Behind bytes of a line.
    Within,
    /// Behind a CR at the front of a line.
    FrontCr,
    /// Behind a CR that follows bytes of a line.
    WithinCr,
}

impl HeadEnd {
    pub(super) const fn new() -> HeadEnd {
        HeadEnd { line: LineState::Front }
    }

    /// Looks at the bytes that follow those of the calls before. Returns how many of them belong to
    /// the head if it ends in them.
    ///
    /// # Errors
    /// [`CgiError::ControlByteInHead`]: no head has this byte, so it is not waited for.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, CgiError> {
        for (at, &byte) in bytes.iter().enumerate() {
            self.line = match (self.line, byte) {
                (LineState::Front | LineState::FrontCr, b'\n') => return Ok(Some(at + 1)),
                (_, b'\n') => LineState::Front,
                // A CR stands only before an LF (RFC 9110 §5.5).
                (LineState::FrontCr | LineState::WithinCr, _) => {
                    return Err(CgiError::ControlByteInHead);
                }
                (LineState::Front, b'\r') => LineState::FrontCr,
                (LineState::Within, b'\r') => LineState::WithinCr,
                (_, b'\t') => LineState::Within,
                (_, ..b' ' | 0x7f) => return Err(CgiError::ControlByteInHead),
                _ => LineState::Within,
            };
        }
        Ok(None)
    }
}
