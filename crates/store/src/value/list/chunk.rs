//! A chunk of a list: consecutive elements in one allocation of at most [`CHUNK_MAX_BYTES`].
//!
//! A chunk begins with three numbers of 16 bits: the start and the end of the elements, and their
//! number. Unused space may be at both ends, so elements are added and removed there without moving
//! others. An element has its length at both sides, so chunks can be read in both directions. A
//! length below 128 has one byte. A longer one has two, of which the outer one has the upper bits
//! and its highest bit set.
//!
//! An element that is too large for this has a chunk of its own, which consists of the head and the
//! element.

use std::ops::Range;

use crate::keyspace::allocation_size::allocated_bytes;
use crate::prefetch::prefetch;

/// Largest chunk that has more than one element, as Redis has it (`list-max-listpack-size -2`).
pub(super) const CHUNK_MAX_BYTES: usize = 8 * 1024;

const HEAD_BYTES: usize = 6;
/// The value of the end field that marks a chunk with one large element.
const LARGE: u16 = u16::MAX;

/// A chunk of list elements in its encoded form. An empty chunk may have no bytes at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListChunk(Box<[u8]>);

/// Returns the number of bytes that an element takes in a chunk.
fn entry_bytes(element: &[u8]) -> usize {
    let length_bytes = if element.len() < 0x80 { 1 } else { 2 };
    element.len().saturating_add(2 * length_bytes)
}

/// Encodes an element into a slice of exactly its encoded length.
fn encode(element: &[u8], out: &mut [u8]) {
    let length = element.len();
    let last = out.len() - 1;
    if length < 0x80 {
        out[0] = length as u8;
        out[last] = length as u8;
        out[1..last].copy_from_slice(element);
    } else {
        let (upper, lower) = (0x80 | (length >> 8) as u8, length as u8);
        out[0] = upper;
        out[1] = lower;
        out[2..last - 1].copy_from_slice(element);
        out[last - 1] = lower;
        out[last] = upper;
    }
}

/// Decodes a length from its outer byte and the byte next to it. Returns the length, and the number
/// of bytes that it takes.
fn decode_length(outer: u8, inner: Option<u8>) -> Option<(usize, usize)> {
    if outer < 0x80 {
        return Some((outer.into(), 1));
    }
    Some((usize::from(outer & 0x7f) << 8 | usize::from(inner?), 2))
}

impl ListChunk {
    /// Prefetches the bytes of the chunk into the cache of the processor.
    pub(super) fn prefetch(&self) {
        prefetch(&self.0);
    }

    /// Returns a chunk with one element of any size.
    pub(super) fn of(element: &[u8]) -> Self {
        let mut chunk = Self::default();
        if entry_bytes(element) > CHUNK_MAX_BYTES - HEAD_BYTES {
            let mut bytes = Vec::with_capacity(HEAD_BYTES + element.len());
            bytes.resize(HEAD_BYTES, 0);
            bytes.extend_from_slice(element);
            chunk.0 = bytes.into_boxed_slice();
            chunk.set_head(HEAD_BYTES..LARGE.into(), 1);
        } else {
            chunk.splice(HEAD_BYTES..HEAD_BYTES, Some(element), 1);
        }
        chunk
    }

    fn head(&self, number: usize) -> Option<u16> {
        let bytes = self.0.get(number * 2..)?.first_chunk()?;
        Some(u16::from_le_bytes(*bytes))
    }

    fn set_head(&mut self, used: Range<usize>, count: usize) {
        for (number, value) in [used.start, used.end, count].into_iter().enumerate() {
            self.0[number * 2..number * 2 + 2].copy_from_slice(&(value as u16).to_le_bytes());
        }
    }

    fn is_large(&self) -> bool {
        self.head(1) == Some(LARGE)
    }

    /// Returns the range of bytes that the elements occupy.
    fn used(&self) -> Range<usize> {
        match (self.head(0), self.head(1)) {
            (Some(start), Some(LARGE)) => start.into()..self.0.len(),
            (Some(start), Some(end)) => start.into()..end.into(),
            _ => HEAD_BYTES..HEAD_BYTES,
        }
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.head(2).unwrap_or(0).into()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(self.0.len())
    }

    /// Returns whether the chunk has space for an element.
    pub(super) fn has_space_for(&self, element: &[u8]) -> bool {
        self.can_hold(entry_bytes(element))
    }

    fn can_hold(&self, added_bytes: usize) -> bool {
        !self.is_large()
            && self.used().len().saturating_add(added_bytes) <= CHUNK_MAX_BYTES - HEAD_BYTES
    }

    /// Returns whether the elements of both chunks fit into one chunk with much space left.
    pub(super) fn is_small_with(&self, other: &Self) -> bool {
        !other.is_large() && self.can_hold(other.used().len() + CHUNK_MAX_BYTES / 2)
    }

    /// Returns an iterator over the elements, from both ends.
    pub(super) fn elements(&self) -> ChunkElements<'_> {
        let bytes = self.0.get(self.used()).unwrap_or_default();
        ChunkElements { bytes, left: self.len(), is_large: self.is_large() }
    }

    /// Returns the byte range of the element with an index, or an empty range at the end if no
    /// element has this index.
    fn entry(&self, index: usize) -> Range<usize> {
        let used = self.used();
        let mut elements = self.elements();
        elements.skip_front(index);
        let start = used.end - elements.bytes.len();
        elements.skip_front(1);
        start..used.end - elements.bytes.len()
    }

    /// Replaces a byte range of elements by one element or none. `count` is the number of elements
    /// afterwards.
    fn splice(&mut self, replaced: Range<usize>, element: Option<&[u8]>, count: usize) {
        let added = element.map_or(0, entry_bytes);
        let used = self.used();
        let length = used.len() - replaced.len() + added;
        let is_wasteful = length * 2 + 64 < self.0.len();
        let is_same_size = replaced.len() == added;
        let fits_at_end = replaced.end == used.end && replaced.start + added <= self.0.len();
        let target = if is_wasteful || self.0.is_empty() {
            None
        } else if is_same_size || fits_at_end {
            Some(used.start)
        } else if replaced.start == used.start && replaced.end >= HEAD_BYTES + added {
            Some(replaced.end - added)
        } else {
            None
        };
        let (start, at) = match target {
            // The other elements stay in place.
            Some(start) => (start, start + (replaced.start - used.start)),
            None => self.rebuild(&used, &replaced, added, length),
        };
        if let Some(element) = element {
            encode(element, &mut self.0[at..at + added]);
        }
        self.set_head(start..start + length, count);
    }

    /// Moves the elements to a new allocation with a gap for `added` bytes. Returns the start of
    /// the elements and that of the gap.
    fn rebuild(
        &mut self,
        used: &Range<usize>,
        replaced: &Range<usize>,
        added: usize,
        length: usize,
    ) -> (usize, usize) {
        // The allocation has a quarter of spare space, so that many elements can be added before it
        // is full, and is rounded up to the granularity of the allocator.
        const ALLOCATION_BYTES: usize = 16;
        const ALLOCATION_HEADER_BYTES: usize = 8;
        let wanted = HEAD_BYTES + length + length / 4;
        let wanted = (wanted + ALLOCATION_HEADER_BYTES).next_multiple_of(ALLOCATION_BYTES);
        let capacity = wanted - ALLOCATION_HEADER_BYTES;
        let capacity = capacity.min(CHUNK_MAX_BYTES).max(HEAD_BYTES + length);
        let mut bytes = vec![0; capacity];
        let is_at_front = replaced.start == used.start && replaced.end < used.end;
        let start = if is_at_front { capacity - length } else { HEAD_BYTES };
        let before = self.0.get(used.start..replaced.start).unwrap_or_default();
        let behind = self.0.get(replaced.end..used.end).unwrap_or_default();
        let at = start + before.len();
        bytes[start..at].copy_from_slice(before);
        bytes[at + added..at + added + behind.len()].copy_from_slice(behind);
        self.0 = bytes.into_boxed_slice();
        (start, at)
    }

    /// Appends an element. The chunk must have space for it.
    pub(super) fn push_back(&mut self, element: &[u8]) {
        let end = self.used().end;
        self.splice(end..end, Some(element), self.len() + 1);
    }

    /// Prepends an element. The chunk must have space for it.
    pub(super) fn push_front(&mut self, element: &[u8]) {
        let start = self.used().start;
        self.splice(start..start, Some(element), self.len() + 1);
    }

    /// Inserts an element before the one with this index. The chunk must have space for it.
    pub(super) fn insert(&mut self, index: usize, element: &[u8]) {
        let start = self.entry(index).start;
        self.splice(start..start, Some(element), self.len() + 1);
    }

    /// Replaces an element if the new one fits. Returns whether it was replaced.
    pub(super) fn replace(&mut self, index: usize, element: &[u8]) -> bool {
        let replaced = self.entry(index);
        let fits = !self.is_large()
            && (self.used().len() - replaced.len()).saturating_add(entry_bytes(element))
                <= CHUNK_MAX_BYTES - HEAD_BYTES;
        if self.len() == 1 {
            *self = Self::of(element);
            return true;
        }
        if fits {
            self.splice(replaced, Some(element), self.len());
        }
        fits
    }

    /// Removes the elements of a range of existing indices.
    pub(super) fn remove_range(&mut self, indices: Range<usize>) {
        if indices.is_empty() {
            return;
        }
        if indices.len() >= self.len() {
            *self = Self::default();
            return;
        }
        let removed = self.entry(indices.start).start..self.entry(indices.end).start;
        self.splice(removed, None, self.len() - indices.len());
    }

    /// Keeps only the elements whose indices satisfy the condition.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(usize) -> bool) {
        if self.is_large() {
            if !is_kept(0) {
                *self = Self::default();
            }
            return;
        }
        let mut kept = Self::default();
        for (index, element) in self.elements().enumerate() {
            if is_kept(index) {
                kept.push_back(element);
            }
        }
        *self = kept;
    }

    /// Moves the elements from an index on into a new chunk.
    pub(super) fn split_off(&mut self, index: usize) -> Self {
        let mut upper = Self::default();
        let mut elements = self.elements();
        elements.skip_front(index);
        elements.for_each(|element| upper.push_back(element));
        self.remove_range(index..self.len());
        upper
    }

    /// Appends the elements of another chunk. The chunk must have space for them.
    pub(super) fn append(&mut self, other: &Self) {
        other.elements().for_each(|element| self.push_back(element));
    }
}

/// An iterator over the elements of a chunk, from both ends.
#[derive(Clone, Debug)]
pub(super) struct ChunkElements<'l> {
    bytes: &'l [u8],
    left: usize,
    is_large: bool,
}

impl<'l> ChunkElements<'l> {
    /// Skips `count` elements. The position is searched from the nearer end.
    pub(super) fn skip_front(&mut self, count: usize) {
        if count <= self.left / 2 {
            for _ in 0..count {
                self.next();
            }
            return;
        }
        let count = count.min(self.left);
        let mut skipped = self.clone();
        for _ in count..self.left {
            skipped.next_back();
        }
        self.bytes = self.bytes.get(skipped.bytes.len()..).unwrap_or_default();
        self.left -= count;
    }

    /// Skips `count` elements at the end.
    pub(super) fn skip_back(&mut self, count: usize) {
        if count <= self.left / 2 {
            for _ in 0..count {
                self.next_back();
            }
            return;
        }
        let count = count.min(self.left);
        let mut skipped = self.clone();
        for _ in count..self.left {
            skipped.next();
        }
        let kept = self.bytes.len() - skipped.bytes.len();
        self.bytes = self.bytes.get(..kept).unwrap_or_default();
        self.left -= count;
    }

    fn take_large(&mut self) -> Option<&'l [u8]> {
        self.left = 0;
        Some(std::mem::take(&mut self.bytes))
    }
}

impl<'l> Iterator for ChunkElements<'l> {
    type Item = &'l [u8];

    fn next(&mut self) -> Option<&'l [u8]> {
        let left = self.left.checked_sub(1)?;
        if self.is_large {
            return self.take_large();
        }
        let bytes = self.bytes;
        let (length, length_bytes) = decode_length(*bytes.first()?, bytes.get(1).copied())?;
        let end = length_bytes + length;
        self.bytes = bytes.get(end + length_bytes..)?;
        self.left = left;
        bytes.get(length_bytes..end)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for ChunkElements<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let left = self.left.checked_sub(1)?;
        if self.is_large {
            return self.take_large();
        }
        let bytes = self.bytes;
        let inner = bytes.len().checked_sub(2).map(|at| bytes[at]);
        let (length, length_bytes) = decode_length(*bytes.last()?, inner)?;
        let end = bytes.len() - length_bytes;
        let start = end.checked_sub(length)?;
        self.bytes = bytes.get(..start.checked_sub(length_bytes)?)?;
        self.left = left;
        bytes.get(start..end)
    }
}

impl ExactSizeIterator for ChunkElements<'_> {}
