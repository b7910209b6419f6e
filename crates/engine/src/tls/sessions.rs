//! The encryption of a connection, on either side.

use std::io::IoSlice;
use std::sync::Arc;

use rustls::pki_types::ServerName;

use super::TlsConfig;
use super::client_session::ClientSession;
use super::session::{Brought, ServerSession, TlsFault};
use crate::backend::Sending;

/// The encryption of one connection.
pub(crate) enum TlsSession {
    /// A client has connected.
    Server(ServerSession),
    /// The server has opened the connection.
    Client(ClientSession),
}

impl TlsSession {
    /// A session with a client whose first bytes are `input`, which are still to be
    /// [taken](Self::take); `None` when there can be none.
    pub(crate) fn accept(config: &TlsConfig, input: &[u8]) -> Option<Box<Self>> {
        ServerSession::new(config, input).map(|session| Box::new(Self::Server(session)))
    }

    /// A session with a server; its first message waits to be sent.
    ///
    /// # Errors
    /// When there can be none with these settings.
    pub(crate) fn connect(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Box<Self>, rustls::Error> {
        ClientSession::new(config, name).map(|session| Box::new(Self::Client(session)))
    }

    /// Takes all of `input` and tells what it brings, having opened it in `buffer`, as long as
    /// `tell` says that what follows is read. Behind the peer's close_notify nothing is (RFC 8446
    /// §6.1). Gives the bytes at the end that nobody reads.
    ///
    /// # Errors
    /// When the session cannot go on.
    #[inline]
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        buffer: &mut Vec<u8>,
        tell: impl FnMut(Brought<'_>) -> bool,
    ) -> Result<usize, TlsFault> {
        match self {
            Self::Server(session) => session.take(input, buffer, tell),
            Self::Client(session) => session.take(input, buffer, tell),
        }
    }

    /// Why a session with a server cannot go on, if that is for the library to say.
    pub(crate) fn failure(&self) -> Option<&rustls::Error> {
        match self {
            Self::Server(_) => None,
            Self::Client(session) => session.failure(),
        }
    }

    /// Whether the peer has said that it will send no more.
    pub(crate) fn is_ended(&self) -> bool {
        match self {
            Self::Server(session) => session.is_ended(),
            Self::Client(session) => session.is_ended(),
        }
    }

    /// Encrypts content; false when that is not possible. Only called when nothing waits, and
    /// behind the handshake. Records are made in `spare`, if there is memory in it, which
    /// [`Self::emptied`] gives back.
    #[inline]
    pub(crate) fn seal(&mut self, content: &[u8], spare: &mut Vec<u8>) -> bool {
        match self {
            Self::Server(session) => session.seal(content, spare),
            Self::Client(session) => session.seal(content),
        }
    }

    /// Bytes of content that wait in records.
    #[inline]
    pub(crate) fn sealed_bytes(&self) -> usize {
        match self {
            Self::Server(session) => session.sealed_bytes(),
            Self::Client(session) => session.sealed_bytes(),
        }
    }

    /// Whether records wait to be sent.
    #[inline]
    pub(crate) fn has_records(&self) -> bool {
        match self {
            Self::Server(session) => session.has_records(),
            Self::Client(session) => session.has_records(),
        }
    }

    /// Sends records that wait, by one call of `send`.
    #[inline]
    pub(crate) fn send(&mut self, send: impl FnOnce(&[IoSlice<'_>]) -> Sending) -> Sending {
        match self {
            Self::Server(session) => session.send(send),
            Self::Client(session) => session.send(send),
        }
    }

    /// What waits has to wait longer: it keeps no more memory than it needs, and `spare` gets the
    /// rest, if there is none.
    pub(crate) fn hold(&mut self, spare: &mut Vec<u8>) {
        match self {
            Self::Server(session) => session.hold(spare),
            // The library keeps what it has to.
            Self::Client(_) => {}
        }
    }

    /// All records have left; the content that was in them is no longer held. Their memory goes to
    /// `spare`, if there is none.
    #[inline]
    pub(crate) fn emptied(&mut self, spare: &mut Vec<u8>) -> usize {
        match self {
            Self::Server(session) => session.emptied(spare),
            Self::Client(session) => session.emptied(),
        }
    }

    /// Tells the peer that nothing follows (RFC 8446 §6.1); false when there is nothing to send.
    pub(crate) fn close(&mut self) -> bool {
        match self {
            Self::Server(session) => session.close(),
            Self::Client(session) => session.close(),
        }
    }
}
