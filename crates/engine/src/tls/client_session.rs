//! One TLS connection that the server has opened: the client side, on the buffers of the library.
//! There are few of these, and most of them are busy.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::server_session::{Brought, Inside, TlsFault};
use crate::backend::Sending;
use crate::limits::SEND_PARTS_MAX;

/// The client side of one TLS connection.
pub(crate) struct ClientSession {
    connection: ClientConnection,
    /// Bytes of content in the records that were queued since the queue was last empty.
    sealed_bytes: usize,
    has_begun: bool,
    /// Whether the server has announced that it will send no more, or its input is not read any
    /// more.
    is_over: bool,
    /// Whether close_notify was queued for the server.
    closed: bool,
    failure: Option<rustls::Error>,
}

impl ClientSession {
    /// Creates a session with the server of this name; its first message waits to be sent.
    ///
    /// # Errors
    /// Fails if the library cannot create one with these settings.
    pub(super) fn new(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        let mut connection = ClientConnection::new(config, name)?;
        // The caller bounds the bytes that it writes.
        connection.set_buffer_limit(None);
        Ok(Self {
            connection,
            sealed_bytes: 0,
            has_begun: false,
            is_over: false,
            closed: false,
            failure: None,
        })
    }

    /// Takes input as [`super::TlsSession::take`] does.
    pub(super) fn take(
        &mut self,
        mut input: &[u8],
        buffer: &mut Vec<u8>,
        mut on_content: impl FnMut(Brought<'_>) -> bool,
    ) -> Result<usize, TlsFault> {
        while !self.is_over && !input.is_empty() {
            // The library takes a few records at a time.
            if self.connection.read_tls(&mut input).is_err() {
                return Err(TlsFault);
            }
            let state = match self.connection.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    self.failure = Some(error);
                    self.is_over = true;
                    return Err(TlsFault);
                }
            };
            if !self.has_begun && !self.connection.is_handshaking() {
                self.has_begun = true;
                self.is_over |= !on_content(Brought::Begun(Inside::Http1));
            }
            let bytes = state.plaintext_bytes_to_read();
            if bytes > 0 && !self.is_over {
                buffer.clear();
                buffer.resize(bytes, 0);
                let got = self.connection.reader().read(buffer).unwrap_or(0);
                self.is_over |=
                    !on_content(Brought::Content(buffer.get(..got).unwrap_or_default()));
            }
            self.is_over |= state.peer_has_closed();
        }
        Ok(if self.is_ended() { 0 } else { input.len() })
    }

    /// Returns the error because of which the session cannot continue, if the library has one.
    pub(super) fn failure(&self) -> Option<&rustls::Error> {
        self.failure.as_ref()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_over && self.failure.is_none()
    }

    pub(super) fn seal(&mut self, content: &[u8]) -> bool {
        let is_sealed = self.connection.writer().write_all(content).is_ok();
        if is_sealed {
            self.sealed_bytes += content.len();
        }
        is_sealed
    }

    pub(super) fn sealed_bytes(&self) -> usize {
        self.sealed_bytes
    }

    pub(super) fn has_records(&self) -> bool {
        self.connection.wants_write()
    }

    pub(super) fn send(&mut self, send: impl FnOnce(&[IoSlice<'_>]) -> Sending) -> Sending {
        let mut socket = Socket { send: Some(send), outcome: Sending::Done(0) };
        let _told_by_outcome = self.connection.write_tls(&mut socket);
        socket.outcome
    }

    pub(super) fn emptied(&mut self) -> usize {
        std::mem::take(&mut self.sealed_bytes)
    }

    pub(super) fn close(&mut self) -> bool {
        if std::mem::replace(&mut self.closed, true) {
            return false;
        }
        self.connection.send_close_notify();
        self.has_records()
    }
}

/// The writer to which the library writes records.
struct Socket<F> {
    send: Option<F>,
    outcome: Sending,
}

impl<F: FnOnce(&[IoSlice<'_>]) -> Sending> Write for Socket<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(send) = self.send.take() else { return Ok(0) };
        self.outcome = send(parts.get(..SEND_PARTS_MAX).unwrap_or(parts));
        match self.outcome {
            Sending::Done(bytes) => Ok(bytes),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
