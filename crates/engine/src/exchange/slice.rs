//! Content as an application gives it.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

use crate::mapping::MappingId;

/// Content given to [`Exchange::write`](crate::exchange::Exchange::write) without a copy, or with
/// one. What waits in memory counts against the worker's budget for buffers.
pub enum Slice<'a> {
    /// Copied into pooled buffers.
    Copied(&'a [u8]),
    /// Given away, or shared with whoever else has a handle, such as other exchanges that get the
    /// same. What several queues of a worker hold counts once.
    Shared(Bytes),
    /// A range of a file, read as the client takes it: by `sendfile` where the backend has it, else
    /// in pieces. The worker waits for the disk when the range is not in the page cache. A file
    /// that has become shorter, cannot be read, or is no regular file breaks the exchange
    /// ([`Gone::Broken`](crate::app::Gone::Broken)): what went out never looks complete. So does a
    /// range no file can have, or more at once than the longest file (`i64::MAX` bytes).
    File {
        /// The file, open for reading. Its own position is neither used nor moved.
        file: Arc<File>,
        /// From its start, in bytes.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// A range of a mapping that the worker holds.
    Mapped {
        /// Which mapping.
        mapping: MappingId,
        /// From its start, in bytes.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
}

/// What the ranges of a prepared response are ranges of.
#[derive(Clone, Copy)]
pub(crate) enum RangeSource<'f> {
    /// Nothing: it has none.
    None,
    /// A mapping that the worker holds.
    Mapping(MappingId),
    /// An open file: each range of an external file is one of it.
    File(&'f Arc<File>),
    /// Bytes in memory: each range of an external file is one of them.
    Shared(&'f Bytes),
}

impl RangeSource<'static> {
    #[inline(always)]
    pub(crate) fn of(mapping: Option<MappingId>) -> Self {
        mapping.map_or(Self::None, Self::Mapping)
    }
}

/// Whether more content is welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRoom {
    /// Go on.
    Free,
    /// Enough is queued; stop until `Writable`.
    Full,
    /// The exchange is over; nothing is sent any more.
    Gone,
}

impl Slice<'_> {
    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Copied(bytes) => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
            Self::Mapped { bytes, .. } | Self::File { bytes, .. } => *bytes,
        }
    }
}
