//! Tells one state of a path from another, without a notice of the kernel.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The target of a path at some time; `None` if there was none.
pub(crate) type Look = Option<Seen>;

/// A file, or a folder, whose content is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    device: u64,
    inode: u64,
    /// Length, and seconds and nanoseconds of the modification time; of a folder nothing.
    content: Option<(u64, i64, i64)>,
}

/// Returns the target of a path now.
pub(crate) fn look(path: &Path) -> Look {
    let metadata = path.metadata().ok()?;
    let content = (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    Some(Seen {
        device: metadata.dev(),
        inode: metadata.ino(),
        content: (!metadata.is_dir()).then_some(content),
    })
}
