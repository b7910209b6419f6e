//! Python programs that the tests run, in an environment of their own below `target/`, and the
//! packages that the applications of tests import.
//!
//! `tests/requirements.txt` has every package with its version. The environment is created again
//! when that file differs from the copy in it. The same holds for `tests/python_applications.txt`
//! and `tests/python_sources.txt`.

use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Creates the environment with all required packages, if necessary.
pub(crate) fn install() -> Result<()> {
    let wanted = workspace_paths::root().join("tests/requirements.txt");
    install_to(&wanted, &workspace_paths::target().join("python"), &["--no-deps"])?;
    install_packages()?;
    install_sources()
}

/// Installs the packages that applications import, for the interpreter of the system, which runs
/// them.
fn install_packages() -> Result<()> {
    let wanted = workspace_paths::root().join("tests/python_applications.txt");
    install_packages_to(&wanted, &workspace_paths::target().join("python-applications"))
}

/// Installs the packages in the file `wanted` into a folder, for the interpreter of the system. The
/// folder is readable for all its users.
pub(crate) fn install_packages_to(wanted: &Path, folder: &Path) -> Result<()> {
    if is_current(folder, wanted)? {
        return Ok(());
    }
    println!("  installing {} into {}", wanted.display(), folder.display());
    let version = "import sys; print('%d.%d' % sys.version_info[:2], end='')";
    let version = process::output(Command::new("/usr/bin/python3").args(["-c", version]))?;
    if folder.exists() {
        fs::remove_dir_all(folder).context("the packages of before")?;
    }
    process::output(
        Command::new(workspace_paths::target().join("python/bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .args(["--only-binary=:all:", "--implementation=cp", "--python-version", &version])
            .arg("--target")
            .arg(folder)
            .arg("-r")
            .arg(wanted),
    )?;
    fs::copy(wanted, stamp(folder)).context("the mark of a whole folder")?;
    Ok(())
}

/// Downloads the sources whose test suites the tests run, each into a folder of its name.
fn install_sources() -> Result<()> {
    let wanted = workspace_paths::root().join("tests/python_sources.txt");
    let folder = workspace_paths::target().join("python-sources");
    if is_current(&folder, &wanted)? {
        return Ok(());
    }
    println!("  installing {} into {}", wanted.display(), folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).context("the sources of before")?;
    }
    process::output(
        Command::new(workspace_paths::target().join("python/bin/pip"))
            .args(["download", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .args(["--no-binary=:all:", "--dest"])
            .arg(&folder)
            .arg("-r")
            .arg(&wanted),
    )?;
    // The unpacked folders next to them are not in the list.
    let archives = fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    for archive in archives {
        unpack(&archive.path())?;
    }
    fs::copy(&wanted, stamp(&folder)).context("the mark of a whole folder")?;
    Ok(())
}

/// Unpacks `name-version.tar.gz` into the folder `name` next to it.
fn unpack(archive: &Path) -> Result<()> {
    let file_name = archive.file_name().and_then(|name| name.to_str());
    let name = file_name.and_then(|name| name.rsplit_once('-')).context("name and version")?.0;
    let folder = archive.with_file_name(name);
    fs::create_dir(&folder)?;
    process::output(
        Command::new("tar")
            .args(["--strip-components=1", "-xzf"])
            .arg(archive)
            .arg("-C")
            .arg(folder),
    )?;
    Ok(())
}

/// Creates an environment with the packages in the file `wanted`. `flags` are for pip.
pub(crate) fn install_to(wanted: &Path, environment: &Path, flags: &[&str]) -> Result<()> {
    if is_current(environment, wanted)? {
        return Ok(());
    }
    println!("  installing {} into {}", wanted.display(), environment.display());
    process::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))?;
    process::output(
        Command::new(environment.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(flags)
            .arg("-r")
            .arg(wanted),
    )?;
    fs::copy(wanted, stamp(environment)).context("the mark of a whole environment")?;
    Ok(())
}

/// Returns whether the environment was created from the current requirements.
fn is_current(environment: &Path, wanted: &Path) -> Result<bool> {
    let wanted = fs::read(wanted).with_context(|| wanted.display().to_string())?;
    Ok(fs::read(stamp(environment)).is_ok_and(|made_from| made_from == wanted))
}

/// Returns the path of the copy of the requirements. It is written last, so an incomplete
/// environment has none.
fn stamp(environment: &Path) -> PathBuf {
    environment.join("requirements.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_current_only_with_the_same_requirements() {
        let folder = workspace_paths::target().join(format!("python-test-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let wanted = folder.join("wanted.txt");
        fs::write(&wanted, "a==1\n").expect("written");
        assert!(!is_current(&folder, &wanted).expect("read"));
        fs::copy(&wanted, stamp(&folder)).expect("copied");
        assert!(is_current(&folder, &wanted).expect("read"));
        fs::write(&wanted, "a==2\n").expect("written");
        assert!(!is_current(&folder, &wanted).expect("read"));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
