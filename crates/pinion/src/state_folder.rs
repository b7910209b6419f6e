//! The folder for files that the server makes itself and keeps from start to start.

use crate::failure::without_number;
use anyhow::anyhow;
use std::env;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Returns the state folder: as given, or as the service manager or the session has it. It may not
/// be there yet.
///
/// # Errors
/// No setting and no variable names it.
pub(crate) fn folder(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let service = service_folder("STATE_DIRECTORY");
    let session = || folder_of("XDG_STATE_HOME").map(|path| path.join("pinion"));
    let home = || folder_of("HOME").map(|path| path.join(".local/state/pinion"));
    let found = service.or_else(session).or_else(home);
    found.ok_or_else(|| anyhow!("there is no home for a state folder; give one with --state"))
}

/// Returns the folder that a service manager has made for the service: the first of those that a
/// variable such as `STATE_DIRECTORY` lists, separated by colons (systemd.exec(5)).
pub(crate) fn service_folder(variable: &str) -> Option<PathBuf> {
    let folders = env::var_os(variable)?;
    env::split_paths(&folders).next().filter(|path| path.is_absolute())
}

/// Returns the folder that a variable names. A relative path is ignored, as the specification of
/// XDG folders demands.
pub(crate) fn folder_of(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The mode of a folder that no other user can open.
pub(crate) const PRIVATE: u32 = 0o700;

/// Makes the folder or a folder in it, and all missing folders above, with this mode. One that is
/// there keeps its own.
///
/// # Errors
/// One line that names the folder.
pub(crate) fn make(folder: &Path, mode: u32) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(folder);
    made.map_err(|error| {
        unusable(&format!("cannot make the state folder {}", folder.display()), &error)
    })
}

/// Returns the error of a file or folder below the state folder that cannot be used: the failure,
/// its reason, and the advice.
pub(crate) fn unusable(problem: &str, error: &io::Error) -> anyhow::Error {
    let why = without_number(&error.to_string());
    anyhow!(
        "{problem}: {why}; give a folder that the user that runs Pinion can write: --state FOLDER, \
         or state in [tls]"
    )
}
