//! The files of a dynamic site: which of them are code, content, or neither, by their keys.
//!
//! | | In a dynamic site |
//! |---|---|
//! | `*.lua`, `*.dyn.*`, `*.priv.*` | code: kept, and never published |
//! | names with `.lua` or `.dyn.` in another place | copies of code: left out |
//! | folders `i.*` | ignored, with all that is in them |
//! | `static/` at the top of the content | plain files: those named as code are left out |
//! | `public_html/` at the top | the content; beside it only `*.lua` counts |
//!
//! In a site of 80s a file named as a page (`*.dyn.*`) below a folder `static/`, at any depth, is a
//! plain file.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::walk::file_kinds_by_name::{is_code, is_copy_of_code, path_and_name};
use crate::walk::found_files::relative;

/// The folder at the top that, where there is one, holds the content of a dynamic site.
pub const CONTENT_FOLDER: &str = "public_html";

/// The prefix of the keys of the files in it.
const CONTENT_PREFIX: &[u8] = b"/public_html";

/// Folders whose names begin so, in any case, are ignored.
const IGNORED_PREFIX: &[u8] = b"i.";

/// The prefix of the keys of the files in the folder of the content that holds no code.
const STATIC_PREFIX: &[u8] = b"/static/";

/// A file of code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeFile {
    /// Its path in the archive.
    pub(crate) path: Box<[u8]>,
    /// Its key below the source.
    pub(crate) key: Box<[u8]>,
}

impl CodeFile {
    /// Returns where it lies, below the source.
    pub(crate) fn relative(&self) -> PathBuf {
        relative(&self.key)
    }
}

/// Returns whether a file of a dynamic site with this key, one of the content, is neither content
/// nor code.
pub(crate) fn is_left_out(key: &[u8]) -> bool {
    ignored_folder(key).is_some() || is_copy_of_code(name_of(key)) || is_code_among_files(key)
}

/// Returns whether a file lies, by its key in the content, where nothing is code, and is named as
/// code.
pub(crate) fn is_code_among_files(key: &[u8]) -> bool {
    key.starts_with(STATIC_PREFIX) && is_code(name_of(key))
}

/// Returns whether a key is that of the content folder.
pub(crate) fn is_content_folder(key: &[u8]) -> bool {
    key == CONTENT_PREFIX
}

/// Returns the key below the content folder, if it lies there.
pub(crate) fn below_content(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(CONTENT_PREFIX).filter(|below| below.first() == Some(&b'/'))
}

/// Returns the key in the content, which is all of the folder where there is none for it.
pub(crate) fn in_content(key: &[u8], has_folder: bool) -> Option<&[u8]> {
    if has_folder { below_content(key) } else { Some(key) }
}

/// Returns the outermost ignored folder that holds this key, or has it.
pub(crate) fn ignored_folder(key: &[u8]) -> Option<&[u8]> {
    let mut start = 0;
    while let Some(slash) = key.get(start..)?.iter().position(|&byte| byte == b'/') {
        let end = start + slash;
        let front = key.get(start..end)?.get(..IGNORED_PREFIX.len());
        if front.is_some_and(|front| front.eq_ignore_ascii_case(IGNORED_PREFIX)) {
            return key.get(..end);
        }
        start = end + 1;
    }
    None
}

pub(crate) fn name_of(key: &[u8]) -> &[u8] {
    path_and_name(key).1
}

pub(crate) fn key_of(path: &Path) -> Vec<u8> {
    [b"/", path.as_os_str().as_bytes()].concat()
}
