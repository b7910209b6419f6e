//! What an exchange is told as well as a byte stream, and what does not come from the peer's bytes.

use crate::app::{Event, RawEvent};
use crate::inbox::Message;

/// See the module's head.
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
