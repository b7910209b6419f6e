//! Decides which of several upstream servers can be used, from the failed requests to a server
//! (passive checks) and from requests of Pinion itself (active checks).
//!
//! [`ServerHealth`] is a state machine without a clock. `SharedHealth` is the same for all workers;
//! asking it costs one atomic load.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{FAIL_TIMEOUT_MS, HEALTH_FAILS, HEALTH_PASSES, MAX_FAILS};

/// The limits at which failed requests take a server out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassiveChecks {
    /// The number of failures within `fail_timeout_ms` that takes a server out; 0: none do.
    pub max_fails: u32,
    /// The time in which failures are counted, and for which the server is not used then.
    pub fail_timeout_ms: u64,
}

impl Default for PassiveChecks {
    fn default() -> Self {
        Self { max_fails: MAX_FAILS, fail_timeout_ms: FAIL_TIMEOUT_MS }
    }
}

/// The numbers of health checks in a row that change the state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthThresholds {
    /// The number of failed ones that takes it out. Not 0.
    pub fails: u32,
    /// The number of passed ones that brings it back. Not 0.
    pub passes: u32,
}

impl Default for HealthThresholds {
    fn default() -> Self {
        Self { fails: HEALTH_FAILS, passes: HEALTH_PASSES }
    }
}

/// A change of the state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthChange {
    /// This number of requests has failed: it is not used for this time.
    Out {
        /// The number of failures.
        fails: u32,
        /// The time, in milliseconds.
        timeout_ms: u64,
    },
    /// A request has succeeded: it is used again.
    Back,
    /// This number of health checks has failed in a row.
    Down(u32),
    /// This number of health checks has passed in a row.
    Up(u32),
}

/// Describes the change, as text after the name of a server.
impl fmt::Display for HealthChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Out { fails, timeout_ms } => {
                let seconds = timeout_ms / 1000;
                write!(f, "is not used for {seconds} s: {fails} requests have failed")
            }
            Self::Back => f.write_str("is used again: a request has succeeded"),
            Self::Down(1) => f.write_str("is down: a health check has failed"),
            Self::Down(fails) => write!(f, "is down: {fails} health checks have failed"),
            Self::Up(1) => f.write_str("is up: a health check has passed"),
            Self::Up(passes) => write!(f, "is up: {passes} health checks have passed"),
        }
    }
}

/// The known health of a server. A new one can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerHealth {
    /// Failures since `window_start_ms`.
    fails: u32,
    window_start_ms: u64,
    /// The time until which it is out because of failures, in monotonic milliseconds.
    out_until_ms: Option<u64>,
    is_down: bool,
    /// Health checks in a row whose result is another one than the state.
    streak: u32,
}

impl ServerHealth {
    /// Records that a request has failed because of the server.
    pub fn failed(&mut self, checks: PassiveChecks, now_ms: u64) -> Option<HealthChange> {
        let PassiveChecks { max_fails, fail_timeout_ms } = checks;
        if max_fails == 0 {
            return None;
        }
        let until_ms = now_ms.saturating_add(fail_timeout_ms);
        if self.out_until_ms.is_some() {
            self.out_until_ms = Some(until_ms);
            return None;
        }
        if self.fails == 0 || now_ms >= self.window_start_ms.saturating_add(fail_timeout_ms) {
            (self.fails, self.window_start_ms) = (0, now_ms);
        }
        self.fails += 1;
        if self.fails < max_fails {
            return None;
        }
        self.out_until_ms = Some(until_ms);
        Some(HealthChange::Out { fails: self.fails, timeout_ms: fail_timeout_ms })
    }

    /// Records that a request that was sent while the server was [out](Self::is_out) has succeeded.
    pub fn recovered(&mut self) -> Option<HealthChange> {
        self.out_until_ms.take()?;
        self.fails = 0;
        Some(HealthChange::Back)
    }

    /// Records the result of a health check.
    pub fn checked(
        &mut self,
        is_healthy: bool,
        thresholds: HealthThresholds,
    ) -> Option<HealthChange> {
        if is_healthy != self.is_down {
            self.streak = 0;
            return None;
        }
        self.streak += 1;
        let needed = if is_healthy { thresholds.passes } else { thresholds.fails };
        if self.streak < needed {
            return None;
        }
        self.is_down = !is_healthy;
        let streak = std::mem::take(&mut self.streak);
        Some(if is_healthy { HealthChange::Up(streak) } else { HealthChange::Down(streak) })
    }

    /// Returns whether failures have taken it out, and no request has succeeded since then.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.out_until_ms.is_some()
    }

    /// Returns whether health checks have taken it out.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// Returns whether it can be used.
    #[must_use]
    pub fn is_available(&self, now_ms: u64) -> bool {
        !self.is_down && self.out_until_ms.is_none_or(|until_ms| until_ms <= now_ms)
    }

    /// Begins to try the server again: one request at a time after the time is over. The next one
    /// may be sent when this one has succeeded, or when as much time has passed once more.
    fn begin_trial(&mut self, checks: PassiveChecks, now_ms: u64) {
        if self.out_until_ms.is_some() {
            self.out_until_ms = Some(now_ms.saturating_add(checks.fail_timeout_ms));
        }
    }

    /// Returns from when on it can be used, as [`SharedHealth`] has it.
    fn available_from_ms(&self) -> u64 {
        if self.is_down { NEVER } else { self.out_until_ms.map_or(0, |until_ms| until_ms.max(1)) }
    }
}

/// The time in [`SharedHealth`] of a server that is down.
const NEVER: u64 = u64::MAX;

/// The [`ServerHealth`] that all workers share.
#[derive(Debug, Default)]
pub(crate) struct SharedHealth {
    /// The time from which on it can be used, in monotonic milliseconds; 0 if it is healthy.
    available_from_ms: AtomicU64,
    health: Mutex<ServerHealth>,
}

/// Whether a server may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// The server is healthy.
    Available,
    /// It was out for long enough to be tried.
    Trial,
    /// It is not used.
    Out,
}

impl SharedHealth {
    /// Returns whether the server may be chosen.
    pub(crate) fn availability(&self, now_ms: u64) -> Availability {
        match self.available_from_ms.load(Ordering::Relaxed) {
            0 => Availability::Available,
            from_ms if from_ms <= now_ms => Availability::Trial,
            _ => Availability::Out,
        }
    }

    /// Returns a copy of the known health.
    pub(crate) fn snapshot(&self) -> ServerHealth {
        *self.lock()
    }

    /// Begins to try a server that was out. Returns false if another worker has just done so.
    pub(crate) fn begin_trial(&self, checks: PassiveChecks, now_ms: u64) -> bool {
        let mut health = self.lock();
        let is_free = health.is_available(now_ms);
        if is_free {
            health.begin_trial(checks, now_ms);
        }
        self.publish(&health);
        is_free
    }

    /// Calls [`ServerHealth::failed`].
    pub(crate) fn failed(&self, checks: PassiveChecks, now_ms: u64) -> Option<HealthChange> {
        let mut health = self.lock();
        let change = health.failed(checks, now_ms);
        self.publish(&health);
        change
    }

    /// Calls [`ServerHealth::recovered`].
    pub(crate) fn recovered(&self) -> Option<HealthChange> {
        let mut health = self.lock();
        let change = health.recovered();
        self.publish(&health);
        change
    }

    /// Calls [`ServerHealth::checked`].
    pub(crate) fn checked(
        &self,
        is_healthy: bool,
        thresholds: HealthThresholds,
    ) -> Option<HealthChange> {
        let mut health = self.lock();
        let change = health.checked(is_healthy, thresholds);
        self.publish(&health);
        change
    }

    fn publish(&self, health: &ServerHealth) {
        self.available_from_ms.store(health.available_from_ms(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, ServerHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHECKS: PassiveChecks = PassiveChecks { max_fails: 3, fail_timeout_ms: 10_000 };

    const THRESHOLDS: HealthThresholds = HealthThresholds { fails: 3, passes: 2 };

    #[test]
    fn failures_within_the_period_disable_a_server() {
        let mut health = ServerHealth::default();
        assert_eq!(health.failed(CHECKS, 0), None);
        assert_eq!(health.failed(CHECKS, 9_998), None);
        assert!(health.is_available(9_998) && !health.is_out());
        let out = HealthChange::Out { fails: 3, timeout_ms: 10_000 };
        assert_eq!(health.failed(CHECKS, 9_999), Some(out));
        assert!(!health.is_available(19_998) && health.is_available(19_999));
        // The server stays out when it fails again, which is reported only once.
        assert_eq!(health.failed(CHECKS, 19_999), None);
        assert!(!health.is_available(29_998) && health.is_available(29_999) && health.is_out());
        assert_eq!(health.recovered(), Some(HealthChange::Back));
        assert_eq!((health.recovered(), health.is_out()), (None, false));
        assert_eq!(health.failed(CHECKS, 30_000), None, "it is counted anew");
    }

    #[test]
    fn failures_that_are_rare_do_not_count() {
        let mut health = ServerHealth::default();
        for time in 0..100 {
            assert_eq!(health.failed(CHECKS, time * 5_000), None, "{time}");
        }
        let never = PassiveChecks { max_fails: 0, ..CHECKS };
        assert!((0..100).all(|_| health.failed(never, 0).is_none()));
    }

    #[test]
    fn health_checks_in_a_row_change_the_state() {
        let mut health = ServerHealth::default();
        let mut check = |is_healthy| health.checked(is_healthy, THRESHOLDS);
        for is_healthy in [true, false, false, true, false, false] {
            assert_eq!(check(is_healthy), None);
        }
        assert_eq!(check(false), Some(HealthChange::Down(3)));
        for is_healthy in [false, true, false, true] {
            assert_eq!(check(is_healthy), None);
        }
        assert_eq!(check(true), Some(HealthChange::Up(2)));
        assert_eq!(check(true), None);
    }

    #[test]
    fn one_request_at_a_time_tries_a_server_that_was_out() {
        let health = SharedHealth::default();
        for _ in 0..3 {
            health.failed(CHECKS, 0);
        }
        assert_eq!(health.availability(9_999), Availability::Out);
        assert!(!health.begin_trial(CHECKS, 9_999));
        assert_eq!(health.availability(10_000), Availability::Trial);
        assert!(health.begin_trial(CHECKS, 10_000));
        assert!(!health.begin_trial(CHECKS, 10_000), "another worker");
        assert_eq!(health.availability(19_999), Availability::Out);
        assert_eq!(health.availability(20_000), Availability::Trial);
        assert_eq!(health.recovered(), Some(HealthChange::Back));
        assert_eq!(health.availability(0), Availability::Available);
    }

    #[test]
    fn a_server_that_is_down_is_not_tried() {
        let health = SharedHealth::default();
        let once = HealthThresholds { fails: 1, passes: 1 };
        health.checked(false, once);
        assert_eq!(health.availability(u64::MAX - 1), Availability::Out);
        assert!(!health.begin_trial(CHECKS, u64::MAX - 1));
        health.checked(true, once);
        assert_eq!(health.availability(0), Availability::Available);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Failed,
        Recovered,
        Checked(bool),
        Pass(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::Failed),
            Just(Step::Recovered),
            any::<bool>().prop_map(Step::Checked),
            (0_u64..8_000).prop_map(Step::Pass),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Every change leads to another state, and is reported once. Workers read the state that
        /// the state machine has.
        #[test]
        fn changes_are_reported_once(steps in steps()) {
            let (shared, mut now_ms) = (SharedHealth::default(), 0);
            for step in steps {
                let before = shared.snapshot();
                let change = match step {
                    Step::Failed => shared.failed(CHECKS, now_ms),
                    Step::Recovered => shared.recovered(),
                    Step::Checked(is_healthy) => shared.checked(is_healthy, THRESHOLDS),
                    Step::Pass(ms) => {
                        now_ms += ms;
                        None
                    }
                };
                let after = shared.snapshot();
                let states = |one: ServerHealth| (one.is_out(), one.is_down());
                prop_assert_eq!(states(before) != states(after), change.is_some());
                let is_available = shared.availability(now_ms) != Availability::Out;
                prop_assert_eq!(is_available, after.is_available(now_ms));
            }
        }
    }
}
