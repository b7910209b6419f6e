//! A package: a folder that is packed into one file, with the same bytes from the same files.

use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable with the time of all files in a package, as in the reproducible builds of other
/// projects.
const TIME: &str = "SOURCE_DATE_EPOCH";

/// The name of the file with the digests.
pub(super) const SUMS: &str = "SHA256SUMS";

/// A folder that becomes a package.
pub(super) struct Package {
    folder: PathBuf,
    name: String,
}

impl Package {
    /// Creates an empty one below `folder`, and removes an old one with this name.
    pub(super) fn new(folder: &Path, name: &str) -> Result<Self> {
        let package = Self { folder: folder.to_owned(), name: name.to_owned() };
        let own = package.own();
        if own.exists() {
            fs::remove_dir_all(&own).with_context(|| own.display().to_string())?;
        }
        fs::create_dir_all(&own).with_context(|| own.display().to_string())?;
        Ok(package)
    }

    /// Adds a file that all users can read.
    pub(super) fn file(&self, path: &str, content: &[u8]) -> Result<()> {
        self.add(path, content, 0o644)
    }

    /// Adds a file that all users can execute.
    pub(super) fn program(&self, path: &str, content: &[u8]) -> Result<()> {
        self.add(path, content, 0o755)
    }

    /// Adds a file with a mode that does not depend on the umask.
    fn add(&self, path: &str, content: &[u8], mode: u32) -> Result<()> {
        let path = self.own().join(path);
        let folder = path.parent().context("a file is in a folder")?;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        fs::write(&path, content)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .with_context(|| path.display().to_string())
    }

    /// Packs all files, sorted, owned by root and with this time. Folders are not included:
    /// unpacking does not change the attributes of existing folders, such as `/usr/local/bin`.
    pub(super) fn pack(&self, time: u64) -> Result<PathBuf> {
        let files = workspace_paths::files(&self.own())?;
        let files = files.iter().map(|path| format!("{}/{path}", self.name));
        let list = self.folder.join(format!("{}.files", self.name));
        fs::write(&list, files.collect::<Vec<_>>().join("\n"))
            .with_context(|| list.display().to_string())?;
        let plain = self.folder.join(format!("{}.tar", self.name));
        let mut tar = Command::new("tar");
        tar.args(["--create", "--format=ustar", "--owner=root:0", "--group=root:0"])
            .arg(format!("--mtime=@{time}"))
            .arg("--file")
            .arg(&plain)
            .arg("--files-from")
            .arg(&list)
            .current_dir(&self.folder);
        process::output(&mut tar)?;
        // The output has neither the name nor the time of the source file.
        let mut gzip = Command::new("gzip");
        gzip.args(["--best", "--no-name", "--force"]).arg(&plain).stdin(Stdio::null());
        process::output(&mut gzip)?;
        fs::remove_file(&list).with_context(|| list.display().to_string())?;
        Ok(self.folder.join(format!("{}.tar.gz", self.name)))
    }

    fn own(&self) -> PathBuf {
        self.folder.join(&self.name)
    }
}

/// Returns the time of a package: the one of the variable, or that of the last commit.
pub(super) fn time() -> Result<u64> {
    let text = match std::env::var(TIME) {
        Ok(text) => text,
        Err(_) => {
            let mut git = Command::new("git");
            git.args(["log", "-1", "--format=%ct"]).current_dir(workspace_paths::root());
            process::output(&mut git).with_context(|| format!("no time; set {TIME}"))?
        }
    };
    text.trim().parse().with_context(|| format!("not seconds since 1970: {text:?}"))
}

/// Writes the digests of all packages in the folder, for `sha256sum --check`.
pub(super) fn sum_up(folder: &Path) -> Result<()> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".tar.gz") {
            packages.push(name);
        }
    }
    packages.sort();
    let sums = process::output(Command::new("sha256sum").args(&packages).current_dir(folder))?;
    let path = folder.join(SUMS);
    fs::write(&path, sums).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &Path, paths: &[&str]) -> Package {
        let package = Package::new(folder, "p-1").expect("a package");
        for path in paths {
            package.file(path, path.as_bytes()).expect("a file");
        }
        package.program("bin/p", b"#!").expect("a program");
        package
    }

    #[test]
    fn the_same_files_give_an_identical_package() {
        let folder = workspace_paths::target().join(format!("package-test-{}", std::process::id()));
        let first = package(&folder, &["b", "a/c", "a/b"]).pack(1_000_000_000).expect("packed");
        let bytes = fs::read(&first).expect("read");
        let again = package(&folder, &["a/b", "a/c", "b"]).pack(1_000_000_000).expect("packed");
        assert!(fs::read(&again).expect("read") == bytes, "another order, other bytes");
        let listed = process::output(
            Command::new("tar").args(["--list", "--verbose", "--utc", "--file"]).arg(&again),
        );
        let listed = listed.expect("tar lists it");
        let lines: Vec<Vec<&str>> =
            listed.lines().map(|line| line.split_whitespace().collect()).collect();
        let names: Vec<&str> = lines.iter().filter_map(|words| words.last().copied()).collect();
        assert_eq!(names, ["p-1/a/b", "p-1/a/c", "p-1/b", "p-1/bin/p"]);
        assert_eq!(&lines[0][..2], ["-rw-r--r--", "root/root"]);
        assert_eq!(lines[0][3..5], ["2001-09-09", "01:46"]);
        assert_eq!(lines[3][0], "-rwxr-xr-x");
        sum_up(&folder).expect("summed up");
        let check = ["--check", "--strict", SUMS];
        process::output(Command::new("sha256sum").args(check).current_dir(&folder)).expect("right");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
