//! The files of the Unix sockets that this server listens on: they go when it ends, however it ends
//! short of being killed, and one that another server has put in their place stays.

use rustix::fs::{Mode, OFlags, fstat, lstat, open};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files that are removed with the list.
#[derive(Debug, Default)]
pub(crate) struct SocketFiles {
    files: Mutex<Vec<SocketFile>>,
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// The file itself, open without a right to anything. While it is, its inode is taken, so that
    /// no later file can be mistaken for it: sockets are closed before their files are removed, and
    /// a successor may have replaced them meanwhile.
    file: OwnedFd,
}

impl SocketFiles {
    /// Adds the file of a socket that was bound just now.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn add(&self, path: &Path) -> io::Result<()> {
        let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let file = SocketFile { path: path.to_owned(), file };
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        Ok(())
    }

    /// Removes the files that are still there.
    pub(crate) fn remove(&self) {
        for file in self.files.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if file.is_there() {
                // Another process may have removed it first, with the same result.
                let _gone = fs::remove_file(&file.path);
            }
        }
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        self.remove();
    }
}

impl SocketFile {
    /// Returns whether its path leads to it still.
    fn is_there(&self) -> bool {
        match (fstat(&self.file), lstat(&self.path)) {
            (Ok(own), Ok(there)) => (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_engine::listener::bind_unix;

    #[test]
    fn only_own_socket_files_are_removed() {
        let path = std::env::temp_dir().join(format!("pinion-files-{}.sock", std::process::id()));
        let files = SocketFiles::default();
        let socket = bind_unix(&path).expect("bound");
        files.add(&path).expect("added");
        drop((socket, files));
        assert!(!path.exists());
        let files = SocketFiles::default();
        let socket = bind_unix(&path).expect("bound");
        files.add(&path).expect("added");
        drop(socket);
        // Another server replaces the socket, on which no process listens any more.
        let _others = bind_unix(&path).expect("bound");
        drop(files);
        assert!(path.exists(), "it is another server's");
        fs::remove_file(&path).expect("removed");
    }
}
