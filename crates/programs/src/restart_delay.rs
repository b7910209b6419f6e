//! Computes the delay before a program that has ended is restarted: an exponential back-off with
//! jitter.

use crate::limits::{
    RESTART_DELAY_MAX_MS, RESTART_DELAY_MS, RESTART_JITTER_DIVISOR, STABLE_RUN_MS,
};

/// The back-off of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestartDelay {
    /// The number of consecutive ends, none of them after a run of at least [`STABLE_RUN_MS`].
    ends: u32,
}

impl RestartDelay {
    /// Counts the end of a run and returns the delay of the next start, in milliseconds. `random`
    /// is any number; it determines the jitter.
    pub(crate) fn after_run(&mut self, ran_ms: u64, random: u64) -> u64 {
        if ran_ms >= STABLE_RUN_MS {
            self.ends = 0;
        }
        let doubled = RESTART_DELAY_MS.saturating_mul(1_u64.checked_shl(self.ends).unwrap_or(0));
        // After 64 ends the shift has left nothing; the bound was reached long before.
        let is_bounded = doubled == 0 || doubled > RESTART_DELAY_MAX_MS;
        let delay_ms = if is_bounded { RESTART_DELAY_MAX_MS } else { doubled };
        self.ends = self.ends.saturating_add(1);
        delay_ms + random % (delay_ms / RESTART_JITTER_DIVISOR + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_delays_double_to_a_maximum_and_reset_after_a_long_run() {
        let mut delay = RestartDelay::default();
        let delays: Vec<u64> = (0..12).map(|_| delay.after_run(0, 0)).collect();
        assert_eq!(delays[..5], [100, 200, 400, 800, 1600]);
        assert_eq!(delays[8..], [25_600, 30_000, 30_000, 30_000]);
        assert_eq!(delay.after_run(STABLE_RUN_MS - 1, 0), RESTART_DELAY_MAX_MS);
        assert_eq!(delay.after_run(STABLE_RUN_MS, 0), RESTART_DELAY_MS);
        assert_eq!(delay.after_run(0, 0), 2 * RESTART_DELAY_MS);
    }

    #[test]
    fn restart_delays_are_limited_after_any_number_of_exits() {
        let mut delay = RestartDelay { ends: u32::MAX - 70 };
        for _ in 0..100 {
            assert_eq!(delay.after_run(0, 0), RESTART_DELAY_MAX_MS);
        }
        let mut delay = RestartDelay { ends: 50 };
        for _ in 0..100 {
            assert_eq!(delay.after_run(0, 0), RESTART_DELAY_MAX_MS);
        }
    }

    #[test]
    fn jitter_adds_at_most_a_quarter() {
        let delays = (0..1000).map(|random| RestartDelay::default().after_run(0, random));
        let (least, most) = (delays.clone().min(), delays.max());
        assert_eq!((least, most), (Some(100), Some(125)));
    }
}
