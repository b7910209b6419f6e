//! The dynamic table (RFC 7541 §2.3.2, §4): the entries that a peer has inserted, the newest first.

use std::collections::VecDeque;

/// The size of an entry beside its name and value (RFC 7541 §4.1).
pub(crate) const ENTRY_BYTES: usize = 32;

/// A dynamic table. Names and values are in one ring of bytes, each entry in one piece or, where
/// the ring ends, in two. There is no memory before the first entry.
#[derive(Debug)]
pub(crate) struct Table {
    ring: Box<[u8]>,
    /// The newest first.
    entries: VecDeque<TableEntry>,
    /// The position of the next entry.
    next: usize,
    /// The size of all entries, as RFC 7541 §4.1 counts.
    size: usize,
    /// The largest value of [`size`](Self::size).
    size_max: usize,
    /// The largest value of `size_max`, at most
    /// [`TABLE_MAX_BYTES`](crate::limits::TABLE_MAX_BYTES).
    size_limit: usize,
}

/// The position of an entry in the ring, and the lengths of its parts.
#[derive(Clone, Copy, Debug)]
struct TableEntry {
    start: u16,
    name_bytes: u16,
    value_bytes: u16,
}

impl Table {
    /// Creates an empty table of `size_limit` bytes.
    pub(crate) fn new(size_limit: usize) -> Table {
        let size_limit = size_limit.min(crate::limits::TABLE_MAX_BYTES);
        Table {
            ring: Box::default(),
            entries: VecDeque::new(),
            next: 0,
            size: 0,
            size_max: size_limit,
            size_limit,
        }
    }

    /// Bytes of memory the table takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.ring.len() + self.entries.capacity() * size_of::<TableEntry>()
    }

    /// Changes the size; returns false when it is over the limit.
    pub(crate) fn resize(&mut self, size_max: usize) -> bool {
        if size_max > self.size_limit {
            return false;
        }
        self.size_max = size_max;
        self.make_room(0);
        true
    }

    /// Inserts a new entry at the front, for which the oldest ones are evicted (RFC 7541 §4.4). An
    /// entry that is larger than the table leaves it empty; its text may be missing.
    #[inline]
    pub(crate) fn insert(&mut self, text: &[u8], name_bytes: usize, value_bytes: usize) {
        let bytes = name_bytes.saturating_add(value_bytes);
        let size = bytes.saturating_add(ENTRY_BYTES);
        if size > self.size_max {
            self.make_room(self.size_max);
            return;
        }
        self.make_room(size);
        if self.ring.is_empty() {
            self.ring = vec![0; self.size_limit].into();
        }
        let start = self.next;
        let (before_end, from_front) =
            text.get(..bytes).unwrap_or_default().split_at(bytes.min(self.ring.len() - start));
        if let Some(to) = self.ring.get_mut(start..start + before_end.len()) {
            to.copy_from_slice(before_end);
        }
        if let Some(to) = self.ring.get_mut(..from_front.len()) {
            to.copy_from_slice(from_front);
        }
        let end = start + bytes;
        self.next = if end < self.ring.len() { end } else { end - self.ring.len() };
        self.size += size;
        // All of them are at most as long as the ring, and that is below 64 KiB.
        self.entries.push_front(TableEntry {
            start: start as u16,
            name_bytes: name_bytes as u16,
            value_bytes: value_bytes as u16,
        });
    }

    /// Copies name and value of an entry to the front of `room`, as far as there is any, and
    /// returns their lengths. The newest entry has place 0.
    #[inline]
    pub(crate) fn copy(&self, place: usize, room: &mut [u8]) -> Option<(usize, usize)> {
        let entry = self.entries.get(place)?;
        let (name, value) = (usize::from(entry.name_bytes), usize::from(entry.value_bytes));
        self.copy_bytes(usize::from(entry.start), room.get_mut(..name + value)?);
        Some((name, value))
    }

    /// Copies the name of an entry to the front of `room` and returns its length.
    #[inline]
    pub(crate) fn copy_name(&self, place: usize, room: &mut [u8]) -> Option<usize> {
        let entry = self.entries.get(place)?;
        let name = usize::from(entry.name_bytes);
        self.copy_bytes(usize::from(entry.start), room.get_mut(..name)?);
        Some(name)
    }

    /// Returns the lengths of an entry's name and value.
    #[inline]
    pub(crate) fn lengths(&self, place: usize) -> Option<(usize, usize)> {
        let entry = self.entries.get(place)?;
        Some((usize::from(entry.name_bytes), usize::from(entry.value_bytes)))
    }

    #[inline]
    fn copy_bytes(&self, start: usize, to: &mut [u8]) {
        let (before_end, from_front) = to.split_at_mut(to.len().min(self.ring.len() - start));
        if let Some(from) = self.ring.get(start..start + before_end.len()) {
            before_end.copy_from_slice(from);
        }
        if let Some(from) = self.ring.get(..from_front.len()) {
            from_front.copy_from_slice(from);
        }
    }

    /// Lets the oldest entries go until `size` more bytes are within the size.
    #[inline]
    fn make_room(&mut self, size: usize) {
        while self.size + size > self.size_max {
            let Some(oldest) = self.entries.pop_back() else { break };
            let bytes = usize::from(oldest.name_bytes) + usize::from(oldest.value_bytes);
            self.size -= bytes + ENTRY_BYTES;
        }
    }
}
