//! The reasons why an exchange or a stream ends without an action of the application.

use pinion_http::refusal::Refusal;

use crate::outgoing_connect::NotConnected;

/// The reason why an exchange or a stream ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The peer closed or reset the connection, or stopped in the middle of a body.
    Peer,
    /// The peer sent bytes that are no HTTP, or more than it may.
    Refused,
    /// The request has more content than its limit allows; the engine responds with 413 unless a
    /// response head was sent.
    ContentTooLarge,
    /// The peer was too slow.
    Stalled,
    /// Neither side has sent a byte on a byte stream for as long as its listener allows
    /// ([`StreamTimeouts`](crate::settings::StreamTimeouts)).
    Idle,
    /// The peer of a byte stream did not read the messages that were broadcast to it
    /// ([`BROADCAST_QUEUE_MAX_BYTES`](crate::limits::BROADCAST_QUEUE_MAX_BYTES)).
    SlowReader,
    /// The server is out of buffers, or out of permits for connections.
    Overload,
    /// The response cannot be completed as announced: the application wrote more than it had
    /// announced, or named a part of an archive that does not exist, or the archive's file has
    /// changed.
    Broken,
    /// The server is stopping and its grace period is over.
    Stopping,
    /// The connection that the application wanted to open was not opened.
    NotConnected(NotConnected),
}

impl From<Refusal> for Gone {
    /// Returns the reason why an exchange ends whose content is refused.
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Timeout => Self::Stalled,
            Refusal::ContentTooLarge => Self::ContentTooLarge,
            _ => Self::Refused,
        }
    }
}
