//! Counters of a site, which all its workers share and which outlive a reload. They end with the
//! server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::limits::{COUNTER_MAX, COUNTER_NAME_MAX_BYTES, COUNTERS_MAX};

/// The numbers by name.
#[derive(Debug, Default)]
pub(crate) struct SiteCounters {
    by_name: Mutex<HashMap<Vec<u8>, i64>>,
}

impl SiteCounters {
    /// Returns a copy, for a script that is tried before it is served.
    pub(crate) fn copy(&self) -> Self {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self { by_name: Mutex::new(by_name) }
    }

    /// Adds to a counter, which begins at 0, in one atomic step. Returns the sum.
    ///
    /// # Errors
    /// Returns the limit that is met, as a phrase. The counter is unchanged then.
    pub(crate) fn add(&self, name: &[u8], by: i64) -> Result<i64, String> {
        if name.len() > COUNTER_NAME_MAX_BYTES {
            return Err(format!(
                "the name of a counter has at most {COUNTER_NAME_MAX_BYTES} bytes"
            ));
        }
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let before = by_name.get(name).copied();
        if before.is_none() && by_name.len() >= COUNTERS_MAX {
            return Err(format!(
                "a site has at most {COUNTERS_MAX} counters; count totals, and not each visitor"
            ));
        }
        let sum = before.unwrap_or(0).checked_add(by).filter(|sum| sum.abs() <= COUNTER_MAX);
        let sum =
            sum.ok_or_else(|| format!("a counter goes from -{COUNTER_MAX} to {COUNTER_MAX}"))?;
        by_name.insert(name.to_vec(), sum);
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_additions_are_all_counted() {
        let counters = SiteCounters::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| drop(counters.add(b"a", 1))));
            }
        });
        assert_eq!(counters.add(b"a", 0), Ok(4000));
        assert_eq!(counters.add(b"b", -2), Ok(-2));
    }

    #[test]
    fn additions_beyond_a_limit_leave_counters_unchanged() {
        let counters = SiteCounters::default();
        assert_eq!(counters.add(b"a", COUNTER_MAX), Ok(COUNTER_MAX));
        for by in [1, COUNTER_MAX, i64::MAX] {
            assert!(counters.add(b"a", by).is_err(), "{by}");
        }
        assert_eq!(counters.add(b"a", -COUNTER_MAX), Ok(0));
        assert!(counters.add(&[b'n'; COUNTER_NAME_MAX_BYTES + 1], 1).is_err());
        for number in 1..COUNTERS_MAX {
            assert!(counters.add(number.to_string().as_bytes(), 1).is_ok(), "{number}");
        }
        assert!(counters.add(b"one more", 1).is_err());
        assert_eq!(counters.add(b"a", 7), Ok(7));
    }
}
