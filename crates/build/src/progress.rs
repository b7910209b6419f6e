//! Who watches a build.

use crate::shape::Walked;

/// Told how far a build is, and asked whether to go on. Called on the thread that builds, after
/// each batch of files, so it may print; counts are totals, not differences.
pub trait Progress: Sync {
    /// The walk is over.
    fn found(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// The walk is over, and met this. Told also when the build then fails.
    fn walked(&self, walked: Walked) {
        let _ = walked;
    }

    /// So many files, with so many bytes of content, are done.
    fn advanced(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Whether to give up: the build then ends with [`BuildError::Cancelled`](crate::BuildError)
    /// and leaves nothing behind. Asked on any thread.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Nobody watches.
impl Progress for () {}
