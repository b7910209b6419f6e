//! One TLS connection: records in, plaintext out, and back. Bytes only; whoever holds it reads and
//! writes the socket.

use std::io::{self, BufRead as _, IoSlice, Write};
use std::sync::Arc;

use rustls::ServerConnection;

use super::TlsConfig;
use crate::backend::Sending;
use crate::limits::HANDSHAKE_MAX_BYTES;

/// What is spoken inside, by ALPN (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside {
    /// HTTP/1.1, or the peer did not say.
    Http1,
    /// HTTP/2 (RFC 9113 §3.2).
    Http2,
}

/// The peer's bytes are no TLS, or break its rules. An alert that says so waits to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault;

/// See the module's head.
pub(crate) struct TlsSession {
    records: ServerConnection,
    /// Bytes of content in records that wait to be sent: all since none waited.
    sealed_bytes: usize,
    /// Bytes of the handshake that have come.
    handshake_bytes: usize,
    /// The peer was told that nothing follows.
    closed: bool,
}

impl TlsSession {
    /// A session with a peer whose first bytes are `input`, which are still to be
    /// [taken](Self::take); `None` when there can be none.
    pub(crate) fn new(config: &TlsConfig, input: &[u8]) -> Option<Box<Self>> {
        let records = ServerConnection::new(Arc::clone(config.suiting(input))).ok()?;
        Some(Box::new(Self { records, sealed_bytes: 0, handshake_bytes: 0, closed: false }))
    }

    /// Takes bytes off the front of `input`; what they bring is [`Self::opened`]. Behind the peer's
    /// close_notify nothing is read any more (RFC 8446 §6.1).
    ///
    /// # Errors
    /// When the session cannot go on.
    pub(crate) fn take(&mut self, input: &mut &[u8]) -> Result<(), Fault> {
        let taken = self.records.read_tls(input).map_err(|_| Fault);
        if self.records.is_handshaking() {
            self.handshake_bytes += taken.unwrap_or(0);
            if self.handshake_bytes > HANDSHAKE_MAX_BYTES {
                return Err(Fault);
            }
        }
        let state = self.records.process_new_packets().map_err(|_| Fault)?;
        match taken? {
            0 if state.peer_has_closed() => *input = &[],
            0 => return Err(Fault),
            _ => {}
        }
        Ok(())
    }

    /// Plaintext of the peer, to be [used](Self::used); empty when there is none.
    pub(crate) fn opened(&mut self) -> &[u8] {
        self.records.reader().into_first_chunk().unwrap_or_default()
    }

    /// The first `bytes` of what [`Self::opened`] gave are used.
    pub(crate) fn used(&mut self, bytes: usize) {
        self.records.reader().consume(bytes);
    }

    /// Whether the handshake goes on.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.records.is_handshaking()
    }

    /// Whether the peer has said that it will send no more.
    pub(crate) fn is_ended(&mut self) -> bool {
        // What came before was used, or this would not be asked.
        matches!(self.records.reader().into_first_chunk(), Ok([]))
    }

    /// What is spoken inside; known once the handshake is over.
    pub(crate) fn inside(&self) -> Inside {
        match self.records.alpn_protocol() {
            Some(b"h2") => Inside::Http2,
            _ => Inside::Http1,
        }
    }

    /// Encrypts content, as much as there is room for, and says how much that was. Only called when
    /// nothing waits, so there is room.
    pub(crate) fn seal(&mut self, parts: &[IoSlice<'_>]) -> usize {
        let bytes = self.records.writer().write_vectored(parts).unwrap_or(0);
        self.sealed_bytes += bytes;
        bytes
    }

    /// Bytes of content that wait in records.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.sealed_bytes
    }

    /// Whether records wait to be sent.
    #[inline]
    pub(crate) fn has_records(&self) -> bool {
        self.records.wants_write()
    }

    /// Sends records that wait, by one call of `send`.
    pub(crate) fn send(&mut self, send: impl FnMut(&[IoSlice<'_>]) -> Sending) -> Sending {
        let mut wire = Wire { send, outcome: Sending::Done(0) };
        let _told_by_outcome = self.records.write_tls(&mut wire);
        wire.outcome
    }

    /// All records have left; the content that was in them is no longer held.
    pub(crate) fn emptied(&mut self) -> usize {
        std::mem::take(&mut self.sealed_bytes)
    }

    /// Tells the peer that nothing follows (RFC 8446 §6.1); false when it was told before.
    pub(crate) fn close(&mut self) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        self.records.send_close_notify();
        self.has_records()
    }
}

/// The socket as rustls writes to it.
struct Wire<F> {
    send: F,
    outcome: Sending,
}

impl<F: FnMut(&[IoSlice<'_>]) -> Sending> Write for Wire<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.outcome = (self.send)(parts);
        match self.outcome {
            Sending::Done(bytes) => Ok(bytes),
            Sending::Blocked | Sending::Pending => Err(io::ErrorKind::WouldBlock.into()),
            Sending::Failed(error) => Err(error.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
