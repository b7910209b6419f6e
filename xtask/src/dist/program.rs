//! The program of a package: built like any release, without symbols and without data about the
//! build machine.

use crate::program_components::Program;
use crate::{process, workspace_paths};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variables that `pinion version` reads when it is compiled.
const COMMIT: &str = "PINION_BUILD_COMMIT";
const COMPILER: &str = "PINION_BUILD_COMPILER";

/// Cargo's own separator of flags, which no path contains.
const SEPARATOR: &str = "\u{1f}";

/// Returns the target of this compiler, such as `x86_64-unknown-linux-gnu`.
pub(super) fn host() -> Result<String> {
    let output = process::output(rustc().arg("-vV"))?;
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}

/// Builds the program and returns its path. The static build has a folder of its own, because
/// neither can use the compiled crates of the other.
pub(super) fn build(host: &str, is_static: bool, parts: &Program) -> Result<PathBuf> {
    let name = if is_static { "build-static" } else { "build" };
    let folder = workspace_paths::target().join("packages").join(name);
    let mut command = process::cargo(&["build", "--profile", "dist", "--locked", "-p", "pinion"]);
    // Flags for an explicit target do not apply to procedural macros, which run during the build
    // and cannot be linked statically.
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

/// Returns the compiler that cargo uses.
fn rustc() -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(workspace_paths::root());
    rustc
}

/// Returns git's description of the sources; `None` if they are not a git repository, in which case
/// the user can set it.
fn commit() -> Result<Option<String>> {
    // `.git` is a folder, or a file in a work tree.
    if !workspace_paths::root().join(".git").exists() {
        return Ok(None);
    }
    let git = |arguments: &[&str]| {
        process::output(Command::new("git").args(arguments).current_dir(workspace_paths::root()))
            .with_context(|| format!("git does not say what is built; {COMMIT} can"))
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let kind = if changes.trim().is_empty() { "" } else { ", changed" };
    Ok(Some(format!("{}{kind}", commit.trim())))
}

/// Returns flags that make the paths in messages of panics relative, because they would be those of
/// this machine.
fn flags(is_static: bool, parts: &Program) -> Result<Vec<String>> {
    let of_others = parts.components.values().find_map(|component| component.folder.parent());
    let of_others = of_others.context("a program without any component")?;
    let mut flags = vec![
        format!("--remap-path-prefix={}=pinion", workspace_paths::root().display()),
        format!("--remap-path-prefix={}=crates", of_others.display()),
    ];
    if is_static {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    Ok(flags)
}

/// Checks that no library is loaded before the program, and no dynamic loader.
fn has_no_library(program: &Path) -> Result<()> {
    let mut readelf = Command::new("readelf");
    readelf.args(["--wide", "--program-headers", "--dynamic"]).arg(program);
    let output = process::output(&mut readelf)?;
    let needs = |word: &str| output.split_whitespace().any(|other| other == word);
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
        // This test itself uses the C library.
        let test = std::env::current_exe().expect("the path of this test");
        assert!(has_no_library(&test).is_err());
    }
}
