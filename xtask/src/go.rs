//! Programs of the Go world that the tests run, built into a folder of their own below `target/`.
//!
//! `tests/go.mod` and `tests/go.sum` name every module with its version and its hash. The folder is
//! made anew when what is wanted differs from the note that lies in it since it was made.

use crate::{process, workspace};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The packages that are programs. Go names a program after the last part.
const PROGRAMS: &[&str] = &["github.com/summerwind/h2spec/cmd/h2spec"];

/// Sees to it that the programs are there, in `target/go/bin`.
pub(crate) fn install() -> Result<()> {
    let tests = workspace::root().join("tests");
    // Go takes no relative path for where it installs.
    let folder = std::path::absolute(workspace::target().join("go"))?;
    let wanted = wanted(&tests, PROGRAMS)?;
    // Written last, so half an installation has none.
    let stamp = folder.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("  installing {} into {}", PROGRAMS.join(" "), folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for name in ["go.mod", "go.sum"] {
        fs::copy(tests.join(name), folder.join(name)).with_context(|| name.to_owned())?;
    }
    let work = folder.join("work");
    process::output(&mut build(&folder, &work))?;
    // Sources and caches are many times as large as the programs.
    fs::remove_dir_all(&work).with_context(|| work.display().to_string())?;
    fs::write(&stamp, wanted).context("the mark of a whole installation")?;
    Ok(())
}

/// Builds in `folder` what is wanted and leaves everything else that Go writes in `work`, so that
/// the home folder stays as it is.
fn build(folder: &Path, work: &Path) -> Command {
    let mut command = Command::new("go");
    command.arg("install").args(PROGRAMS).current_dir(folder);
    command.env("GOBIN", folder.join("bin"));
    command.env("GOPATH", work).env("GOCACHE", work.join("cache"));
    // Go protects the sources of modules from writing; without this they could not be removed.
    command.env("GOFLAGS", "-modcacherw");
    // A program of Go alone needs no C compiler, and only the Go that is there.
    command.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    command
}

/// All that decides what is installed, as one text.
fn wanted(tests: &Path, programs: &[&str]) -> Result<String> {
    let mut text = programs.join("\n");
    for name in ["go.mod", "go.sum"] {
        let path = tests.join(name);
        text.push('\n');
        text += &fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_decides_what_is_installed_is_in_the_mark() {
        let folder = workspace::target().join(format!("go-test-{}", std::process::id()));
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
        fs::remove_dir_all(&folder).expect("removed");
    }
}
