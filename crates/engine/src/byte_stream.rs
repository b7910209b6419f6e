//! Byte streams: connections of a raw listener, and those that were upgraded.

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
}

impl ByteStream {
    /// A fresh one, whose peer may have `ended` already.
    pub(crate) fn new(ended: bool) -> Self {
        Self { state: StreamState::Open, owes_writable: false, owes_end: ended, wanted: 0 }
    }

    /// The connection goes: returns whether the application is owed `Gone`, once.
    pub(crate) fn abandon(&mut self) -> bool {
        std::mem::replace(&mut self.state, StreamState::Gone) == StreamState::Open
    }
}
