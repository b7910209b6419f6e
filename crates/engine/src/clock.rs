//! The two clocks that a worker reads once per pass.

use rustix::time::{ClockId, clock_gettime};

/// The time of one pass of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of the monotonic clock; all deadlines use it.
    pub monotonic_ms: u64,
    /// Seconds since 1970 of the wall clock; dates in fields use it.
    pub unix_seconds: i64,
    /// Milliseconds since 1970 of the wall clock, late by some of them; times of the store use it.
    pub unix_ms: u64,
}

impl Now {
    /// Reads the system's clocks. The wall clock is the coarse one, which is late by some
    /// milliseconds.
    pub fn read() -> Self {
        let monotonic = clock_gettime(ClockId::Monotonic);
        let wall = clock_gettime(ClockId::RealtimeCoarse);
        Self {
            monotonic_ms: monotonic.tv_sec as u64 * 1000 + monotonic.tv_nsec as u64 / 1_000_000,
            unix_seconds: wall.tv_sec,
            unix_ms: wall.tv_sec as u64 * 1000 + wall.tv_nsec as u64 / 1_000_000,
        }
    }
}
