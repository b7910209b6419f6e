//! Lists of strings.
//!
//! A small list is one [`chunk`](chunk::ListChunk) of at most 8 KiB; a larger one is a deque of
//! chunks. Elements are added and removed at both ends in constant time, and an index is found by
//! the numbers of elements of the chunks.

mod chunk;

use std::collections::VecDeque;
use std::ops::Range;

use chunk::{ChunkElements, ListChunk};

use super::{Collection, StoreValue};
use crate::keyspace::allocation_size::allocated_bytes;
use crate::prefetch::prefetch_two;

/// A list of strings in one of its forms.
#[derive(Clone, Debug)]
pub(crate) enum ListValue {
    /// All elements are in one chunk.
    Compact(ListChunk),
    /// The elements are in several chunks, none of which is empty.
    Chunked(Box<ChunkedList>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkedList {
    chunks: VecDeque<CountedChunk>,
    len: usize,
    /// The bytes of memory that all chunks occupy.
    chunk_bytes: usize,
}

/// A chunk with its number of elements, which is read much more often than the chunk itself.
#[derive(Clone, Debug)]
struct CountedChunk {
    chunk: ListChunk,
    len: u32,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    Left,
    Right,
}

impl Default for ListValue {
    fn default() -> Self {
        Self::Compact(ListChunk::default())
    }
}

impl Collection for ListValue {
    fn of(value: &StoreValue) -> Option<&Self> {
        match value {
            StoreValue::List(list) => Some(list),
            _ => None,
        }
    }

    fn of_mut(value: &mut StoreValue) -> Option<&mut Self> {
        match value {
            StoreValue::List(list) => Some(list),
            _ => None,
        }
    }

    fn into_value(self) -> StoreValue {
        StoreValue::List(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl CountedChunk {
    fn new(chunk: ListChunk) -> Self {
        let len = chunk.len() as u32;
        Self { chunk, len }
    }
}

impl ChunkedList {
    fn insert_chunk(&mut self, at: usize, chunk: ListChunk) {
        self.insert_counted(at, CountedChunk::new(chunk));
    }

    /// Inserts a chunk unless it is empty.
    fn insert_counted(&mut self, at: usize, counted: CountedChunk) {
        if counted.len > 0 {
            self.chunk_bytes += counted.chunk.memory_bytes();
            self.len += counted.len as usize;
            self.chunks.insert(at, counted);
        }
    }

    fn remove_chunk(&mut self, at: usize) -> Option<CountedChunk> {
        let removed = self.chunks.remove(at)?;
        self.chunk_bytes -= removed.chunk.memory_bytes();
        self.len -= removed.len as usize;
        Some(removed)
    }

    /// Changes a chunk, and removes it if it is empty afterwards.
    fn change_chunk<R>(
        &mut self,
        at: usize,
        change: impl FnOnce(&mut ListChunk) -> R,
    ) -> Option<R> {
        let counted = self.chunks.get_mut(at)?;
        self.chunk_bytes -= counted.chunk.memory_bytes();
        self.len -= counted.len as usize;
        let result = change(&mut counted.chunk);
        counted.len = counted.chunk.len() as u32;
        self.len += counted.len as usize;
        self.chunk_bytes += counted.chunk.memory_bytes();
        if counted.len == 0 {
            self.chunks.remove(at);
        }
        Some(result)
    }

    /// Returns the chunk that has the element with this index, and its index there. An index
    /// that is the number of elements leads to the end of the last chunk.
    fn locate(&self, index: usize) -> (usize, usize) {
        let mut before = 0;
        if index < self.len / 2 {
            for (at, chunk) in self.chunks.iter().enumerate() {
                if index - before < chunk.len as usize {
                    return (at, index - before);
                }
                before += chunk.len as usize;
            }
        }
        before = self.len;
        for (at, chunk) in self.chunks.iter().enumerate().rev() {
            before -= chunk.len as usize;
            if index >= before {
                return (at, index - before);
            }
        }
        (0, 0)
    }

    /// Merges a chunk with the next one if both have become small. Returns whether they were
    /// merged.
    fn merge_pair(&mut self, lower: usize) -> bool {
        let pair = self.chunks.get(lower).zip(self.chunks.get(lower + 1));
        let is_mergeable = pair.is_some_and(|(it, next)| it.chunk.is_small_with(&next.chunk));
        if is_mergeable && let Some(merged) = self.remove_chunk(lower + 1) {
            self.change_chunk(lower, |chunk| chunk.append(&merged.chunk));
        }
        is_mergeable
    }

    /// Removes the elements of a range of existing indices. Returns the whole chunks among them.
    fn remove_range(&mut self, indices: Range<usize>) -> Self {
        let mut removed = Self::default();
        let mut left = indices.len();
        let (mut at, mut index) = self.locate(indices.start);
        while left > 0
            && let Some(counted) = self.chunks.get(at)
        {
            let len = counted.len as usize;
            let count = left.min(len - index);
            left -= count;
            if count < len {
                self.change_chunk(at, |chunk| chunk.remove_range(index..index + count));
                at += 1;
                index = 0;
            } else if let Some(counted) = self.remove_chunk(at) {
                removed.insert_counted(removed.chunks.len(), counted);
            }
        }
        for lower in (at.saturating_sub(2)..=at).rev() {
            self.merge_pair(lower);
        }
        removed
    }

    /// Removes at most `limit` elements that are equal to `element`, from an end on. Returns their
    /// number.
    fn remove_equal(&mut self, end: ListEnd, element: &[u8], limit: usize) -> usize {
        let mut removed = 0;
        let mut at = if end == ListEnd::Left { 0 } else { self.chunks.len() - 1 };
        for _ in 0..self.chunks.len() {
            if removed >= limit {
                break;
            }
            let elements = self.chunks.get(at).map(|it| it.chunk.elements());
            let has_one = elements.is_some_and(|mut it| it.any(|it| it == element));
            let chunks = self.chunks.len();
            if has_one {
                let most = limit - removed;
                let remove = |it: &mut ListChunk| remove_equal_from(it, end, element, most);
                removed += self.change_chunk(at, remove).unwrap_or(0);
            }
            let is_left = self.chunks.len() == chunks;
            if end == ListEnd::Right {
                if has_one && is_left {
                    self.merge_pair(at);
                }
                at = at.saturating_sub(1);
            } else if is_left {
                let is_merged = has_one && at > 0 && self.merge_pair(at - 1);
                at += usize::from(!is_merged);
            }
        }
        removed
    }
}

impl ListValue {
    /// Prefetches the data of the list into the cache of the processor.
    pub(crate) fn prefetch(&self) {
        match self {
            Self::Compact(chunk) => chunk.prefetch(),
            Self::Chunked(list) => prefetch_two(&**list),
        }
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Compact(chunk) => chunk.len(),
            Self::Chunked(list) => list.len,
        }
    }

    /// Returns the bytes of memory that the list has allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Compact(chunk) => chunk.memory_bytes(),
            Self::Chunked(list) => {
                allocated_bytes(size_of::<ChunkedList>())
                    + allocated_bytes(list.chunks.capacity() * size_of::<CountedChunk>())
                    + list.chunk_bytes
            }
        }
    }

    /// Returns the approximate number of allocations of the list.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Self::Compact(_) => 1,
            Self::Chunked(list) => list.chunks.len(),
        }
    }

    /// Returns the name of the form for `OBJECT ENCODING`. Redis 7.0 has one name for all lists.
    pub(crate) fn encoding(&self) -> &'static str {
        "quicklist"
    }

    /// Converts the list to several chunks.
    fn make_chunked(&mut self) -> &mut ChunkedList {
        if let Self::Compact(chunk) = self {
            let chunk = std::mem::take(chunk);
            let mut list = ChunkedList::default();
            list.insert_chunk(0, chunk);
            *self = Self::Chunked(Box::new(list));
        }
        match self {
            Self::Chunked(list) => list,
            Self::Compact(_) => unreachable!("it was just changed"),
        }
    }

    /// Converts the list to the compact form if it has one chunk at most.
    fn make_compact_if_small(&mut self) {
        if let Self::Chunked(list) = self
            && list.chunks.len() <= 1
        {
            let chunk = list.chunks.pop_front().map(|it| it.chunk);
            *self = Self::Compact(chunk.unwrap_or_default());
        }
    }

    /// Adds an element at an end.
    pub(crate) fn push(&mut self, end: ListEnd, element: &[u8]) {
        let add = |chunk: &mut ListChunk| match end {
            ListEnd::Left => chunk.push_front(element),
            ListEnd::Right => chunk.push_back(element),
        };
        if let Self::Compact(chunk) = self {
            if chunk.has_space_for(element) {
                add(chunk);
                return;
            }
            if chunk.len() == 0 {
                *chunk = ListChunk::of(element);
                return;
            }
        }
        let list = self.make_chunked();
        let at = match end {
            ListEnd::Left => 0,
            ListEnd::Right => list.chunks.len().saturating_sub(1),
        };
        if list.chunks.get(at).is_some_and(|it| it.chunk.has_space_for(element)) {
            list.change_chunk(at, add);
            return;
        }
        let at = if end == ListEnd::Left { 0 } else { list.chunks.len() };
        list.insert_chunk(at, ListChunk::of(element));
    }

    /// Returns the element at an end.
    pub(crate) fn peek(&self, end: ListEnd) -> Option<&[u8]> {
        match end {
            ListEnd::Left => self.iter_from(0).next(),
            ListEnd::Right => self.iter_back_from(self.len().checked_sub(1)?).next(),
        }
    }

    /// Removes the element at an end.
    pub(crate) fn drop_end(&mut self, end: ListEnd) {
        let drop_from = |chunk: &mut ListChunk| {
            let last = chunk.len().saturating_sub(1);
            let index = if end == ListEnd::Left { 0 } else { last };
            chunk.remove_range(index..(index + 1).min(chunk.len()));
        };
        match self {
            Self::Compact(chunk) => drop_from(chunk),
            Self::Chunked(list) => {
                let last = list.chunks.len().saturating_sub(1);
                list.change_chunk(if end == ListEnd::Left { 0 } else { last }, drop_from);
                self.make_compact_if_small();
            }
        }
    }

    /// Returns the element with an index.
    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        if index < self.len() { self.iter_from(index).next() } else { None }
    }

    fn chunk_elements(&self, at: usize) -> Option<ChunkElements<'_>> {
        match self {
            Self::Compact(chunk) => (at == 0).then(|| chunk.elements()),
            Self::Chunked(list) => list.chunks.get(at).map(|it| it.chunk.elements()),
        }
    }

    fn locate(&self, index: usize) -> (usize, usize) {
        match self {
            Self::Compact(_) => (0, index),
            Self::Chunked(list) => list.locate(index),
        }
    }

    /// Returns the elements from an index on.
    pub(crate) fn iter_from(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let (chunk, index) = self.locate(index);
        let mut first = self.chunk_elements(chunk);
        if let Some(elements) = &mut first {
            elements.skip_front(index);
        }
        let others = (chunk + 1..).map_while(|at| self.chunk_elements(at));
        first.into_iter().chain(others).flatten()
    }

    /// Returns the elements from an index on towards the first one.
    pub(crate) fn iter_back_from(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let (chunk, index) = self.locate(index);
        let mut first = self.chunk_elements(chunk);
        if let Some(elements) = &mut first {
            elements.skip_back(elements.len().saturating_sub(index.saturating_add(1)));
        }
        let others = (0..chunk).rev().map_while(|at| self.chunk_elements(at));
        first.into_iter().chain(others).flat_map(Iterator::rev)
    }

    /// Replaces the element with an existing index.
    pub(crate) fn set(&mut self, index: usize, element: &[u8]) {
        let (chunk, at) = self.locate(index);
        let is_replaced = match self {
            Self::Compact(chunk) => chunk.replace(at, element),
            Self::Chunked(list) => {
                let replaced = list.change_chunk(chunk, |chunk| chunk.replace(at, element));
                replaced.unwrap_or(true)
            }
        };
        if !is_replaced {
            self.insert(index, element);
            self.remove_range(index + 1..index + 2);
        }
    }

    /// Inserts an element before the one with an index, which is at most the number of elements.
    pub(crate) fn insert(&mut self, index: usize, element: &[u8]) {
        if index == 0 {
            return self.push(ListEnd::Left, element);
        }
        if index >= self.len() {
            return self.push(ListEnd::Right, element);
        }
        if let Self::Compact(chunk) = self
            && chunk.has_space_for(element)
        {
            return chunk.insert(index, element);
        }
        let list = self.make_chunked();
        let (at, index) = list.locate(index);
        let has_space = |list: &ChunkedList, at: usize| {
            list.chunks.get(at).is_some_and(|it| it.chunk.has_space_for(element))
        };
        if has_space(list, at) {
            list.change_chunk(at, |chunk| chunk.insert(index, element));
            return;
        }
        let upper = if index == 0 {
            at
        } else {
            if let Some(upper) = list.change_chunk(at, |chunk| chunk.split_off(index)) {
                list.insert_chunk(at + 1, upper);
            }
            at + 1
        };
        if upper > 0 && has_space(list, upper - 1) {
            list.change_chunk(upper - 1, |chunk| chunk.push_back(element));
        } else if has_space(list, upper) {
            list.change_chunk(upper, |chunk| chunk.push_front(element));
        } else {
            list.insert_chunk(upper, ListChunk::of(element));
        }
    }

    /// Removes the elements of a range of indices. Returns a list of the whole chunks among them,
    /// because freeing them may take long.
    pub(crate) fn remove_range(&mut self, indices: Range<usize>) -> Self {
        let end = indices.end.min(self.len());
        let start = indices.start.min(end);
        match self {
            Self::Compact(chunk) => {
                chunk.remove_range(start..end);
                Self::default()
            }
            Self::Chunked(list) => {
                let removed = list.remove_range(start..end);
                self.make_compact_if_small();
                if removed.len == 0 { Self::default() } else { Self::Chunked(Box::new(removed)) }
            }
        }
    }

    /// Removes at most `limit` elements that are equal to `element`, from an end on. Returns their
    /// number.
    pub(crate) fn remove_equal(&mut self, end: ListEnd, element: &[u8], limit: usize) -> usize {
        match self {
            Self::Compact(chunk) => remove_equal_from(chunk, end, element, limit),
            Self::Chunked(list) => {
                let removed = list.remove_equal(end, element, limit);
                self.make_compact_if_small();
                removed
            }
        }
    }
}

/// Removes at most `limit` elements of a chunk that are equal to `element`, from an end on.
fn remove_equal_from(chunk: &mut ListChunk, end: ListEnd, element: &[u8], limit: usize) -> usize {
    let equal = chunk.elements().enumerate().filter(|(_, it)| *it == element);
    let equal: Vec<usize> = equal.map(|(index, _)| index).collect();
    let count = equal.len().min(limit);
    if count > 0 {
        let removed = match end {
            ListEnd::Left => &equal[..count],
            ListEnd::Right => &equal[equal.len() - count..],
        };
        chunk.retain(|index| removed.binary_search(&index).is_err());
    }
    count
}

#[cfg(test)]
mod tests;
