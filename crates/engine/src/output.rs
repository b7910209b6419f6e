//! What waits to be sent on one connection, in order.
//!
//! A connection has a queue only while something waits; queues are reused, so a request costs no
//! allocation. At most one send is in flight per queue.

use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use bytes::Bytes;
use pinion_http::prepared::ExternalRange;

use crate::limits::{LARGE_MIN_BYTES, SEND_MAX_BYTES, SEND_PARTS_MAX};
use crate::mapping::{ExternalFile, Mapping, MappingId, Mappings};
use crate::pool::Pool;
use crate::tables::has_places;

/// A piece of output.
pub(crate) enum Segment {
    /// Bytes in a pooled chunk, sent from `start`.
    Chunk { chunk: Vec<u8>, start: usize },
    /// Bytes the application gave away, or shares with others.
    Shared { bytes: Bytes, start: usize },
    /// A range of a mapped archive.
    Mapped { mapping: MappingId, offset: u64, bytes: u64 },
    /// A range of an external file of an archive.
    External { mapping: MappingId, range: ExternalRange },
    /// A range of a file the application handed over.
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

/// What the next send is made of.
#[expect(clippy::large_enum_variant, reason = "made and used up within one send")]
pub(crate) enum Next<'q> {
    /// Nothing waits.
    Nothing,
    /// One stretch of memory and nothing behind it: the common case.
    One(&'q [u8]),
    /// Memory; `large_behind` says that a file, or a range as large, follows.
    Memory { parts: Parts<'q>, large_behind: bool },
    /// A range of a file, for a backend that sends files.
    File { file: BorrowedFd<'q>, offset: u64, bytes: u64 },
    /// … and for one that does not.
    Read { file: &'q File, offset: u64, bytes: u64 },
    /// A range of an external file, to be looked at before and while it is sent.
    External { file: &'q ExternalFile, range: ExternalRange },
    /// What is to be sent is not what it was when the archive was made.
    Changed,
}

/// Up to [`SEND_PARTS_MAX`] slices without an allocation.
pub(crate) struct Parts<'q> {
    slices: [IoSlice<'q>; SEND_PARTS_MAX],
    count: usize,
}

impl<'q> Parts<'q> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[IoSlice<'q>] {
        &self.slices[..self.count]
    }
}

/// The queue of one connection.
#[derive(Default)]
pub(crate) struct Output {
    segments: VecDeque<Segment>,
    /// Bytes queued and not yet taken by the kernel.
    pub(crate) bytes: u64,
    /// The kernel works on a send and holds memory of the first segments.
    pub(crate) in_flight: bool,
    /// How many of the first segments that send may hold.
    held: usize,
}

impl Output {
    /// The kernel has got a send and works on it; it holds memory of what is queued now.
    #[inline]
    pub(crate) fn lend(&mut self) {
        self.in_flight = true;
        self.held = self.segments.len();
    }

    /// Whether the kernel holds nothing of the last segment.
    #[inline]
    fn tail_is_ours(&self) -> bool {
        !self.in_flight || self.segments.len() > self.held
    }

    /// The chunk at the tail with room for `room` more bytes, if there is one that the kernel does
    /// not hold.
    #[inline]
    fn tail_has_room(&self, room: usize) -> bool {
        self.tail_is_ours()
            && matches!(self.segments.back(), Some(Segment::Chunk { chunk, .. })
                if chunk.capacity() - chunk.len() >= room)
    }

    /// Lets `write` append at most `room` bytes. False when the budget for buffers is spent;
    /// nothing was written then.
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

    /// As [`Self::append`], for a few bytes between what is no chunk: they get no whole chunk for
    /// themselves.
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

    /// Queues an empty chunk; false when the budget is spent.
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

    /// Queues bytes without copying them. False when the budget is spent; they are dropped then.
    pub(crate) fn push_shared(&mut self, pool: &mut Pool, bytes: Bytes) -> bool {
        if !self.has_place(pool) || !pool.reserve(bytes.len()) {
            return false;
        }
        self.bytes += bytes.len() as u64;
        self.segments.push_back(Segment::Shared { bytes, start: 0 });
        true
    }

    /// Whether a file can have this range, and what waits can still be counted with it.
    pub(crate) fn can_count(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.checked_add(bytes).filter(|&end| end <= FILE_MAX_BYTES);
        end.is_some() && self.bytes <= FILE_MAX_BYTES - bytes
    }

    /// Queues a range of a file, one that [`Self::can_count`]. False when there is no memory for
    /// it.
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

    /// Makes room for one more segment; false when there is no memory for it. What the queue itself
    /// takes counts against the budget, and the next who asks feels it.
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

    /// Queues a range of a mapping, which stays alive until it has left. False when there is no
    /// memory for it.
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

    /// Queues a range of an external file. False when there is no memory for it.
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

    /// What to send next: as much memory as fits into one call, or the file at the front. `files`:
    /// large ranges of a mapped file leave as files.
    pub(crate) fn next<'q>(&'q self, mappings: &'q Mappings, files: bool) -> Next<'q> {
        if let [Segment::Chunk { chunk, start }] = self.segments.as_slices().0
            && self.segments.len() == 1
        {
            return if chunk.len() > *start { Next::One(&chunk[*start..]) } else { Next::Nothing };
        }
        let mut parts = Parts { slices: [IoSlice::new(&[]); SEND_PARTS_MAX], count: 0 };
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
                    return match files {
                        true => Next::File { file: file.as_fd(), offset, bytes },
                        false => Next::Read { file, offset, bytes },
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

    /// Whether files wait that are no mappings: what is next of them is found out by the kernel.
    pub(crate) fn has_files(&self) -> bool {
        let is_file =
            |segment: &_| matches!(segment, Segment::File { .. } | Segment::External { .. });
        self.segments.iter().any(is_file)
    }

    /// Whether a mapping of what is queued has lost a part.
    pub(crate) fn is_damaged(&self, mappings: &Mappings) -> bool {
        self.segments.iter().any(|segment| match segment {
            Segment::Mapped { mapping, .. } => {
                mappings.get(*mapping).is_none_or(Mapping::is_damaged)
            }
            _ => false,
        })
    }

    /// Bytes of the budget for buffers that the queue holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let held = |segment: &Segment| match segment {
            Segment::Chunk { chunk, .. } => chunk.capacity(),
            Segment::Shared { bytes, .. } => bytes.len(),
            Segment::Mapped { .. } | Segment::External { .. } | Segment::File { .. } => 0,
        };
        self.segments.iter().map(held).sum()
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

    /// Moves the first `bytes` of what waits to the end of another queue. False when the budget is
    /// spent; they are dropped then.
    fn move_to(
        &mut self,
        other: &mut Output,
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

    /// Drops everything that waits.
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
        Segment::Shared { bytes, .. } => pool.release(bytes.len()),
        Segment::File { .. } => {}
        Segment::Mapped { mapping, .. } | Segment::External { mapping, .. } => {
            mappings.slice_returned(mapping);
        }
    }
}

/// Bytes of the longest file there can be: the kernel's offsets are signed.
const FILE_MAX_BYTES: u64 = i64::MAX as u64;

/// Segments an empty queue keeps room for; one that grew larger gives its memory back.
const KEPT_SEGMENTS: usize = 8;

/// Queues of one worker; a connection names its queue by index.
#[derive(Default)]
pub(crate) struct Outputs {
    queues: Vec<Output>,
    free: Vec<u32>,
}

/// Bytes of the queue of one connection, with its place in the list of free ones.
pub(crate) const QUEUE_BYTES: usize = size_of::<Output>() + size_of::<u32>();

/// "No queue": nothing waits.
pub(crate) const NO_OUTPUT: u32 = u32::MAX;

impl Outputs {
    /// Makes room for the queues of so many connections; false when there is no memory for them.
    pub(crate) fn make_room(&mut self, connections: usize) -> bool {
        has_places(&mut self.queues, connections) && has_places(&mut self.free, connections)
    }

    /// The queue of a connection, taken up when it has none yet. [`Self::make_room`] has made room
    /// for it.
    #[inline]
    pub(crate) fn of(&mut self, index: &mut u32) -> &mut Output {
        if *index == NO_OUTPUT {
            *index = self.free.pop().unwrap_or_else(|| {
                self.queues.push(Output::default());
                (self.queues.len() - 1) as u32
            });
        }
        &mut self.queues[*index as usize]
    }

    /// The queue with this index, if it is one.
    #[inline]
    pub(crate) fn get(&mut self, index: u32) -> Option<&mut Output> {
        self.queues.get_mut(index as usize)
    }

    /// Bytes that wait in the queue with this index.
    #[inline]
    pub(crate) fn bytes(&self, index: u32) -> u64 {
        self.queues.get(index as usize).map_or(0, |queue| queue.bytes)
    }

    /// How many queues connections have.
    #[cfg(feature = "sim")]
    pub(crate) fn in_use(&self) -> usize {
        self.queues.len() - self.free.len()
    }

    /// Bytes counted for the queues themselves.
    #[cfg(feature = "sim")]
    pub(crate) fn own_bytes(&self) -> usize {
        self.queues.iter().map(|queue| queue.segments.capacity() * size_of::<Segment>()).sum()
    }

    /// Moves the first `bytes` of one queue to the end of another; an empty one is given back.
    /// False when the budget is spent.
    pub(crate) fn transfer(
        &mut self,
        from: &mut u32,
        to: u32,
        bytes: u64,
        pool: &mut Pool,
        mappings: &mut Mappings,
    ) -> bool {
        let pair = self.queues.get_disjoint_mut([*from as usize, to as usize]);
        let Ok([source, target]) = pair else { return bytes == 0 };
        let moved = source.move_to(target, bytes, pool, mappings);
        if source.bytes == 0 {
            source.clear(pool, mappings);
            self.free(from);
        }
        moved
    }

    /// Gives an empty queue back.
    #[inline]
    pub(crate) fn free(&mut self, index: &mut u32) {
        if *index != NO_OUTPUT {
            debug_assert_eq!(self.queues[*index as usize].bytes, 0, "a freed queue is empty");
            self.free.push(*index);
            *index = NO_OUTPUT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CHUNK_BYTES;

    #[test]
    fn what_is_queued_behind_a_send_shares_chunks() {
        let (mut pool, mut mappings) = (Pool::new(1 << 20), Mappings::default());
        let mut output = Output::default();
        let mut append = |output: &mut Output| {
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
