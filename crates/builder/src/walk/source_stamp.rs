//! The attributes by which a change of a file shows without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The attributes that distinguish one state of a file from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceStamp {
    pub(crate) bytes: u64,
    /// Modification time, Unix seconds.
    pub(crate) modified: i64,
    /// The nanoseconds of that time.
    pub(crate) modified_ns: u32,
    /// Nanoseconds of the status change time.
    pub(crate) changed_ns: u32,
    /// The status change time, Unix seconds. No program can set it.
    pub(crate) changed: i64,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl SourceStamp {
    pub(crate) fn of(metadata: &Metadata) -> SourceStamp {
        // Nanoseconds are less than a second; the fields of the kernel's structure are larger.
        let ns = |ns: i64| u32::try_from(ns).unwrap_or_default();
        SourceStamp {
            bytes: metadata.len(),
            modified: metadata.mtime(),
            modified_ns: ns(metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime_nsec()),
            changed: metadata.ctime(),
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    /// Returns whether the content is the same, as far as a program that writes it leaves a trace.
    /// Another name for the file, or other permissions, change its status and not its content.
    pub(crate) fn is_content_of(&self, other: &SourceStamp) -> bool {
        (self.bytes, self.modified, self.modified_ns)
            == (other.bytes, other.modified, other.modified_ns)
    }

    /// Returns the modification time in nanoseconds since 1970; the ends of the range stand for all
    /// beyond.
    pub(crate) fn modified_in_ns(&self) -> i64 {
        self.modified.saturating_mul(1_000_000_000).saturating_add(self.modified_ns.into())
    }
}
