//! The connection itself, beside its exchanges: its beginning, its end, and what it holds.

use std::time::Instant;

use pinion_http::h3::frame::ErrorCode;
use quinn_proto::{Dir, StreamId};

use super::{Http3, var_int};
use crate::buffers::Buffers;
use crate::deadline::DeadlineWatch;
use crate::link::TransportLink;

impl Http3 {
    /// Counts what QUIC holds in both directions, and what the session takes by the work of its
    /// client, against the budget for buffers.
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

    /// Says that no further requests are taken; said again, that those on their way are not either.
    /// When the server goes on, and the client has merely had all its requests, it hears both at
    /// once: it may ask for the others again on its next connection (RFC 9114 §5.2).
    pub(crate) fn go_away(&mut self, is_stopping: bool) {
        self.is_stopping = is_stopping;
        self.session.go_away(&mut self.control_out);
        if !is_stopping {
            self.session.go_away(&mut self.control_out);
        }
        self.write_control();
    }

    /// Has a deadline begin anew when what it watches has gone on. A window is found shut as soon
    /// as QUIC was given what it takes, and that leaves by and by.
    pub(crate) fn watch_anew(&self, link: &mut TransportLink) {
        let watch = link.deadline.watch();
        let is_watched = matches!(watch, DeadlineWatch::Window | DeadlineWatch::Last);
        if is_watched && self.progress(watch) != link.progress {
            link.deadline.pause();
        }
    }

    /// Closes the connection, with what stands in its streams. QUIC keeps it for a while (RFC 9000
    /// §10.2).
    pub(crate) fn close(&mut self, now: Instant, code: ErrorCode) {
        self.is_closed = true;
        self.quic.close(now, var_int(code), bytes::Bytes::new());
    }
}
