//! The dynamic table of a peer, as far as its encoder has to know it (RFC 7541 §4, RFC 9204 §3.2):
//! which of its entries are still there. HPACK and QPACK count alike.

use super::dynamic_table::ENTRY_BYTES;
use super::hpack_qpack_form::CompressionForm;
use super::{integer, string};

/// Most bytes of the table that an encoder uses, as RFC 7541 §4.1 counts: the size that every peer
/// of HTTP/2 has unless it says otherwise (RFC 9113 §6.5.2).
pub(crate) const TABLE_BYTES: usize = 4096;

/// A table smaller than this is not used: it would hold few of the repeated fields.
pub(crate) const USED_TABLE_MIN_BYTES: usize = 1024;

/// Entries that fit into it: the shortest has neither a name nor a value.
const ENTRIES_MAX: usize = TABLE_BYTES / ENTRY_BYTES;

/// The number of insertions up to and including an entry: 1 for the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryNumber(pub(crate) u32);

impl EntryNumber {
    /// The number of no entry.
    pub(crate) const NONE: EntryNumber = EntryNumber(0);
}

/// The entries that are in the table.
#[derive(Debug)]
pub(crate) struct TableEntries {
    /// Their sizes, a ring.
    sizes: [u16; ENTRIES_MAX],
    oldest: u32,
    /// The number of insertions.
    inserted: u32,
    /// The size of all entries, as RFC 7541 §4.1 counts.
    bytes: usize,
    bytes_max: usize,
}

impl TableEntries {
    pub(crate) fn new(bytes_max: usize) -> TableEntries {
        let bytes_max = bytes_max.min(TABLE_BYTES);
        TableEntries { sizes: [0; ENTRIES_MAX], oldest: 1, inserted: 0, bytes: 0, bytes_max }
    }

    /// Returns how many bytes all entries together may have.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Makes the table smaller, for which the oldest entries go (RFC 7541 §4.3).
    pub(crate) fn shrink(&mut self, bytes_max: usize) {
        self.bytes_max = self.bytes_max.min(bytes_max);
        self.make_room(0);
    }

    /// Returns whether an entry is still there.
    #[inline]
    pub(crate) fn has(&self, number: EntryNumber) -> bool {
        number.0 >= self.oldest
    }

    /// Returns how many entries were inserted.
    #[inline]
    pub(crate) fn inserted(&self) -> u32 {
        self.inserted
    }

    /// Returns whether a new entry has room if the entries up to `removable` may go for it. Numbers
    /// do not wrap: after four thousand million of them the table stays as it is.
    pub(crate) fn has_room(&self, size: usize, removable: EntryNumber) -> bool {
        let mut free = self.bytes_max - self.bytes;
        let mut oldest = self.oldest;
        while free < size && oldest <= removable.0.min(self.inserted) {
            free += usize::from(self.sizes[oldest as usize % ENTRIES_MAX]);
            oldest += 1;
        }
        free >= size && self.inserted < u32::MAX - ENTRIES_MAX as u32
    }

    /// Adds an entry that has room. The oldest ones go (RFC 7541 §4.4).
    pub(crate) fn insert(&mut self, size: usize) -> EntryNumber {
        self.make_room(size);
        self.inserted += 1;
        self.sizes[self.inserted as usize % ENTRIES_MAX] = size as u16;
        self.bytes += size;
        EntryNumber(self.inserted)
    }

    fn make_room(&mut self, size: usize) {
        while self.bytes + size > self.bytes_max && self.oldest <= self.inserted {
            self.bytes -= usize::from(self.sizes[self.oldest as usize % ENTRIES_MAX]);
            self.oldest += 1;
        }
    }
}

/// A field that may become an entry. Its strings are as they are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewField<'a> {
    pub(crate) name: NewName<'a>,
    /// The value with its length in front (RFC 7541 §5.2).
    pub(crate) value: &'a [u8],
    /// The size as RFC 7541 §4.1 counts.
    pub(crate) size: usize,
}

/// The name of such a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewName<'a> {
    /// The name of an entry of the static table; places count from 0.
    Static(usize),
    /// A name that is written, in Huffman code or as it is.
    Written { is_coded: bool, text: &'a [u8] },
}

impl NewName<'_> {
    /// Appends the length of a written name, and the name. The length has `prefix` bits.
    pub(crate) fn write(out: &mut Vec<u8>, flags: u8, prefix: u32, is_coded: bool, text: &[u8]) {
        let coded = if is_coded { 1 << prefix } else { 0 };
        integer::write(out, flags | coded, prefix, text.len());
        out.extend_from_slice(text);
    }
}

/// The dynamic table of a peer, and how fields refer to it.
pub(crate) trait EntryTable {
    /// The form of its fields.
    const FORM: CompressionForm;

    /// Returns the most bytes that all entries together may have.
    fn bytes_max(&self) -> usize;

    /// Appends a reference to an entry, if the table has it and the peer knows it. Returns whether.
    fn refer(&mut self, out: &mut Vec<u8>, entry: EntryNumber) -> bool;

    /// Appends a field to which nothing can refer now. It becomes an entry if that is possible, and
    /// if it is not on its way to be one.
    fn insert(&mut self, out: &mut Vec<u8>, field: NewField<'_>, entry: &mut EntryNumber);
}

/// A field line that was made of the static table and literals.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlainLine<'a> {
    /// An entry of the static table; places count from 0.
    Whole(usize),
    /// A literal.
    Literal(NewField<'a>),
}

impl<'a> PlainLine<'a> {
    /// Takes a line off the front of such lines. `None` if it is another one: a literal that is
    /// never to be indexed.
    pub(crate) fn read(form: CompressionForm, rest: &mut &'a [u8]) -> Option<PlainLine<'a>> {
        let first = *rest.first()?;
        let (name, name_bytes) = match (form, first) {
            (CompressionForm::Hpack, 0x80..) => {
                return Some(PlainLine::Whole(integer::read_u32(rest, 7).ok()?.checked_sub(1)?));
            }
            (CompressionForm::Qpack, 0xc0..) => {
                return Some(PlainLine::Whole(integer::read_u32(rest, 6).ok()?));
            }
            (CompressionForm::Hpack, 0x01..=0x0f) => {
                static_name(form, integer::read_u32(rest, 4).ok()?.checked_sub(1)?)?
            }
            (CompressionForm::Qpack, 0x50..=0x5f) => {
                static_name(form, integer::read_u32(rest, 4).ok()?)?
            }
            (CompressionForm::Hpack, 0) => {
                *rest = rest.get(1..)?;
                written_name(rest, 7)?
            }
            (CompressionForm::Qpack, 0x20..=0x2f) => written_name(rest, 3)?,
            _ => return None,
        };
        let before = *rest;
        let value_bytes = string::read(rest, 7, &mut []).ok()?;
        let value = before.get(..before.len() - rest.len())?;
        let size = name_bytes + value_bytes + ENTRY_BYTES;
        Some(PlainLine::Literal(NewField { name, value, size }))
    }
}

/// Returns a name in the static table, and its length.
fn static_name(form: CompressionForm, place: usize) -> Option<(NewName<'static>, usize)> {
    let (name, _) = form.table().get(place)?;
    Some((NewName::Static(place), name.len()))
}

/// Returns a name whose length has `prefix` bits, and how long it is without its code.
fn written_name<'a>(rest: &mut &'a [u8], prefix: u32) -> Option<(NewName<'a>, usize)> {
    let is_coded = rest.first()? & (1 << prefix) != 0;
    let mut behind_length = *rest;
    integer::read_u32(&mut behind_length, prefix).ok()?;
    let bytes = string::read(rest, prefix, &mut []).ok()?;
    let text = behind_length.get(..behind_length.len() - rest.len())?;
    Some((NewName::Written { is_coded, text }, bytes))
}
