//! The folders with the files that applications have the server send (`X-Sendfile`,
//! `X-Accel-Redirect`), and nothing else of the disk.
//!
//! A folder is opened by its path for each response, so that another one may take its place. The
//! kernel looks the rest of the path up below it: nothing leads out, and no link is followed
//! (`pinion_jobs::folder_root`).

use super::live_files::{OpenLiveFile, OpenLiveFiles, in_words, status_of};
use crate::settings::SentFolder;
use pinion_gateway::fastcgi_scgi_variables::percent_decoded;
use pinion_gateway::x_sendfile::FileReference;
use pinion_jobs::folder_root::FolderRoot;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The folders of a mount.
pub(crate) struct SentFolders {
    folders: Vec<SentFolder>,
    /// The files that are sent.
    pub(crate) open: OpenLiveFiles,
}

/// The reason why the file that an application has named is not sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SentFileError {
    /// It is named more than once.
    Repeated,
    /// The path is none of a file.
    Path,
    /// It is in none of these folders.
    Outside { folders: String },
    /// There is no such file, or it is something else than a regular one.
    Missing { path: PathBuf, why: String },
    /// It is there and cannot be read.
    Failed { status: u16, path: PathBuf, why: String },
}

impl fmt::Debug for SentFolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.folders.fmt(f)
    }
}

impl SentFolders {
    pub(crate) fn new(folders: Vec<SentFolder>) -> Self {
        Self { folders, open: OpenLiveFiles::default() }
    }

    /// Opens the file that an application has named.
    ///
    /// # Errors
    /// It is not sent.
    pub(crate) fn file(&self, named: &FileReference) -> Result<OpenLiveFile, SentFileError> {
        let (folder, below) = match named {
            FileReference::Repeated(_) => return Err(SentFileError::Repeated),
            FileReference::UrlPath(path) => self.by_url_path(path)?,
            FileReference::DiskPath(path) => self.by_disk_path(path)?,
        };
        let path = folder.path.join(OsStr::from_bytes(&below));
        let failed = |error: Errno| SentFileError::of(error, path.clone());
        let opened = FolderRoot::open(&folder.path).and_then(|root| root.open_file(&below));
        let opened = opened.map_err(|error| failed(errno(&error)))?;
        let file = OpenLiveFile::of_regular(opened, below).map_err(failed)?;
        file.ok_or_else(|| SentFileError::Missing { path, why: "is no regular file".to_owned() })
    }

    /// Returns the folder that a path of URLs leads to, and the path below it.
    fn by_url_path(&self, path: &[u8]) -> Result<(&SentFolder, Vec<u8>), SentFileError> {
        let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
        let decoded = percent_decoded(path).ok_or(SentFileError::Path)?;
        let segments = segments(&decoded).ok_or(SentFileError::Path)?;
        let with_path = self.folders.iter().filter_map(|folder| {
            let url_path = folder.url_path.as_deref()?;
            Some((folder, below(&segments, url_path.as_bytes())?))
        });
        // The longest path has the shortest rest.
        let found = with_path.min_by_key(|(_, rest)| rest.len());
        self.found(found)
    }

    /// Returns the folder that a file with an absolute path is in, and the path below it.
    /// Applications may know the folder without the links in its path.
    fn by_disk_path(&self, path: &[u8]) -> Result<(&SentFolder, Vec<u8>), SentFileError> {
        let segments = segments(path).ok_or(SentFileError::Path)?;
        let in_folder = |of: &dyn Fn(&Path) -> Option<PathBuf>| {
            let found = self.folders.iter().filter_map(|folder| {
                let path = of(&folder.path)?;
                Some((folder, below(&segments, path.as_os_str().as_bytes())?))
            });
            found.min_by_key(|(_, rest)| rest.len())
        };
        let found = in_folder(&|path| Some(path.to_owned()));
        self.found(found.or_else(|| in_folder(&|path| path.canonicalize().ok())))
    }

    fn found<'f>(
        &self,
        found: Option<(&'f SentFolder, Vec<&[u8]>)>,
    ) -> Result<(&'f SentFolder, Vec<u8>), SentFileError> {
        let outside = || {
            let folders: Vec<String> = self.folders.iter().map(SentFolder::to_string).collect();
            SentFileError::Outside { folders: folders.join(", ") }
        };
        let (folder, rest) = found.ok_or_else(outside)?;
        Ok((folder, rest.join(&b'/')))
    }
}

/// Returns the segments of an absolute path. Empty ones say nothing. `None` for a relative path,
/// for one with a segment `.` or `..`, and for one with a NUL byte.
fn segments(path: &[u8]) -> Option<Vec<&[u8]>> {
    if !path.starts_with(b"/") || path.contains(&0) {
        return None;
    }
    let segments = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    let segments: Vec<&[u8]> = segments.collect();
    let is_dotted = |segment: &&[u8]| matches!(*segment, b"." | b"..");
    (!segments.iter().any(is_dotted)).then_some(segments)
}

/// Returns the segments after those of a folder, of which there is at least one.
fn below<'p>(path: &[&'p [u8]], folder: &[u8]) -> Option<Vec<&'p [u8]>> {
    let mut rest = path.iter().copied();
    let names = folder.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    for name in names {
        rest.next().filter(|segment| *segment == name)?;
    }
    let rest: Vec<&[u8]> = rest.collect();
    (!rest.is_empty()).then_some(rest)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl SentFileError {
    /// Returns the meaning of an error of the system for a file.
    fn of(error: Errno, path: PathBuf) -> Self {
        let why = match error {
            Errno::LOOP => {
                "is a symbolic link, or lies below one, and links are not followed".into()
            }
            error => in_words(error),
        };
        match status_of(error) {
            404 => Self::Missing { path, why },
            status => Self::Failed { status, path, why },
        }
    }

    /// Returns the kind of the error, without anything that a client may choose.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Repeated => "repeated",
            Self::Path => "path",
            Self::Outside { .. } => "outside",
            Self::Missing { .. } => "missing",
            Self::Failed { .. } => "failed",
        }
    }

    /// Returns the status of the response.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Repeated | Self::Path | Self::Outside { .. } => 502,
            Self::Missing { .. } => 404,
            Self::Failed { status, .. } => *status,
        }
    }
}

impl fmt::Display for SentFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated => f.write_str("is there more than once"),
            Self::Path => {
                f.write_str("is no absolute path of a file; it may have no `.`, `..` and %00 in it")
            }
            Self::Outside { folders } => write!(f, "is in no folder of send-files ({folders})"),
            Self::Missing { path, why } | Self::Failed { path, why, .. } => {
                write!(f, "{}: {why}", path.to_string_lossy().escape_debug())
            }
        }
    }
}

#[cfg(test)]
mod tests;
