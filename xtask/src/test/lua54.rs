//! A program contains one version of Lua. These are the tests with the other one, Lua 5.4.

use super::{black_box_modules, cargo};
use crate::nextest::{self, Selection};
use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// Selects the other version of Lua. LuaJIT itself, a crate whose tests use it, and two programs of
/// the benchmarks, which have no Lua, are left out.
pub(super) const ARGUMENTS: [&str; 6] = [
    "--exclude=pinion-luajit",
    "--exclude=pinion-template",
    "--exclude=pinion-micro",
    "--exclude=pinion-h3load",
    "--no-default-features",
    "--features=pinion-lua/lua54,pinion/lua54",
];

/// The number of seeds for each run of the simulator: the result does not depend on the version of
/// Lua.
const SIMULATOR_SEEDS: u32 = 100;

/// The integration tests of the Lua crate.
const TESTS: [&str; 2] = ["--test=patterns", "--test=sim"];

/// Runs the tests of the Lua crate. The program is compiled with Lua 5.4 too, as the program of its
/// own tests.
pub(super) fn test() -> Result<()> {
    let selected = [&ARGUMENTS[..], &["--lib"], &TESTS].concat();
    let filter = Some("package(pinion-lua)");
    let mut tests =
        nextest::command(Selection { cargo: &selected, filter, ..Selection::default() });
    process::run(tests.env("PINION_SIM_SEEDS", SIMULATOR_SEEDS.to_string()))
}

/// Runs the black-box tests of scripts with a program that has Lua 5.4.
pub(super) fn black_box() -> Result<()> {
    let program = program()?;
    let filter = nextest::black_box(&script_modules()?);
    let selection = Selection { filter: Some(&filter), ..Selection::default() };
    process::run(nextest::command(selection).env("PINION_BINARY", program))
}

/// Builds the program with Lua 5.4 and returns its path. Tests are built with it because cargo
/// gives the dependencies the features that tests need only if there are any: a program that is
/// built alone would have other dependencies than the tests, so that both would be built.
pub(super) fn program() -> Result<PathBuf> {
    let build = ["build", "--workspace", "--profile", "ci", "--bin", "pinion"];
    cargo(&[&build[..], &ARGUMENTS, &TESTS].concat())?;
    let folder = workspace_paths::target().join("ci");
    let program = folder.join("pinion-lua54");
    fs::copy(folder.join("pinion"), &program).context("cannot copy the program with Lua 5.4")?;
    std::path::absolute(program).context("cannot find the program with Lua 5.4")
}

/// Returns the black-box modules that run scripts.
pub(super) fn script_modules() -> Result<Vec<String>> {
    let others = ["document_commands", "dynamic_sites", "guestbook"];
    black_box_modules(|name, _| name.starts_with("lua_") || others.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_with_tests_of_scripts_are_found() {
        let modules = script_modules().expect("the modules");
        for name in ["document_commands", "guestbook", "lua_handlers", "lua_background_tasks"] {
            assert!(modules.iter().any(|module| module == name), "{modules:?}");
        }
        assert!(!modules.iter().any(|module| module == "range_requests"), "{modules:?}");
    }
}
