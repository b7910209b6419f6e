//! `cargo xtask test`: everything that must be green, in order; the README's test command.

use crate::debian::{self, Need, Proof};
use crate::{crates, dist, fuzz, go, h3i, node, process, python, tidy, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Programs and files of other projects that the tests use.
const NEEDS: &[Need] = &[
    Need { package: "bsdutils", proof: Proof::Program("script") },
    Need { package: "chromium", proof: Proof::Program("chromium") },
    Need { package: "curl", proof: Proof::Program("curl") },
    Need { package: "fish", proof: Proof::Program("fish") },
    Need { package: "golang-go", proof: Proof::Program("go") },
    Need { package: "man-db", proof: Proof::Program("man") },
    Need { package: "nghttp2-client", proof: Proof::Program("h2load") },
    Need { package: "nodejs", proof: Proof::Program("node") },
    Need { package: "npm", proof: Proof::Program("npm") },
    Need { package: "openssh-client", proof: Proof::Program("ssh") },
    Need { package: "openssh-server", proof: Proof::File("/usr/sbin/sshd") },
    Need { package: "openssl", proof: Proof::Program("openssl") },
    // Debian packs the module apart from Python itself.
    Need { package: "python3-venv", proof: Proof::Module("ensurepip") },
    Need {
        package: "python3.11-doc",
        proof: Proof::File("/usr/share/doc/python3.11/html/index.html"),
    },
    Need { package: "slowhttptest", proof: Proof::Program("slowhttptest") },
    Need { package: "systemd", proof: Proof::Program("systemd-analyze") },
    Need { package: "testssl.sh", proof: Proof::Program("testssl") },
    Need { package: "zsh", proof: Proof::Program("zsh") },
];

/// One step: what it is called and what it does.
struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
}

/// What every change passes. What finds a mistake soonest comes first.
const STEPS: &[Step] = &[
    Step { name: "needs", run: needs },
    Step { name: "format", run: || cargo(&["fmt", "--all", "--check"]) },
    Step { name: "tidy", run: tidy::run },
    Step { name: "lints", run: lints },
    Step { name: "binary", run: || cargo(&["build", "--profile", "ci", "-p", "pinion"]) },
    Step { name: "tests", run: || cargo(&["test", "--workspace", "--profile", "ci"]) },
    Step { name: "lua54", run: lua54 },
];

/// What `--long` adds: the same laws over more cases, more bytes and more time.
const LONG_STEPS: &[Step] = &[
    Step { name: "cases", run: more_cases },
    Step { name: "black-box", run: long_black_box },
    Step { name: "ways", run: every_way },
    Step { name: "h3i", run: h3i::test },
    Step { name: "packages", run: packages },
    Step { name: "fuzz", run: || fuzz::all(LONG_FUZZ_SECONDS) },
];

/// Random cases for each property; proptest itself takes 256.
const LONG_PROPERTY_CASES: u32 = 10_000;
/// The same where a case is a whole site that is built.
const LONG_SITE_CASES: u32 = 1_000;
/// The packages that have such properties.
const SITE_BUILDERS: &[&str] = &["pinion", "pinion-build"];
/// Seeds for each run of the simulator.
const LONG_SIMULATOR_SEEDS: u32 = 20_000;
/// For each fuzz target.
const LONG_FUZZ_SECONDS: u64 = 120;

/// Runs the steps that the command line asks for.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let all = || STEPS.iter().chain(LONG_STEPS);
    let names = || all().map(|step| step.name).collect::<Vec<_>>().join(", ");
    let steps: Vec<&Step> = match arguments {
        [] => STEPS.iter().collect(),
        ["--long"] => all().collect(),
        ["--only", name] => match all().find(|step| step.name == *name) {
            Some(step) => vec![step],
            None => bail!("no step {name}; steps: {}", names()),
        },
        _ => bail!("usage: cargo xtask test [--long | --only STEP]; steps: {}", names()),
    };
    for step in steps {
        println!("== {}", step.name);
        let began = Instant::now();
        let again = || format!("to repeat: cargo xtask test --only {}", step.name);
        (step.run)().with_context(again)?;
        println!("== {}: ok, {} s", step.name, began.elapsed().as_secs());
    }
    println!("all green");
    Ok(())
}

fn needs() -> Result<()> {
    debian::install(NEEDS)?;
    python::install()?;
    node::install()?;
    go::install()?;
    crates::install()
}

/// Clippy over everything, and over the room of Lua with the other Lua, which has code of its own.
/// The profile is that of the tests, so that both share what they can.
fn lints() -> Result<()> {
    let strict = ["--", "-D", "warnings"];
    let long = ["--features", "pinion-tests/long"];
    let all = ["clippy", "--workspace", "--all-targets", "--profile", "ci"];
    cargo(&[&all[..], &long, &strict].concat())?;
    let lua = ["clippy", "-p", "pinion-lua", "--all-targets", "--profile", "ci"];
    cargo(&[&lua[..], &LUA54, &strict].concat())?;
    fuzz::lint()?;
    h3i::lint()
}

/// One binary has one Lua. This is for the other one.
const LUA54: [&str; 3] = ["--no-default-features", "--features", "lua54"];

/// The room of Lua with the other Lua, and the black-box tests of scripts with a program that has
/// it.
fn lua54() -> Result<()> {
    cargo(&[&["test", "--profile", "ci", "-p", "pinion-lua"][..], &LUA54].concat())?;
    let mut command = black_box(&script_tests()?);
    process::run(command.env("PINION_BINARY", program_with_lua54()?))
}

/// The program with the other Lua.
fn program_with_lua54() -> Result<PathBuf> {
    let build = ["build", "--profile", "ci", "-p", "pinion"];
    cargo(&[&build[..], &LUA54].concat())?;
    let folder = workspace::target().join("ci");
    let program = folder.join("pinion-lua54");
    fs::copy(folder.join("pinion"), &program).context("the program with Lua 5.4")?;
    // Under the usual name stands the one that all other tests are for.
    cargo(&build)?;
    std::path::absolute(program).context("the path of the program")
}

/// The black-box tests that run scripts.
fn script_tests() -> Result<Vec<String>> {
    let others = ["docs", "dynamic_sites", "guestbook"];
    tests(|name, _| name.starts_with("lua_") || others.contains(&name))
}

fn black_box(tests: &[String]) -> Command {
    let mut command = process::cargo(&["test", "--profile", "ci", "-p", "pinion-tests"]);
    for test in tests {
        command.args(["--test", test]);
    }
    command
}

/// The tests that take what they try from random numbers; none of the black-box tests does.
fn more_cases() -> Result<()> {
    let workspace = ["--workspace", "--exclude", "pinion-tests", "--exclude", "xtask"];
    let others = SITE_BUILDERS.iter().flat_map(|name| ["--exclude", name]);
    let others = workspace.into_iter().chain(others).collect::<Vec<_>>();
    let builders = SITE_BUILDERS.iter().flat_map(|name| ["-p", name]).collect::<Vec<_>>();
    for (packages, cases) in [(others, LONG_PROPERTY_CASES), (builders, LONG_SITE_CASES)] {
        let mut command = process::cargo(&[&["test", "--profile", "ci"], &packages[..]].concat());
        command.env("PROPTEST_CASES", cases.to_string());
        command.env("PINION_SIM_SEEDS", LONG_SIMULATOR_SEEDS.to_string());
        process::run(&mut command)?;
    }
    Ok(())
}

/// The black-box tests that take minutes.
fn long_black_box() -> Result<()> {
    let tests = [
        "floods",
        "h2_suites",
        "large",
        "quic_bad_input",
        "stalls",
        "tls_bad_input",
        "tls_mutations",
        "tls_scanners",
    ];
    let tests = tests.iter().flat_map(|test| ["--test", test]).collect::<Vec<_>>();
    let long = ["test", "--profile", "ci", "-p", "pinion-tests", "--features", "long"];
    cargo(&[&long[..], &tests].concat())
}

/// Each case in every way that it is for: over every protocol from a folder and from an archive,
/// over both backends; cases of scripts with either Lua too. Otherwise each protocol but plain
/// HTTP/1 is tried in one corner.
fn every_way() -> Result<()> {
    let tests = matrix_tests()?;
    process::run(black_box(&tests).env("PINION_WAYS", "full"))?;
    let of_scripts = script_tests()?;
    let of_scripts: Vec<_> = tests.into_iter().filter(|test| of_scripts.contains(test)).collect();
    let mut command = black_box(&of_scripts);
    command.env("PINION_BINARY", program_with_lua54()?);
    process::run(command.env("PINION_WAYS", "full"))
}

/// Tests with cases that run in more than one way, but for one that takes minutes for each.
fn matrix_tests() -> Result<Vec<String>> {
    const MARKS: [&str; 3] = ["Matrix::of(", "every_way(", "ways("];
    tests(|name, text| name != "large" && MARKS.iter().any(|mark| text.contains(mark)))
}

/// Black-box tests, chosen by name and text.
fn tests(is_chosen: impl Fn(&str, &str) -> bool) -> Result<Vec<String>> {
    let mut tests = Vec::new();
    for entry in fs::read_dir(workspace::root().join("tests/tests"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        if path.is_file() && is_chosen(name, &fs::read_to_string(&path)?) {
            tests.push(name.to_owned());
        }
    }
    tests.sort();
    Ok(tests)
}

/// Both packages, whole; and what else there is to install, with the program that needs nothing.
fn packages() -> Result<()> {
    dist::make(false)?;
    let alone = dist::make(true)?;
    let sums = dist::sums()?;
    dist::make(true)?;
    ensure!(dist::sums()? == sums, "the same program gives another package");
    let black_box = ["test", "--profile", "ci", "-p", "pinion-tests"];
    cargo(&[&black_box[..], &["--features", "long", "--test", "packages"]].concat())?;
    let mut command = process::cargo(&[&black_box[..], &["--test", "packaging"]].concat());
    process::run(command.env("PINION_BINARY", alone))
}

fn cargo(arguments: &[&str]) -> Result<()> {
    process::run(&mut process::cargo(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_with_more_than_one_way_are_found() {
        let tests = matrix_tests().expect("the tests");
        for name in ["one_meaning", "range", "sites"] {
            assert!(tests.iter().any(|test| test == name), "{tests:?}");
        }
        assert!(!tests.iter().any(|test| test == "large" || test == "docs"), "{tests:?}");
    }

    #[test]
    fn the_tests_of_scripts_are_found() {
        let tests = script_tests().expect("the tests");
        for name in ["docs", "guestbook", "lua_handlers", "lua_work"] {
            assert!(tests.iter().any(|test| test == name), "{tests:?}");
        }
        assert!(!tests.iter().any(|test| test == "range"), "{tests:?}");
    }
}
