//! The events that exchanges and byte streams have in common, and that do not come from the peer's
//! bytes.

use crate::app::{ByteStreamEvent, Event};
use crate::inbox::Message;

/// An event of an exchange or a byte stream.
pub(crate) enum Notice {
    Writable,
    Posted(Message),
    Deadline,
    Stopping,
}

impl Notice {
    pub(crate) fn for_exchange(self) -> Event<'static> {
        match self {
            Self::Writable => Event::Writable,
            Self::Posted(message) => Event::Posted(message),
            Self::Deadline => Event::Deadline,
            Self::Stopping => Event::Stopping,
        }
    }

    pub(crate) fn for_stream(self) -> ByteStreamEvent<'static> {
        match self {
            Self::Writable => ByteStreamEvent::Writable,
            Self::Posted(message) => ByteStreamEvent::Posted(message),
            Self::Deadline => ByteStreamEvent::Deadline,
            Self::Stopping => ByteStreamEvent::Stopping,
        }
    }
}
