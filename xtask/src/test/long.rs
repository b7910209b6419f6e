//! The additions of `--long`: the same laws over more cases, more bytes and more time.

use super::{Step, black_box_modules, lua54, pythons};
use crate::debian::{self, Need, Proof};
use crate::nextest::{self, LONG, Selection};
use crate::{dist, fingerprints, fuzz, go, h3i, process, workspace};
use anyhow::{Result, ensure};

pub(super) const STEPS: &[Step] = &[
    Step { name: "cases", run: more_cases },
    Step { name: "black-box", run: long_black_box },
    pythons::STEP,
    Step { name: "lua54-lints", run: super::lua54_lints },
    Step { name: "lua54-black-box", run: lua54::black_box },
    Step { name: "ways", run: every_way },
    Step { name: "h3i", run: h3i::test },
    Step { name: "fingerprints", run: fingerprints::test },
    Step { name: "recipes", run: recipes },
    Step { name: "packages", run: packages },
    Step { name: "fuzz", run: || fuzz::all(FUZZ_SECONDS) },
];

/// Random cases for each property; proptest itself takes 256.
const PROPERTY_CASES: u32 = 10_000;
/// The number of cases where a case is the build of a whole site.
const SITE_CASES: u32 = 1_000;
/// A filter for the packages that have such properties.
const SITE_BUILDERS: &str = "package(pinion) | package(pinion-builder)";
/// Seeds for each run of the simulator.
const SIMULATOR_SEEDS: u32 = 20_000;
/// Seconds for each fuzz target.
const FUZZ_SECONDS: u64 = 120;

/// The profile of nextest that gives each test more time.
const PROFILE: Option<&str> = Some("long");

/// Runs the tests that draw their cases from random numbers; none of the black-box tests does.
fn more_cases() -> Result<()> {
    let others = format!("not ({SITE_BUILDERS} | package(pinion-tests) | package(xtask))");
    for (filter, cases) in [(others.as_str(), PROPERTY_CASES), (SITE_BUILDERS, SITE_CASES)] {
        let selection = Selection { filter: Some(filter), profile: PROFILE, cargo: &[] };
        let mut command = nextest::command(selection);
        command.env("PROPTEST_CASES", cases.to_string());
        command.env("PINION_SIM_SEEDS", SIMULATOR_SEEDS.to_string()).env("PINION_LONG", "1");
        process::run(&mut command)?;
    }
    Ok(())
}

/// Programs that only these tests run.
const NEEDS: &[Need] = &[Need { package: "default-jdk-headless", proof: Proof::Program("javac") }];

/// Runs the black-box tests that take minutes.
fn long_black_box() -> Result<()> {
    debian::install(NEEDS)?;
    let modules = [
        "applications",
        "autobahn",
        "cgi_soak",
        "early_responses",
        "floods",
        "h2_suites",
        "large",
        "long_path",
        "python_soak",
        "quic_bad_input",
        "stalls",
        "store_tcl",
        "tls_bad_input",
        "tls_mutations",
        "tls_scanners",
        "upstream_soak",
    ];
    let filter = nextest::black_box(&modules);
    let cargo = ["--features", LONG];
    nextest::run(Selection { cargo: &cargo, filter: Some(&filter), profile: PROFILE })
}

/// Runs each case in every way that it is for: over every protocol from a folder and from an
/// archive, over both backends; cases of scripts with either Lua too. Otherwise each protocol but
/// plain HTTP/1 is tried in one corner.
fn every_way() -> Result<()> {
    let modules = matrix_modules()?;
    every_way_of(&modules, |_| {})?;
    let scripts = lua54::script_modules()?;
    let scripts: Vec<_> = modules.into_iter().filter(|name| scripts.contains(name)).collect();
    let program = lua54::program()?;
    every_way_of(&scripts, |command| {
        command.env("PINION_BINARY", &program);
    })
}

fn every_way_of(
    modules: &[String],
    prepare: impl FnOnce(&mut std::process::Command),
) -> Result<()> {
    let filter = nextest::black_box(modules);
    let selection = Selection { filter: Some(&filter), profile: PROFILE, cargo: &[] };
    let mut command = nextest::command(selection);
    command.env("PINION_WAYS", "full").env("PINION_LONG", "1");
    prepare(&mut command);
    process::run(&mut command)
}

/// Returns the modules with cases that run in more than one way, except one that needs minutes for
/// each.
fn matrix_modules() -> Result<Vec<String>> {
    const MARKS: [&str; 3] = ["Matrix::of(", "every_way(", "ways("];
    black_box_modules(|name, text| name != "large" && MARKS.iter().any(|mark| text.contains(mark)))
}

/// The packages that documents have their readers install, and that are too large for every run.
const RECIPE_NEEDS: &[Need] = &[Need { package: "certbot", proof: Proof::Program("certbot") }];
/// An authority for ACME, and a server for the names that it looks up.
const ACME_PROGRAMS: &[&str] = &[
    "github.com/letsencrypt/pebble/v2/cmd/pebble",
    "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv",
];

/// Runs the commands of documents with certbot and with the generators of static sites.
fn recipes() -> Result<()> {
    debian::install(RECIPE_NEEDS)?;
    let named = workspace::root().join("tests/acme");
    go::install_to(&named, ACME_PROGRAMS, &workspace::target().join("acme"))?;
    fingerprints::install()?;
    let cargo = ["--features", LONG];
    let filter = nextest::black_box(&["certbot", "generators"]);
    nextest::run(Selection { cargo: &cargo, filter: Some(&filter), profile: PROFILE })
}

/// Makes both packages and tests them; then tests all other artifacts, with the program that needs
/// no library.
fn packages() -> Result<()> {
    dist::make(false)?;
    let alone = dist::make(true)?;
    let sums = dist::sums()?;
    dist::make(true)?;
    ensure!(dist::sums()? == sums, "the same program gives another package");
    let cargo = ["--features", LONG];
    let filter = nextest::black_box(&["packages"]);
    nextest::run(Selection { cargo: &cargo, filter: Some(&filter), profile: PROFILE })?;
    let filter = nextest::black_box(&["packaging"]);
    let selection = Selection { filter: Some(&filter), profile: PROFILE, cargo: &[] };
    process::run(nextest::command(selection).env("PINION_BINARY", alone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_with_more_than_one_way_are_found() {
        let modules = matrix_modules().expect("the modules");
        for name in ["one_meaning", "range", "sites"] {
            assert!(modules.iter().any(|module| module == name), "{modules:?}");
        }
        assert!(!modules.iter().any(|module| module == "large" || module == "docs"));
    }
}
