//! The program of a package: built as any release is, without symbols, and without a word about
//! the machine it was built on.

use crate::components::Program;
use crate::{process, workspace};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Say what a package is made of: read by `pinion version` when it is compiled.
const COMMIT: &str = "PINION_BUILD_COMMIT";
const COMPILER: &str = "PINION_BUILD_COMPILER";

/// Cargo's own separator of flags, which no path has in it.
const SEPARATOR: &str = "\u{1f}";

/// The system that the compiler here builds for, such as `x86_64-unknown-linux-gnu`.
pub(super) fn host() -> Result<String> {
    let told = process::output(rustc().arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}

/// Builds it and gives its path. What is static has a folder of its own, because neither can use
/// what was compiled for the other.
pub(super) fn build(host: &str, is_static: bool, parts: &Program) -> Result<PathBuf> {
    let name = if is_static { "build-static" } else { "build" };
    let folder = workspace::target().join("packages").join(name);
    let mut command = process::cargo(&["build", "--profile", "dist", "--locked", "-p", "pinion"]);
    // Flags for a named target leave out what runs during the build: procedural macros, which
    // cannot be linked statically.
    command.args(["--target", host, "--target-dir"]).arg(&folder);
    command.env("CARGO_ENCODED_RUSTFLAGS", flags(is_static, parts)?.join(SEPARATOR));
    command.env("CARGO_PROFILE_DIST_STRIP", "symbols");
    command.env(COMPILER, process::output(rustc().arg("-V"))?.trim());
    if std::env::var_os(COMMIT).is_none()
        && let Some(commit) = commit()?
    {
        command.env(COMMIT, commit);
    }
    process::run(&mut command)?;
    let built = folder.join(host).join("dist/pinion");
    if is_static {
        has_no_library(&built)?;
    }
    Ok(built)
}

/// The compiler that cargo takes.
fn rustc() -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(workspace::root());
    rustc
}

/// What git calls these sources; none where they are no repository of their own, and then whoever
/// has unpacked them can say it.
fn commit() -> Result<Option<String>> {
    // A folder, or a file in a work tree.
    if !workspace::root().join(".git").exists() {
        return Ok(None);
    }
    let git = |arguments: &[&str]| {
        process::output(Command::new("git").args(arguments).current_dir(workspace::root()))
            .with_context(|| format!("git does not say what is built; {COMMIT} can"))
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let kind = if changes.trim().is_empty() { "" } else { ", changed" };
    Ok(Some(format!("{}{kind}", commit.trim())))
}

/// Paths of this machine stand in the messages of panics; these flags make them relative ones.
fn flags(is_static: bool, parts: &Program) -> Result<Vec<String>> {
    let of_others = parts.components.values().find_map(|component| component.folder.parent());
    let of_others = of_others.context("a program without any component")?;
    let mut flags = vec![
        format!("--remap-path-prefix={}=pinion", workspace::root().display()),
        format!("--remap-path-prefix={}=crates", of_others.display()),
    ];
    if is_static {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    Ok(flags)
}

/// Nothing is loaded before the program, neither a library nor what would load one.
fn has_no_library(program: &Path) -> Result<()> {
    let mut readelf = Command::new("readelf");
    readelf.args(["--wide", "--program-headers", "--dynamic"]).arg(program);
    let told = process::output(&mut readelf)?;
    let needs = |word: &str| told.split_whitespace().any(|other| other == word);
    ensure!(
        !needs("INTERP") && !needs("(NEEDED)"),
        "{} is not static; is there a libc.a? On Debian: sudo apt-get install libc6-dev",
        program.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_libraries_is_not_static() {
        // This test has one, the C library.
        let test = std::env::current_exe().expect("the path of this test");
        assert!(has_no_library(&test).is_err());
    }
}
