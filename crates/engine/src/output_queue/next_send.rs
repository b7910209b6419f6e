//! The selection of the next send from an output queue.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};

use pinion_http::prepared_response::ExternalRange;

use super::{OutputQueue, Segment};
use crate::file_mapping::{ExternalFile, Mappings};
use crate::limits::{LARGE_MIN_BYTES, SEND_MAX_BYTES, SEND_PARTS_MAX};

/// The data of the next send.
#[expect(clippy::large_enum_variant, reason = "made and used up within one send")]
pub(crate) enum Next<'q> {
    /// The queue is empty.
    Nothing,
    /// One contiguous piece of memory and nothing after it: the common case.
    One(&'q [u8]),
    /// Pieces of memory; `large_behind` is whether a file, or a range as large, follows.
    Memory { parts: SendParts<'q>, large_behind: bool },
    /// A range of a file, for a backend that sends files.
    File { file: BorrowedFd<'q>, offset: u64, bytes: u64 },
    /// A range of a file, for a backend that does not send files.
    Read { file: &'q File, offset: u64, bytes: u64 },
    /// A range of an external file, to be checked before and while it is sent.
    External { file: &'q ExternalFile, range: ExternalRange },
    /// The queued data has changed since the archive was made.
    Changed,
}

/// Up to [`SEND_PARTS_MAX`] slices without an allocation.
pub(crate) struct SendParts<'q> {
    slices: [IoSlice<'q>; SEND_PARTS_MAX],
    count: usize,
}

impl<'q> SendParts<'q> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[IoSlice<'q>] {
        &self.slices[..self.count]
    }
}

impl OutputQueue {
    /// Returns the data of the next send: as much memory as fits into one call, or the file at the
    /// front. With `files`, large ranges of a mapped file leave as files.
    pub(crate) fn next<'q>(&'q self, mappings: &'q Mappings, files: bool) -> Next<'q> {
        if let [Segment::Chunk { chunk, start }] = self.segments.as_slices().0
            && self.segments.len() == 1
        {
            return if chunk.len() > *start { Next::One(&chunk[*start..]) } else { Next::Nothing };
        }
        let mut parts = SendParts { slices: [IoSlice::new(&[]); SEND_PARTS_MAX], count: 0 };
        let mut room = SEND_MAX_BYTES;
        for segment in &self.segments {
            let slice = match segment {
                Segment::Chunk { chunk, start } => &chunk[*start..],
                Segment::Shared { bytes, start } => &bytes[*start..],
                Segment::File { bytes: 0, .. } => continue,
                Segment::File { .. } if parts.count > 0 => {
                    return Next::Memory { parts, large_behind: true };
                }
                &Segment::File { ref file, offset, bytes } => {
                    return if files {
                        Next::File { file: file.as_fd(), offset, bytes }
                    } else {
                        Next::Read { file, offset, bytes }
                    };
                }
                Segment::Mapped { mapping, offset, bytes } => {
                    let Some(held) = mappings.get(*mapping) else { return Next::Changed };
                    let Some(slice) = held.range(*offset, *bytes) else {
                        return Next::Changed;
                    };
                    if *bytes >= LARGE_MIN_BYTES && parts.count > 0 {
                        return Next::Memory { parts, large_behind: true };
                    }
                    if *bytes >= LARGE_MIN_BYTES && files {
                        return Next::File { file: held.file(), offset: *offset, bytes: *bytes };
                    }
                    slice
                }
                Segment::External { mapping, range } => {
                    let file = mappings.get(*mapping).and_then(|held| held.external(range.file));
                    return match file {
                        None => Next::Changed,
                        Some(file) if parts.count == 0 => Next::External { file, range: *range },
                        // A head that promises the file must not leave without it.
                        Some(file) if !file.is_unchanged(range) => Next::Changed,
                        Some(_) => Next::Memory { parts, large_behind: true },
                    };
                }
            };
            if slice.is_empty() {
                continue;
            }
            let slice = &slice[..slice.len().min(room)];
            parts.slices[parts.count] = IoSlice::new(slice);
            parts.count += 1;
            room -= slice.len();
            if parts.count == SEND_PARTS_MAX || room == 0 {
                break;
            }
        }
        match parts.count {
            0 => Next::Nothing,
            _ => Next::Memory { parts, large_behind: false },
        }
    }
}
