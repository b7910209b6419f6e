//! Packages of the Node world that the tests run, in a folder of their own below `target/`.
//!
//! `tests/package.json` and its lock name every package with its version. The folder is made again
//! when the lock differs from the copy in it.

use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Installs the missing packages.
pub(crate) fn install() -> Result<()> {
    install_to(&workspace_paths::root().join("tests"), &workspace_paths::target().join("node"))
}

/// Installs the packages that are named in the folder `named` into `folder`, unless they are there.
pub(crate) fn install_to(named: &Path, folder: &Path) -> Result<()> {
    let lock = named.join("package-lock.json");
    let wanted = fs::read(&lock).with_context(|| lock.display().to_string())?;
    // Written last, so half an installation has none.
    let stamp = folder.join("installed.json");
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("  installing {} into {}", lock.display(), folder.display());
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(named.join(name), folder.join(name)).with_context(|| name.to_owned())?;
    }
    // No package of these has anything to run when it is installed.
    let quiet = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    process::output(Command::new("npm").args(quiet).current_dir(folder))?;
    fs::copy(&lock, &stamp).context("the mark of a whole installation")?;
    Ok(())
}
