//! Byte streams: connections of a raw listener, those that were upgraded, and those that the server
//! has opened.

use crate::deadline::DeadlineWatch;
use crate::remote::{ConnectTls, RemoteOrigin};

/// What a byte stream is for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamState {
    /// The application has heard of it and not ended it: it is owed `Gone` if nothing else ends it.
    Open,
    /// The application has closed it: it ends behind what is queued.
    Closed,
    /// The application has cut it, or has heard that it is gone.
    Gone,
}

/// How far a byte stream has come.
pub(crate) struct ByteStream {
    pub(crate) state: StreamState,
    /// The queue went over its high water; `Writable` is owed.
    pub(crate) owes_writable: bool,
    /// The peer has ended; `End` is owed behind the bytes that came before.
    pub(crate) owes_end: bool,
    /// Bytes that the application will take.
    pub(crate) wanted: u64,
    /// What the application calls it, if the server has opened it.
    pub(crate) tag: Option<u64>,
    /// The lower half of the backend's progress at the last deadline of the application.
    pub(crate) progress: u32,
    /// The application sends no more: the end of our side goes out behind what is queued.
    pub(crate) owes_finish: bool,
    /// … and was asked for.
    pub(crate) finished: bool,
    /// A send has failed because the peer has reset the connection: the end of what it has sent
    /// before is no orderly one.
    pub(crate) is_reset: bool,
    /// The first byte of the peer has not come, and its listener has a time for it.
    pub(crate) awaits_first_byte: bool,
}

/// A connection that is being opened.
pub(crate) struct Connecting {
    /// What it will be.
    pub(crate) stream: ByteStream,
    pub(crate) origin: RemoteOrigin,
    /// How it is encrypted, if it is, until the handshake begins.
    pub(crate) tls: Option<ConnectTls>,
    /// When it must be open, in milliseconds.
    pub(crate) due_ms: u64,
    pub(crate) step: ConnectStep,
    /// Why the handshake has failed.
    pub(crate) failure: Option<Box<rustls::Error>>,
}

/// How far the opening of a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectStep {
    /// The system knows nothing of it yet.
    Wanted,
    /// The system works on it.
    Begun,
    /// It is open, and the handshake of TLS is not over.
    Handshake,
}

impl ByteStream {
    /// A fresh one, whose peer may have `ended` already.
    pub(crate) fn new(ended: bool) -> Self {
        Self {
            state: StreamState::Open,
            owes_writable: false,
            owes_end: ended,
            wanted: 0,
            tag: None,
            progress: 0,
            owes_finish: false,
            finished: false,
            is_reset: false,
            awaits_first_byte: false,
        }
    }

    /// What its deadline watches.
    pub(crate) fn watch(&self) -> DeadlineWatch {
        let awaits_byte = self.awaits_first_byte && self.wanted > 0;
        if awaits_byte { DeadlineWatch::FirstByte } else { DeadlineWatch::StreamIdle }
    }

    /// One of a connection that the server opens, which the application calls `tag`.
    pub(crate) fn opened(tag: u64) -> Self {
        Self { tag: Some(tag), ..Self::new(false) }
    }

    /// The connection goes: returns whether the application is owed `Gone`, once.
    pub(crate) fn abandon(&mut self) -> bool {
        std::mem::replace(&mut self.state, StreamState::Gone) == StreamState::Open
    }
}
