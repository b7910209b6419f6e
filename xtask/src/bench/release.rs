//! The measured binary, and the folder for the files of benchmarks.

use crate::{process, workspace};
use anyhow::Result;
use std::fs;
use std::path::PathBuf;

/// The program that packages have, built if it is not as new as its sources.
pub(crate) fn binary() -> Result<PathBuf> {
    built("pinion")
}

/// The client of HTTP/3, built in the same way.
pub(crate) fn h3load() -> Result<PathBuf> {
    built("pinion-h3load")
}

/// The program of a package.
fn built(package: &str) -> Result<PathBuf> {
    process::run(&mut process::cargo(&["build", "--profile", "dist", "-q", "-p", package]))?;
    Ok(workspace::target().join("dist").join(package))
}

/// A folder below the build folder, as an absolute path.
pub(crate) fn state() -> Result<PathBuf> {
    let state = workspace::target().join("bench");
    fs::create_dir_all(&state)?;
    Ok(fs::canonicalize(state)?)
}
