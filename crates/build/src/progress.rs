//! Who watches a build.

use std::path::PathBuf;

/// Told how far a build is, and asked whether to go on. Called on the thread that builds, after
/// each batch of files, so it may print; counts are totals, not differences.
pub trait Progress {
    /// The walk is over.
    fn found(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// The walk is over, and met these links, below the source. They were followed, apart from
    /// those that lead nowhere or to a folder above them. On whether the site is dynamic depends
    /// what [matters](crate::Names::may_matter) from now on. Told also when the build then fails.
    fn walked(&self, links: &[PathBuf], is_dynamic: bool) {
        let _ = (links, is_dynamic);
    }

    /// So many files, with so many bytes of content, are done.
    fn advanced(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Whether to give up: the build then ends with [`BuildError::Cancelled`](crate::BuildError)
    /// and leaves nothing behind.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Nobody watches.
impl Progress for () {}
