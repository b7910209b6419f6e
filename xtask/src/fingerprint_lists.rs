//! `cargo xtask fingerprints`: the files that public tools write, and which of them have names with
//! a hash of their content. The build is compared with these lists
//! (crates/builder/tests/fingerprints).

use crate::nextest::{self, Selection};
use crate::{node_packages, process, python_packages, workspace_paths};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The test that reads the lists.
const TEST: &str = "package(pinion-builder) & test(fingerprints_match_the_lists_of_public_tools)";

/// Renews the lists.
pub(crate) fn renew() -> Result<()> {
    make(&lists())
}

/// Has the tools write their sites again, and compares the build with them.
pub(crate) fn test() -> Result<()> {
    let out = workspace_paths::target().join("fingerprints/lists");
    make(&out)?;
    let selection = Selection { filter: Some(TEST), profile: None, cargo: &[] };
    process::run(nextest::command(selection).env("PINION_FINGERPRINT_LISTS", out))
}

/// Returns the folder of the lists and of the sources that produce them.
fn lists() -> PathBuf {
    workspace_paths::root().join("crates/builder/tests/fingerprints")
}

fn make(out: &Path) -> Result<()> {
    let (node_folder, environment) = install()?;
    let mut command = Command::new(environment.join("bin/python"));
    process::run(command.arg(lists().join("make.py")).arg(node_folder).arg(out))
}

/// Installs the tools that are missing: the packages of Node in the first folder, and those of
/// Python in the second one. The black-box tests of generators run them too.
pub(crate) fn install() -> Result<(PathBuf, PathBuf)> {
    let (lists, tools) = (lists(), workspace_paths::target().join("fingerprints"));
    let (node_folder, environment) = (tools.join("node"), tools.join("python"));
    node_packages::install_to(&lists, &node_folder)?;
    python_packages::install_to(&lists.join("requirements.txt"), &environment, &[])?;
    Ok((node_folder, environment))
}
