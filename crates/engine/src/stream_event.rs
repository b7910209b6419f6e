//! The events that exchanges and byte streams have in common, and that do not come from the peer's
//! bytes.

use crate::app::{Event, RawEvent};
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

    pub(crate) fn for_stream(self) -> RawEvent<'static> {
        match self {
            Self::Writable => RawEvent::Writable,
            Self::Posted(message) => RawEvent::Posted(message),
            Self::Deadline => RawEvent::Deadline,
            Self::Stopping => RawEvent::Stopping,
        }
    }
}
