//! Programs of the Rust world that the tests run, installed below `target/`.
//!
//! Each is pinned, and so is what it is built of: by the lock that its authors published with it.

use crate::{process, workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// A crate that is a program.
struct Program {
    name: &'static str,
    version: &'static str,
}

/// Cases of HTTP/2 by those who wrote loona.
const PROGRAMS: &[Program] = &[Program { name: "httpwg-cli", version: "0.2.5" }];

/// Sees to it that the programs are there, in `target/tools/bin`.
pub(crate) fn install() -> Result<()> {
    // Cargo runs in the root, wherever we do.
    let folder = std::path::absolute(workspace::target().join("tools"))?;
    for program in PROGRAMS {
        if !program.is_installed(&folder)? {
            program.install(&folder)?;
        }
    }
    Ok(())
}

impl Program {
    /// Whether cargo has noted that the folder has it, in this version. It notes what it has
    /// installed last of all, so there is no half of one.
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
        // What the workspace is built with need not be good for a program of others.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
        process::run(&mut command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_that_is_asked_for_counts_as_installed() {
        let folder = workspace::target().join(format!("crates-test-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let wanted = Program { name: "a", version: "1.0.0" };
        assert!(!wanted.is_installed(&folder).expect("nothing to read"));
        for (note, is_it) in [
            ("[v1]\n", false),
            ("[v1]\n\"a 1.0.1 (registry+x)\" = [\"a\"]\n", false),
            ("[v1]\n\"aa 1.0.0 (registry+x)\" = [\"aa\"]\n", false),
            ("[v1]\n\"a 1.0.0 (registry+x)\" = [\"a\"]\n", true),
        ] {
            fs::write(folder.join(".crates.toml"), note).expect("written");
            assert_eq!(wanted.is_installed(&folder).expect("read"), is_it, "{note}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
