//! The shared needs of the processes of all Python applications: the program that they execute, a
//! folder for their sockets, and names.

use crate::failure::Failure;
use crate::server::private_folder::PrivateFolder;
use anyhow::{Context as _, anyhow};
use pinion_programs::supervisor_link::ProgramDescriptors;
use pinion_python::program::program;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The shared needs of the processes of all Python applications. Copies share everything.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessFiles {
    shared: Arc<SharedFiles>,
}

#[derive(Debug, Default)]
struct SharedFiles {
    folder: OnceLock<PrivateFolder>,
    program: OnceLock<Arc<OwnedFd>>,
    names: Mutex<BTreeSet<String>>,
}

/// The name of a process, and the socket on which it accepts connections. The socket stays when the
/// process ends, so requests wait for the next one. Dropped, the name is free and the file of the
/// socket is removed.
#[derive(Debug)]
pub(super) struct ProcessSocket {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) descriptors: ProgramDescriptors,
    files: ProcessFiles,
}

impl ProcessFiles {
    /// Makes the socket of one more process. `is_taken` says which names other programs have.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn socket(&self, is_taken: impl Fn(&str) -> bool) -> Result<ProcessSocket, Failure> {
        let program = self.program()?;
        let folder = self.folder()?;
        let name = self.take_name(is_taken);
        let path = folder.join(format!("{name}.sock"));
        let made = UnixListener::bind(&path).and_then(|listener| {
            // Only this user connects. The processes have the socket already.
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            Ok(listener)
        });
        match made {
            Ok(listener) => {
                let listener = Arc::new(listener.into());
                let descriptors = ProgramDescriptors { listener, file: program };
                Ok(ProcessSocket { name, path, descriptors, files: self.clone() })
            }
            Err(error) => {
                self.free_name(&name);
                Err(anyhow!("cannot listen on {}: {error}", path.display()).into())
            }
        }
    }

    /// Removes all files. Nothing of them is used any more.
    pub(super) fn remove(&self) {
        if let Some(folder) = self.shared.folder.get() {
            folder.remove();
        }
    }

    fn folder(&self) -> Result<&Path, Failure> {
        if self.shared.folder.get().is_none() {
            // Of two threads that make one, the second drops its own.
            let _made = self.shared.folder.set(PrivateFolder::new()?);
        }
        let folder = self.shared.folder.get().context("there is no folder for Python")?;
        Ok(folder.path())
    }

    /// Returns the program that the processes execute: a file without a name that nothing can
    /// change.
    fn program(&self) -> Result<Arc<OwnedFd>, Failure> {
        if let Some(program) = self.shared.program.get() {
            return Ok(Arc::clone(program));
        }
        let made = (|| -> io::Result<OwnedFd> {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let mut file = File::from(memfd_create("pinion-python", flags)?);
            file.write_all(program().as_bytes())?;
            let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
            fcntl_add_seals(&file, seals)?;
            Ok(file.into())
        })();
        let made = made.context("cannot make the file of the Python program")?;
        Ok(Arc::clone(self.shared.program.get_or_init(|| Arc::new(made))))
    }

    /// Takes `python`, or the first of `python-2`, `python-3` and so on that is free.
    fn take_name(&self, is_taken: impl Fn(&str) -> bool) -> String {
        let mut names = self.shared.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |number: u64| match number {
            1 => "python".to_owned(),
            number => format!("python-{number}"),
        };
        let mut candidates = (1..).map(name);
        let free = candidates.find(|name| !names.contains(name) && !is_taken(name));
        let free = free.unwrap_or_default();
        names.insert(free.clone());
        free
    }

    fn free_name(&self, name: &str) {
        self.shared.names.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl Drop for ProcessSocket {
    fn drop(&mut self) {
        // It is gone already if the folder was removed.
        let _removed = fs::remove_file(&self.path);
        self.files.free_name(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_and_file_of_an_ended_process_are_reused() {
        let files = ProcessFiles::default();
        let socket = || files.socket(|name| name == "python-2").expect("a socket");
        let (first, second) = (socket(), socket());
        assert_eq!((&*first.name, &*second.name), ("python", "python-3"));
        let path = first.path.clone();
        assert!(path.exists());
        drop(first);
        assert!(!path.exists());
        assert_eq!(socket().name, "python");
        files.remove();
    }
}
