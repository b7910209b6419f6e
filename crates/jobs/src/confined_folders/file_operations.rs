//! File operations. All of them block, so they run only on the threads of jobs.

use std::fs::{File, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::{FileError, FileErrorKind};
use super::{Access, Folders, NEW_FILE};
use crate::limits::{FILE_READ_MAX_BYTES, FILES_LISTED_MAX};

/// The beginning of the name of a file that is being written.
const DRAFT: &str = ".pinion-draft-";

/// The mode of new folders, less the umask.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o755);

/// The kind of a file in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, a pipe, a device or a socket.
    Other,
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileStat {
    /// The kind of the file.
    pub kind: FileKind,
    /// The size of the file in bytes.
    pub size: u64,
    /// The time of the last change of the file, in seconds since 1970.
    pub modified: f64,
}

impl Folders {
    /// Reads a whole file, or at most `bytes` bytes from the position `from` on; the result is
    /// shorter if the file ends earlier. This function reads up to `max_bytes`, and never more than
    /// [`FILE_READ_MAX_BYTES`].
    ///
    /// # Errors
    /// The file cannot be read, or is larger than the limit.
    pub fn read(
        &self,
        path: &[u8],
        from: Option<u64>,
        bytes: Option<u64>,
        max_bytes: u64,
    ) -> Result<Vec<u8>, FileError> {
        let max_bytes = max_bytes.min(FILE_READ_MAX_BYTES);
        self.read_part(path, from.unwrap_or(0), bytes, max_bytes)
            .map_err(|kind| kind.of("read", path))
    }

    fn read_part(
        &self,
        path: &[u8],
        from: u64,
        bytes: Option<u64>,
        max_bytes: u64,
    ) -> Result<Vec<u8>, FileErrorKind> {
        let mut file = self.open_file(path)?;
        let size = file.metadata()?.len();
        let wanted = bytes.unwrap_or(u64::MAX).min(size.saturating_sub(from));
        if wanted > max_bytes {
            return Err(FileErrorKind::TooLarge { max_bytes });
        }
        let mut content = Vec::with_capacity(wanted as usize);
        if wanted > 0 {
            file.seek(SeekFrom::Start(from))?;
            file.take(wanted).read_to_end(&mut content)?;
        }
        Ok(content)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// The file cannot be opened or is not a regular file.
    pub fn open_file(&self, path: &[u8]) -> Result<File, FileErrorKind> {
        let opened = self.location(path, Access::Read)?.open(OFlags::RDONLY);
        let file = File::from(opened.map_err(|error| match error {
            Errno::NOENT => FileErrorKind::MissingFile,
            error => error.into(),
        })?);
        check_regular(&file)?;
        Ok(file)
    }

    /// Replaces the content of a file atomically: other processes see the old content or the new
    /// one, also after a crash.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &[u8], content: &[u8]) -> Result<(), FileError> {
        self.replace(path, content).map_err(|kind| kind.of("write", path))
    }

    fn replace(&self, path: &[u8], content: &[u8]) -> Result<(), FileErrorKind> {
        let location = self.location(path, Access::Change)?;
        let (folder, last) = location.parent().map_err(|error| location.not_made(error))?;
        // The permissions of the file stay as they are.
        let mode = match rustix::fs::statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Some(stat.st_mode),
            _ => None,
        };
        let mode = mode.map(|mode| Permissions::from_mode(mode & 0o777));
        with_draft(&folder, mode, content, |draft| {
            rustix::fs::renameat(&folder, draft, &folder, last)
        })
    }

    /// Creates a file with this content atomically. If several calls create the same file at once,
    /// one succeeds and the others return an error.
    ///
    /// # Errors
    /// It cannot be created, for example because it exists.
    pub fn create(&self, path: &[u8], content: &[u8]) -> Result<(), FileError> {
        self.create_new(path, content).map_err(|kind| kind.of("create", path))
    }

    fn create_new(&self, path: &[u8], content: &[u8]) -> Result<(), FileErrorKind> {
        let location = self.location(path, Access::Change)?;
        let (folder, last) = location.parent().map_err(|error| location.not_made(error))?;
        with_draft(&folder, None, content, |draft| {
            // Linking fails if there is a file of that name, on every file system (link(2)).
            rustix::fs::linkat(&folder, draft, &folder, last, AtFlags::empty())?;
            rustix::fs::unlinkat(&folder, draft, AtFlags::empty())
        })
    }

    /// Appends to a file, and creates it if it does not exist.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, path: &[u8], content: &[u8]) -> Result<(), FileError> {
        let append = || {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
            let location = self.location(path, Access::Change)?;
            let opened = location.open(flags).map_err(|error| location.not_made(error))?;
            let mut file = File::from(opened);
            check_regular(&file)?;
            Ok(file.write_all(content)?)
        };
        append().map_err(|kind: FileErrorKind| kind.of("append to", path))
    }

    /// Lists the names in a folder, sorted.
    ///
    /// # Errors
    /// The folder cannot be read, or has more than [`FILES_LISTED_MAX`] names.
    pub fn list(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, FileError> {
        self.names(path).map_err(|kind| kind.of("list", path))
    }

    fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, FileErrorKind> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = self.location(path, Access::Read)?.open(flags);
        let folder = opened.map_err(|error| match error {
            Errno::NOENT => FileErrorKind::MissingFolder,
            Errno::NOTDIR => FileErrorKind::NotAFolder,
            error => error.into(),
        })?;
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name.starts_with(DRAFT.as_bytes()) {
                continue;
            }
            if names.len() == FILES_LISTED_MAX {
                return Err(FileErrorKind::TooManyNames);
            }
            names.push(name.to_vec());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the metadata of a file or a folder. A link is not followed.
    ///
    /// # Errors
    /// The path cannot be found.
    pub fn stat(&self, path: &[u8]) -> Result<FileStat, FileError> {
        let stat = || {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let file = File::from(self.location(path, Access::Read)?.open(flags)?);
            let found = file.metadata()?;
            let kind = match found.file_type() {
                kind if kind.is_file() => FileKind::File,
                kind if kind.is_dir() => FileKind::Folder,
                _ => FileKind::Other,
            };
            let modified = found.mtime() as f64 + found.mtime_nsec() as f64 / 1e9;
            Ok(FileStat { kind, size: found.len(), modified })
        };
        stat().map_err(|kind: FileErrorKind| kind.of("look up", path))
    }

    /// Removes a file or an empty folder.
    ///
    /// # Errors
    /// The file or folder cannot be removed.
    pub fn remove(&self, path: &[u8]) -> Result<(), FileError> {
        let remove = || {
            let (folder, last) = self.location(path, Access::Change)?.parent()?;
            let removed = match rustix::fs::unlinkat(&folder, last, AtFlags::empty()) {
                Err(Errno::ISDIR) => rustix::fs::unlinkat(&folder, last, AtFlags::REMOVEDIR),
                other => other,
            };
            Ok(removed?)
        };
        remove().map_err(|kind: FileErrorKind| kind.of("remove", path))
    }

    /// Creates a folder below an existing folder.
    ///
    /// # Errors
    /// It cannot be created, for example because it exists.
    pub fn make_folder(&self, path: &[u8]) -> Result<(), FileError> {
        let make = || {
            let location = self.location(path, Access::Change)?;
            let (folder, last) = location.parent().map_err(|error| location.not_made(error))?;
            match rustix::fs::mkdirat(&folder, last, NEW_FOLDER) {
                Ok(()) => Ok(()),
                Err(Errno::EXIST) => Err(FileErrorKind::FolderExists),
                Err(error) => Err(error.into()),
            }
        };
        make().map_err(|kind: FileErrorKind| kind.of("create the folder", path))
    }

    /// Renames a file or a folder. An existing file with the new name is replaced.
    ///
    /// # Errors
    /// The file or folder cannot be renamed.
    pub fn rename(&self, path: &[u8], new_path: &[u8]) -> Result<(), FileError> {
        let rename = || {
            let old = self.location(path, Access::Change)?;
            let new = self.location(new_path, Access::Change)?;
            let (folder, last) = old.parent()?;
            let (new_folder, new_last) = new.parent().map_err(|error| new.not_made(error))?;
            Ok(rustix::fs::renameat(&folder, last, &new_folder, new_last)?)
        };
        rename().map_err(|kind: FileErrorKind| kind.of_rename(path, new_path))
    }
}

/// Writes a draft file into a folder and calls `finish`, which gives the draft its final name.
/// After an error the draft is removed.
fn with_draft(
    folder: &OwnedFd,
    mode: Option<Permissions>,
    content: &[u8],
    finish: impl FnOnce(&str) -> Result<(), Errno>,
) -> Result<(), FileErrorKind> {
    let draft = format!("{DRAFT}{:016x}", RandomState::new().hash_one(0));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, &draft, flags, NEW_FILE)?);
    let write = || {
        if let Some(mode) = mode {
            file.set_permissions(mode)?;
        }
        file.write_all(content)?;
        file.sync_data()?;
        Ok(finish(&draft)?)
    };
    write().inspect_err(|_: &FileErrorKind| {
        let _gone = rustix::fs::unlinkat(folder, &draft, AtFlags::empty());
    })
}

/// Returns an error for a pipe or a device, whose reader would wait.
fn check_regular(file: &File) -> Result<(), FileErrorKind> {
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err(Errno::ISDIR.into()),
        _ => Err(FileErrorKind::NotRegular),
    }
}
