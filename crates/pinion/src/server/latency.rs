//! The times that requests take: a histogram for each worker, and percentiles of all of them.
//!
//! Reading the clock for each of many pipelined requests would cost a noticeable part of their
//! time. So the first request of a pass over the events is always measured, and of the others one
//! in [`SAMPLED`], which counts for all of them.

use crate::control::status::Latency;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Of the requests of a pass except the first, one in so many is measured.
const SAMPLED: u64 = 16;

/// Buckets of each power of two: a reported time is at most an eighth too long.
const STEPS: usize = 8;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Powers of two of microseconds; the last bucket has all that take longer, about an hour.
const POWERS: usize = 30;
const BUCKETS: usize = POWERS * STEPS;

/// Times of one worker. It alone writes.
#[derive(Debug)]
pub(crate) struct Times([AtomicU64; BUCKETS]);

impl Default for Times {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Times {
    /// Counts a request that took so long for as many as it stands for.
    pub(crate) fn add(&self, time: Duration, weight: u64) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.0.get(bucket(micros)) {
            count.store(count.load(Ordering::Relaxed).wrapping_add(weight), Ordering::Relaxed);
        }
    }
}

/// Which requests are measured.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    /// Requests since one was measured.
    since: u64,
    /// The next request is the first of its pass.
    is_first: bool,
}

impl Sampling {
    /// Begins a pass.
    pub(crate) fn pass(&mut self) {
        self.is_first = true;
    }

    /// Returns for how many requests this one stands, if it is measured.
    pub(crate) fn weight(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.is_first) {
            return Some(1);
        }
        self.since += 1;
        if self.since < SAMPLED {
            return None;
        }
        self.since = 0;
        Some(SAMPLED)
    }
}

/// Returns the percentiles of the times of all workers; none before the first request.
pub(crate) fn percentiles<'t>(all: impl Iterator<Item = &'t Times>) -> Option<Latency> {
    let mut sums = [0_u64; BUCKETS];
    for times in all {
        for (sum, count) in sums.iter_mut().zip(&times.0) {
            *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
        }
    }
    let total: u64 = sums.iter().sum();
    if total == 0 {
        return None;
    }
    let at = |percent: u64| {
        let rank = (total * percent).div_ceil(100);
        let mut below = 0;
        let reached = sums.iter().position(|count| {
            below += count;
            below >= rank
        });
        most_micros(reached.unwrap_or(BUCKETS - 1))
    };
    let last = sums.iter().rposition(|count| *count > 0).unwrap_or_default();
    Some(Latency {
        p50_micros: at(50),
        p90_micros: at(90),
        p99_micros: at(99),
        max_micros: most_micros(last),
    })
}

/// Returns the bucket of a time: those of the first microseconds have one each.
fn bucket(micros: u64) -> usize {
    let power = micros.max(1).ilog2().saturating_sub(STEP_BITS);
    let step = (micros >> power) as usize;
    (power as usize * STEPS + step).min(BUCKETS - 1)
}

/// Returns the longest time of a bucket.
fn most_micros(bucket: usize) -> u64 {
    let power = (bucket / STEPS).saturating_sub(1);
    let step = (bucket - power * STEPS) as u64;
    ((step + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reported_time_is_at_most_an_eighth_too_long(micros in 0_u64..1 << 31) {
            let reported = most_micros(bucket(micros));
            prop_assert!(reported >= micros, "{reported}");
            prop_assert!(reported <= micros + micros / STEPS as u64, "{reported}");
        }
    }

    #[test]
    fn every_bucket_follows_the_one_before() {
        for next in 1..BUCKETS {
            let most = most_micros(next - 1);
            assert_eq!((bucket(most), bucket(most + 1)), (next - 1, next));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_all_workers() {
        let (one, two) = (Times::default(), Times::default());
        assert_eq!(percentiles([&one, &two].into_iter()), None);
        (0..90).for_each(|_| one.add(Duration::from_micros(3), 1));
        two.add(Duration::from_micros(7), 9);
        two.add(Duration::from_millis(100), 1);
        let found = percentiles([&one, &two].into_iter()).expect("requests");
        assert_eq!((found.p50_micros, found.p90_micros, found.p99_micros), (3, 3, 7));
        assert!((100_000..112_500).contains(&found.max_micros), "{found:?}");
    }

    #[test]
    fn sampled_requests_are_weighted_to_the_total() {
        let mut sampling = Sampling::default();
        let (mut all, mut measured) = (0, 0);
        for requests in [1, 1, 16, 33, 1, 150] {
            sampling.pass();
            all += requests;
            measured += (0..requests).filter_map(|_| sampling.weight()).sum::<u64>();
        }
        assert!(all - measured < SAMPLED, "{measured} of {all}");
    }
}
