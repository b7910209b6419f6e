//! The rows of errors of HTTP/3 with h3i: `tests/h3i`, a package of its own, because its QUIC is
//! quiche, which contains BoringSSL (docs/decisions/0023-h3i-in-long.md).

use crate::debian_packages::{self, Need, Proof};
use crate::{process, workspace_paths};
use anyhow::Result;
use std::process::Command;

/// The packages that BoringSSL needs to be built.
const NEEDS: &[Need] = &[
    Need { package: "cmake", proof: Proof::Program("cmake") },
    Need { package: "g++", proof: Proof::Program("c++") },
    Need { package: "make", proof: Proof::Program("make") },
];

/// Builds it and plays the rows. It uses the tested program, and the tested versions of the crates
/// that both have.
pub(crate) fn test() -> Result<()> {
    lint()?;
    debian_packages::install(NEEDS)?;
    let mut command = cargo("test");
    process::run(command.args(["--profile", "ci", "--target-dir"]).arg(workspace_paths::target()))
}

/// Checks it with clippy, without BoringSSL, because nothing is linked. quiche does not notice when
/// BoringSSL becomes available, so the results of the check are in a folder of their own.
fn lint() -> Result<()> {
    let mut command = cargo("clippy");
    command
        .args(["--all-targets", "--target-dir"])
        .arg(workspace_paths::target().join("h3i-lints"))
        .args(["--", "-D", "warnings"])
        .env("QUICHE_BSSL_PATH", "none");
    process::run(&mut command)
}

fn cargo(verb: &str) -> Command {
    process::cargo(&[verb, "--locked", "--manifest-path", "tests/h3i/Cargo.toml"])
}
