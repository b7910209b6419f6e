//! Errors of file operations. A caller can extend the text with advice for its users, which depends
//! on the [`FileErrorKind`].

use std::fmt;

use rustix::io::Errno;

use crate::limits::{FILE_PATH_MAX_BYTES, FILE_SEGMENT_MAX_BYTES, FILES_LISTED_MAX};

/// The error of a failed file operation. Its text names the operation, the file and the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The name of the failed operation, such as `read`.
    action: &'static str,
    /// The path as the caller gave it.
    path: Vec<u8>,
    /// The new path, if the operation was to rename a file.
    new_path: Option<Vec<u8>>,
    /// The cause of the error.
    pub kind: FileErrorKind,
}

/// The cause of a [`FileError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileErrorKind {
    /// The site has no folders.
    #[error("the site has no folders for files")]
    NoFolders,
    /// No folder has the name that the path begins with.
    #[error("there is no folder of the name {name:?}")]
    UnknownFolder {
        /// The first segment of the path.
        name: String,
        /// The names of the existing folders.
        known: String,
    },
    /// The folder is read-only.
    #[error("the folder {0} is read-only")]
    ReadOnlyFolder(String),
    /// The path names the folder itself, which cannot be changed.
    #[error("this is the folder itself; name something in it")]
    FolderItself,
    /// The path is too long.
    #[error("the path is longer than {FILE_PATH_MAX_BYTES} bytes")]
    PathTooLong,
    /// A part of the path is too long.
    #[error("a part of the path is longer than {FILE_SEGMENT_MAX_BYTES} bytes")]
    SegmentTooLong,
    /// The path has a segment that cannot be a file name.
    #[error("not a valid path")]
    InvalidPath {
        /// The names of the existing folders.
        known: String,
    },
    /// The parent folder of a new file or folder does not exist.
    #[error("the folder {0:?} does not exist")]
    MissingParent(String),
    /// The path is a pipe, a device or a socket.
    #[error("it is neither a file nor a folder")]
    NotRegular,
    /// The read exceeds the limit for one read into memory.
    #[error("at most {} MiB are read at once", .max_bytes >> 20)]
    TooLarge {
        /// The limit in bytes.
        max_bytes: u64,
    },
    /// The folder has more names than one listing may return.
    #[error("the folder has more than {FILES_LISTED_MAX} names")]
    TooManyNames,
    /// The file does not exist.
    #[error("no such file")]
    MissingFile,
    /// The folder does not exist.
    #[error("no such folder")]
    MissingFolder,
    /// The path is not a folder.
    #[error("it is not a folder")]
    NotAFolder,
    /// The new folder exists already.
    #[error("it exists already")]
    FolderExists,
    /// The operating system returned this error.
    #[error("{}", system_error(*.0))]
    System(Errno),
}

impl From<Errno> for FileErrorKind {
    fn from(error: Errno) -> Self {
        if error == Errno::NXIO { Self::NotRegular } else { Self::System(error) }
    }
}

impl From<std::io::Error> for FileErrorKind {
    fn from(error: std::io::Error) -> Self {
        Errno::from_io_error(&error).unwrap_or(Errno::IO).into()
    }
}

/// Returns the text of a system error in words for the user who named the file.
fn system_error(error: Errno) -> String {
    match error {
        Errno::NOENT => "no such file or folder",
        Errno::LOOP | Errno::XDEV => "a symbolic link or another file system is in the way",
        Errno::NOTDIR => "a part of the path is not a folder",
        Errno::ISDIR => "it is a folder",
        Errno::EXIST => "it exists already",
        Errno::NOTEMPTY => "the folder is not empty; remove the files in it first",
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            "the server has no permission for that; look at the owner and the mode of the file and \
             of its folder"
        }
        Errno::NOSPC | Errno::DQUOT => "there is no room left on the disk",
        Errno::NOSYS => "the kernel cannot keep paths inside of a folder; Linux 5.6 can",
        other => return std::io::Error::from(other).to_string(),
    }
    .to_owned()
}

impl FileErrorKind {
    /// Makes a [`FileError`] with the name of the operation, such as `read`, and the path.
    #[must_use]
    pub fn of(self, action: &'static str, path: &[u8]) -> FileError {
        FileError { action, path: path.to_vec(), new_path: None, kind: self }
    }

    /// Makes a [`FileError`] with both paths of a failed rename.
    pub(super) fn of_rename(self, path: &[u8], new_path: &[u8]) -> FileError {
        FileError { new_path: Some(new_path.to_vec()), ..self.of("rename", path) }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, path, new_path, kind } = self;
        write!(formatter, "cannot {action} {:?}", String::from_utf8_lossy(path))?;
        if let Some(new_path) = new_path {
            write!(formatter, " to {:?}", String::from_utf8_lossy(new_path))?;
        }
        write!(formatter, ": {kind}")
    }
}

impl std::error::Error for FileError {}
