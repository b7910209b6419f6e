//! The additions of `--long`: the same laws over more cases, more bytes and more time.

use super::{Step, black_box_modules, lua54, python_interpreters};
use crate::debian_packages::{self, Need, Proof};
use crate::nextest::{self, LONG, Selection};
use crate::{dist, fingerprint_lists, fuzz, go_programs, h3i, process, workspace_paths};
use anyhow::{Result, ensure};

pub(super) const STEPS: &[Step] = &[
    Step { name: "cases", run: more_cases },
    Step { name: "black-box", run: long_black_box },
    python_interpreters::STEP,
    Step { name: "lua54-lints", run: super::lua54_lints },
    Step { name: "lua54-black-box", run: lua54::black_box },
    Step { name: "ways", run: every_way },
    Step { name: "h3i", run: h3i::test },
    Step { name: "fingerprints", run: fingerprint_lists::test },
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

/// Black-box modules with tests that take minutes.
const MINUTES: &[&str] = &[
    "autobahn",
    "cgi_soak",
    "early_responses",
    "floods",
    "h2_conformance",
    "high_latency_uploads",
    "large_archive",
    "python_soak",
    "quic_bad_input",
    "recipe_applications",
    "stalls",
    "store_redis_suite",
    "tls_bad_input",
    "tls_mutations",
    "tls_scanners",
    "upstream_soak",
];
/// Black-box modules with the commands of documents that need large packages.
const RECIPES: &[&str] = &["certbot", "static_site_generators"];
/// Black-box modules that test the packages of this project.
const PACKAGES: &[&str] = &["dist_packages"];
/// Black-box modules that test the other files for an installation.
const INSTALLATION: &[&str] = &["systemd_and_container_files"];

/// Runs the black-box tests that take minutes.
fn long_black_box() -> Result<()> {
    debian_packages::install(NEEDS)?;
    let filter = nextest::black_box(MINUTES);
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
    black_box_modules(|name, text| {
        name != "large_archive" && MARKS.iter().any(|mark| text.contains(mark))
    })
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
    debian_packages::install(RECIPE_NEEDS)?;
    let named = workspace_paths::root().join("tests/acme");
    go_programs::install_to(&named, ACME_PROGRAMS, &workspace_paths::target().join("acme"))?;
    fingerprint_lists::install()?;
    let cargo = ["--features", LONG];
    let filter = nextest::black_box(RECIPES);
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
    let filter = nextest::black_box(PACKAGES);
    nextest::run(Selection { cargo: &cargo, filter: Some(&filter), profile: PROFILE })?;
    let filter = nextest::black_box(INSTALLATION);
    let selection = Selection { filter: Some(&filter), profile: PROFILE, cargo: &[] };
    process::run(nextest::command(selection).env("PINION_BINARY", alone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_with_test_matrices_are_found() {
        let modules = matrix_modules().expect("the modules");
        for name in ["protocol_equivalence", "range_requests", "virtual_hosts"] {
            assert!(modules.iter().any(|module| module == name), "{modules:?}");
        }
        assert!(
            !modules
                .iter()
                .any(|module| module == "large_archive" || module == "document_commands")
        );
    }

    /// A filter of a test run that matches nothing would leave tests out without a word.
    #[test]
    fn the_named_modules_exist() {
        let modules = black_box_modules(|_, _| true).expect("the modules");
        let lists = [MINUTES, RECIPES, PACKAGES, INSTALLATION];
        let settings = workspace_paths::root().join(".config/nextest.toml");
        let settings = std::fs::read_to_string(settings).expect("the settings of nextest");
        let patterns = settings.split("test(/^").skip(1);
        let in_settings = patterns.filter_map(|pattern| Some(pattern.split_once("::")?.0));
        let in_settings = in_settings.filter(|name| !name.contains(['/', ')']));
        for name in lists.into_iter().flatten().copied().chain(in_settings) {
            assert!(modules.iter().any(|module| module == name), "{name}");
        }
    }
}
