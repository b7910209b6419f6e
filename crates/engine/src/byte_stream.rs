//! Byte streams: connections of a raw listener, and those that were upgraded.

/// How far a byte stream has come.
pub(crate) struct ByteStream {
    /// The application has heard of it and not ended it: it is owed `Gone` if nothing else ends it.
    pub(crate) is_open: bool,
    /// The application has closed it: it ends behind what is queued.
    pub(crate) is_closed: bool,
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
        Self { is_open: true, is_closed: false, owes_writable: false, owes_end: ended, wanted: 0 }
    }
}
