//! The wall clock: set now and then, in either direction, while the clock of the deadlines goes on.
//! It remembers the times that it has shown, so that a run can check whether a date was ever right.

use super::random::Random;

/// The wall clock of a run. Moments are milliseconds of the monotonic clock.
#[derive(Debug)]
pub(super) struct Wall {
    /// The times since which it was ahead of the monotonic clock, and by how many milliseconds; in
    /// order.
    settings: Vec<(u64, i64)>,
}

impl Wall {
    /// Creates a clock that shows `unix_seconds` at `now_ms`.
    pub(super) fn new(now_ms: u64, unix_seconds: i64) -> Self {
        Self { settings: vec![(now_ms, unix_seconds * 1000 - now_ms as i64)] }
    }

    /// Sets it by at most so many milliseconds, forward or back, often by few; returns by how many.
    pub(super) fn set(&mut self, now_ms: u64, random: &mut Random, most_ms: u64) -> i64 {
        let magnitudes = u64::from(most_ms.max(1).ilog2()) + 1;
        let bound = most_ms.max(1) >> random.below(magnitudes);
        let by_ms = random.between(1, bound) as i64;
        let by_ms = if random.chance(500) { by_ms } else { -by_ms };
        let ahead_ms = self.settings.last().map_or(0, |(_, ahead_ms)| *ahead_ms);
        self.settings.push((now_ms, ahead_ms + by_ms));
        by_ms
    }

    /// Returns the time that it shows, in seconds since 1970.
    pub(super) fn seconds(&self, now_ms: u64) -> i64 {
        self.settings.last().map_or(0, |(_, ahead_ms)| seconds(now_ms, *ahead_ms))
    }

    /// Returns the time that it shows, in milliseconds since 1970.
    pub(super) fn milliseconds(&self, now_ms: u64) -> u64 {
        self.settings.last().map_or(0, |(_, ahead_ms)| now_ms.saturating_add_signed(*ahead_ms))
    }

    /// Returns whether it showed a second at some moment from `from_ms` to `to_ms`.
    pub(super) fn showed(&self, second: i64, from_ms: u64, to_ms: u64) -> bool {
        let mut to_ms = to_ms;
        for (since_ms, ahead_ms) in self.settings.iter().rev() {
            if to_ms < from_ms {
                break;
            }
            if *since_ms <= to_ms {
                let first = seconds(from_ms.max(*since_ms), *ahead_ms);
                if (first..=seconds(to_ms, *ahead_ms)).contains(&second) {
                    return true;
                }
                to_ms = *since_ms;
            }
        }
        false
    }
}

fn seconds(now_ms: u64, ahead_ms: i64) -> i64 {
    (now_ms as i64 + ahead_ms).div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_remembers_the_seconds_it_showed() {
        // 5 s back after 2.5 s, and 100 s forward after 3 s.
        let wall = Wall { settings: vec![(1000, 0), (3500, -5000), (4000, 95_000)] };
        assert_eq!(wall.seconds(4500), 99);
        for (second, from_ms, to_ms, showed) in [
            (1, 1000, 1999, true),
            (2, 1000, 1999, false),
            (3, 1000, 3400, true),
            (3, 3600, 9000, false),
            (-2, 3400, 3600, true),
            (-1, 3400, 3999, false),
            (99, 3600, 4999, true),
            (100, 3600, 4999, false),
        ] {
            assert_eq!(wall.showed(second, from_ms, to_ms), showed, "{second}: {from_ms}–{to_ms}");
        }
    }

    #[test]
    fn the_clock_is_set_in_both_directions_within_the_limit() {
        let mut wall = Wall::new(5000, 1_790_000_000);
        assert_eq!(wall.seconds(7999), 1_790_000_002);
        let mut random = Random::new(1);
        let steps: Vec<i64> = (0..200).map(|_| wall.set(8000, &mut random, 9_000_000)).collect();
        assert!(steps.iter().all(|by_ms| (1..=9_000_000).contains(&by_ms.abs())));
        assert!(steps.iter().any(|by_ms| *by_ms > 3_600_000));
        assert!(steps.iter().any(|by_ms| *by_ms < -3_600_000));
        assert!(steps.iter().any(|by_ms| by_ms.abs() < 2000));
    }
}
