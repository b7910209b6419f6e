//! `cargo xtask fuzz [TARGET] [--seconds N]`: the fuzz targets, each for a bounded time.
//!
//! A run starts from the corpus in the source tree and stores new inputs below `target/`, so that
//! it changes no file of the project. A person must name and add its findings.

use crate::{process, workspace_paths};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask fuzz [TARGET] [--seconds N]";
/// Long enough to go far beyond the corpus, short enough for a person to wait.
const DEFAULT_SECONDS: u64 = 60;
/// Most seconds for one input of a few kilobytes: a client could keep a slower parser busy.
const INPUT_MAX_SECONDS: u64 = 10;

/// The version to install if there is none.
const CARGO_FUZZ_VERSION: &str = "0.13.2";

/// Runs the targets of the command line.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let (target, seconds) = parse(arguments)?;
    let known = targets()?;
    match target {
        None => each(&known, seconds),
        Some(one) if known.iter().any(|name| name == one) => each(&[one.to_owned()], seconds),
        Some(other) => bail!("no target {other}; targets: {}", known.join(", ")),
    }
}

/// Runs every target for `seconds`.
pub(crate) fn all(seconds: u64) -> Result<()> {
    each(&targets()?, seconds)
}

/// Checks the fuzz package with clippy. It is outside of the workspace, and libFuzzer itself is
/// omitted: it is C++ and slow to build, and nothing is linked here.
fn lint() -> Result<()> {
    let mut command = process::cargo(&["clippy", "--locked", "--manifest-path", "fuzz/Cargo.toml"]);
    command
        .arg("--target-dir")
        .arg(workspace_paths::target().join("fuzz-lints"))
        .args(["--", "-D", "warnings"])
        // cargo-fuzz sets this flag too: some crates have functions for the fuzzer only.
        .env("RUSTFLAGS", "--cfg fuzzing")
        .env("CUSTOM_LIBFUZZER_PATH", "none/libnone.a");
    process::run(&mut command)
}

fn parse<'a>(arguments: &[&'a str]) -> Result<(Option<&'a str>, u64)> {
    let seconds =
        |text: &str| text.parse().with_context(|| format!("not seconds: {text}\n{USAGE}"));
    match arguments {
        [] => Ok((None, DEFAULT_SECONDS)),
        ["--seconds", count] => Ok((None, seconds(count)?)),
        [target] if !target.starts_with('-') => Ok((Some(target), DEFAULT_SECONDS)),
        [target, "--seconds", count] | ["--seconds", count, target] => {
            Ok((Some(target), seconds(count)?))
        }
        _ => bail!(USAGE),
    }
}

/// Returns the names of all targets, sorted.
fn targets() -> Result<Vec<String>> {
    let files = workspace_paths::files(&workspace_paths::root().join("fuzz/fuzz_targets"))?;
    Ok(files.iter().filter_map(|file| file.strip_suffix(".rs")).map(str::to_owned).collect())
}

fn each(targets: &[String], seconds: u64) -> Result<()> {
    lint()?;
    let tool = tool()?;
    for target in targets {
        println!("  fuzzing {target} for {seconds} s");
        one(&tool, target, seconds)?;
    }
    Ok(())
}

fn one(tool: &Path, target: &str, seconds: u64) -> Result<()> {
    let folder = workspace_paths::target().join("fuzz");
    let learnt = folder.join("corpus").join(target);
    std::fs::create_dir_all(&learnt).with_context(|| learnt.display().to_string())?;
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly"])
        .arg(tool)
        .args(["fuzz", "run", "--target-dir"])
        .arg(folder.join("build"))
        .arg(target)
        .arg(&learnt)
        .arg(format!("fuzz/corpus/{target}"))
        .args(["--", "-verbosity=0", "-print_final_stats=1"])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_MAX_SECONDS}"))
        .env_remove("CARGO") // otherwise cargo-fuzz would build with the stable toolchain
        .current_dir(workspace_paths::root());
    process::run(&mut command).with_context(|| {
        format!("{target} found an input, kept in fuzz/artifacts/{target}/; fuzz/README.md says on")
    })
}

/// Returns the path of cargo-fuzz, after installing it below `target/` if the machine has none.
fn tool() -> Result<PathBuf> {
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        bail!("missing: the nightly toolchain\n  rustup toolchain install nightly");
    }
    if let Some(installed) = process::find("cargo-fuzz") {
        return Ok(installed);
    }
    let tools = workspace_paths::target().join("tools");
    let own = tools.join("bin/cargo-fuzz");
    if !own.is_file() {
        println!("  installing cargo-fuzz {CARGO_FUZZ_VERSION}");
        process::run(
            Command::new("cargo")
                .args(["install", "cargo-fuzz", "--locked", "--version", CARGO_FUZZ_VERSION])
                .arg("--root")
                .arg(&tools),
        )?;
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_in_any_order() {
        assert_eq!(parse(&[]).unwrap(), (None, DEFAULT_SECONDS));
        assert_eq!(parse(&["--seconds", "5"]).unwrap(), (None, 5));
        assert_eq!(parse(&["range"]).unwrap(), (Some("range"), DEFAULT_SECONDS));
        assert_eq!(parse(&["range", "--seconds", "5"]).unwrap(), (Some("range"), 5));
        assert_eq!(parse(&["--seconds", "5", "range"]).unwrap(), (Some("range"), 5));
        for wrong in [&["--seconds"][..], &["--minutes", "5"], &["range", "--seconds", "x"]] {
            assert!(parse(wrong).unwrap_err().to_string().contains(USAGE), "{wrong:?}");
        }
    }

    #[test]
    fn every_target_is_declared_and_has_a_corpus() {
        let manifest =
            std::fs::read_to_string(workspace_paths::root().join("fuzz/Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() >= 5, "{targets:?}");
        for target in targets {
            assert!(manifest.contains(&format!("name = \"{target}\"\n")), "{target}");
            let corpus = workspace_paths::root().join("fuzz/corpus").join(&target);
            assert!(!workspace_paths::files(&corpus).unwrap().is_empty(), "{target}");
        }
    }
}
