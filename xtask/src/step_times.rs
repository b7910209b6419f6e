//! The durations of the steps of a command.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Steps in the order in which they ran, each with its duration in seconds.
#[derive(Debug, Default)]
pub(crate) struct Times {
    steps: Vec<(&'static str, f64)>,
}

impl Times {
    /// Runs a step and keeps its duration, also when it fails.
    pub(crate) fn measure(
        &mut self,
        name: &'static str,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let start = Instant::now();
        let outcome = run();
        self.steps.push((name, start.elapsed().as_secs_f64()));
        outcome
    }

    /// Returns the duration of the last step, in seconds.
    pub(crate) fn last_seconds(&self) -> f64 {
        self.steps.last().map_or(0.0, |(_, seconds)| *seconds)
    }

    /// Returns one line for each step, and one for the sum.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        let total = ("total", self.steps.iter().map(|(_, seconds)| seconds).sum::<f64>());
        for (name, seconds) in self.steps.iter().chain([&total]) {
            let _ = writeln!(table, "  {name:<12}{seconds:>8.1} s");
        }
        table
    }

    /// Returns the steps as a list of `{"step", "seconds"}`.
    pub(crate) fn data(&self) -> Value {
        let step = |(name, seconds): &(&str, f64)| json!({ "step": name, "seconds": seconds });
        self.steps.iter().map(step).collect()
    }

    /// Writes them to a file, for `cargo xtask bench tests`.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let shown = || path.display().to_string();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(shown)?;
        }
        fs::write(path, format!("{:#}\n", self.data())).with_context(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_every_step_and_the_sum() {
        let times = Times { steps: vec![("format", 1.25), ("tests", 100.5)] };
        let lines =
            ["  format           1.2 s", "  tests          100.5 s", "  total          101.8 s"];
        assert_eq!(times.table().lines().collect::<Vec<_>>(), lines);
        assert_eq!(times.last_seconds(), 100.5);
    }

    #[test]
    fn a_failed_step_is_recorded() {
        let mut times = Times::default();
        assert!(times.measure("a", || anyhow::bail!("no")).is_err());
        assert_eq!(times.data()[0]["step"], "a");
    }
}
