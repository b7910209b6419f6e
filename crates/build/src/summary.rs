//! What a build did, in plain values: the binary prints them or makes JSON of them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pinion_archive::Digest;
use pinion_http::coding::Coding;

use crate::error::{Problem, Shown};
use crate::report::Report;

/// What a build did. Paths are relative to the source; lists are sorted by path.
#[derive(Debug, Default)]
pub struct Summary {
    /// Files that became resources.
    pub files: u64,
    /// Folders entered, the source included.
    pub folders: u64,
    /// Bytes of those files.
    pub source_bytes: u64,
    /// Paths that the archive answers, aliases included.
    pub entries: u64,
    /// Of those, index (`/dir/`) and clean (`/name`) URLs.
    pub aliases: u64,
    /// Directories with a `404.html`.
    pub not_found_pages: u64,
    /// Length of the archive.
    pub archive_bytes: u64,
    /// What names the archive: two builds with the same one gave the same bytes.
    pub digest: Digest,
    /// Files whose content another file has too.
    pub repeated_files: u64,
    /// Bytes that did not have to be stored again, in any coding.
    pub repeated_bytes: u64,
    /// One per coding, in the order of the options.
    pub codings: Vec<CodingSummary>,
    /// Files that stayed outside the archive.
    pub external_files: u64,
    /// Left out by the skip rules or an exclude pattern; a folder stands for all below it.
    pub skipped: Vec<PathBuf>,
    /// Never resources: scripts, rules, private files.
    pub special: Vec<PathBuf>,
    /// Files that do not answer a URL they could have, because another one comes first.
    pub shadowed: Vec<Shadowed>,
    /// What the author may want to know.
    pub warnings: Vec<Warning>,
    /// What was built without, when it was told to keep going.
    pub problems: Vec<Problem>,
    /// The files that took longest to encode, slowest first.
    pub slowest: Vec<Slow>,
    /// Where the bytes are, when that was asked for.
    pub report: Option<Report>,
    /// How long all of it took.
    pub elapsed: Duration,
}

/// What one coding brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingSummary {
    /// The coding.
    pub coding: Coding,
    /// Its level.
    pub level: u8,
    /// Different contents that are stored in it.
    pub bodies: u64,
    /// Their bytes before.
    pub identity_bytes: u64,
    /// Their bytes as stored.
    pub stored_bytes: u64,
}

/// A URL that two files could have answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shadowed {
    /// The URL's path, decoded: `/dir/` or `/dir/name`.
    pub url: PathBuf,
    /// The file that does not answer it.
    pub file: PathBuf,
    /// The file that does.
    pub by: PathBuf,
}

/// Something that did not stop the build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// Begins as an archive does, and became a resource: left behind by an earlier build, most
    /// likely.
    Archive(PathBuf),
    /// A link to a folder that holds the link; it was not followed.
    FolderLoop(PathBuf),
    /// Modified in the future; its resource has no `Last-Modified`.
    FromTheFuture(PathBuf),
    /// Larger than [`HELD_MAX_BYTES`](crate::limits::HELD_MAX_BYTES); stored without codings.
    TooLargeToEncode(PathBuf),
    /// An exclude pattern that has left nothing out: misspelt, most likely.
    UnusedExclude(PathBuf),
    /// A `404.html` too many levels below the root; it is a page like any other.
    NotFoundTooDeep(PathBuf),
}

/// A file and how long its codings took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The file.
    pub path: PathBuf,
    /// Time on one core.
    pub encoding: Duration,
}

impl fmt::Display for Shadowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, file, by) = (Shown(&self.url), Shown(&self.file), Shown(&self.by));
        write!(f, "{url} is answered by {by}, not by {file}")
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, what) = match self {
            Warning::Archive(path) => (path, "an archive, public now; --exclude leaves it out"),
            Warning::FolderLoop(path) => (path, "a link to a folder above it, not followed"),
            Warning::FromTheFuture(path) => (path, "modified in the future, no Last-Modified"),
            Warning::TooLargeToEncode(path) => (path, "too large to encode, stored as it is"),
            Warning::UnusedExclude(pattern) => (pattern, "excluded, but nothing has that name"),
            Warning::NotFoundTooDeep(path) => (path, "too deep for a not-found page"),
        };
        write!(f, "{}: {what}", Shown(path))
    }
}
