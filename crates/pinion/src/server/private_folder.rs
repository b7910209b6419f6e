//! A folder for this server alone, with the configurations and sockets of programs that it starts.
//! Another server on the machine has another one. It is removed with its owner; the folder of a
//! server that was killed is removed by the next one.

use crate::failure::without_number;
use crate::state_folder::{self, PRIVATE};
use anyhow::anyhow;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, lstat, open};
use rustix::process::geteuid;
use std::env;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The prefix of the names of such folders.
const PREFIX: &str = "pinion-programs-";

/// How often another name is tried: one that exists is as unlikely as one of 2^64.
const ATTEMPTS: usize = 4;

/// The folder. It is locked as long as it is used: so the next server knows that it is in use, and
/// systemd-tmpfiles(8) does not remove old files in it.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    path: PathBuf,
    _lock: OwnedFd,
}

impl PrivateFolder {
    /// Makes the folder, in the folder that the service manager or the session has for that, or
    /// else in that for temporary files.
    ///
    /// # Errors
    /// It cannot be made there.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let parent = parent();
        remove_left(&parent);
        Self::new_in(&parent).map_err(|error| {
            let reason = without_number(&error.to_string());
            anyhow!("cannot make a folder for programs in {}: {reason}", parent.display())
        })
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let path = parent.join(format!("{PREFIX}{:016x}", RandomState::new().hash_one(())));
            match DirBuilder::new().mode(PRIVATE).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Until it is locked, another server may take it for one that is left.
            if let Some(lock) = lock(&path) {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other("another program removes it"))
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl PrivateFolder {
    /// Removes it, and everything in it.
    pub(crate) fn remove(&self) {
        // If something stays, the next server tries it again.
        let _left = fs::remove_dir_all(&self.path);
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        self.remove();
    }
}

fn parent() -> PathBuf {
    let service = state_folder::service_folder("RUNTIME_DIRECTORY");
    let session = || state_folder::folder_of("XDG_RUNTIME_DIR");
    let is_own =
        |folder: &PathBuf| folder.metadata().is_ok_and(|found| found.uid() == geteuid().as_raw());
    let found = service.filter(is_own).or_else(|| session().filter(is_own));
    found.unwrap_or_else(env::temp_dir)
}

/// Locks a folder; returns `None` if another process has, or if the path is that of another folder.
fn lock(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty()).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (own, there) = (fstat(&folder).ok()?, lstat(path).ok()?);
    ((own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)).then_some(folder)
}

/// Removes the folders of this user that nothing has locked.
fn remove_left(parent: &Path) {
    let Ok(entries) = parent.read_dir() else { return };
    for entry in entries.flatten() {
        let is_named = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let is_own =
            is_named && lstat(entry.path()).is_ok_and(|found| found.st_uid == geteuid().as_raw());
        if let Some(_lock) = is_own.then(|| lock(&entry.path())).flatten() {
            let _left = fs::remove_dir_all(entry.path());
        }
    }
}

/// Writes a file that only this user can read, in the place of an older one.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::RUSR | Mode::WUSR)?;
    io::Write::write_all(&mut fs::File::from(file), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn folders_of_killed_servers_are_removed_and_those_in_use_stay() {
        let parent = env::temp_dir().join(format!("pinion-private-{}", std::process::id()));
        fs::create_dir(&parent).expect("made");
        let used = PrivateFolder::new_in(&parent).expect("made");
        write_private(&used.path().join("a"), "text").expect("written");
        write_private(&used.path().join("a"), "other").expect("written");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(used.path()), mode(&used.path().join("a"))), (0o700, 0o600));
        for name in ["pinion-programs-0/a", "other/a"] {
            fs::create_dir_all(parent.join(name)).expect("made");
        }
        remove_left(&parent);
        let there = |name: &str| parent.join(name).exists();
        assert!(used.path().join("a").exists() && !there("pinion-programs-0") && there("other"));
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
        fs::remove_dir_all(&parent).expect("removed");
    }
}
