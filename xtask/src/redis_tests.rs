//! Redis' own tests in `target/redis-tests`, from Debian's source package: they are no part of this
//! project. The configuration and the lists of apt stay as they are.

use crate::{process, workspace_paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The source package, and the version of Redis whose cases `tests/redis_tests_left_out.txt` names.
const PACKAGE: &str = "redis";
const VERSION: &str = "7.0.15";

/// The key of Debian's archives, in the package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Installs the tests if they are missing.
pub(crate) fn install() -> Result<()> {
    // apt takes no relative path.
    let folder = std::path::absolute(workspace_paths::target().join("redis-tests"))?;
    // Written last, so half an installation has none.
    let stamp = folder.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == VERSION) {
        return Ok(());
    }
    println!("  installing the tests of {PACKAGE} {VERSION} into {}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let work = folder.join("work");
    for name in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(work.join(name)).with_context(|| name.to_owned())?;
    }
    let targets = process::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(SITE) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages",
        "Origin: Debian",
    ]))?;
    fs::write(work.join("sources.list"), source_lines(&targets)).context("sources.list")?;
    process::output(apt(&work).arg("update"))?;
    process::output(apt(&work).args(["source", "--download-only", PACKAGE]))?;
    let archive = work.join(format!("{PACKAGE}_{VERSION}.orig.tar.gz"));
    ensure!(archive.exists(), "Debian's package of {PACKAGE} is not {VERSION} any more");
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&folder);
    process::output(tar.args([
        "--strip-components=1",
        "--wildcards",
        "--no-wildcards-match-slash",
        "*/tests",
        "*/COPYING",
    ]))?;
    fs::remove_dir_all(&work).with_context(|| work.display().to_string())?;
    fs::write(&stamp, VERSION).context("the mark of a whole installation")
}

/// Returns an apt command that keeps everything in the folder `work`.
fn apt(work: &Path) -> Command {
    let mut command = Command::new("apt-get");
    let folders = [("sourcelist", "sources.list"), ("sourceparts", "no-parts")];
    for (name, path) in folders {
        command.arg("-o").arg(format!("Dir::Etc::{name}={}", work.join(path).display()));
    }
    for (name, path) in [("State::lists", "lists"), ("Cache", "cache")] {
        command.arg("-o").arg(format!("Dir::{name}={}", work.join(path).display()));
    }
    command.arg("--quiet").current_dir(work);
    command
}

/// Lines of a `sources.list` for sources, from lines with site, release and component.
fn source_lines(targets: &str) -> String {
    let mut lines: Vec<_> =
        targets.lines().map(|line| format!("deb-src [signed-by={KEYRING}] {line}\n")).collect();
    lines.sort();
    lines.dedup();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_source_gets_one_deb_src_line() {
        let targets = "http://a/debian bookworm main\nhttp://a/debian bookworm main\n";
        let line = format!("deb-src [signed-by={KEYRING}] http://a/debian bookworm main\n");
        assert_eq!(source_lines(targets), line);
    }
}
