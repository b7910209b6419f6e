//! The binary that is measured, and where benches keep what they make.

use crate::{process, workspace};
use anyhow::Result;
use std::fs;
use std::path::PathBuf;

/// The program that packages have, built if it is not as new as its sources.
pub(crate) fn binary() -> Result<PathBuf> {
    process::run(&mut process::cargo(&["build", "--profile", "dist", "-q", "-p", "pinion"]))?;
    Ok(workspace::target().join("dist/pinion"))
}

/// A folder below the build folder, as an absolute path.
pub(crate) fn state() -> Result<PathBuf> {
    let state = workspace::target().join("bench");
    fs::create_dir_all(&state)?;
    Ok(fs::canonicalize(state)?)
}
