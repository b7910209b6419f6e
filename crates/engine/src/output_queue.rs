//! The output queue of one connection.
//!
//! A connection has a queue only while output waits. Queues are reused, so a request costs no
//! allocation. At most one send is in flight per queue.

mod next_send;
mod queues;

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use pinion_http::prepared_response::ExternalRange;

use crate::buffer_pool::Pool;
use crate::file_mapping::{Mapping, MappingId, Mappings};

pub(crate) use next_send::Next;
pub(crate) use queues::{NO_OUTPUT, Outputs, QUEUE_BYTES};

/// A piece of output.
pub(crate) enum Segment {
    /// Bytes in a pooled chunk, sent from `start`.
    Chunk { chunk: Vec<u8>, start: usize },
    /// Bytes that the application gave away, or shares with others.
    Shared { bytes: Bytes, start: usize },
    /// A range of a mapped archive.
    Mapped { mapping: MappingId, offset: u64, bytes: u64 },
    /// A range of an external file of an archive.
    External { mapping: MappingId, range: ExternalRange },
    /// A range of a file that the application handed over.
    File { file: Arc<File>, offset: u64, bytes: u64 },
}

impl Segment {
    fn left(&self) -> u64 {
        match self {
            Self::Chunk { chunk, start } => (chunk.len() - start) as u64,
            Self::Shared { bytes, start } => (bytes.len() - start) as u64,
            Self::Mapped { bytes, .. } | Self::File { bytes, .. } => *bytes,
            Self::External { range, .. } => range.bytes,
        }
    }

    fn advance(&mut self, by: u64) {
        match self {
            Self::Chunk { start, .. } | Self::Shared { start, .. } => *start += by as usize,
            Self::Mapped { offset, bytes, .. } | Self::File { offset, bytes, .. } => {
                *offset += by;
                *bytes -= by;
            }
            Self::External { range, .. } => {
                range.offset += by;
                range.bytes -= by;
            }
        }
    }
}

/// The output queue of one connection or stream.
#[derive(Default)]
pub(crate) struct OutputQueue {
    segments: VecDeque<Segment>,
    /// Bytes queued and not yet taken by the kernel.
    pub(crate) bytes: u64,
    /// Whether the kernel works on a send and holds memory of the first segments.
    pub(crate) in_flight: bool,
    /// The number of the first segments of which that send may hold memory.
    held: usize,
}

impl OutputQueue {
    /// Marks the queue as lent to a send on which the kernel works; the kernel holds memory of the
    /// segments that are queued now.
    #[inline]
    pub(crate) fn lend(&mut self) {
        self.in_flight = true;
        self.held = self.segments.len();
    }

    /// Returns whether the kernel holds no memory of the last segment.
    #[inline]
    fn tail_is_ours(&self) -> bool {
        !self.in_flight || self.segments.len() > self.held
    }

    /// Returns whether the last segment is a chunk with room for `room` more bytes that the kernel
    /// does not hold.
    #[inline]
    fn tail_has_room(&self, room: usize) -> bool {
        self.tail_is_ours()
            && matches!(self.segments.back(), Some(Segment::Chunk { chunk, .. })
                if chunk.capacity() - chunk.len() >= room)
    }

    /// Lets `write` append at most `room` bytes. Returns false, and writes nothing, if the budget
    /// for buffers is spent.
    #[inline]
    pub(crate) fn append(
        &mut self,
        pool: &mut Pool,
        room: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if !self.tail_has_room(room) && !self.add_chunk(pool, |pool| pool.take_chunk(room)) {
            return false;
        }
        let Some(Segment::Chunk { chunk, .. }) = self.segments.back_mut() else { return false };
        let before = chunk.len();
        write(chunk);
        debug_assert!(chunk.len() - before <= room, "growing could fail");
        self.bytes += (chunk.len() - before) as u64;
        true
    }

    /// Appends as [`Self::append`] does, for a few bytes between segments that are no chunks: they
    /// get no whole chunk for themselves.
    pub(crate) fn append_small(
        &mut self,
        pool: &mut Pool,
        room: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let has_room =
            self.tail_has_room(room) || self.add_chunk(pool, |pool| pool.take_small(room));
        has_room && self.append(pool, room, write)
    }

    /// Queues an empty chunk; returns false if the budget is spent.
    #[inline]
    fn add_chunk(
        &mut self,
        pool: &mut Pool,
        take: impl FnOnce(&mut Pool) -> Option<Vec<u8>>,
    ) -> bool {
        if !self.has_place(pool) {
            return false;
        }
        let Some(chunk) = take(pool) else { return false };
        self.segments.push_back(Segment::Chunk { chunk, start: 0 });
        true
    }

    /// Queues bytes of any length, cut into chunks.
    pub(crate) fn append_bytes(&mut self, pool: &mut Pool, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let tail = match self.segments.back() {
                Some(Segment::Chunk { chunk, .. }) if self.tail_is_ours() => {
                    chunk.capacity() - chunk.len()
                }
                _ => 0,
            };
            let room = if tail == 0 { crate::limits::CHUNK_BYTES } else { tail };
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if !self.append(pool, now.len(), |chunk| chunk.extend_from_slice(now)) {
                return false;
            }
            bytes = later;
        }
        true
    }

    /// Queues bytes without copying them; they count once for all queues that hold the same.
    /// Returns false, and drops them, if the budget is spent.
    pub(crate) fn push_shared(&mut self, pool: &mut Pool, bytes: Bytes) -> bool {
        if !self.has_place(pool) || !pool.share(&bytes) {
            return false;
        }
        self.bytes += bytes.len() as u64;
        self.segments.push_back(Segment::Shared { bytes, start: 0 });
        true
    }

    /// Returns whether a file can have this range, and the sum of the queued bytes does not
    /// overflow with it.
    pub(crate) fn can_count(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.checked_add(bytes).filter(|&end| end <= FILE_MAX_BYTES);
        end.is_some() && self.bytes <= FILE_MAX_BYTES - bytes
    }

    /// Queues a range of a file, one that [`Self::can_count`]. Returns false if there is no memory
    /// for it.
    pub(crate) fn push_file(
        &mut self,
        pool: &mut Pool,
        file: Arc<File>,
        offset: u64,
        bytes: u64,
    ) -> bool {
        if !self.has_place(pool) {
            return false;
        }
        self.bytes += bytes;
        self.segments.push_back(Segment::File { file, offset, bytes });
        true
    }

    /// Makes room for one more segment; returns false if there is no memory for it. The memory of
    /// the queue itself counts against the budget without a check; the next allocation notices it.
    #[inline]
    fn has_place(&mut self, pool: &mut Pool) -> bool {
        let before = self.segments.capacity();
        if self.segments.len() < before {
            return true;
        }
        if self.segments.try_reserve(1).is_err() {
            return false;
        }
        pool.count((self.segments.capacity() - before) * size_of::<Segment>());
        true
    }

    /// Queues a range of a mapping, which stays alive until the range has left. Returns false if
    /// there is no memory for it.
    pub(crate) fn push_mapped(
        &mut self,
        pool: &mut Pool,
        mappings: &mut Mappings,
        mapping: MappingId,
        offset: u64,
        bytes: u64,
    ) -> bool {
        if !self.has_place(pool) {
            return false;
        }
        mappings.slice_taken(mapping);
        self.bytes += bytes;
        self.segments.push_back(Segment::Mapped { mapping, offset, bytes });
        true
    }

    /// Queues a range of an external file. Returns false if there is no memory for it.
    pub(crate) fn push_external(
        &mut self,
        pool: &mut Pool,
        mappings: &mut Mappings,
        mapping: MappingId,
        range: ExternalRange,
    ) -> bool {
        if !self.has_place(pool) {
            return false;
        }
        mappings.slice_taken(mapping);
        self.bytes += range.bytes;
        self.segments.push_back(Segment::External { mapping, range });
        true
    }

    /// Returns whether files wait that are no mappings: only a call of the kernel finds out their
    /// next bytes.
    pub(crate) fn has_files(&self) -> bool {
        let is_file =
            |segment: &_| matches!(segment, Segment::File { .. } | Segment::External { .. });
        self.segments.iter().any(is_file)
    }

    /// Returns whether a queued mapping has lost a part.
    pub(crate) fn is_damaged(&self, mappings: &Mappings) -> bool {
        self.segments.iter().any(|segment| match segment {
            Segment::Mapped { mapping, .. } => {
                mappings.get(*mapping).is_none_or(Mapping::is_damaged)
            }
            _ => false,
        })
    }

    /// Returns the bytes of the memory budget for buffers that the queue holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = |segment: &Segment| match segment {
            Segment::Chunk { chunk, .. } => chunk.capacity(),
            Segment::Shared { bytes, .. } => bytes.len(),
            Segment::Mapped { .. } | Segment::External { .. } | Segment::File { .. } => 0,
        };
        self.segments.iter().map(held).sum()
    }

    /// Returns the bytes that are counted for the queue itself.
    #[cfg(feature = "sim")]
    fn own_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment>()
    }

    /// Takes `sent` bytes off the front.
    #[inline]
    pub(crate) fn advance(&mut self, sent: usize, pool: &mut Pool, mappings: &mut Mappings) {
        let mut sent = sent as u64;
        self.bytes -= sent;
        while let Some(first) = self.segments.front_mut() {
            let left = first.left();
            if sent < left {
                first.advance(sent);
                return;
            }
            sent -= left;
            if let Some(gone) = self.segments.pop_front() {
                release(gone, pool, mappings);
            }
        }
        debug_assert_eq!(sent, 0, "the kernel cannot send more than it was given");
    }

    /// Moves the first `bytes` of the queue to the end of another queue. Returns false, and drops
    /// them, if the budget is spent.
    fn move_to(
        &mut self,
        other: &mut OutputQueue,
        mut bytes: u64,
        pool: &mut Pool,
        mappings: &mut Mappings,
    ) -> bool {
        while bytes > 0
            && let Some(first) = self.segments.front()
        {
            let now = first.left().min(bytes);
            let moved = match first {
                Segment::Chunk { chunk, start } => {
                    other.append_bytes(pool, &chunk[*start..][..now as usize])
                }
                Segment::Shared { bytes, start } => {
                    other.push_shared(pool, bytes.slice(*start..*start + now as usize))
                }
                &Segment::Mapped { mapping, offset, .. } => {
                    other.push_mapped(pool, mappings, mapping, offset, now)
                }
                &Segment::External { mapping, range } => {
                    let range = ExternalRange { bytes: now, ..range };
                    other.push_external(pool, mappings, mapping, range)
                }
                Segment::File { file, offset, .. } => {
                    other.push_file(pool, Arc::clone(file), *offset, now)
                }
            };
            self.advance(now as usize, pool, mappings);
            if !moved {
                return false;
            }
            bytes -= now;
        }
        true
    }

    /// Drops the whole queue.
    pub(crate) fn clear(&mut self, pool: &mut Pool, mappings: &mut Mappings) {
        while let Some(segment) = self.segments.pop_front() {
            release(segment, pool, mappings);
        }
        self.bytes = 0;
        self.in_flight = false;
        if self.segments.capacity() > KEPT_SEGMENTS {
            pool.release(self.segments.capacity() * size_of::<Segment>());
            self.segments = VecDeque::new();
        }
    }
}

fn release(segment: Segment, pool: &mut Pool, mappings: &mut Mappings) {
    match segment {
        Segment::Chunk { chunk, .. } => pool.give_chunk(chunk),
        Segment::Shared { bytes, .. } => pool.unshare(&bytes),
        Segment::File { .. } => {}
        Segment::Mapped { mapping, .. } | Segment::External { mapping, .. } => {
            mappings.slice_returned(mapping);
        }
    }
}

/// Bytes of the longest possible file: the kernel's offsets are signed.
const FILE_MAX_BYTES: u64 = i64::MAX as u64;

/// Segments for which an empty queue keeps room; one that grew larger gives its memory back.
const KEPT_SEGMENTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CHUNK_BYTES;

    #[test]
    fn output_queued_during_a_send_shares_chunks() {
        let (mut pool, mut mappings) = (Pool::new(1 << 20), Mappings::default());
        let mut output = OutputQueue::default();
        let mut append = |output: &mut OutputQueue| {
            assert!(output.append(&mut pool, 100, |chunk| chunk.extend_from_slice(&[1; 100])));
            assert!(output.append_bytes(&mut pool, &[2; 100]));
        };
        append(&mut output);
        output.lend();
        (0..40).for_each(|_| append(&mut output));
        assert_eq!(output.segments.len(), 2, "the one that is lent, and one behind it");
        let Some(Segment::Chunk { chunk, .. }) = output.segments.front() else { panic!("a chunk") };
        assert_eq!(chunk.len(), 200, "the kernel's memory is left alone");
        assert!(pool.used_bytes() < 3 * CHUNK_BYTES);
        output.in_flight = false;
        output.advance(200, &mut pool, &mut mappings);
        assert_eq!((output.bytes, output.segments.len()), (40 * 200, 1));
        output.clear(&mut pool, &mut mappings);
    }
}
