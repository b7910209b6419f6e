//! A limit of rate by the generic cell rate algorithm (GCRA, ITU-T I.371 Annex A), in the form that
//! is called virtual scheduling.
//!
//! The state of each client is one number, the time at which its next request would be due if all
//! of them came evenly spaced. The caller keeps it and passes the time: both are nanoseconds of one
//! clock that does not go back.

/// A limit on the number of requests in a time, and on the number of requests at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The time from one request to the next, if they come evenly spaced.
    interval_ns: u64,
    /// The most nanoseconds by which the due time of the next request may be ahead of the present
    /// time.
    tolerance_ns: u64,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request is within the limit.
    Admitted {
        /// The new state of the client.
        due_ns: u64,
    },
    /// The request is over the limit; the state of the client does not change.
    Refused {
        /// In so many nanoseconds one request will be within the limit.
        wait_ns: u64,
    },
}

impl RateLimit {
    /// Makes a limit of `count` requests in `period_ns`, of which `burst` may come at once.
    /// Returns `None` where one of them is 0, or where the numbers are too large to count with.
    #[must_use]
    pub fn new(count: u64, period_ns: u64, burst: u64) -> Option<Self> {
        // Rounded up, so that never more than `count` come in the period.
        let interval_ns = period_ns.checked_add(count.checked_sub(1)?)?.checked_div(count)?;
        let tolerance_ns = interval_ns.checked_mul(burst.checked_sub(1)?)?;
        let is_countable = interval_ns > 0 && tolerance_ns <= u64::MAX / 4;
        is_countable.then_some(Self { interval_ns, tolerance_ns })
    }

    /// Decides about a request. `due_ns` is the state of the client, 0 for an unknown client.
    #[must_use]
    pub const fn admit(&self, due_ns: u64, now_ns: u64) -> Admission {
        let due_ns = if due_ns > now_ns { due_ns } else { now_ns };
        let ahead_ns = due_ns - now_ns;
        if ahead_ns > self.tolerance_ns {
            return Admission::Refused { wait_ns: ahead_ns - self.tolerance_ns };
        }
        Admission::Admitted { due_ns: due_ns.saturating_add(self.interval_ns) }
    }

    /// Takes a request back that was admitted, and returns the new state of the client.
    #[must_use]
    pub const fn refund(&self, due_ns: u64) -> u64 {
        due_ns.saturating_sub(self.interval_ns)
    }

    /// Returns the latest time that [`Self::admit`] can give at this time: more is kept of no
    /// client of this limit.
    #[must_use]
    pub const fn due_max_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.tolerance_ns).saturating_add(self.interval_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The law of the limit: within any time no more requests are admitted than `burst` and one for
    /// each interval of that time. `admitted` are the times of those that were.
    fn is_within(admitted: &[u64], now_ns: u64, interval_ns: u64, burst: u64) -> bool {
        let counts = admitted.iter().rev().zip(2_u64..);
        let since = counts.map(|(at, count)| (count, (now_ns - at) / interval_ns));
        burst >= 1 && since.into_iter().all(|(count, intervals)| count <= burst + intervals)
    }

    proptest! {
        /// A request is admitted if and only if the law allows it.
        #[test]
        fn exactly_the_requests_within_the_rate_are_admitted(
            count in 1_u64..50,
            period_ns in 1_u64..2000,
            burst in 1_u64..8,
            gaps in prop::collection::vec(prop_oneof![Just(0), 0_u64..60, 0_u64..4000], 1..80),
        ) {
            let limit = RateLimit::new(count, period_ns, burst).expect("a limit");
            let interval_ns = period_ns.div_ceil(count);
            let (mut admitted, mut due_ns, mut now_ns) = (Vec::new(), 0, 1_000_000);
            for gap_ns in gaps {
                now_ns += gap_ns;
                let is_allowed = is_within(&admitted, now_ns, interval_ns, burst);
                match limit.admit(due_ns, now_ns) {
                    Admission::Admitted { due_ns: next_ns } => {
                        prop_assert!(is_allowed);
                        prop_assert!(next_ns <= limit.due_max_ns(now_ns));
                        due_ns = next_ns;
                        admitted.push(now_ns);
                    }
                    Admission::Refused { wait_ns } => {
                        prop_assert!(!is_allowed);
                        // Not a nanosecond earlier, and not one later.
                        let then_ns = now_ns + wait_ns;
                        prop_assert!(!is_within(&admitted, then_ns - 1, interval_ns, burst));
                        prop_assert!(is_within(&admitted, then_ns, interval_ns, burst));
                    }
                }
            }
        }

        /// A request that is taken back has never been.
        #[test]
        fn a_refund_undoes_an_admission(
            burst in 1_u64..8,
            ahead_ns in 0_u64..2_000,
        ) {
            let limit = RateLimit::new(10, 1000, burst).expect("a limit");
            let now_ns = 5_000;
            let due_ns = now_ns + ahead_ns;
            if let Admission::Admitted { due_ns: next_ns } = limit.admit(due_ns, now_ns) {
                prop_assert_eq!(limit.refund(next_ns), due_ns);
            }
        }

        #[test]
        fn no_numbers_overflow(count: u64, period_ns: u64, burst: u64, due_ns: u64, now_ns: u64) {
            if let Some(limit) = RateLimit::new(count, period_ns, burst) {
                let _ = limit.admit(due_ns, now_ns);
                let _ = limit.due_max_ns(now_ns);
                let _ = limit.refund(due_ns);
            }
        }
    }

    #[test]
    fn limits_of_zero_are_refused() {
        assert_eq!(RateLimit::new(0, 1, 1), None);
        assert_eq!(RateLimit::new(1, 0, 1), None);
        assert_eq!(RateLimit::new(1, 1, 0), None);
        assert_eq!(RateLimit::new(1, u64::MAX, 2), None);
        assert!(RateLimit::new(1, 3_600_000_000_000, 1_000_000).is_some());
    }
}
