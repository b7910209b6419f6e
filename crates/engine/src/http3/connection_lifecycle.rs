//! The connection itself, besides its exchanges: its beginning, its end, and its memory.

use std::time::Instant;

use pinion_http::h3::frame::ErrorCode;
use quinn_proto::{Dir, StreamId};

use super::{Http3, var_int};
use crate::deadline::DeadlineKind;
use crate::transport_link::TransportLink;
use crate::worker_buffers::Buffers;

impl Http3 {
    /// Counts the bytes that QUIC holds in both directions, and the memory of the session that its
    /// client causes, against the memory budget for buffers.
    pub(crate) fn count(&mut self, buffers: &mut Buffers) {
        let bytes = self.weigh() + self.session.memory_bytes() + self.count_unread();
        if bytes != self.counted_bytes {
            buffers.pool.count(bytes);
            buffers.pool.release(std::mem::replace(&mut self.counted_bytes, bytes));
        }
    }

    /// Returns a stream that the client has opened, unless one before it has ended the connection.
    pub(crate) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        if self.is_closed { None } else { self.quic.streams().accept(dir) }
    }

    /// Announces with GOAWAY that no further requests are accepted; called again, that those on
    /// their way are not accepted either. If the server goes on, and the client has merely used up
    /// its requests, both are sent at once: it may repeat the others on its next connection (RFC
    /// 9114 §5.2).
    pub(crate) fn go_away(&mut self, is_stopping: bool) {
        self.is_stopping = is_stopping;
        self.session.go_away(&mut self.control_out);
        if !is_stopping {
            self.session.go_away(&mut self.control_out);
        }
        self.write_control();
    }

    /// Restarts a deadline if its condition has made progress. A window is found shut as soon as
    /// QUIC has taken all it can, and that leaves little by little.
    pub(crate) fn restart_deadline_after_progress(&self, link: &mut TransportLink) {
        let kind = link.deadline.kind();
        let is_watched = matches!(kind, DeadlineKind::Window | DeadlineKind::Last);
        if is_watched && self.progress(kind) != link.progress {
            link.deadline.pause();
        }
    }

    /// Closes the connection, with the data in its streams. QUIC keeps it for a while (RFC 9000
    /// §10.2).
    pub(crate) fn close(&mut self, now: Instant, code: ErrorCode) {
        self.is_closed = true;
        self.quic.close(now, var_int(code), bytes::Bytes::new());
    }
}
