//! The transport of a connection, between its protocol and the socket: bytes that wait to be read
//! and to be sent, encryption, the deadline, and the operations of the kernel.

use crate::backend::{Backend, Slot};
use crate::deadline::{Deadline, DeadlineKind};
use crate::end_reason::Gone;
use crate::input_buffer::InputBuffer;
use crate::limits::{INPUT_TURN_BYTES, RECORD_BYTES};
use crate::output_queue::NO_OUTPUT;
use crate::tls::TlsSession;

/// The reason why the kernel takes no output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The buffer of the socket is full.
    Full,
    /// The system had no memory: see `enobufs_retry.rs`.
    NoMemory,
}

/// The transport of one connection.
pub(crate) struct TransportLink {
    /// Whether the peer has sent its end of stream.
    pub(crate) peer_ended: bool,
    /// Whether receiving is on. A QUIC connection has no socket of its own to receive from.
    pub(crate) receiving: bool,
    /// The reason why the kernel takes no output at the moment; `None` if it may.
    pub(crate) blocked: Option<Blocked>,
    /// Whether the kernel works on a send.
    pub(crate) sending: bool,
    /// Whether the application has yet to be informed that no output waits any more. Over TCP it is
    /// informed when the last output leaves, unless that was dropped.
    pub(crate) owes_sent: bool,
    /// Whether the application has yet to be informed of the end of an HTTP/1 exchange, whose
    /// number is in [`WorkerCore::http1_ends`](crate::worker_core::WorkerCore).
    pub(crate) exchange_end_pending: bool,
    /// The reason why the connection is to be cut before anything else happens on it.
    pub(crate) cut: Option<Gone>,
    /// Whether the application has acted on it outside of its own events.
    pub(crate) dirty: bool,
    /// The deadline, and its kind.
    pub(crate) deadline: Deadline,
    /// The earliest deadline that the application has set, in milliseconds; 0 is none.
    pub(crate) app_deadline_ms: u64,
    /// The index of its output queue.
    pub(crate) output: u32,
    /// The backend's progress when the send stall deadline was set; 0 if it was not read, because
    /// that costs a system call. Over QUIC it is the progress that restarts the deadline. It is the
    /// lower half of the counter, since only a change matters.
    pub(crate) progress: u32,
    /// Bytes of output that the kernel has taken.
    pub(crate) sent_bytes: u64,
    /// How much more of the recent input was content than was not, in bytes; see
    /// [`Self::weigh_input`].
    pub(crate) content_balance: i16,
    /// Input that cannot be used yet.
    pub(crate) input: InputBuffer,
    /// The TLS session, once a handshake has begun.
    pub(crate) tls: Option<Box<TlsSession>>,
}

impl TransportLink {
    /// Creates the link of a new connection, which receives unless its datagrams come by another
    /// socket.
    pub(crate) fn new(receiving: bool) -> Self {
        Self {
            peer_ended: false,
            receiving,
            blocked: None,
            sending: false,
            owes_sent: false,
            exchange_end_pending: false,
            cut: None,
            dirty: false,
            deadline: Deadline::NONE,
            app_deadline_ms: 0,
            output: NO_OUTPUT,
            progress: 0,
            sent_bytes: 0,
            content_balance: 0,
            input: InputBuffer::default(),
            tls: None,
        }
    }

    /// Marks the link as blocked: the kernel takes no output at the moment.
    pub(crate) fn block<B: Backend>(&mut self, backend: &B, slot: Slot) {
        self.blocked.get_or_insert(Blocked::Full);
        if self.deadline.kind() != DeadlineKind::Send {
            self.progress = backend.progress(slot).unwrap_or(0) as u32;
        }
    }

    /// Counts `bytes` of output that the kernel has taken: a send that stalls from now on has its
    /// full time.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
        if bytes > 0 {
            self.deadline.end(DeadlineKind::Send);
            self.deadline.end(DeadlineKind::StreamIdle);
        }
    }

    /// Restarts the deadline because the awaited input of the peer has come: the next has its full
    /// time. Input of the peer does not excuse a send that it does not take.
    #[inline]
    pub(crate) fn received(&mut self) {
        self.deadline.drop_postponed();
        if self.deadline.kind() != DeadlineKind::Send {
            self.deadline.pause();
        }
    }

    /// Returns when the link's own deadline or that of the application is over, in milliseconds;
    /// `u64::MAX` is never.
    #[inline]
    pub(crate) fn next_deadline_ms(&self) -> u64 {
        match self.app_deadline_ms {
            0 => self.deadline.at_ms(),
            app_deadline_ms => self.deadline.at_ms().min(app_deadline_ms),
        }
    }

    /// Takes into account that `content_bytes` of `bytes` of input were content. Returns whether
    /// content is expected next, if that has changed.
    #[inline]
    pub(crate) fn weigh_input(&mut self, bytes: usize, content_bytes: usize) -> Option<bool> {
        // A TLS record comes in several parts, of which the last brings all of its content.
        const MIN: i64 = -(INPUT_TURN_BYTES as i64);
        const MAX: i64 = 2 * RECORD_BYTES as i64 - 1;
        let before = self.content_balance > 0;
        let more = 2 * content_bytes as i64 - bytes as i64;
        self.content_balance = (i64::from(self.content_balance) + more).clamp(MIN, MAX) as i16;
        let after = self.content_balance > 0;
        (before != after).then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CHUNK_BYTES;

    #[test]
    fn content_is_expected_while_most_input_is_content() {
        const PIECE: usize = INPUT_TURN_BYTES;
        let mut link = TransportLink::new(true);
        assert_eq!(link.weigh_input(PIECE, 100), None, "requests");
        // Records in pieces, the last of which brings the content of all.
        let record = [0, 0, 0, 4 * PIECE];
        let expected = record.map(|content| link.weigh_input(PIECE, content));
        assert_eq!(expected, [None, None, None, Some(true)]);
        for content in record.repeat(3) {
            assert_eq!(link.weigh_input(PIECE, content), None);
        }
        assert_eq!(link.weigh_input(CHUNK_BYTES, CHUNK_BYTES / 10), None);
        let small = [(); 2].map(|()| link.weigh_input(CHUNK_BYTES, CHUNK_BYTES / 10));
        assert!(small.contains(&Some(false)), "{small:?}");
    }
}
