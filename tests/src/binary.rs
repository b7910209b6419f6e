//! The executable under test: the one that cargo has put next to the test executables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Names another executable to test, such as one that is installed.
const OVERRIDE: &str = "PINION_BINARY";

/// Returns the path of the executable.
///
/// `cargo test --workspace` and `cargo xtask test` have built it already. Where it is missing, or
/// older than a source file, it is built here, once, in the profile of the tests.
///
/// # Panics
/// Panics if it cannot be built; the message has the command.
pub fn pinion() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| match std::env::var_os(OVERRIDE) {
        Some(path) => PathBuf::from(path),
        None => {
            let path = beside_the_tests();
            if is_missing_or_old(&path) {
                build(&path);
            }
            path
        }
    })
}

/// Returns the root of the source tree.
pub fn source_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the root")
}

/// Returns the folder that cargo builds a profile in, such as `target/ci`.
pub fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.ancestors().nth(2).expect("tests lie in target/PROFILE/deps");
    folder.to_owned()
}

fn beside_the_tests() -> PathBuf {
    profile_folder().join("pinion")
}

fn is_missing_or_old(path: &Path) -> bool {
    let Ok(built) = fs::metadata(path).and_then(|metadata| metadata.modified()) else {
        return true;
    };
    let crates = source_root().join("crates");
    fs::read_dir(&crates)
        .expect("the crates")
        .map(|entry| entry.expect("an entry").path().join("src"))
        .any(|sources| has_newer(&sources, built))
}

fn has_newer(folder: &Path, than: SystemTime) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => has_newer(&entry.path(), than),
        Ok(metadata) => metadata.modified().is_ok_and(|changed| changed > than),
        Err(_) => false,
    })
}

fn build(path: &Path) {
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let profile = match folder {
        Some("debug") => "dev",
        Some(profile) => profile,
        None => panic!("{} is in no profile's folder", path.display()),
    };
    let command = format!("cargo build --package pinion --profile {profile}");
    let status = Command::new(env!("CARGO"))
        .args(command.split(' ').skip(1))
        .current_dir(source_root())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()) && path.exists(),
        "the tests need {}; `{command}` makes it (or name another executable in {OVERRIDE})",
        path.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_root_is_the_workspace() {
        assert!(source_root().join("Cargo.lock").exists());
    }
}
