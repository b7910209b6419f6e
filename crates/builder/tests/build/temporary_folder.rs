//! A folder that a test fills, and that is removed with it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, FileType, Mode, mknodat};

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinion-build-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// Returns a folder with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Folder {
        let folder = Folder::new();
        for (name, content) in files {
            folder.file(name, content);
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.0.join(OsStr::from_bytes(name.as_ref()))
    }

    /// Writes a file, modified in the year 2020, and makes the folders in its path.
    pub(crate) fn file(&self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        modify(&path, 1_577_836_800);
    }

    pub(crate) fn modified(&self, name: &str, seconds: u64) {
        modify(&self.join(name), seconds);
    }

    pub(crate) fn folder(&self, name: &str) {
        fs::create_dir_all(self.join(name)).unwrap();
    }

    pub(crate) fn link(&self, name: &str, to: impl AsRef<Path>) {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    }

    pub(crate) fn pipe(&self, name: &str) {
        mknodat(CWD, self.join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    pub(crate) fn socket(&self, name: &str) {
        drop(UnixListener::bind(self.join(name)).unwrap());
    }

    /// Returns all names in the folder itself, sorted, without those of files of fingerprints.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
        names.retain(|name| !(name.starts_with('.') && name.ends_with(".stat")));
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that fails must show why it failed, not that its folder could not be removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn modify(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}
