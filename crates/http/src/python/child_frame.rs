//! The contents of the frames of a Python process.

use super::response_head::{HintFields, PythonResponseHead};
use crate::cgi::error::CgiError;

/// The number of bytes of the input that were used, and their frame.
#[derive(Debug)]
pub struct FrameStep<'a> {
    /// Bytes at the front of the input that must not be given again.
    pub used: usize,
    /// The frame of these bytes; `None` if all of the input is a part of an incomplete frame.
    pub frame: Option<ChildFrame<'a>>,
}

/// A frame, or a piece of the content of one. The reader knows no requests: frames of a request
/// that is over, or was never sent, are returned as well, and the caller ignores them.
#[derive(Debug)]
pub enum ChildFrame<'a> {
    /// The application is loaded. The JSON object that describes it, which is not parsed here. It
    /// comes once, before all other frames.
    Ready(&'a str),
    /// A whole response. If no bytes are missing it is complete; otherwise [`ChildFrame::Content`]
    /// follows until one has `is_end`.
    Response {
        /// The request.
        request: u32,
        /// The head.
        head: PythonResponseHead<'a>,
        /// The present part of the content.
        content: &'a [u8],
        /// Bytes of content that follow.
        missing_bytes: u32,
    },
    /// The head of a response whose content comes in frames.
    Head {
        /// The request.
        request: u32,
        /// The head.
        head: PythonResponseHead<'a>,
    },
    /// The head of a response, or field lines of hints, are malformed: the request has failed. The
    /// rest of the frame is skipped, and other requests go on.
    MalformedHead {
        /// The request.
        request: u32,
        /// The error of the head.
        error: CgiError,
        /// Whether the frame was a whole response, so that the request gets no further frames.
        is_end: bool,
    },
    /// Content of a response; never empty.
    Content {
        /// The request.
        request: u32,
        /// A piece of the content.
        bytes: &'a [u8],
        /// Whether it is the last piece of a [`ChildFrame::Response`], which is then complete.
        is_end: bool,
    },
    /// The response is complete.
    End {
        /// The request.
        request: u32,
    },
    /// The response is not whole, and nothing more comes.
    Abort {
        /// The request.
        request: u32,
        /// The reason, for the log. It can contain any bytes.
        text: &'a [u8],
    },
    /// There is no response.
    Failed {
        /// The request.
        request: u32,
        /// The reason, for the log. It can contain any bytes.
        text: &'a [u8],
    },
    /// The application reads the content of the request.
    Want {
        /// The request.
        request: u32,
        /// The number of bytes that may be sent.
        bytes: u32,
    },
    /// Fields of a response with the status 103.
    Hints {
        /// The request.
        request: u32,
        /// The fields.
        hints: HintFields<'a>,
    },
    /// The application accepts a WebSocket.
    Accept {
        /// The request.
        request: u32,
        /// Fields of the response.
        fields: HintFields<'a>,
    },
    /// A piece of a message of a WebSocket, which may be empty.
    Message {
        /// The request.
        request: u32,
        /// Whether the message is binary, and not text.
        is_binary: bool,
        /// The piece. Whether text is UTF-8 was not checked.
        bytes: &'a [u8],
        /// Bytes that count as sent: those of the piece, and one for the flags of each frame.
        room_bytes: u32,
        /// Whether the message is complete.
        is_end: bool,
    },
    /// The application closes a WebSocket.
    Close {
        /// The request.
        request: u32,
        /// The code. Whether it may be sent was not checked.
        code: u16,
        /// The reason. Any bytes.
        reason: &'a [u8],
    },
    /// The rest of the response is a part of a file, whose descriptor comes by the channel for
    /// files. The response is complete.
    File {
        /// The request.
        request: u32,
        /// The offset of the part, in bytes from the start of the file.
        offset: u64,
        /// Bytes of the part.
        bytes: u64,
    },
    /// The process wants a channel for files.
    WantChannel,
    /// Requests that were not started, and will not be.
    GivenBack(RequestNumbers<'a>),
}

/// Returns whether a process says in `READY` that its application is one of ASGI. Its text is
/// written by the program of this server.
#[must_use]
pub fn says_asgi(ready: &str) -> bool {
    ready
        .split_once("\"interface\":")
        .is_some_and(|(_, value)| value.trim_start().starts_with("\"asgi\""))
}

impl ChildFrame<'_> {
    /// Returns the request that the frame is about; `None` if it is about none or several.
    #[must_use]
    pub const fn request(&self) -> Option<u32> {
        match *self {
            Self::Response { request, .. }
            | Self::Head { request, .. }
            | Self::MalformedHead { request, .. }
            | Self::Content { request, .. }
            | Self::End { request }
            | Self::Abort { request, .. }
            | Self::Failed { request, .. }
            | Self::Want { request, .. }
            | Self::Hints { request, .. }
            | Self::Accept { request, .. }
            | Self::Message { request, .. }
            | Self::Close { request, .. }
            | Self::File { request, .. } => Some(request),
            Self::Ready(_) | Self::WantChannel | Self::GivenBack(_) => None,
        }
    }

    /// Returns whether the process sends nothing more about the request.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        match *self {
            Self::Response { missing_bytes, .. } => missing_bytes == 0,
            Self::MalformedHead { is_end, .. } | Self::Content { is_end, .. } => is_end,
            Self::End { .. } | Self::Abort { .. } | Self::Failed { .. } | Self::File { .. } => true,
            Self::Head { .. }
            | Self::Want { .. }
            | Self::Hints { .. }
            | Self::Accept { .. }
            | Self::Message { .. }
            | Self::Close { .. }
            | Self::Ready(_)
            | Self::WantChannel
            | Self::GivenBack(_) => false,
        }
    }
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug)]
pub struct RequestNumbers<'a> {
    numbers: &'a [[u8; size_of::<u32>()]],
}

impl<'a> RequestNumbers<'a> {
    /// Takes numbers of 32 bits from a frame, whose length was checked.
    pub(super) fn new(bytes: &'a [u8]) -> RequestNumbers<'a> {
        RequestNumbers { numbers: bytes.as_chunks().0 }
    }

    /// Returns the numbers in the order in which they came.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        self.numbers.iter().map(|number| u32::from_le_bytes(*number))
    }
}
