//! `cargo xtask bench tests`: the time of the tests in a fresh clone, after everything is built,
//! and after a change in one crate.

use super::figure_table::{self, Figure};
use super::runs::Run;
use crate::{process, workspace_paths};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

const USAGE: &str = "usage: cargo xtask bench tests [--part whole|quick] [--name NAME]";

/// The goal in minutes for the tests in a fresh clone with an empty target folder.
const FRESH_GOAL_MINUTES: f64 = 20.0;
/// The goal in minutes when everything is built.
const WARM_GOAL_MINUTES: f64 = 12.0;
/// A crate that changes, and the goal in minutes for `--quick` then.
const QUICK: [(&str, &str, f64); 5] = [
    ("site", "a change in site, --quick: minutes", 3.0),
    ("lua", "a change in lua, --quick: minutes", 3.0),
    ("pinion", "a change in pinion, --quick: minutes", 3.0),
    ("http", "a change in http, --quick: minutes", 6.0),
    ("engine", "a change in engine, --quick: minutes", 6.0),
];

/// The parts of a run, each of which is recorded separately.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// A fresh clone, and once more when everything is built.
    Whole,
    /// After changes in single crates, in the clone of [`Part::Whole`].
    Quick,
}

/// Measures and records both parts, or the given one.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (mut name, mut parts) = (None, &[Part::Whole, Part::Quick][..]);
    for pair in arguments.chunks(2) {
        match pair {
            ["--name", value] => name = Some(*value),
            ["--part", "whole"] => parts = &[Part::Whole],
            ["--part", "quick"] => parts = &[Part::Quick],
            _ => bail!(USAGE),
        }
    }
    let clone = super::release_binary::state()?.join("clone");
    for part in parts {
        let (part, report, data) = match part {
            Part::Whole => whole(&clone)?,
            Part::Quick => quick(&clone)?,
        };
        let mut run = Run::open(name)?;
        run.record(part, &report, &data)?;
        println!("\n== {part}\n\n{report}");
        eprintln!("recorded in {}", run.shown());
    }
    Ok(())
}

/// Makes a clone and runs all tests in it, twice.
fn whole(clone: &Path) -> Result<(&'static str, String, Value)> {
    if clone.exists() {
        fs::remove_dir_all(clone)?;
    }
    let mut git = Command::new("git");
    process::run(git.args(["clone", "--quiet"]).arg(workspace_paths::root()).arg(clone))?;
    chore(clone, &["needs"])?;
    let fresh = tested(clone, &["test"], "test-times.json")?;
    let warm = tested(clone, &["test"], "test-times.json")?;
    let figures = [
        Figure::of("fresh clone: minutes", minutes(&fresh)).at_most(FRESH_GOAL_MINUTES),
        Figure::of("everything built: minutes", minutes(&warm)).at_most(WARM_GOAL_MINUTES),
    ];
    let report = format!(
        "`cargo xtask needs` ran before.\n\n{}\nSteps in a fresh clone, and when everything is \
         built:\n\n{}",
        figure_table::table(&figures),
        steps_table(&fresh, &warm)
    );
    Ok(("tests", report, json!({ "fresh": fresh, "warm": warm })))
}

/// Runs `--quick` after a change in each crate.
fn quick(clone: &Path) -> Result<(&'static str, String, Value)> {
    let (mut figures, mut data) = (Vec::new(), Vec::new());
    for (folder, name, goal) in QUICK {
        // The build of the previous change has another state of its crate.
        for step in ["lints", "build"] {
            chore(clone, &["test", "--only", step])?;
        }
        change(&clone.join("crates").join(folder).join("src/lib.rs"))?;
        let steps = tested(clone, &["test", "--quick"], "quick-times.json");
        let mut git = Command::new("git");
        process::run(git.args(["checkout", "--quiet", "."]).current_dir(clone))?;
        let steps = steps?;
        figures.push(Figure::of(name, minutes(&steps)).at_most(goal));
        data.push(json!({ "crate": folder, "steps": steps }));
    }
    let report = format!("Everything was built before.\n\n{}", figure_table::table(&figures));
    Ok(("tests-quick", report, json!(data)))
}

fn minutes(steps: &Value) -> f64 {
    seconds(steps) / 60.0
}

/// Runs an xtask task in the clone, as a person would.
fn chore(clone: &Path, words: &[&str]) -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.arg("xtask").args(words).current_dir(clone).env_remove("CARGO_TARGET_DIR");
    process::run(&mut cargo)
}

/// Runs tests and returns the times of their steps.
fn tested(clone: &Path, words: &[&str], times: &str) -> Result<Value> {
    chore(clone, words)?;
    let path = clone.join("target/xtask").join(times);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// Changes the compiled code of a crate by adding a constant to its `lib.rs`.
fn change(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let changed =
        format!("{text}\n/// Makes this crate another one.\npub const CHANGED: u32 = 1;\n");
    Ok(fs::write(path, changed)?)
}

fn seconds(steps: &Value) -> f64 {
    let steps = steps.as_array().into_iter().flatten();
    steps.filter_map(|step| step["seconds"].as_f64()).sum()
}

fn steps_table(fresh: &Value, warm: &Value) -> String {
    let mut table = String::from("| Step | fresh, s | built, s |\n|---|---|---|\n");
    let shown =
        |step: &Value| step["seconds"].as_f64().map_or(String::new(), |s| format!("{s:.0}"));
    let pairs = fresh.as_array().into_iter().flatten().zip(warm.as_array().into_iter().flatten());
    for (fresh, warm) in pairs {
        let name = fresh["step"].as_str().unwrap_or_default();
        table += &format!("| {name} | {} | {} |\n", shown(fresh), shown(warm));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_of_all_steps_are_summed() {
        let steps =
            json!([{ "step": "build", "seconds": 90.0 }, { "step": "tests", "seconds": 30 }]);
        assert_eq!(seconds(&steps), 120.0);
        assert!(
            steps_table(&steps, &steps).ends_with("| build | 90 | 90 |\n| tests | 30 | 30 |\n")
        );
    }
}
