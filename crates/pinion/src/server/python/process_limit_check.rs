//! Decides whether a process of a Python application has reached a limit and is replaced.

use crate::settings::ProcessLimits;
use crate::terminal::{count, size};
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// The resources that a process has used.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessUse {
    pub(super) requests: u64,
    pub(super) age: Duration,
    pub(super) memory_bytes: u64,
}

/// Most percent that are added to limits, so that processes that were started together are not
/// replaced together.
const JITTER_MAX_PERCENT: u64 = 10;

/// Returns how many percent are added to the limits of a process.
pub(super) fn jitter_percent() -> u64 {
    RandomState::new().hash_one(()) % (JITTER_MAX_PERCENT + 1)
}

/// Returns the limit that a process has reached, in words.
pub(super) fn reached(
    limits: &ProcessLimits,
    used: ProcessUse,
    jitter_percent: u64,
) -> Option<String> {
    let with_jitter = |limit: u64| limit.saturating_add(limit / 100 * jitter_percent);
    let is_reached = |limit: Option<u64>, value| limit.is_some_and(|limit| value >= limit);
    if is_reached(limits.requests.map(with_jitter), used.requests) {
        return Some(format!("{} requests (python-max-requests)", count(used.requests)));
    }
    if is_reached(limits.lifetime_seconds.map(with_jitter), used.age.as_secs()) {
        return Some(format!("{} seconds (python-max-lifetime)", count(used.age.as_secs())));
    }
    if is_reached(limits.memory_bytes, used.memory_bytes) {
        return Some(format!("{} of memory (python-max-memory)", size(used.memory_bytes)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_reached_for_itself() {
        let used =
            ProcessUse { requests: 1000, age: Duration::from_secs(100), memory_bytes: 5 << 20 };
        let none = ProcessLimits::default();
        assert_eq!(reached(&none, used, 0), None);
        for (limits, expected) in [
            (ProcessLimits { requests: Some(1000), ..none }, Some("1 000 requests")),
            (ProcessLimits { requests: Some(1001), ..none }, None),
            (ProcessLimits { lifetime_seconds: Some(100), ..none }, Some("100 seconds")),
            (ProcessLimits { lifetime_seconds: Some(101), ..none }, None),
            (ProcessLimits { memory_bytes: Some(5 << 20), ..none }, Some("5.00 MiB")),
            (ProcessLimits { memory_bytes: Some(6 << 20), ..none }, None),
        ] {
            let words = reached(&limits, used, 0);
            let matches = match (&words, expected) {
                (Some(words), Some(expected)) => words.starts_with(expected),
                (None, None) => true,
                _ => false,
            };
            assert!(matches, "{limits:?}: {words:?}");
        }
        let limits = ProcessLimits { requests: Some(950), ..none };
        assert!(reached(&limits, used, 5).is_some() && reached(&limits, used, 10).is_none());
        assert!((0..100).all(|_| jitter_percent() <= JITTER_MAX_PERCENT));
    }
}
