//! Rust programs that the tests run, installed below `target/`.
//!
//! Each version is pinned, and so are its dependencies by the lock file that its authors have
//! published.

use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// A crate that is a program.
struct Program {
    name: &'static str,
    version: &'static str,
}

/// Tests of HTTP/2 by the authors of loona.
const PROGRAMS: &[Program] = &[Program { name: "httpwg-cli", version: "0.2.5" }];

/// Installs the missing programs in `target/tools/bin`.
pub(crate) fn install() -> Result<()> {
    // Cargo runs in the root, whatever the current folder is.
    let folder = std::path::absolute(workspace_paths::target().join("tools"))?;
    for program in PROGRAMS {
        if !program.is_installed(&folder)? {
            program.install(&folder)?;
        }
    }
    Ok(())
}

impl Program {
    /// Returns whether cargo has recorded an installation of this version in the folder. The record
    /// is written last, so it excludes incomplete installations.
    fn is_installed(&self, folder: &Path) -> Result<bool> {
        let notes = folder.join(".crates.toml");
        if !notes.exists() {
            return Ok(false);
        }
        let notes = fs::read_to_string(&notes).with_context(|| notes.display().to_string())?;
        Ok(notes.contains(&format!("\n\"{} {} (", self.name, self.version)))
    }

    fn install(&self, folder: &Path) -> Result<()> {
        let Self { name, version } = self;
        println!("  installing {name} {version} into {}", folder.display());
        let mut command = process::cargo(&["install", name, "--locked", "--version", version]);
        command.arg("--quiet").arg("--root").arg(folder);
        // The build settings of the workspace may not fit the program of another project.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
        process::run(&mut command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_requested_version_counts_as_installed() {
        let folder = workspace_paths::target().join(format!("crates-test-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let wanted = Program { name: "a", version: "1.0.0" };
        assert!(!wanted.is_installed(&folder).expect("nothing to read"));
        for (note, is_match) in [
            ("[v1]\n", false),
            ("[v1]\n\"a 1.0.1 (registry+x)\" = [\"a\"]\n", false),
            ("[v1]\n\"aa 1.0.0 (registry+x)\" = [\"aa\"]\n", false),
            ("[v1]\n\"a 1.0.0 (registry+x)\" = [\"a\"]\n", true),
        ] {
            fs::write(folder.join(".crates.toml"), note).expect("written");
            assert_eq!(wanted.is_installed(&folder).expect("read"), is_match, "{note}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
