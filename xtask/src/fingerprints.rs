//! `cargo xtask fingerprints`: what public tools write, and which of it they give a hash of its
//! content. The build is held against these lists (crates/build/tests/fingerprints).

use crate::nextest::{self, Selection};
use crate::{node, process, python, workspace};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The test that reads the lists.
const TEST: &str = "package(pinion-build) & test(lists_of_public_tools)";

/// Renews the lists.
pub(crate) fn renew() -> Result<()> {
    make(&lists())
}

/// Has the tools write their sites again, and holds the build against them.
pub(crate) fn test() -> Result<()> {
    let out = workspace::target().join("fingerprints/lists");
    make(&out)?;
    let selection = Selection { filter: Some(TEST), profile: None, cargo: &[] };
    process::run(nextest::command(selection).env("PINION_FINGERPRINT_LISTS", out))
}

/// Where the lists lie, and what makes them.
fn lists() -> PathBuf {
    workspace::root().join("crates/build/tests/fingerprints")
}

fn make(out: &Path) -> Result<()> {
    let (node_folder, environment) = install()?;
    let mut command = Command::new(environment.join("bin/python"));
    process::run(command.arg(lists().join("make.py")).arg(node_folder).arg(out))
}

/// Sees to it that the tools are there: the packages of the Node world in the first folder, those
/// of the Python world in the second one. The black-box tests of generators run them too.
pub(crate) fn install() -> Result<(PathBuf, PathBuf)> {
    let (lists, tools) = (lists(), workspace::target().join("fingerprints"));
    let (node_folder, environment) = (tools.join("node"), tools.join("python"));
    node::install_to(&lists, &node_folder)?;
    python::install_to(&lists.join("requirements.txt"), &environment, &[])?;
    Ok((node_folder, environment))
}
