//! The header of a frame, and the kinds of frames.

use super::error::ChildFrameError;

/// Bytes of the header of a frame.
pub const FRAME_HEADER_BYTES: usize = 12;

/// Kinds of frames that the server sends.
pub(super) const REQUESTS: u32 = 1;
pub(super) const CONTENT: u32 = 2;
pub(super) const CONTENT_END: u32 = 3;
pub(super) const ROOM: u32 = 4;
pub(super) const GONE: u32 = 5;
pub(super) const TAKE_BACK: u32 = 6;
pub(super) const MESSAGE: u32 = 7;
pub(super) const CLOSED: u32 = 8;
pub(super) const STACK: u32 = 9;
pub(super) const FILES: u32 = 10;
pub(super) const CHANNEL: u32 = 11;

/// Flags of a frame with a piece of a message: it is binary; more of it follows.
pub(super) const MESSAGE_IS_BINARY: u8 = 1;
pub(super) const MESSAGE_CONTINUES: u8 = 2;

/// Makes the header of a frame: kind, number of the request, and the number of bytes that follow.
pub(super) const fn header(kind: u32, request: u32, bytes: u32) -> [u8; FRAME_HEADER_BYTES] {
    let [kind_0, kind_1, kind_2, kind_3] = kind.to_le_bytes();
    let [request_0, request_1, request_2, request_3] = request.to_le_bytes();
    let [bytes_0, bytes_1, bytes_2, bytes_3] = bytes.to_le_bytes();
    [
        kind_0, kind_1, kind_2, kind_3, request_0, request_1, request_2, request_3, bytes_0,
        bytes_1, bytes_2, bytes_3,
    ]
}

/// The kind of a frame that a Python process sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildFrameKind {
    /// The application is loaded.
    Ready,
    /// A whole response.
    Response,
    /// The head of a response.
    Head,
    /// Content of a response.
    Content,
    /// The end of a response.
    End,
    /// The end of a response that is not whole.
    Abort,
    /// There is no response.
    Failed,
    /// The application reads the content of its request.
    Want,
    /// Field lines of a response with the status 103.
    Hints,
    /// Requests that were not started.
    GivenBack,
    /// The application accepts a WebSocket.
    Accept,
    /// A piece of a message of a WebSocket.
    Message,
    /// The application closes a WebSocket.
    Close,
    /// The rest of a response is a part of a file.
    File,
    /// The process wants a channel for files.
    WantChannel,
}

impl ChildFrameKind {
    /// Returns the name that the protocol has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "READY",
            Self::Response => "RESPONSE",
            Self::Head => "HEAD",
            Self::Content => "CONTENT",
            Self::End => "END",
            Self::Abort => "ABORT",
            Self::Failed => "FAILED",
            Self::Want => "WANT",
            Self::Hints => "HINTS",
            Self::GivenBack => "GIVEN_BACK",
            Self::Accept => "ACCEPT",
            Self::Message => "MESSAGE",
            Self::Close => "CLOSE",
            Self::File => "FILE",
            Self::WantChannel => "WANT_CHANNEL",
        }
    }

    /// Returns whether a frame of this kind is of a request.
    const fn has_request(self) -> bool {
        !matches!(self, Self::Ready | Self::GivenBack | Self::WantChannel)
    }
}

/// The header of a frame that a Python process sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct PythonFrameHeader {
    pub(super) kind: ChildFrameKind,
    pub(super) request: u32,
    pub(super) bytes: u32,
}

impl PythonFrameHeader {
    /// Parses a header. Its length is not checked.
    pub(super) fn parse(
        header: &[u8; FRAME_HEADER_BYTES],
    ) -> Result<PythonFrameHeader, ChildFrameError> {
        let [k0, k1, k2, k3, r0, r1, r2, r3, b0, b1, b2, b3] = *header;
        let kind = match u32::from_le_bytes([k0, k1, k2, k3]) {
            16 => ChildFrameKind::Ready,
            17 => ChildFrameKind::Response,
            18 => ChildFrameKind::Head,
            19 => ChildFrameKind::Content,
            20 => ChildFrameKind::End,
            21 => ChildFrameKind::Abort,
            22 => ChildFrameKind::Failed,
            23 => ChildFrameKind::Want,
            24 => ChildFrameKind::Hints,
            25 => ChildFrameKind::GivenBack,
            26 => ChildFrameKind::Accept,
            27 => ChildFrameKind::Message,
            28 => ChildFrameKind::Close,
            29 => ChildFrameKind::File,
            30 => ChildFrameKind::WantChannel,
            kind => return Err(ChildFrameError::Kind { kind }),
        };
        let request = u32::from_le_bytes([r0, r1, r2, r3]);
        if kind.has_request() != (request != 0) {
            return Err(ChildFrameError::RequestNumber { kind, request });
        }
        Ok(PythonFrameHeader { kind, request, bytes: u32::from_le_bytes([b0, b1, b2, b3]) })
    }
}
