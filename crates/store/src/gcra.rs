//! Rate limits by the generic cell rate algorithm (GCRA), in integers.
//!
//! A limit is a bucket of tokens, which is refilled one token after the other. The whole state of a
//! bucket is one time, which is not before now: the time at which the bucket is full again if no
//! more tokens are taken.

/// A rate limit.
///
/// In any period, the number of tokens taken is at most the capacity of the bucket plus the tokens
/// that are refilled in that period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The nanoseconds in which one token is refilled.
    interval_ns: u64,
    /// The number of tokens of a full bucket.
    capacity: u64,
    /// The nanoseconds in which an empty bucket becomes full.
    refill_ns: u64,
}

/// The result of taking tokens, with the state of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The outcome of taking the tokens.
    pub outcome: TakeOutcome,
    /// The number of tokens that are still available.
    pub available: u64,
    /// The state of the bucket: the time at which it is full, in nanoseconds of the clock.
    pub full_at_ns: u64,
    /// The nanoseconds until the bucket is full.
    pub full_after_ns: u64,
}

/// The outcome of taking tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The tokens were taken.
    Allowed,
    /// No token was taken. A retry is possible in so many nanoseconds.
    RetryAfter(u64),
    /// No token was taken, because the bucket never has so many.
    Never,
}

impl RateLimit {
    /// Creates a limit of `tokens` in `period_ns` nanoseconds, with bursts of `burst` tokens in
    /// addition to one. Returns `None` if a number is 0, or if it takes more than 584 years to fill
    /// the bucket.
    ///
    /// The refill time of a token is rounded up to whole nanoseconds, so a limit never allows more
    /// than configured.
    pub fn new(burst: u64, tokens: u64, period_ns: u64) -> Option<Self> {
        if tokens == 0 || period_ns == 0 {
            return None;
        }
        let (interval_ns, capacity) = (period_ns.div_ceil(tokens), burst.checked_add(1)?);
        let refill_ns = interval_ns.checked_mul(capacity)?;
        Some(Self { interval_ns, capacity, refill_ns })
    }

    /// Returns the number of tokens of a full bucket.
    pub fn capacity(self) -> u64 {
        self.capacity
    }

    /// Takes `count` tokens at the time `now_ns`, in nanoseconds. `full_at_ns` is the state of the
    /// bucket; without a state the bucket is full. Returns `None` if the new state exceeds the
    /// range of the clock.
    ///
    /// A clock that goes back makes a limit stricter and never allows more.
    pub fn take(self, full_at_ns: Option<u64>, count: u64, now_ns: u64) -> Option<Taken> {
        let before_ns = full_at_ns.map_or(now_ns, |at| at.max(now_ns));
        let after_ns = before_ns.checked_add(self.interval_ns.checked_mul(count)?)?;
        let too_late_ns = (after_ns - now_ns).saturating_sub(self.refill_ns);
        let outcome = match too_late_ns {
            0 => TakeOutcome::Allowed,
            _ if count > self.capacity => TakeOutcome::Never,
            _ => TakeOutcome::RetryAfter(too_late_ns),
        };
        let is_allowed = outcome == TakeOutcome::Allowed;
        let full_at_ns = if is_allowed { after_ns } else { before_ns };
        let full_after_ns = full_at_ns - now_ns;
        let available = self.refill_ns.saturating_sub(full_after_ns) / self.interval_ns;
        Some(Taken { outcome, available, full_at_ns, full_after_ns })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW_NS: u64 = 1_700_000_000_000_000_000;
    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_burst_and_then_the_rate_are_allowed() {
        // The limit is ten in a minute, and a burst of five in addition to one.
        let limit = RateLimit::new(5, 10, 60 * SECOND_NS).expect("it is a limit");
        let mut state = None;
        for left in (0..6).rev() {
            let taken = limit.take(state, 1, NOW_NS).expect("it is in range");
            assert_eq!((taken.outcome, taken.available), (TakeOutcome::Allowed, left));
            assert_eq!(taken.full_after_ns, (6 - left) * 6 * SECOND_NS);
            state = Some(taken.full_at_ns);
        }
        let taken = limit.take(state, 1, NOW_NS + SECOND_NS).expect("it is in range");
        assert_eq!(taken.outcome, TakeOutcome::RetryAfter(5 * SECOND_NS));
        assert_eq!((taken.available, Some(taken.full_at_ns)), (0, state));
        let never = limit.take(None, 7, NOW_NS).expect("it is in range");
        assert_eq!((never.outcome, never.available), (TakeOutcome::Never, 6));
    }

    #[test]
    fn limits_out_of_range_are_refused() {
        for (burst, tokens, period_ns) in
            [(0, 0, 1), (0, 1, 0), (u64::MAX, 1, 1), (1 << 40, 1, 1 << 40)]
        {
            assert_eq!(RateLimit::new(burst, tokens, period_ns), None);
        }
        let limit = RateLimit::new(0, u64::MAX, 1).expect("it is a limit");
        assert_eq!(limit.take(Some(u64::MAX), 1, NOW_NS), None);
        assert_eq!(limit.take(None, u64::MAX, NOW_NS), None);
    }

    /// Takes of tokens, each some nanoseconds after the previous one.
    fn takes() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let pause = prop_oneof![3 => Just(0), 3 => 0..50_u64, 1 => 0..10_000_u64];
        prop::collection::vec((pause, 0..5_u64), 1..200)
    }

    proptest! {
        #[test]
        fn no_more_than_burst_and_rate_is_allowed(
            burst in 0..10_u64,
            tokens in 1..50_u64,
            period_ns in 1..2000_u64,
            takes in takes(),
        ) {
            let limit = RateLimit::new(burst, tokens, period_ns).expect("it is a limit");
            let (mut now_ns, mut state) = (NOW_NS, None);
            // When tokens were taken, and how many.
            let mut allowed: Vec<(u64, u64)> = Vec::new();
            for (pause_ns, count) in takes {
                now_ns += pause_ns;
                let taken = limit.take(state, count, now_ns).expect("it is in range");
                prop_assert!(taken.full_at_ns >= now_ns && taken.available <= limit.capacity());
                if taken.outcome == TakeOutcome::Allowed {
                    allowed.push((now_ns, count));
                }
                state = Some(taken.full_at_ns);
            }
            for first in 0..allowed.len() {
                let mut total = 0;
                for (at_ns, count) in &allowed[first..] {
                    total += count;
                    let time_ns = u128::from(at_ns - allowed[first].0);
                    // In whole tokens: burst + 1 + time * tokens / period.
                    let beyond = u128::from(total.saturating_sub(burst + 1));
                    prop_assert!(beyond * u128::from(period_ns) <= time_ns * u128::from(tokens));
                }
            }
        }

        #[test]
        fn a_retry_is_allowed_exactly_after_the_reported_time(
            burst in 0..10_u64,
            tokens in 1..50_u64,
            period_ns in 1..2000_u64,
            debt_ns in 0..100_000_u64,
            count in 0..15_u64,
        ) {
            let limit = RateLimit::new(burst, tokens, period_ns).expect("it is a limit");
            let take = |after_ns| {
                let taken = limit.take(Some(NOW_NS + debt_ns), count, NOW_NS + after_ns);
                taken.expect("it is in range").outcome
            };
            match take(0) {
                TakeOutcome::Allowed => prop_assert!(count <= limit.capacity()),
                TakeOutcome::Never => {
                    prop_assert!(count > limit.capacity());
                    prop_assert_eq!(take(1 << 40), TakeOutcome::Never);
                }
                TakeOutcome::RetryAfter(after_ns) => {
                    prop_assert_eq!(take(after_ns), TakeOutcome::Allowed);
                    prop_assert_eq!(take(after_ns - 1), TakeOutcome::RetryAfter(1));
                }
            }
        }

        #[test]
        fn exactly_the_available_tokens_can_be_taken(
            burst in 0..10_u64,
            period_ns in 1..2000_u64,
            debt_ns in 0..30_000_u64,
        ) {
            let limit = RateLimit::new(burst, 1, period_ns).expect("it is a limit");
            let state = Some(NOW_NS + debt_ns);
            let seen = limit.take(state, 0, NOW_NS).expect("it is in range");
            let take = |count, now_ns| limit.take(state, count, now_ns).expect("in range").outcome;
            if debt_ns <= period_ns * (burst + 1) {
                prop_assert_eq!(take(seen.available, NOW_NS), TakeOutcome::Allowed);
            }
            prop_assert_ne!(take(seen.available + 1, NOW_NS), TakeOutcome::Allowed);
            let full_ns = NOW_NS + seen.full_after_ns;
            prop_assert_eq!(take(limit.capacity(), full_ns), TakeOutcome::Allowed);
        }
    }
}
