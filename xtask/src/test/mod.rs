//! `cargo xtask test`: everything that must be green, in order; the README's test command.
//!
//! `quick` has the steps of `--quick`, and `long` those of `--long`. `lua54` has the tests with the
//! other version of Lua, and `python_interpreters` the interpreters of Python for the tests.

mod long;
mod lua54;
mod python_interpreters;
mod quick;

use crate::nextest::{self, Selection};
use crate::step_times::Times;
use crate::{generated, process, test_dependencies, tidy, workspace_paths};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;

/// A step of a test run.
struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

/// The steps that every change passes. Those that find a mistake soonest come first.
const STEPS: &[Step] = &[
    Step { name: "needs", run: test_dependencies::run },
    Step { name: "format", run: format },
    Step { name: "tidy", run: tidy::run },
    Step { name: "lints", run: lints },
    Step { name: "doc-links", run: doc_links },
    Step { name: "build", run: build },
    Step { name: "generated", run: generated::check },
    Step { name: "tests", run: || nextest::run(Selection::default()) },
    Step { name: "doctests", run: doctests },
    Step { name: "lua54", run: lua54::test },
];

/// The command that checks every crate with clippy.
const CLIPPY: [&str; 5] = ["clippy", "--workspace", "--all-targets", "--profile", "ci"];

/// The arguments that turn every warning of clippy into an error.
const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

const USAGE: &str = "usage: cargo xtask test [--quick [--since COMMIT] | --long | --only STEP]";

/// Runs the steps that the command line selects.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let all = || STEPS.iter().chain(long::STEPS);
    let names = || all().map(|step| step.name).collect::<Vec<_>>().join(", ");
    let steps: Vec<&Step> = match arguments {
        [] => STEPS.iter().collect(),
        ["--quick"] => return quick::run(None),
        ["--quick", "--since", commit] => return quick::run(Some(commit)),
        ["--long"] => {
            // The error is reported at the beginning, and not after hours.
            python_interpreters::require()?;
            all().collect()
        }
        ["--only", name] => match all().find(|step| step.name == *name) {
            Some(step) => vec![step],
            None => bail!("no step {name}; steps: {}", names()),
        },
        _ => bail!("{USAGE}; steps: {}", names()),
    };
    run_steps(&steps)
}

/// Runs steps in order, prints how long each took, and keeps the times below `target/`.
fn run_steps(steps: &[&Step]) -> Result<()> {
    let mut times = Times::default();
    for step in steps {
        println!("== {}", step.name);
        let repeat = || format!("to repeat: cargo xtask test --only {}", step.name);
        times.measure(step.name, step.run).with_context(repeat)?;
        println!("== {}: ok, {:.0} s", step.name, times.last_seconds());
    }
    times.write(&workspace_paths::target().join("xtask/test-times.json"))?;
    print!("{}", times.table());
    println!("all green");
    Ok(())
}

fn format() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])
}

/// Runs clippy over everything. The profile is that of the tests, so that both share the build
/// scripts and C libraries.
fn lints() -> Result<()> {
    let long = ["--features", nextest::LONG];
    cargo(&[&CLIPPY[..], &long, &DENY_WARNINGS].concat())
}

/// Checks the links in the documentation of the crates.
fn doc_links() -> Result<()> {
    const DOC: [&str; 6] =
        ["doc", "--workspace", "--no-deps", "--document-private-items", "--profile", "ci"];
    // Documentation of private items is read in the source as well.
    const BROKEN_LINKS: &str =
        "-A rustdoc::private_intra_doc_links -D rustdoc::broken_intra_doc_links";
    process::run(process::cargo(&DOC).arg("--quiet").env("RUSTDOCFLAGS", BROKEN_LINKS))
}

/// Runs clippy over the crates that have code for the other Lua.
fn lua54_lints() -> Result<()> {
    let long = ["--features", nextest::LONG];
    cargo(&[&CLIPPY[..], &lua54::ARGUMENTS, &long, &DENY_WARNINGS].concat())
}

/// Builds the programs of all tests, and the program that the black-box tests start.
fn build() -> Result<()> {
    process::run(nextest::command(Selection::default()).arg("--no-run"))
}

/// Runs the examples in the documentation of the crates, which nextest does not.
fn doctests() -> Result<()> {
    cargo(&["test", "--doc", "--workspace", "--profile", "ci", "--quiet"])
}

/// Returns the names of black-box modules, chosen by name and text.
fn black_box_modules(is_chosen: impl Fn(&str, &str) -> bool) -> Result<Vec<String>> {
    let mut modules = Vec::new();
    for entry in fs::read_dir(workspace_paths::root().join("tests/tests/black_box"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        if path.is_file() && name != "main" && is_chosen(name, &fs::read_to_string(&path)?) {
            modules.push(name.to_owned());
        }
    }
    modules.sort();
    Ok(modules)
}

fn cargo(arguments: &[&str]) -> Result<()> {
    process::run(&mut process::cargo(arguments))
}
