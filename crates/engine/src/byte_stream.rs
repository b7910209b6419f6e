//! Byte streams: connections of a listener for byte streams, upgraded ones, and those that the
//! server has opened.

use crate::deadline::DeadlineKind;
use crate::outgoing_connect::{ConnectTls, RemoteOrigin};

/// The state of a byte stream for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamState {
    /// The application knows of it and has not ended it: `Gone` is owed if nothing else ends it.
    Open,
    /// The application has closed it: it ends after the queued output.
    Closed,
    /// The application has cut it, or was informed that it is gone.
    Gone,
}

/// The state of a byte stream.
pub(crate) struct ByteStream {
    pub(crate) state: StreamState,
    /// Whether the queue exceeded its high water, so that `Writable` is owed.
    pub(crate) owes_writable: bool,
    /// Whether the peer has ended its side, so that `End` is owed after the bytes that came before.
    pub(crate) end_event_pending: bool,
    /// The number of bytes that the application will take.
    pub(crate) wanted_bytes: u64,
    /// The application's tag of it, if the server has opened it.
    pub(crate) tag: Option<u64>,
    /// The lower half of the backend's progress at the last deadline of the application.
    pub(crate) progress: u32,
    /// Whether the application sends no more: the end of our side is sent after the queued output.
    pub(crate) owes_finish: bool,
    /// Whether the end of our side was requested.
    pub(crate) finished: bool,
    /// Whether a send has failed because the peer has reset the connection: the end of the peer's
    /// input is no orderly one.
    pub(crate) is_reset: bool,
    /// Whether the first byte of the peer has not arrived, and its listener has a timeout for it.
    pub(crate) awaits_first_byte: bool,
}

/// A connection that is being opened.
pub(crate) struct Connecting {
    /// The byte stream that it will be.
    pub(crate) stream: ByteStream,
    pub(crate) origin: RemoteOrigin,
    /// The TLS settings, if it is encrypted, until the handshake begins.
    pub(crate) tls: Option<ConnectTls>,
    /// The time by which it must be open, in milliseconds.
    pub(crate) due_ms: u64,
    pub(crate) step: ConnectStep,
    /// The reason why the handshake has failed.
    pub(crate) failure: Option<Box<rustls::Error>>,
}

/// The step in the opening of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectStep {
    /// The system has no request for it yet.
    Wanted,
    /// The system works on it.
    Begun,
    /// The connection is open, and the TLS handshake is not over.
    Handshake,
}

impl ByteStream {
    /// Creates a byte stream, whose peer may have `ended` already.
    pub(crate) fn new(peer_ended: bool) -> Self {
        Self {
            state: StreamState::Open,
            owes_writable: false,
            end_event_pending: peer_ended,
            wanted_bytes: 0,
            tag: None,
            progress: 0,
            owes_finish: false,
            finished: false,
            is_reset: false,
            awaits_first_byte: false,
        }
    }

    /// Returns the kind of deadline that it needs.
    pub(crate) fn deadline_kind(&self) -> DeadlineKind {
        let awaits_byte = self.awaits_first_byte && self.wanted_bytes > 0;
        if awaits_byte { DeadlineKind::FirstByte } else { DeadlineKind::StreamIdle }
    }

    /// Creates the byte stream of a connection that the server opens, with the application's `tag`.
    pub(crate) fn opened(tag: u64) -> Self {
        Self { tag: Some(tag), ..Self::new(false) }
    }

    /// Abandons the byte stream because its connection goes: returns whether the application is
    /// owed `Gone`, once.
    pub(crate) fn abandon(&mut self) -> bool {
        std::mem::replace(&mut self.state, StreamState::Gone) == StreamState::Open
    }
}
