//! The errors of frames, and of requests that are to be sent.

use core::fmt;

use super::frame_header::ChildFrameKind;
use super::limits::{BATCH_MAX_BYTES, BATCH_REQUESTS_MAX, BATCHED_CONTENT_MAX_BYTES};

/// The error of the frames of a Python process. Its connection must close, since the begin of the
/// next frame is no longer certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildFrameError {
    /// The first frame is not `READY`.
    NotReady {
        /// The kind that was received instead.
        kind: ChildFrameKind,
    },
    /// `READY` has come again.
    ReadyAgain,
    /// `READY` is not UTF-8.
    ReadyText,
    /// A frame of a kind that no process sends.
    Kind {
        /// The kind.
        kind: u32,
    },
    /// A frame of a request has no number, or another one has the number of a request.
    RequestNumber {
        /// The kind of the frame.
        kind: ChildFrameKind,
        /// The number.
        request: u32,
    },
    /// A piece of a message has unknown flags.
    MessageFlags {
        /// The flags.
        flags: u8,
    },
    /// A frame has a length that its kind does not have.
    Length {
        /// The kind of the frame.
        kind: ChildFrameKind,
        /// The length without the header.
        bytes: u32,
    },
    /// The head in a frame `RESPONSE` is longer than the frame.
    HeadLength {
        /// The length of the head.
        head_bytes: u32,
        /// The length of the frame without its header.
        frame_bytes: u32,
    },
    /// The connection ended within a frame.
    Incomplete,
}

impl fmt::Display for ChildFrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotReady { kind } => {
                write!(f, "the Python process sent {} instead of READY", kind.name())
            }
            Self::ReadyAgain => f.write_str("the Python process sent READY a second time"),
            Self::ReadyText => f.write_str("the READY frame of the Python process is not UTF-8"),
            Self::Kind { kind } => {
                write!(f, "the Python process sent a frame of the unknown kind {kind}")
            }
            Self::RequestNumber { kind, request } => write!(
                f,
                "the Python process sent {} with the unexpected request number {request}",
                kind.name()
            ),
            Self::MessageFlags { flags } => {
                write!(f, "the Python process sent MESSAGE with the unknown flags {flags:#04x}")
            }
            Self::Length { kind, bytes } => write!(
                f,
                "the Python process sent {} with the unexpected length {bytes}",
                kind.name()
            ),
            Self::HeadLength { head_bytes, frame_bytes } => write!(
                f,
                "the Python process sent RESPONSE with a head of {head_bytes} bytes in a frame of \
                 {frame_bytes}"
            ),
            Self::Incomplete => {
                f.write_str("the connection to the Python process ended within a frame")
            }
        }
    }
}

impl core::error::Error for ChildFrameError {}

/// The reason why a request was not added to a batch, which is unchanged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchError {
    /// The batch has other requests and no space for this one, which fits into an empty batch.
    Full,
    /// The content is longer than [`BATCHED_CONTENT_MAX_BYTES`], so it must be streamed.
    ContentTooLarge,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => {
                let max = BATCH_MAX_BYTES / 1024;
                write!(
                    f,
                    "the batch would have more than {BATCH_REQUESTS_MAX} requests or {max} KiB"
                )
            }
            Self::ContentTooLarge => {
                let max = BATCHED_CONTENT_MAX_BYTES / 1024;
                write!(f, "the content is longer than {max} KiB and must be streamed")
            }
        }
    }
}

impl core::error::Error for BatchError {}
