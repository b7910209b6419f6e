//! The sources of LuaJIT, as the crate `luajit-src` brings them, and the patches.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::patch;

/// The variable that has this program do nothing but [`copy`].
pub(crate) const COPY_TO: &str = "PINION_LUAJIT_COPY_TO";

/// A folder that no system has: programs are not found there.
const NOWHERE: &str = "/pinion/nowhere";

/// Where patches are, below the folder of this package.
const PATCHES: &str = "patches";

/// Puts the patched sources into an empty folder and returns where in it they are.
///
/// # Errors
/// The sources cannot be copied, or a patch does not apply.
pub(crate) fn prepare(folder: &Path) -> Result<PathBuf, String> {
    let sources = copied(folder)?;
    for path in patches()? {
        let described = |why: String| format!("{} does not apply: {why}", path.display());
        let patch = fs::read_to_string(&path).map_err(|error| described(error.to_string()))?;
        patch::apply(&patch, &sources).map_err(described)?;
    }
    Ok(sources)
}

/// All patches, in the order of their names.
fn patches() -> Result<Vec<PathBuf>, String> {
    let package = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let folder = Path::new(&package).join(PATCHES);
    let described = |error| format!("cannot read {}: {error}", folder.display());
    let entries = fs::read_dir(&folder).map_err(described)?.collect::<Result<Vec<_>, _>>();
    let mut paths: Vec<_> = entries.map_err(described)?.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension() == Some(OsStr::new("patch")));
    paths.sort();
    if paths.is_empty() { Err(format!("no patches in {}", folder.display())) } else { Ok(paths) }
}

/// Copies the unmodified sources to a folder and returns where in it they are.
///
/// `luajit-src` has no function that only does that. Its function that builds LuaJIT copies them
/// first, and then looks for a compiler and for `make`. So it is called by a process of its own
/// that finds no program.
fn copied(folder: &Path) -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(own);
    command.env(COPY_TO, folder).env("PATH", NOWHERE).stdout(Stdio::null());
    for compiler in ["CC", "HOST_CC", "TARGET_CC"] {
        command.env_remove(compiler);
    }
    let output = command.output().map_err(|error| format!("cannot run this program: {error}"))?;
    let sources = folder.join("luajit-build");
    // It is copied last of all.
    if sources.join(".relver").is_file() {
        return Ok(sources);
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("the sources of LuaJIT were not copied to {}: {why}", folder.display()))
}

/// Copies the sources, in that process.
pub(crate) fn copy(folder: &Path) {
    if let Err(error) = luajit_src::Build::new().out_dir(folder).try_build() {
        eprintln!("{error}");
    }
}
