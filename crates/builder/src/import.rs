//! Converts an archive of Kawipiko, a static web server whose archives are CDB files, to an archive
//! of Pinion.
//!
//! | Step | Module | Does |
//! |---|---|---|
//! | 1 | `archive_plan` | references (records of paths) → pages, redirects and rules |
//! | 2 | `reference_responses` | blocks of fields → status, type, coding, fields |
//! | 3 | `decoded_contents` | stored bodies, perhaps compressed → decoded contents |
//! | 4 | `write_archive` | the plan and the contents → an archive |
//!
//! Redirects between a path with and without a slash at its end are not carried over, because the
//! server makes them itself. Paths of folder indexes and short paths without an extension become
//! aliases of the file whose content they repeat.

mod archive_plan;
mod decoded_contents;
mod reference_responses;
mod write_archive;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use pinion_archive::{Digest, WriteError};
use pinion_kawipiko::{Archive, Damage, OpenError};

use crate::build_to_file::write_and_rename;
use crate::error::BuildError;
use crate::options::Options;
use crate::progress::Progress;
use crate::summary::CodingSummary;

pub use archive_plan::{Leftover, LeftoverReason};
pub use decoded_contents::ContentFault;

/// The reason why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The Kawipiko archive cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record of the Kawipiko archive is damaged.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// A content of the Kawipiko archive cannot be read.
    #[error("{}: {fault}", path.escape_ascii())]
    Content {
        /// A path whose response has this content.
        path: Box<[u8]>,
        /// The reason why the content cannot be read.
        fault: ContentFault,
    },
    /// The new archive cannot be written.
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
    /// The number of paths with content of their own.
    pub pages: u64,
    /// The number of further paths with the same content.
    pub aliases: u64,
    /// The number of pages for paths that do not exist.
    pub fallback_pages: u64,
    /// The number of redirects of one path.
    pub redirects: u64,
    /// The number of rules: redirects and pages for more than one path, or redirects for one host.
    pub rules: u64,
    /// The number of different contents.
    pub contents: u64,
    /// The bytes of these contents, without a content coding.
    pub content_bytes: u64,
    /// One summary for each content coding, in the order of the options.
    pub codings: Vec<CodingSummary>,
    /// The parts that were not carried over, and why; in no order.
    pub leftovers: Vec<Leftover>,
    /// The length of the archive, in bytes.
    pub archive_bytes: u64,
    /// The digest of the new archive.
    pub digest: Digest,
    /// The duration of the import.
    pub elapsed: Duration,
}

/// Converts the Kawipiko archive `cdb` to an archive file at `out`, which is treated as by
/// [`build_file`](crate::build_file). Of the options, those about codings, fields of every
/// response, threads and overwriting are used.
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
