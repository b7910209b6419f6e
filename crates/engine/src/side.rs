//! Who has begun a connection: a client or the server.

use std::num::NonZeroU16;

/// Who has begun a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionSide {
    /// A client, by a listener.
    Accepted(ListenerIndex),
    /// The server.
    Opened,
}

/// The index of a listener plus one, so that a side takes two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenerIndex(NonZeroU16);

impl ListenerIndex {
    /// The index.
    #[inline]
    pub(crate) fn get(self) -> u16 {
        self.0.get() - 1
    }
}

impl ConnectionSide {
    /// The side of a client that came by the listener with this index.
    #[inline]
    pub(crate) fn accepted(listener: u16) -> Self {
        Self::Accepted(ListenerIndex(NonZeroU16::MIN.saturating_add(listener)))
    }
}
