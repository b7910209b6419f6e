//! HTTP/2 on one connection: bytes in, exchanges with the application, frames queued. The wire
//! machine itself is `pinion_http::h2`; here it meets the connection. Content waits in a queue for
//! each stream, and is put into frames only when the connection has room for it.

pub(crate) mod control;
pub(crate) mod response;
pub(crate) mod send_scheduler;

use pinion_http::h2::frame::ErrorCode;
use pinion_http::h2::session::Session;

use crate::deadline::DeadlineKind;
use crate::multiplexed::MultiplexedStream;

/// The state of HTTP/2 on one connection.
pub(crate) struct Http2 {
    pub(crate) session: Session<MultiplexedStream>,
    /// Bytes of content that wait on all streams.
    pub(crate) queued_bytes: u64,
    /// An upper bound of the bytes of the heads that handlers keep.
    pub(crate) open_head_bytes: usize,
    /// Bytes of the session that are counted against the memory budget for buffers.
    pub(crate) counted_bytes: usize,
}

impl Http2 {
    /// Returns the kind of deadline that the connection needs if the exchanges alone need `kind`.
    pub(crate) fn deadline_kind(&self, kind: DeadlineKind) -> DeadlineKind {
        // A client that knows that the server leaves has no further requests here.
        if kind == DeadlineKind::Idle && self.session.is_leaving() {
            DeadlineKind::Last
        } else {
            kind
        }
    }

    /// Removes an open stream, without a frame to the peer.
    pub(crate) fn pop(&mut self) -> Option<(u32, MultiplexedStream)> {
        let (id, _) = self.session.each_own().next()?;
        let stream = self.session.reset(id, ErrorCode::Cancel, &mut Vec::new())?;
        Some((id, std::mem::take(stream)))
    }
}
