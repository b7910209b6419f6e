//! The result of a build, in plain values: the binary prints them or makes JSON of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinion_archive::Digest;

use crate::coding_options::CodingLevel;
use crate::error::{FileProblem, ShownPath};
use crate::limits::FINGERPRINT_EXAMPLES;
use crate::report::BuildReport;
use crate::site_layout_guard::PublishGuard;
use crate::walk::found_files::relative;
use crate::warning::Warning;

/// The result of a build. Paths are relative to the source; lists are sorted by path.
#[derive(Debug, Default)]
pub struct Summary {
    /// Files that became resources.
    pub files: u64,
    /// Folders entered, the source included.
    pub folders: u64,
    /// Bytes of those files.
    pub source_bytes: u64,
    /// Paths at which the archive responds, aliases included.
    pub entries: u64,
    /// The number of index (`/dir/`) and clean (`/name`) URLs among them.
    pub aliases: u64,
    /// Folders that respond with a listing.
    pub listings: u64,
    /// Pages in place of the built-in pages of errors.
    pub error_pages: u64,
    /// Directories with a page for missing resources.
    pub not_found_pages: u64,
    /// Assets of earlier releases that were carried over.
    pub previous_assets: u64,
    /// Their bytes as stored, in all codings.
    pub previous_bytes: u64,
    /// Rules of `_redirects` files.
    pub redirect_rules: u64,
    /// The number of these rules that a request may have to be compared with one by one.
    pub walked_rules: u64,
    /// Patterns of `_headers`.
    pub field_rules: u64,
    /// Length of the archive.
    pub archive_bytes: u64,
    /// The digest of the archive: two builds with the same one gave the same bytes.
    pub digest: Digest,
    /// Files whose content another file has too.
    pub repeated_files: u64,
    /// Bytes that did not have to be stored again, in any coding.
    pub repeated_bytes: u64,
    /// Files that were not read, since they have not changed since the last build.
    pub unread_files: u64,
    /// Codings that older archives had, those that did not pay included.
    pub reused_codings: u64,
    /// One per coding and level: the default ones first, then those of the overrides.
    pub codings: Vec<CodingSummary>,
    /// Files that stayed outside the archive.
    pub external_files: u64,
    /// Left out by the skip rules or an exclude pattern; a folder stands for all below it.
    pub skipped: Vec<PathBuf>,
    /// Of these, the paths that the options leave out: the author knows about them.
    pub excluded: Vec<PathBuf>,
    /// Never resources: rules, and scripts and private files of a static site.
    pub special: Vec<PathBuf>,
    /// The properties that the site keeps from now on.
    pub guard: PublishGuard,
    /// The code of a dynamic site, which is kept and never sent.
    pub code: Vec<PathBuf>,
    /// Files whose names change with their content: clients keep them and do not ask again.
    pub fingerprinted: Fingerprinted,
    /// Files that do not respond to a URL they could have, because another one comes first.
    pub shadowed: Vec<Shadowed>,
    /// Warnings for the author.
    pub warnings: Vec<Warning>,
    /// The files that were left out, when it was asked to keep going.
    pub problems: Vec<FileProblem>,
    /// The files that took longest to encode, slowest first.
    pub slowest: Vec<Slow>,
    /// The report of where the bytes are, when that was asked for.
    pub report: Option<BuildReport>,
    /// The time that all of it took, except the wait until the archive was safe on the disk.
    pub elapsed: Duration,
}

/// Files whose names change with their content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprinted {
    /// Their number.
    pub files: u64,
    /// The first of them.
    pub examples: Vec<PathBuf>,
}

impl Fingerprinted {
    /// Counts the decisions for files with these keys, which begin at `content` below the source.
    pub(crate) fn of(content: &str, decided: &[bool], keys: &[&[u8]]) -> Fingerprinted {
        let found = keys.iter().zip(decided).filter_map(|(key, is_one)| is_one.then_some(*key));
        let path = |key: &[u8]| Path::new(content).join(relative(key));
        let examples = found.clone().take(FINGERPRINT_EXAMPLES).map(path).collect();
        Fingerprinted { files: found.count() as u64, examples }
    }
}

/// The result of one coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingSummary {
    /// The encoder, and its level.
    pub choice: CodingLevel,
    /// Different contents that are stored in it.
    pub bodies: u64,
    /// Their bytes before.
    pub identity_bytes: u64,
    /// Their bytes as stored.
    pub stored_bytes: u64,
}

impl CodingSummary {
    /// Returns empty summaries, one for each coding.
    pub(crate) fn none_of(codings: Vec<CodingLevel>) -> Vec<CodingSummary> {
        let none = |choice| CodingSummary { choice, bodies: 0, identity_bytes: 0, stored_bytes: 0 };
        codings.into_iter().map(none).collect()
    }
}

/// A URL to which two files could have responded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shadowed {
    /// The URL's path, decoded: `/dir/` or `/dir/name`.
    pub url: PathBuf,
    /// The file that does not respond to it.
    pub file: PathBuf,
    /// The file that does.
    pub by: PathBuf,
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
        let (url, file, by) = (ShownPath(&self.url), ShownPath(&self.file), ShownPath(&self.by));
        write!(f, "{url} is served from {by}, not from {file}")
    }
}
