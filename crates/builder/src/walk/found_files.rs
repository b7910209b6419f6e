//! The files that a walk has found.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::code_or_content::CodeFile;
use crate::error::{FileProblem, Reason};
use crate::walk::source_stamp::SourceStamp;

/// A regular file of the site.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// Path below the source with a slash in front: its key in the archive.
    pub(crate) key: Box<[u8]>,
    /// Its length during the walk, by which memory is reserved.
    pub(crate) bytes: u64,
}

/// A file that is a page by its name and lies below a folder `static/`: its key, and its stamp
/// during the walk.
pub(crate) type PageBelowStatic = (Box<[u8]>, Result<SourceStamp, Reason>);

/// The files of a folder: as they lie there after a walk, or as the site has them once they are
/// arranged.
#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    /// Sorted by key.
    pub(crate) files: Vec<SourceFile>,
    /// The stamp of each of them during the walk.
    pub(crate) stamps: Vec<SourceStamp>,
    /// Folders entered.
    pub(crate) folders: u64,
    pub(crate) skipped: Vec<PathBuf>,
    /// Of these, the paths that the options leave out.
    pub(crate) excluded: Vec<PathBuf>,
    pub(crate) special: Vec<PathBuf>,
    /// Keys of the files with rules, sorted.
    pub(crate) rules: Vec<Box<[u8]>>,
    pub(crate) below_static: Vec<PageBelowStatic>,
    /// The code of a dynamic site, sorted.
    pub(crate) code: Vec<CodeFile>,
    /// Whether there is code.
    pub(crate) is_dynamic: bool,
    /// Whether the site is one of 80s.
    pub(crate) is_80s: bool,
    /// Whether there is a folder that holds the content, if the site is dynamic.
    pub(crate) has_content_folder: bool,
    /// Whether something at the top has the name of that folder, of any kind.
    pub(crate) names_content_folder: bool,
    /// The prefix of the keys of files, below the source: nothing, or that folder.
    pub(crate) content: &'static str,
    /// Links that may be part of the site, wherever they lead; in no order.
    pub(crate) links: Vec<PathBuf>,
    /// Links to a folder that holds them.
    pub(crate) loops: Vec<PathBuf>,
    pub(crate) problems: Vec<FileProblem>,
}

/// Returns the path of a key below the source.
pub(crate) fn relative(key: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(key.strip_prefix(b"/").unwrap_or(key)))
}
