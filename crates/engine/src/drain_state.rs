//! The state of a worker's shutdown: see `drain`.

use crate::event_backlog::Backlog;

/// The state of a worker's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerEnding {
    /// It has not begun.
    No,
    /// Waiting clients are accepted.
    Emptying {
        backlog: Backlog,
        /// The time until which the worker waits for permits that clients could use, in
        /// milliseconds.
        places_until_ms: u64,
    },
    /// Open exchanges are finished. Newcomers without a request, and clients without the awaited
    /// confirmation, are closed at this time, in milliseconds; `u64::MAX` once that is done.
    Finishing { newcomers_until_ms: u64 },
}
