//! Why what an application has open ends without its doing.

use pinion_http::refusal::Refusal;

use crate::remote::NotConnected;

/// Why an exchange or a stream ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The peer closed or reset the connection, or stopped in the middle of a body.
    Peer,
    /// The peer sent something that is no HTTP, or more than it may.
    Refused,
    /// The request has more content than its limit allows; the engine answers with 413 unless the
    /// head of an answer is out.
    ContentTooLarge,
    /// The peer was too slow.
    Stalled,
    /// Neither side has sent anything on a byte stream for as long as its listener allows
    /// ([`StreamTimeouts`](crate::settings::StreamTimeouts)).
    Idle,
    /// The peer of a byte stream did not read what was broadcast to it
    /// ([`BROADCAST_QUEUE_MAX_BYTES`](crate::limits::BROADCAST_QUEUE_MAX_BYTES)).
    SlowReader,
    /// The server is out of buffers, or out of permits for connections.
    Overload,
    /// What went out, or was to, cannot become what was promised: the application wrote more than
    /// it had announced, or named a part of an archive that is not there, or the archive's file is
    /// not what it was.
    Broken,
    /// The server is stopping and its grace is over.
    Stopping,
    /// The connection that the application wanted to open did not come about.
    NotConnected(NotConnected),
}

impl From<Refusal> for Gone {
    /// Why an exchange ends whose content is refused.
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Timeout => Self::Stalled,
            Refusal::ContentTooLarge => Self::ContentTooLarge,
            _ => Self::Refused,
        }
    }
}
