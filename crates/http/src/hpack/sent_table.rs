//! The dynamic table of a peer, as far as its encoder has to know it (RFC 7541 §2.3, §4): which of
//! its entries are still there, and what their indexes are.

use super::static_table::HPACK;
use super::table::ENTRY_BYTES;

/// Most bytes of the table that the encoder uses, as RFC 7541 §4.1 counts: what every peer has
/// unless it says otherwise (RFC 9113 §6.5.2).
pub(super) const TABLE_BYTES: usize = 4096;

/// Entries that fit into it: the shortest has neither a name nor a value.
const ENTRIES_MAX: usize = TABLE_BYTES / ENTRY_BYTES;

/// The number of an entry, from 1 in the order of insertion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryNumber(u32);

impl EntryNumber {
    /// The number of no entry.
    pub(super) const NONE: EntryNumber = EntryNumber(0);

    /// Returns the number of the entry that was inserted so many entries later.
    pub(super) fn plus(self, count: usize) -> EntryNumber {
        EntryNumber(self.0 + count as u32)
    }
}

/// See the head of the module.
#[derive(Debug)]
pub(super) struct SentTable {
    /// Sizes of the entries, a ring.
    sizes: [u16; ENTRIES_MAX],
    /// The oldest entry that is there.
    oldest: u32,
    /// The number that the next entry gets.
    next: u32,
    /// Of all entries, as RFC 7541 §4.1 counts.
    bytes: usize,
    bytes_max: usize,
}

impl SentTable {
    pub(super) fn new(bytes_max: usize) -> SentTable {
        let bytes_max = bytes_max.min(TABLE_BYTES);
        SentTable { sizes: [0; ENTRIES_MAX], oldest: 1, next: 1, bytes: 0, bytes_max }
    }

    /// Returns how many bytes all entries together may have.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Makes the table smaller, for which the oldest entries go (RFC 7541 §4.3).
    pub(super) fn shrink(&mut self, bytes_max: usize) {
        self.bytes_max = self.bytes_max.min(bytes_max);
        self.make_room(0);
    }

    /// Returns whether an entry is still there.
    #[inline]
    pub(super) fn has(&self, number: EntryNumber) -> bool {
        number.0 >= self.oldest
    }

    /// Returns the index of an entry that is there (RFC 7541 §2.3.3).
    #[inline]
    pub(super) fn index(&self, number: EntryNumber) -> usize {
        HPACK.len() + (self.next - number.0) as usize
    }

    /// Whether more entries may be inserted. Numbers do not wrap: after four thousand million of
    /// them the table stays as it is.
    #[inline]
    pub(super) fn takes_entries(&self) -> bool {
        self.next < u32::MAX - ENTRIES_MAX as u32
    }

    /// Adds an entry, which is no larger than the table. The oldest ones go (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, name_bytes: usize, value_bytes: usize) -> EntryNumber {
        let size = name_bytes + value_bytes + ENTRY_BYTES;
        debug_assert!(size <= self.bytes_max && self.takes_entries());
        self.make_room(size);
        let number = self.next;
        self.sizes[number as usize % ENTRIES_MAX] = size as u16;
        self.bytes += size;
        self.next += 1;
        EntryNumber(number)
    }

    fn make_room(&mut self, size: usize) {
        while self.bytes + size > self.bytes_max && self.oldest < self.next {
            self.bytes -= usize::from(self.sizes[self.oldest as usize % ENTRIES_MAX]);
            self.oldest += 1;
        }
    }
}
