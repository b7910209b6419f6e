//! The content that an application writes.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

use crate::file_mapping::MappingId;

/// Content given to [`Exchange::write`](crate::exchange::Exchange::write) without a copy, or with
/// one. Waiting content in memory counts against the worker's memory budget for buffers.
pub enum Slice<'a> {
    /// Bytes that are copied into pooled buffers.
    Copied(&'a [u8]),
    /// Bytes that are given away, or shared with other handles, such as other exchanges that get
    /// the same. Bytes that several queues of a worker hold count once.
    Shared(Bytes),
    /// A range of a file, read as the client takes it: by `sendfile` where the backend has it, else
    /// in pieces. The worker waits for the disk if the range is not in the page cache. A file that
    /// has become shorter, cannot be read, or is no regular file breaks the exchange
    /// ([`Gone::Broken`](crate::app::Gone::Broken)): the sent part never looks complete. So does a
    /// range no file can have, or more at once than the longest file (`i64::MAX` bytes).
    File {
        /// The file, open for reading. Its own position is neither used nor moved.
        file: Arc<File>,
        /// The offset from its start, in bytes.
        offset: u64,
        /// The length in bytes.
        bytes: u64,
    },
    /// A range of a mapping that the worker holds.
    Mapped {
        /// The ID of the mapping.
        mapping: MappingId,
        /// The offset from its start, in bytes.
        offset: u64,
        /// The length in bytes.
        bytes: u64,
    },
}

/// The source of the ranges of a prepared response.
#[derive(Clone, Copy)]
pub(crate) enum RangeSource<'f> {
    /// The response has no ranges.
    None,
    /// A mapping that the worker holds.
    Mapping(MappingId),
    /// An open file: each range of an external file is a range of it.
    File(&'f Arc<File>),
    /// Bytes in memory: each range of an external file is a range of them.
    Shared(&'f Bytes),
}

impl RangeSource<'static> {
    #[inline(always)]
    pub(crate) fn of(mapping: Option<MappingId>) -> Self {
        mapping.map_or(Self::None, Self::Mapping)
    }
}

/// The result of a write: whether the application may write more content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRoom {
    /// The application may write more.
    Free,
    /// The queue is full; the application must stop until `Writable`.
    Full,
    /// The exchange is over; nothing is sent any more.
    Gone,
}

impl Slice<'_> {
    /// Returns its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Copied(bytes) => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
            Self::Mapped { bytes, .. } | Self::File { bytes, .. } => *bytes,
        }
    }
}
