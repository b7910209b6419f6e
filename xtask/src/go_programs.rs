//! Programs of the Go world that the tests run, built into folders of their own below `target/`.
//!
//! A `go.mod` and a `go.sum` name every module with its version and its hash. A folder is made
//! again when the wanted programs differ from the note in it.

use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The packages that are programs. Go names a program after the last part.
const PROGRAMS: &[&str] =
    &["github.com/summerwind/h2spec/cmd/h2spec", "pinion.invalid/tests/go_redis"];

/// The beginning of programs of this project: their source is `main.go` in a folder of their name.
const OWN: &str = "pinion.invalid/tests/";

/// Installs the missing programs, in `target/go/bin`.
pub(crate) fn install() -> Result<()> {
    install_to(
        &workspace_paths::root().join("tests"),
        PROGRAMS,
        &workspace_paths::target().join("go"),
    )
}

/// Installs the packages `programs`, whose modules are named in the folder `named`, as programs in
/// `bin` below `folder`, unless they exist.
pub(crate) fn install_to(named: &Path, programs: &[&str], folder: &Path) -> Result<()> {
    // Go takes no relative path for where it installs.
    let folder = std::path::absolute(folder)?;
    let wanted = wanted(named, programs)?;
    // Written last, so half an installation has none.
    let stamp = folder.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("  installing {} into {}", programs.join(" "), folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for name in files(programs) {
        let path = folder.join(&name);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).with_context(|| name.clone())?;
        fs::copy(named.join(&name), &path).with_context(|| name.clone())?;
    }
    let work = folder.join("work");
    process::output(&mut build(programs, &folder, &work))?;
    // Sources and caches are many times as large as the programs.
    fs::remove_dir_all(&work).with_context(|| work.display().to_string())?;
    fs::write(&stamp, wanted).context("the mark of a whole installation")?;
    Ok(())
}

/// Returns the command that builds the programs in `folder`; Go leaves all of its other files in
/// `work`, so that the home folder is unchanged.
fn build(programs: &[&str], folder: &Path, work: &Path) -> Command {
    let mut command = Command::new("go");
    command.arg("install").args(programs).current_dir(folder);
    command.env("GOBIN", folder.join("bin"));
    command.env("GOPATH", work).env("GOCACHE", work.join("cache"));
    // Go protects the sources of modules from writing; without this they could not be removed.
    command.env("GOFLAGS", "-modcacherw");
    // A program in Go alone needs no C compiler, and only the installed version of Go.
    command.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    command
}

/// Returns the files of this project that the programs are made of.
fn files(programs: &[&str]) -> Vec<String> {
    let own = programs.iter().filter_map(|program| program.strip_prefix(OWN));
    let sources = own.map(|name| format!("{name}/main.go"));
    ["go.mod", "go.sum"].map(str::to_owned).into_iter().chain(sources).collect()
}

/// Returns everything that determines the installed programs, as one text.
fn wanted(named: &Path, programs: &[&str]) -> Result<String> {
    let mut text = programs.join("\n");
    for name in files(programs) {
        let path = named.join(name);
        text.push('\n');
        text += &fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_changes_with_every_input_of_the_installation() {
        let folder = workspace_paths::target().join(format!("go-test-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
        write("go.mod", "require a v1.0.0\n");
        write("go.sum", "a v1.0.0 h1:x\n");
        let first = wanted(&folder, &["a/cmd/a"]).expect("read");
        assert_eq!(wanted(&folder, &["a/cmd/a"]).expect("read"), first);
        assert_ne!(wanted(&folder, &["a/cmd/a", "a/cmd/b"]).expect("read"), first);
        write("go.sum", "a v1.0.0 h1:y\n");
        let second = wanted(&folder, &["a/cmd/a"]).expect("read");
        assert_ne!(second, first);
        write("go.mod", "require a v1.0.1\n");
        assert_ne!(wanted(&folder, &["a/cmd/a"]).expect("read"), second);
        fs::create_dir(folder.join("b")).expect("a folder");
        write("b/main.go", "package main\n");
        let third = wanted(&folder, &["pinion.invalid/tests/b"]).expect("read");
        write("b/main.go", "package main // changed\n");
        assert_ne!(wanted(&folder, &["pinion.invalid/tests/b"]).expect("read"), third);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
