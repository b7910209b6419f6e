//! What tells one state of a path from another, without a notice.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What a path led to at some time; `None`: nowhere.
pub(crate) type Look = Option<Seen>;

/// A file, or a folder: what is in it is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    device: u64,
    inode: u64,
    /// Length, and seconds and nanoseconds of the modification time; of a folder nothing.
    content: Option<(u64, i64, i64)>,
}

/// Looks at what a path leads to.
pub(crate) fn look(path: &Path) -> Look {
    let metadata = path.metadata().ok()?;
    let content = (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    Some(Seen {
        device: metadata.dev(),
        inode: metadata.ino(),
        content: (!metadata.is_dir()).then_some(content),
    })
}
