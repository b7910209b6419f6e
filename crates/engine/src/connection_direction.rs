//! The side that has opened a connection: a client or the server.

use std::num::NonZeroU16;

/// The side that has opened a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionDirection {
    /// A client opened it, to a listener.
    Incoming(ListenerIndex),
    /// The server opened it.
    Outgoing,
}

/// The index of a listener plus one, so that a side takes two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenerIndex(NonZeroU16);

impl ListenerIndex {
    /// Returns the index.
    #[inline]
    pub(crate) fn get(self) -> u16 {
        self.0.get() - 1
    }
}

impl ConnectionDirection {
    /// Returns the side of a client that was accepted by the listener with this index.
    #[inline]
    pub(crate) fn incoming(listener: u16) -> Self {
        Self::Incoming(ListenerIndex(NonZeroU16::MIN.saturating_add(listener)))
    }
}
