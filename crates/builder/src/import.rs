//! An archive of kawipiko becomes one of ours.
//!
//! | Step | Module | Does |
//! |---|---|---|
//! | 1 | `archive_plan` | references → pages, fallback pages, redirects and rules, in our order |
//! | 2 | `reference_responses` | blocks of fields → status, type, coding, fields |
//! | 3 | `decoded_contents` | stored forms → the content itself |
//! | 4 | `write_archive` | all of it → an archive |
//!
//! Features that our server has anyway are not carried over: redirects between the two slash forms
//! of a path, and the names of folder indexes and short paths become aliases of the file they
//! repeat.

mod archive_plan;
mod decoded_contents;
mod reference_responses;
mod write_archive;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use pinion_archive::{Digest, WriteError};
use pinion_kawipiko::{Archive, Damage, OpenError};

use crate::build_file::write_and_rename;
use crate::error::BuildError;
use crate::options::Options;
use crate::progress::Progress;
use crate::summary::CodingSummary;

pub use archive_plan::{Leftover, LeftoverReason};
pub use decoded_contents::ContentFault;

/// The reason why no archive was made of another one.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One of its records is damaged.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// One of its contents cannot be read.
    #[error("{}: {fault}", path.escape_ascii())]
    Content {
        /// A path that it responds to.
        path: Box<[u8]>,
        /// Why.
        fault: ContentFault,
    },
    /// The new archive cannot be made.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl From<WriteError> for ImportError {
    fn from(error: WriteError) -> ImportError {
        ImportError::Build(error.into())
    }
}

/// The result of an import.
#[derive(Debug, Default)]
pub struct Imported {
    /// Paths with a content of their own.
    pub pages: u64,
    /// Further names of those.
    pub aliases: u64,
    /// Pages for paths that do not exist.
    pub fallback_pages: u64,
    /// Redirects of one path.
    pub redirects: u64,
    /// Redirects of more than one path, or of one host.
    pub rules: u64,
    /// Different contents.
    pub contents: u64,
    /// Their bytes.
    pub content_bytes: u64,
    /// One per coding, in the order of the options.
    pub codings: Vec<CodingSummary>,
    /// The parts that were not carried over, and why; in no order.
    pub leftovers: Vec<Leftover>,
    /// Length of the archive.
    pub archive_bytes: u64,
    /// The digest of the archive.
    pub digest: Digest,
    /// The time that all of it took.
    pub elapsed: Duration,
}

/// Makes the archive file `out` of the bytes of an archive of kawipiko. The options about the
/// codings of bodies and the fields of every response count. `out` is treated as by
/// [`build_file`](crate::build_file).
///
/// # Errors
/// [`ImportError`]; after an error `out` is as it was.
pub fn import_file(
    cdb: &[u8],
    options: &Options,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Imported, ImportError> {
    let begin = Instant::now();
    let archive = Archive::open(cdb)?;
    let plan = archive_plan::plan(&archive)?;
    let write = |file: &File, _: &Path| write_archive::write(plan, options, file, progress);
    let (imported, _) = write_and_rename(out, options.force, write)?;
    Ok(Imported { elapsed: begin.elapsed(), ..imported })
}
