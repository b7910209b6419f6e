//! How far the end of a worker has come: see `drain`.

use crate::backlog::Backlog;

/// How far the end of a worker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerEnding {
    /// It has not begun.
    No,
    /// Whoever waits is taken.
    Emptying {
        backlog: Backlog,
        /// Until then places are waited for that clients could have, in milliseconds.
        places_until_ms: u64,
    },
    /// What runs is finished. Newcomers that have not spoken, and others who have not said what was
    /// waited for, are closed at this time, in milliseconds; `u64::MAX` once that is done.
    Finishing { newcomers_until_ms: u64 },
}
