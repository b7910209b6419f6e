//! The transport of a connection: what is between its protocol and the socket. Bytes that wait to
//! be read and to be sent, encryption, the deadline, and what the kernel is doing.

use crate::backend::{Backend, Slot};
use crate::deadline::{Deadline, DeadlineWatch};
use crate::gone::Gone;
use crate::input_buffer::InputBuffer;
use crate::limits::{INPUT_TURN_BYTES, RECORD_BYTES};
use crate::output::NO_OUTPUT;
use crate::tls::TlsSession;

/// Why the kernel takes no output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The buffer of the socket is full.
    Full,
    /// The system had no memory: see `enobufs_retry.rs`.
    NoMemory,
}

/// The transport of one connection.
pub(crate) struct TransportLink {
    /// The peer has sent its end of stream.
    pub(crate) ended: bool,
    /// Receiving is on. A connection of QUIC has no socket of its own to receive from.
    pub(crate) receiving: bool,
    /// Why the kernel takes no output at the moment; `None` when it may.
    pub(crate) blocked: Option<Blocked>,
    /// The kernel works on a send.
    pub(crate) sending: bool,
    /// The application has yet to hear that nothing waits any more. Over TCP that is heard when the
    /// last of it leaves, unless that was dropped.
    pub(crate) owes_sent: bool,
    /// The application has yet to hear of the end of an exchange of HTTP/1, whose number is in
    /// [`Core::http1_ends`](crate::core::Core).
    pub(crate) owes_end: bool,
    /// The connection is to be cut before anything else happens on it, for this reason.
    pub(crate) cut: Option<Gone>,
    /// The application has done something with it outside of its own events.
    pub(crate) dirty: bool,
    /// What has to happen, and until when.
    pub(crate) deadline: Deadline,
    /// The earliest deadline that the application has asked for, in milliseconds; 0 is none.
    pub(crate) asked_ms: u64,
    /// Index of its output queue.
    pub(crate) output: u32,
    /// The backend's progress when the send stall deadline was set; 0 when nobody looked, because
    /// that costs a system call. Over QUIC what there had been of what the deadline watches. The
    /// lower half: what matters is whether it is another one.
    pub(crate) progress: u32,
    /// Bytes of output the kernel has taken.
    pub(crate) sent_bytes: u64,
    /// How much more of what came lately was content than was not, in bytes; see
    /// [`Self::weigh_input`].
    pub(crate) content_balance: i16,
    /// Input that cannot be used yet.
    pub(crate) input: InputBuffer,
    /// Encryption, once a handshake has begun.
    pub(crate) tls: Option<Box<TlsSession>>,
}

impl TransportLink {
    /// The link of a fresh connection, which receives unless its datagrams come by another socket.
    pub(crate) fn new(receiving: bool) -> Self {
        Self {
            ended: false,
            receiving,
            blocked: None,
            sending: false,
            owes_sent: false,
            owes_end: false,
            cut: None,
            dirty: false,
            deadline: Deadline::NONE,
            asked_ms: 0,
            output: NO_OUTPUT,
            progress: 0,
            sent_bytes: 0,
            content_balance: 0,
            input: InputBuffer::default(),
            tls: None,
        }
    }

    /// The kernel takes no output at the moment.
    pub(crate) fn block<B: Backend>(&mut self, backend: &B, slot: Slot) {
        self.blocked.get_or_insert(Blocked::Full);
        if self.deadline.watch() != DeadlineWatch::Send {
            self.progress = backend.progress(slot).unwrap_or(0) as u32;
        }
    }

    /// The kernel has taken `bytes` of output: a send that stalls from now on has its full time.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
        if bytes > 0 {
            self.deadline.is_over(DeadlineWatch::Send);
            self.deadline.is_over(DeadlineWatch::StreamIdle);
        }
    }

    /// What the deadline watched has come from the peer, and what comes next has its full time. A
    /// send that the peer does not take is not excused by what it sends.
    #[inline]
    pub(crate) fn received(&mut self) {
        self.deadline.forget();
        if self.deadline.watch() != DeadlineWatch::Send {
            self.deadline.pause();
        }
    }

    /// When something has to be done, in milliseconds: its own deadline or that of the application
    /// is over; `u64::MAX` is never.
    #[inline]
    pub(crate) fn next_deadline_ms(&self) -> u64 {
        match self.asked_ms {
            0 => self.deadline.at_ms(),
            asked_ms => self.deadline.at_ms().min(asked_ms),
        }
    }

    /// Takes into account that of `bytes` of input so many were content. Says whether what follows
    /// is expected to be content, when that has changed.
    #[inline]
    pub(crate) fn weigh_input(&mut self, bytes: usize, content_bytes: usize) -> Option<bool> {
        // A record of TLS comes in several parts, of which the last brings all of its content.
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
    fn content_is_expected_while_most_of_what_comes_is_content() {
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
