//! What a connection has sent before, and the entries that it has in the table of the peer.

use super::answer;
use super::encoder::Tail;
use super::form::Form;
use super::sent_table::{EntryNumber, SentTable};
use super::static_table::HPACK;
use super::{integer, string};
use crate::date::{self, DATE_BYTES, UnixSeconds};
use crate::prepared::Prepared;

/// Blocks of fields that are remembered: a page has few kinds of files.
const BLOCKS_MAX: usize = 8;
/// Bytes of all of them together; then all of them are forgotten. With it, a connection takes less
/// than 4 KiB.
const BLOCKS_MAX_BYTES: usize = 2304;
/// Longest such block, in bytes: what half of the table holds.
const BLOCK_MAX_BYTES: usize = 1536;
/// Most fields of one.
const BLOCK_FIELDS_MAX: usize = 24;
/// Files that are remembered. Their fields become entries when they are asked for again.
const FILES: usize = 16;
/// Times of files that are remembered. Files of one site often have the same.
const TIMES: usize = 4;

/// Places in the static table (RFC 7541 Appendix A), from 1.
mod place {
    pub(super) const CONTENT_LENGTH: usize = 28;
    pub(super) const DATE: usize = 33;
    pub(super) const ETAG: usize = 34;
    pub(super) const LAST_MODIFIED: usize = 44;
}

/// See the head of the module.
#[derive(Debug)]
pub(super) struct Repeated {
    table: SentTable,
    date: [u8; DATE_BYTES],
    date_entry: EntryNumber,
    blocks: Vec<Block>,
    files: [File; FILES],
    next_file: usize,
    times: [(UnixSeconds, EntryNumber); TIMES],
    next_time: usize,
}

/// Fields that many answers share.
#[derive(Debug)]
struct Block {
    bytes: Box<[u8]>,
    /// For each field its place in the static table, or 0 if it is an entry. Empty if the block
    /// cannot be inserted.
    fields: Box<[u8]>,
    /// The entry of the first field that is one; the others follow it.
    first: EntryNumber,
}

/// A field of a block.
struct BlockField<'b> {
    /// The place of the whole field in the static table; or of its name, or 0.
    place: usize,
    /// The strings of a literal: name, if it has no place, and value. `None` of a whole field.
    strings: Option<&'b [u8]>,
    name_bytes: usize,
    value_bytes: usize,
}

/// A file, by what its answers have of their own.
#[derive(Clone, Copy, Debug)]
struct File {
    tag: Tag,
    /// [`NO_LENGTH`] in answers without.
    content_length: u64,
    tag_entry: EntryNumber,
    length_entry: EntryNumber,
}

type Tag = [u8; answer::TAG_BYTES];

const NO_FILE: File = File {
    tag: [0; _],
    content_length: NO_LENGTH,
    tag_entry: EntryNumber::NONE,
    length_entry: EntryNumber::NONE,
};

/// A length that no content has.
const NO_LENGTH: u64 = u64::MAX;

impl Repeated {
    pub(super) fn new(table_bytes: u16) -> Repeated {
        Repeated {
            table: SentTable::new(usize::from(table_bytes)),
            date: [0; _],
            date_entry: EntryNumber::NONE,
            blocks: Vec::with_capacity(BLOCKS_MAX),
            files: [NO_FILE; FILES],
            next_file: 0,
            times: [(UnixSeconds::MIN, EntryNumber::NONE); TIMES],
            next_time: 0,
        }
    }

    pub(super) fn shrink(&mut self, table_bytes: u16) {
        self.table.shrink(usize::from(table_bytes));
    }

    /// Returns how many bytes of memory it occupies.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_block = |block: &Block| block.bytes.len() + block.fields.len();
        let blocks = self.blocks.capacity() * size_of::<Block>();
        size_of::<Self>() + blocks + self.blocks.iter().map(of_block).sum::<usize>()
    }

    /// Appends the field block of a prepared answer.
    #[inline]
    pub(super) fn prepared(&mut self, out: &mut Vec<u8>, answer: &Prepared<'_>, tail: Tail<'_>) {
        answer::status(Form::Hpack, out, answer.status);
        if answer.shared.hpack.is_empty() {
            answer::lines(Form::Hpack, out, answer.shared.h1);
        } else {
            self.block(out, answer.shared.hpack);
        }
        if answer.has_rare_fields() {
            answer::rare_fields(Form::Hpack, out, answer);
        }
        match answer.etag.and_then(<[u8]>::as_array) {
            Some(tag) => self.file_fields(out, tag, answer),
            None => answer::own_fields(Form::Hpack, out, answer),
        }
        self.tail(out, tail);
    }

    /// Appends the fields at the end of every response.
    #[inline]
    pub(super) fn tail(&mut self, out: &mut Vec<u8>, tail: Tail<'_>) {
        if self.date == *tail.date && self.table.has(self.date_entry) {
            index(out, self.table.index(self.date_entry));
        } else {
            self.insert_date(out, tail.date);
        }
        if !tail.fields.is_empty() {
            self.block(out, tail.fields);
        }
    }

    #[cold]
    fn insert_date(&mut self, out: &mut Vec<u8>, date: &[u8; DATE_BYTES]) {
        self.date = *date;
        self.date_entry = self.insert(out, place::DATE, date);
    }

    /// Returns the position of a file, and whether it was asked for before.
    #[inline]
    fn file(&mut self, tag: &Tag, content_length: u64) -> (usize, bool) {
        let is_it = |file: &File| file.tag == *tag && file.content_length == content_length;
        if let Some(position) = self.files.iter().position(is_it) {
            return (position, true);
        }
        let position = self.next_file;
        self.files[position] = File { tag: *tag, content_length, ..NO_FILE };
        self.next_file = (position + 1) % FILES;
        (position, false)
    }

    /// Appends `etag`, `last-modified` and `content-length`. Those of a file that is asked for again
    /// become entries.
    #[inline]
    fn file_fields(&mut self, out: &mut Vec<u8>, tag: &Tag, answer: &Prepared<'_>) {
        let (position, is_known) = self.file(tag, answer.content_length.unwrap_or(NO_LENGTH));
        let File { tag_entry, length_entry, .. } = self.files[position];
        if !is_known {
            literal(out, place::ETAG, &quoted(tag));
        } else if self.table.has(tag_entry) {
            index(out, self.table.index(tag_entry));
        } else {
            self.files[position].tag_entry = self.insert(out, place::ETAG, &quoted(tag));
        }
        if let Some(time) = answer.last_modified {
            self.time(out, time);
        }
        let Some(content_length) = answer.content_length else { return };
        if !is_known {
            answer::content_length(Form::Hpack, out, content_length);
        } else if self.table.has(length_entry) {
            index(out, self.table.index(length_entry));
        } else {
            let text = content_length.to_string();
            let entry = self.insert(out, place::CONTENT_LENGTH, text.as_bytes());
            self.files[position].length_entry = entry;
        }
    }

    /// Appends `last-modified`. A time that comes again becomes an entry.
    #[inline]
    fn time(&mut self, out: &mut Vec<u8>, time: UnixSeconds) {
        let Some(position) = self.times.iter().position(|(known, _)| *known == time) else {
            self.times[self.next_time] = (time, EntryNumber::NONE);
            self.next_time = (self.next_time + 1) % TIMES;
            return literal(out, place::LAST_MODIFIED, &date::format(time));
        };
        let (_, entry) = self.times[position];
        if self.table.has(entry) {
            return index(out, self.table.index(entry));
        }
        self.times[position].1 = self.insert(out, place::LAST_MODIFIED, &date::format(time));
    }

    /// Appends a field that becomes an entry of the table. Its name is in the static table.
    fn insert(&mut self, out: &mut Vec<u8>, place: usize, value: &[u8]) -> EntryNumber {
        if !self.table.takes_entries() {
            literal(out, place, value);
            return EntryNumber::NONE;
        }
        integer::write(out, 0x40, 6, place);
        string::write(out, 0, 7, value.iter().copied(), value.len());
        let (name, _) = HPACK.get(place - 1).unwrap_or_default();
        self.table.insert(name.len(), value.len())
    }

    /// Appends a block of fields, which become entries at its first use.
    #[inline]
    fn block(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        let Some(position) = self.blocks.iter().position(|block| *block.bytes == *bytes) else {
            return self.new_block(out, bytes);
        };
        let block = &self.blocks[position];
        if block.fields.is_empty() {
            return out.extend_from_slice(bytes);
        }
        if !self.table.has(block.first) {
            return self.insert_block(out, position);
        }
        let mut entry = block.first;
        for &place in &block.fields {
            if place != 0 {
                out.push(0x80 | place);
            } else {
                index(out, self.table.index(entry));
                entry = entry.plus(1);
            }
        }
    }

    #[cold]
    fn new_block(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        if bytes.len() > BLOCK_MAX_BYTES {
            return out.extend_from_slice(bytes);
        }
        let places = self.places(bytes).unwrap_or_default();
        let block = Block { bytes: bytes.into(), fields: places, first: EntryNumber::NONE };
        let known_bytes: usize = self.blocks.iter().map(|block| block.bytes.len()).sum();
        if self.blocks.len() == BLOCKS_MAX || known_bytes + bytes.len() > BLOCKS_MAX_BYTES {
            self.blocks.clear();
        }
        let is_inserted = !block.fields.is_empty();
        self.blocks.push(block);
        if is_inserted {
            self.insert_block(out, self.blocks.len() - 1);
        } else {
            out.extend_from_slice(bytes);
        }
    }

    /// Returns for each field of a block its place in the static table, or 0. `None` if the block
    /// is not to be inserted: it is too large for the table, or has a field that must not be an
    /// entry.
    fn places(&self, bytes: &[u8]) -> Option<Box<[u8]>> {
        let (mut rest, mut size, mut places) = (bytes, 0, Vec::new());
        while !rest.is_empty() {
            let field = BlockField::read(&mut rest)?;
            let whole = field.strings.is_none();
            size += super::table::ENTRY_BYTES + field.name_bytes + field.value_bytes;
            places.push(if whole { u8::try_from(field.place).ok()? } else { 0 });
        }
        let is_small = size <= self.table.bytes_max() / 2 && places.len() <= BLOCK_FIELDS_MAX;
        // Without an entry, the block is as short as it can be.
        (is_small && places.contains(&0)).then(|| places.into())
    }

    #[cold]
    fn insert_block(&mut self, out: &mut Vec<u8>, position: usize) {
        let Self { table, blocks, .. } = self;
        let block = &mut blocks[position];
        let mut rest = &*block.bytes;
        if !table.takes_entries() {
            return out.extend_from_slice(rest);
        }
        let mut first = None;
        while let Some(field) = BlockField::read(&mut rest) {
            let Some(strings) = field.strings else {
                out.push(0x80 | field.place as u8);
                continue;
            };
            integer::write(out, 0x40, 6, field.place);
            out.extend_from_slice(strings);
            let entry = table.insert(field.name_bytes, field.value_bytes);
            first.get_or_insert(entry);
        }
        block.first = first.unwrap_or_default();
    }
}

impl<'b> BlockField<'b> {
    /// Takes a field off the front of a block that was made of the static table and literals.
    /// `None` if it is another one: a literal that is never to be indexed.
    fn read(rest: &mut &'b [u8]) -> Option<BlockField<'b>> {
        let first = *rest.first()?;
        if first & 0x80 != 0 {
            let place = integer::read_u32(rest, 7).ok()?;
            return Some(BlockField { place, strings: None, name_bytes: 0, value_bytes: 0 });
        }
        if first & 0xf0 != 0 {
            return None;
        }
        let place = integer::read_u32(rest, 4).ok()?;
        let strings = *rest;
        let name_bytes = match place.checked_sub(1) {
            Some(place) => HPACK.get(place)?.0.len(),
            None => string::read(rest, 7, &mut []).ok()?,
        };
        let value_bytes = string::read(rest, 7, &mut []).ok()?;
        let strings = strings.get(..strings.len() - rest.len())?;
        Some(BlockField { place, strings: Some(strings), name_bytes, value_bytes })
    }
}

/// Appends a reference to a whole field.
#[inline(always)]
fn index(out: &mut Vec<u8>, index: usize) {
    integer::write(out, 0x80, 7, index);
}

/// Appends a field that does not become an entry, with a name of the static table.
#[inline]
fn literal(out: &mut Vec<u8>, place: usize, value: &[u8]) {
    integer::write(out, 0, 4, place);
    integer::write(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// Returns an entity tag in its quotes.
fn quoted(tag: &Tag) -> [u8; answer::TAG_BYTES + 2] {
    let mut text = [b'"'; answer::TAG_BYTES + 2];
    text[1..=tag.len()].copy_from_slice(tag);
    text
}
