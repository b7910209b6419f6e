//! The part of the operator's allowance that a task has left.

use std::time::Duration;

use crate::limits::{BACKGROUND_CPU_MAX_MS, STREAM_REGAIN_MS};
use crate::script_quotas::Allowance;

/// The allowance that a request has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskBudget {
    pub(crate) cpu: Duration,
    pub(crate) memory_bytes: usize,
    /// The steps of searches in strings.
    pub(crate) steps: u64,
}

impl TaskBudget {
    /// Returns the whole allowance of a request.
    pub(crate) fn of(allowance: &Allowance) -> Self {
        Self {
            cpu: Duration::from_millis(allowance.cpu_ms),
            memory_bytes: allowance.memory_bytes,
            steps: allowance.steps,
        }
    }

    /// Restores to a stream the part that it regains while it waits for so many milliseconds: all
    /// of it in [`STREAM_REGAIN_MS`].
    pub(super) fn regain(&mut self, waited_ms: u64, allowance: &Allowance) {
        let whole = Self::of(allowance);
        let waited_ms = waited_ms.min(STREAM_REGAIN_MS);
        let share = |of: u64| {
            (u128::from(of) * u128::from(waited_ms) / u128::from(STREAM_REGAIN_MS)) as u64
        };
        let cpu = Duration::from_micros(share(whole.cpu.as_micros() as u64));
        self.cpu = (self.cpu + cpu).min(whole.cpu.max(self.cpu));
        self.steps = (self.steps + share(whole.steps)).min(whole.steps.max(self.steps));
        let memory_bytes = self.memory_bytes + share(whole.memory_bytes as u64) as usize;
        self.memory_bytes = memory_bytes.min(whole.memory_bytes.max(self.memory_bytes));
    }

    /// Returns the allowance of background work, at least that of a request.
    pub(crate) fn background(allowance: &Allowance) -> Self {
        let cpu_ms = allowance.cpu_ms.max(BACKGROUND_CPU_MAX_MS);
        Self { cpu: Duration::from_millis(cpu_ms), ..Self::of(allowance) }
    }
}

impl Default for TaskBudget {
    fn default() -> Self {
        Self::of(&Allowance::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is left, and however long a stream waits, it never has more than a request has.
    #[test]
    fn a_stream_regains_its_budget_up_to_the_limits_of_a_request() {
        let allowance = Allowance::default();
        let whole = TaskBudget::of(&allowance);
        let mut left = TaskBudget { cpu: Duration::ZERO, memory_bytes: 0, steps: 0 };
        left.regain(STREAM_REGAIN_MS / 2, &allowance);
        assert_eq!(left.cpu * 2, whole.cpu);
        assert_eq!((left.memory_bytes * 2, left.steps * 2), (whole.memory_bytes, whole.steps));
        for waited_ms in [STREAM_REGAIN_MS, u64::MAX, 0] {
            left.regain(waited_ms, &allowance);
            assert_eq!(
                (left.cpu, left.memory_bytes, left.steps),
                (whole.cpu, whole.memory_bytes, whole.steps,)
            );
        }
        // A program without limits stays as it is.
        let endless = Allowance::endless();
        let mut left = TaskBudget::of(&endless);
        left.regain(u64::MAX, &endless);
        assert_eq!(left.steps, endless.steps);
    }
}
