//! The direction of a connection: incoming from a client, or outgoing from the server.

use std::num::NonZeroU16;

/// The direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionDirection {
    /// A client opened the connection, to this listener.
    Incoming(ListenerIndex),
    /// The server opened the connection.
    Outgoing,
}

/// The index of a listener plus one, so that a direction takes two bytes.
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
    /// Returns the direction of a connection that the listener with this index has accepted.
    #[inline]
    pub(crate) fn incoming(listener: u16) -> Self {
        Self::Incoming(ListenerIndex(NonZeroU16::MIN.saturating_add(listener)))
    }
}
