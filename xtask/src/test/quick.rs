//! `cargo xtask test --quick` tests a change within minutes. It checks format, project rules and
//! lints, and runs the tests of the crates that have changed and a few black-box tests of
//! everything else. The complete run is made before a change is merged.

use super::{DENY_WARNINGS, cargo, format};
use crate::nextest::{self, LONG, Selection};
use crate::step_times::Times;
use crate::{process, tidy, workspace_paths};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Black-box modules that run for any change: a few for each part of the product, which take some
/// seconds together.
const SMOKE: &[&str] = &[
    "conditional_requests",
    "error_pages",
    "io_uring_fallback",
    "lua_handlers",
    "listener_protocols",
    "failed_reloads",
    "resolve",
    "startup_signals",
    "graceful_shutdown",
    "tls_self_signed",
];

/// Black-box modules that run when the Lua crate has changed: one for each part of it.
const LUA_SMOKE: &[&str] =
    &["lua_content_memory", "lua_faults", "lua_pages", "lua_reload", "lua_streams", "lua_waiting"];

/// Seeds for each run of a simulator; the complete run uses more.
const SIMULATOR_SEEDS: u32 = 100;

/// The parts that a change affects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changed {
    /// Folders of changed packages, such as `crates/http`.
    packages: BTreeSet<String>,
    /// Modules of the black-box tests.
    modules: BTreeSet<String>,
    /// Files that belong to neither; only the complete run tests their effect.
    others: Vec<String>,
}

/// Tests the differences from a commit: the given one, otherwise the last one, or the one before it
/// if nothing differs from that.
pub(super) fn run(since: Option<&str>) -> Result<()> {
    let mut changed = Changed::of(&changed_files(since)?);
    if changed.packages.contains("crates/lua") {
        changed.modules.extend(LUA_SMOKE.iter().map(ToString::to_string));
    }
    println!("changed: {}", changed.shown());
    for file in &changed.others {
        println!("not tested here: {file}");
    }
    let mut times = Times::default();
    times.measure("format", format)?;
    times.measure("tidy", tidy::run)?;
    times.measure("lints", lints)?;
    let targets = changed.targets(&workspace_paths::root())?;
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let filter = changed.filter();
    let selection = Selection { cargo: &targets, filter: Some(&filter), profile: None };
    times.measure("build", || process::run(nextest::command(selection).arg("--no-run")))?;
    let mut tests = nextest::command(selection);
    tests.env("PINION_SIM_SEEDS", SIMULATOR_SEEDS.to_string());
    times.measure("tests", || process::run(&mut tests))?;
    times.write(&workspace_paths::target().join("xtask/quick-times.json"))?;
    print!("{}", times.table());
    println!("green so far; before it lands: cargo xtask test");
    Ok(())
}

/// Runs clippy. Cargo only checks changed packages and those that depend on them again.
fn lints() -> Result<()> {
    let clippy = ["clippy", "--workspace", "--all-targets", "--profile", "ci", "--features", LONG];
    cargo(&[&clippy[..], &DENY_WARNINGS].concat())
}

/// Returns the paths of files that differ from a commit, and of new ones.
fn changed_files(since: Option<&str>) -> Result<Vec<String>> {
    let git = |arguments: &[&str]| -> Result<Vec<String>> {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(workspace_paths::root());
        Ok(process::output(&mut command)?.lines().map(str::to_owned).collect())
    };
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    let differing = |commit: &str| git(&["diff", "--name-only", commit]);
    let mut files = differing(since.unwrap_or("HEAD"))?;
    files.extend(new);
    if files.is_empty() && since.is_none() {
        files = differing("HEAD~1")?;
    }
    Ok(files)
}

impl Changed {
    fn of(files: &[String]) -> Self {
        let mut changed = Self::default();
        for file in files {
            let parts: Vec<&str> = file.split('/').collect();
            match parts.as_slice() {
                ["tests", "tests", "black_box", module, ..] => {
                    changed.modules.insert(module.trim_end_matches(".rs").to_owned());
                }
                ["docs", ..] | ["README.md" | "CONTRIBUTING.md"] | ["examples", ..] => {
                    changed.modules.insert("document_commands".to_owned());
                }
                ["packaging", ..] => {
                    let modules = ["confinement", "systemd_and_container_files"].map(str::to_owned);
                    changed.modules.extend(modules);
                }
                ["crates", name, ..] => {
                    changed.packages.insert(format!("crates/{name}"));
                }
                ["bench", name @ ("h3load" | "micro"), ..] => {
                    changed.packages.insert(format!("bench/{name}"));
                }
                ["tests", "src", ..] => {
                    changed.packages.insert("tests".to_owned());
                }
                ["xtask", ..] => {
                    changed.packages.insert("xtask".to_owned());
                }
                _ => changed.others.push(file.clone()),
            }
        }
        changed.modules.remove("main");
        changed
    }

    fn shown(&self) -> String {
        let all: Vec<&str> =
            self.packages.iter().chain(&self.modules).map(String::as_str).collect();
        if all.is_empty() { "no crate and no test".to_owned() } else { all.join(", ") }
    }

    /// Returns the programs to build: those with unit tests, the program itself, and the tests of
    /// the changed packages. `--workspace` is still used, so that the features are the same.
    fn targets(&self, root: &Path) -> Result<Vec<String>> {
        let mut targets: Vec<String> =
            ["--lib", "--bin=pinion", "--test=black_box"].map(str::to_owned).into();
        for package in &self.packages {
            match package.as_str() {
                "xtask" => targets.push("--bin=xtask".to_owned()),
                "bench/h3load" => {
                    targets.extend(
                        ["--bin=pinion-h3load", "--bin=pinion-rateload"].map(str::to_owned),
                    );
                }
                "bench/micro" => targets.push("--bin=pinion-micro".to_owned()),
                _ => {}
            }
            let folder = root.join(package).join("tests");
            if !folder.is_dir() {
                continue;
            }
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                let is_file = path.extension().is_some_and(|extension| extension == "rs");
                if is_file || path.join("main.rs").is_file() {
                    let name = path.file_stem().unwrap_or_default().to_string_lossy();
                    targets.push(format!("--test={name}"));
                }
            }
        }
        Ok(targets)
    }

    /// Returns the filter of the tests to run.
    fn filter(&self) -> String {
        let smoke = SMOKE.iter().map(|name| (*name).to_owned());
        let modules: Vec<String> = self.modules.iter().cloned().chain(smoke).collect();
        let mut filter = format!("({})", nextest::black_box(&modules));
        for package in &self.packages {
            let name = match package.rsplit('/').next().unwrap_or_default() {
                name @ ("pinion" | "xtask") => name.to_owned(),
                name => format!("pinion-{name}"),
            };
            filter += &format!(" | package({name})");
        }
        filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(files: &[&str]) -> Changed {
        Changed::of(&files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn files_belong_to_packages_and_modules() {
        let files = [
            "crates/http/src/h1/head_parser.rs",
            "crates/http/tests/wire/main.rs",
            "tests/tests/black_box/floods/bystanders.rs",
            "tests/tests/black_box/main.rs",
            "docs/lua.md",
            "tests/src/server.rs",
            "bench/h3load/src/main.rs",
            "packaging/pinion.service",
            "Cargo.lock",
        ];
        let found = changed(&files);
        assert_eq!(
            found.shown(),
            "bench/h3load, crates/http, tests, confinement, document_commands, floods, \
             systemd_and_container_files"
        );
        assert_eq!(found.others, ["Cargo.lock"]);
        let filter = found.filter();
        for package in ["pinion-h3load", "pinion-http", "pinion-tests"] {
            assert!(filter.contains(&format!(" | package({package})")), "{filter}");
        }
    }

    #[test]
    fn the_tests_of_a_changed_package_are_built_and_run() {
        let found =
            changed(&["crates/http/src/lib.rs", "crates/pinion/src/lib.rs", "xtask/src/main.rs"]);
        let targets = found.targets(&workspace_paths::root()).expect("the targets");
        for target in ["--lib", "--bin=pinion", "--bin=xtask", "--test=wire", "--test=cli"] {
            assert!(targets.iter().any(|found| found == target), "{target}: {targets:?}");
        }
        assert!(!targets.iter().any(|target| target == "--test=contract"), "{targets:?}");
        let filter = found.filter();
        assert!(filter.ends_with(" | package(pinion-http) | package(pinion) | package(xtask)"));
    }

    #[test]
    fn the_smoke_tests_exist() {
        let names = super::super::black_box_modules(|_, _| true).expect("the modules");
        for module in SMOKE.iter().chain(LUA_SMOKE) {
            assert!(names.iter().any(|name| name == module), "{module}");
        }
    }
}
