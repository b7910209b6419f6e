//! The processing of the kernel's backlog: passes that do not wait, until some have no result. A
//! wait brings a batch, so more may be left than one pass has brought.
//!
//! It is done at the end of a worker ([`crate::drain`]), and when a worker was held up: stopped by
//! a signal or a debugger, or by the load of its machine. Its clients were not. Their input that
//! came in time is processed before any deadline counts, so that no client is cut because the
//! server was late.

use crate::limits::{BACKLOG_PASSES_MAX, BACKLOG_QUIET_PASSES, HELD_UP_MS};

/// The progress of the processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Backlog {
    /// Passes so far.
    passes: u32,
    /// The number of the last passes in a row that had no result.
    quiet: u32,
}

impl Backlog {
    /// Counts a pass; `brought` is whether it had a result. Returns true if no more passes are
    /// needed.
    pub(crate) fn is_over(&mut self, brought: bool) -> bool {
        self.passes += 1;
        self.quiet = if brought { 0 } else { self.quiet + 1 };
        self.quiet >= BACKLOG_QUIET_PASSES || self.passes >= BACKLOG_PASSES_MAX
    }
}

/// A check whether a worker comes to its deadlines in time. Times are milliseconds of a monotonic
/// clock.
#[derive(Debug, Default)]
pub(crate) struct Punctuality {
    /// The time at which it should check its deadlines next, if it has any.
    due_ms: Option<u64>,
    /// The backlog that it processes, if it was held up.
    backlog: Option<Backlog>,
}

impl Punctuality {
    /// Notes the beginning of a wait that should end at `due_ms`.
    pub(crate) fn expect(&mut self, due_ms: Option<u64>) {
        self.due_ms = due_ms;
    }

    /// Checks the end of the wait, at `now_ms`.
    pub(crate) fn check(&mut self, now_ms: u64) {
        if self.due_ms.is_some_and(|due_ms| now_ms >= due_ms + HELD_UP_MS) {
            self.backlog.get_or_insert_default();
        }
    }

    /// Returns whether deadlines do not count yet, and no pass waits.
    pub(crate) fn is_catching_up(&self) -> bool {
        self.backlog.is_some()
    }

    /// Notes the end of a pass; `brought` is whether it had a result.
    pub(crate) fn passed(&mut self, brought: bool) {
        if self.backlog.as_mut().is_some_and(|backlog| backlog.is_over(brought)) {
            self.backlog = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_count_again_when_nothing_comes() {
        let mut worker = Punctuality::default();
        worker.check(u64::MAX);
        assert!(!worker.is_catching_up(), "it had nothing to be late for");
        worker.expect(Some(5000));
        worker.check(5000 + HELD_UP_MS - 1);
        assert!(!worker.is_catching_up());
        worker.check(5000 + HELD_UP_MS);
        for brought in [true, false, true, false] {
            worker.passed(brought);
            assert!(worker.is_catching_up());
        }
        worker.passed(false);
        assert!(!worker.is_catching_up());
    }

    #[test]
    fn a_flood_does_not_postpone_deadlines_indefinitely() {
        let mut worker = Punctuality::default();
        worker.expect(Some(0));
        worker.check(HELD_UP_MS);
        let passes = (1..).take_while(|_| {
            worker.check(u64::MAX);
            worker.passed(true);
            worker.is_catching_up()
        });
        assert_eq!(passes.count() as u32 + 1, BACKLOG_PASSES_MAX);
    }
}
