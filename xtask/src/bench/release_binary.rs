//! The measured binary, and the folder for the files of benchmarks.

use crate::{process, workspace_paths};
use anyhow::Result;
use std::fs;
use std::path::PathBuf;

/// Builds the program that packages have, if it is older than its sources, and returns its path.
pub(crate) fn binary() -> Result<PathBuf> {
    built("pinion")
}

/// Builds the client of HTTP/3 in the same way, and returns its path.
pub(crate) fn h3load() -> Result<PathBuf> {
    built("pinion-h3load")
}

/// Builds the program of a package, and returns its path.
fn built(package: &str) -> Result<PathBuf> {
    process::run(&mut process::cargo(&["build", "--profile", "dist", "-q", "-p", package]))?;
    Ok(workspace_paths::target().join("dist").join(package))
}

/// Makes a folder below the build folder, and returns its absolute path.
pub(crate) fn state() -> Result<PathBuf> {
    let state = workspace_paths::target().join("bench");
    fs::create_dir_all(&state)?;
    Ok(fs::canonicalize(state)?)
}
