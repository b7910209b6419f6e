//! The folder for what the server makes itself and keeps from start to start.

use crate::failure::without_number;
use anyhow::anyhow;
use std::env;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Where it is: as given, or as the service manager or the session has it. It may not be there yet.
///
/// # Errors
/// Nobody says where.
pub(crate) fn folder(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    // A relative one is to be ignored, says the specification of XDG folders.
    let named =
        |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    // systemd.exec(5): several stand with colons between.
    let service = env::var_os("STATE_DIRECTORY").and_then(|folders| {
        let first = env::split_paths(&folders).next();
        first.filter(|path| path.is_absolute())
    });
    let session = || named("XDG_STATE_HOME").map(|path| path.join("pinion"));
    let home = || named("HOME").map(|path| path.join(".local/state/pinion"));
    let found = service.or_else(session).or_else(home);
    found.ok_or_else(|| anyhow!("there is no home for a state folder; give one with --state"))
}

/// For nobody else.
pub(crate) const PRIVATE: u32 = 0o700;

/// Makes it or a folder in it, and whatever is missing above, with this mode. One that is there
/// keeps its own.
///
/// # Errors
/// One line that names the folder.
pub(crate) fn make(folder: &Path, mode: u32) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(folder);
    made.map_err(|error| {
        unusable(&format!("cannot make the state folder {}", folder.display()), &error)
    })
}

/// Returns the error of a file or folder below the state folder that cannot be used: what failed,
/// why, and what to do.
pub(crate) fn unusable(what: &str, error: &io::Error) -> anyhow::Error {
    let why = without_number(&error.to_string());
    anyhow!(
        "{what}: {why}; give a folder that the user that runs Pinion can write: --state FOLDER, or \
         state in [tls]"
    )
}
