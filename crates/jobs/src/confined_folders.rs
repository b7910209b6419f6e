//! Files below folders that the operator has named, and nowhere else.
//!
//! A caller names a file by `NAME/some/path`. The folder with the name `NAME` was opened once, and
//! the kernel looks the rest up below it (`openat2`, Linux 5.6):
//!
//! - `RESOLVE_BENEATH`: no path leads out of the folder, even if another process renames parts of
//!   it during the lookup.
//! - `RESOLVE_NO_SYMLINKS`, and with it no magic links: a file has one name. A link inside of the
//!   folder that leads inside would do no harm. But links there (of an archive that is unpacked, of
//!   another program) are seldom meant to rename files for the caller, and a link that is refused
//!   is easier to find than one that works until its target moves.
//!
//! Segments with a special meaning are refused before the lookup: empty segments, `.`, `..`, and
//! those with NUL. Only regular files are read and written, so that no pipe and no device blocks a
//! thread.

mod error;
mod file_operations;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

pub use error::{FileError, FileErrorKind};
pub use file_operations::{FileKind, FileStat};

use crate::limits::{FILE_PATH_MAX_BYTES, FILE_SEGMENT_MAX_BYTES};

/// A folder as the operator configures it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderAt {
    /// The name of the folder, the first segment of paths.
    pub name: String,
    /// The path of the folder in the file system.
    pub path: PathBuf,
    /// Whether changes in the folder are refused.
    pub is_read_only: bool,
}

/// A function that returns the value of `Content-Type` for a file name, if it is known.
pub type MediaTypeOf = fn(&str) -> Option<String>;

/// A set of open folders. Clones share it.
#[derive(Clone, Default)]
pub struct Folders(Arc<OpenedFolder>);

#[derive(Default)]
struct OpenedFolder {
    folders: Vec<OpenFolder>,
    media_type: Option<MediaTypeOf>,
}

struct OpenFolder {
    name: String,
    root: OwnedFd,
    is_read_only: bool,
}

impl fmt::Debug for Folders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.folders.iter().map(|folder| &folder.name)).finish()
    }
}

/// Two values are equal only if they are clones of the same set.
impl PartialEq for Folders {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Folders {}

/// A resolved path: one of the folders, and a path below it.
struct FileLocation<'f, 'n> {
    folder: &'f OpenFolder,
    /// The path below the folder; `.` for the folder itself.
    path: &'n [u8],
}

/// The purpose of a lookup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Change,
}

/// The folder itself, as a path below it.
const ITSELF: &[u8] = b".";

impl Folders {
    /// Opens the folders. `media_type` returns the media types of files.
    ///
    /// # Errors
    /// A folder cannot be opened; the text names it and the reason.
    pub fn open(named: &[FolderAt], media_type: MediaTypeOf) -> Result<Self, String> {
        let mut folders = Vec::new();
        for FolderAt { name, path, is_read_only } in named {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
                let why = match error {
                    Errno::NOENT => match suffix(path) {
                        Some(suffix) => format!(
                            "does not exist; only `:ro` may follow the path, not `{suffix}`"
                        ),
                        None => "does not exist; create it, or remove the setting".to_owned(),
                    },
                    Errno::NOTDIR => "is not a folder".to_owned(),
                    error => format!("cannot be opened: {}", FileErrorKind::from(error)),
                };
                format!("the folder {} {why}", path.display())
            })?;
            folders.push(OpenFolder { name: name.clone(), root, is_read_only: *is_read_only });
        }
        Ok(Self(Arc::new(OpenedFolder { folders, media_type: Some(media_type) })))
    }

    /// Returns whether there are no folders.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.folders.is_empty()
    }

    /// Returns the value of `Content-Type` for a file, by its name.
    #[must_use]
    pub fn media_type(&self, path: &[u8]) -> Option<String> {
        self.0.media_type.and_then(|of| of(&String::from_utf8_lossy(path)))
    }

    /// Resolves a path to a folder and a path below it.
    fn location<'n>(
        &self,
        path: &'n [u8],
        access: Access,
    ) -> Result<FileLocation<'_, 'n>, FileErrorKind> {
        let folders = &self.0.folders;
        if self.is_empty() {
            return Err(FileErrorKind::NoFolders);
        }
        let known = || folders.iter().map(|folder| &*folder.name).collect::<Vec<_>>().join(", ");
        let (first, path) = split(path, known)?;
        let found = folders.iter().find(|folder| folder.name.as_bytes() == first);
        let folder = found.ok_or_else(|| FileErrorKind::UnknownFolder {
            name: String::from_utf8_lossy(first).into_owned(),
            known: known(),
        })?;
        if access == Access::Change && folder.is_read_only {
            return Err(FileErrorKind::ReadOnlyFolder(folder.name.clone()));
        }
        if access == Access::Change && path == ITSELF {
            return Err(FileErrorKind::FolderItself);
        }
        Ok(FileLocation { folder, path })
    }
}

/// Returns the last colon of a path and the text after it, if that looks like an option.
fn suffix(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let option = &text[text.rfind(':')?..];
    let is_word = option.len() > 1 && option[1..].bytes().all(|byte| byte.is_ascii_lowercase());
    is_word.then_some(option)
}

/// Splits a path into the name of its folder and the path below it. `known` lists the folders.
fn split(path: &[u8], known: impl FnOnce() -> String) -> Result<(&[u8], &[u8]), FileErrorKind> {
    if path.len() > FILE_PATH_MAX_BYTES {
        return Err(FileErrorKind::PathTooLong);
    }
    let mut segments = path.split(|&byte| byte == b'/');
    if segments.clone().any(|segment| segment.len() > FILE_SEGMENT_MAX_BYTES) {
        return Err(FileErrorKind::SegmentTooLong);
    }
    if segments.any(|segment| matches!(segment, b"" | b"." | b"..") || segment.contains(&0)) {
        return Err(FileErrorKind::InvalidPath { known: known() });
    }
    Ok(match memchr::memchr(b'/', path) {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (path, ITSELF),
    })
}

impl<'n> FileLocation<'_, 'n> {
    /// Opens the file at the location, or creates it if the flags say so. Opening never waits for
    /// another process.
    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        open_below(&self.folder.root, self.path, flags)
    }

    /// Opens the folder that holds the last part of the path, and returns it with that part.
    fn parent(&self) -> Result<(OwnedFd, &'n [u8]), Errno> {
        let (parent, last) = match memchr::memrchr(b'/', self.path) {
            Some(at) => (&self.path[..at], &self.path[at + 1..]),
            None => (ITSELF, self.path),
        };
        Ok((open_below(&self.folder.root, parent, OFlags::PATH | OFlags::DIRECTORY)?, last))
    }

    /// Returns the cause of a failed creation at the path, in most cases a missing parent folder.
    fn not_made(&self, error: Errno) -> FileErrorKind {
        if error != Errno::NOENT {
            return error.into();
        }
        let name = &self.folder.name;
        FileErrorKind::MissingParent(match memchr::memrchr(b'/', self.path) {
            Some(at) => format!("{name}/{}", String::from_utf8_lossy(&self.path[..at])),
            None => name.clone(),
        })
    }
}

/// The mode of new files, less the umask.
const NEW_FILE: Mode = Mode::from_raw_mode(0o644);

pub(crate) fn open_below(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // The kernel accepts a mode only with O_CREAT, and few flags beside O_PATH.
    let mode = if flags.contains(OFlags::CREATE) { NEW_FILE } else { Mode::empty() };
    let common = if flags.contains(OFlags::PATH) {
        OFlags::CLOEXEC
    } else {
        OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
    };
    rustix::fs::openat2(root, path, flags | common, mode, resolve)
}

#[cfg(test)]
mod tests;
