//! The pause before a worker that has died is started again. One that dies at once, again and
//! again, must neither burn a processor nor fill a log.

use crate::limits::{ACCEPT_PAUSE_MS, RESTART_PAUSE_MAX_MS};
use std::time::Duration;

/// The pause after the next death.
pub(crate) struct RestartPause {
    next_ms: u64,
}

impl Default for RestartPause {
    fn default() -> Self {
        Self { next_ms: ACCEPT_PAUSE_MS }
    }
}

impl RestartPause {
    /// Returns the milliseconds to wait, after a worker has lived for `lifetime`.
    pub(crate) fn after(&mut self, lifetime: Duration) -> u64 {
        if lifetime >= Duration::from_millis(RESTART_PAUSE_MAX_MS) {
            self.next_ms = ACCEPT_PAUSE_MS;
        }
        let pause_ms = self.next_ms;
        self.next_ms = (pause_ms * 2).min(RESTART_PAUSE_MAX_MS);
        pause_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_a_worker_runs_for_the_longest_pause() {
        let mut pause = RestartPause::default();
        let brief = Duration::from_millis(RESTART_PAUSE_MAX_MS - 1);
        let long = Duration::from_millis(RESTART_PAUSE_MAX_MS);
        let pauses: Vec<u64> = (0..6).map(|_| pause.after(brief)).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 1600]);
        assert_eq!([long, brief, brief].map(|lifetime| pause.after(lifetime)), [100, 200, 400]);
    }
}
