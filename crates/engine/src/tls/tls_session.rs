//! The encryption of a connection, on either side.

use std::io::IoSlice;
use std::sync::Arc;

use rustls::pki_types::ServerName;

use super::TlsConfig;
use super::client_session::ClientSession;
use super::server_session::{Brought, ServerSession, TlsFault};
use crate::backend::Sending;

/// The encryption of one connection.
pub(crate) enum TlsSession {
    /// The session with a client that has connected.
    Server(ServerSession),
    /// The session of a connection that the server has opened.
    Client(ClientSession),
}

impl TlsSession {
    /// Creates a session with a client whose first bytes are `input`, which are still to be
    /// [taken](Self::take); `None` if the library cannot create one.
    pub(crate) fn accept(config: &TlsConfig, input: &[u8]) -> Option<Box<Self>> {
        ServerSession::new(config, input).map(|session| Box::new(Self::Server(session)))
    }

    /// Creates a session with a server; its first message waits to be sent.
    ///
    /// # Errors
    /// Fails if the library cannot create one with these settings.
    pub(crate) fn connect(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Box<Self>, rustls::Error> {
        ClientSession::new(config, name).map(|session| Box::new(Self::Client(session)))
    }

    /// Takes all of `input`, decrypts it in `buffer`, and reports its contents to `on_content`, as
    /// long as that returns that further content is read. Input after the peer's close_notify is
    /// not read (RFC 8446 §6.1). Returns the number of bytes at the end that are not read.
    ///
    /// # Errors
    /// Fails if the session cannot continue.
    #[inline]
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        buffer: &mut Vec<u8>,
        on_content: impl FnMut(Brought<'_>) -> bool,
    ) -> Result<usize, TlsFault> {
        match self {
            Self::Server(session) => session.take(input, buffer, on_content),
            Self::Client(session) => session.take(input, buffer, on_content),
        }
    }

    /// Returns the error because of which a session with a server cannot continue, if the library
    /// has one.
    pub(crate) fn failure(&self) -> Option<&rustls::Error> {
        match self {
            Self::Server(_) => None,
            Self::Client(session) => session.failure(),
        }
    }

    /// Returns whether the peer has announced that it will send no more.
    pub(crate) fn is_ended(&self) -> bool {
        match self {
            Self::Server(session) => session.is_ended(),
            Self::Client(session) => session.is_ended(),
        }
    }

    /// Encrypts content; returns false if that is not possible. Only called when no record waits,
    /// and after the handshake. Records are made in `spare`, if there is memory in it, which
    /// [`Self::emptied`] gives back.
    #[inline]
    pub(crate) fn seal(&mut self, content: &[u8], spare: &mut Vec<u8>) -> bool {
        match self {
            Self::Server(session) => session.seal(content, spare),
            Self::Client(session) => session.seal(content),
        }
    }

    /// Returns the bytes of content that wait in records.
    #[inline]
    pub(crate) fn sealed_bytes(&self) -> usize {
        match self {
            Self::Server(session) => session.sealed_bytes(),
            Self::Client(session) => session.sealed_bytes(),
        }
    }

    /// Returns whether records wait to be sent.
    #[inline]
    pub(crate) fn has_records(&self) -> bool {
        match self {
            Self::Server(session) => session.has_records(),
            Self::Client(session) => session.has_records(),
        }
    }

    /// Sends waiting records with one call of `send`.
    #[inline]
    pub(crate) fn send(&mut self, send: impl FnOnce(&[IoSlice<'_>]) -> Sending) -> Sending {
        match self {
            Self::Server(session) => session.send(send),
            Self::Client(session) => session.send(send),
        }
    }

    /// Shrinks the memory of records that have to wait longer to the size that they need. `spare`
    /// gets the rest, if it has no memory.
    pub(crate) fn hold(&mut self, spare: &mut Vec<u8>) {
        match self {
            Self::Server(session) => session.hold(spare),
            // The library keeps its own records.
            Self::Client(_) => {}
        }
    }

    /// Releases the records after all have left, and returns the bytes of the content that was in
    /// them. Their memory goes to `spare`, if it has none.
    #[inline]
    pub(crate) fn emptied(&mut self, spare: &mut Vec<u8>) -> usize {
        match self {
            Self::Server(session) => session.emptied(spare),
            Self::Client(session) => session.emptied(),
        }
    }

    /// Queues close_notify for the peer (RFC 8446 §6.1); returns false if there is nothing to send.
    pub(crate) fn close(&mut self) -> bool {
        match self {
            Self::Server(session) => session.close(),
            Self::Client(session) => session.close(),
        }
    }
}
