//! The fields that a connection has sent before, and their entries in the table of the peer.

use super::dynamic_table::ENTRY_BYTES;
use super::hpack_qpack_form::CompressionForm;
use super::peer_dynamic_table::{EntryNumber, EntryTable, NewField, NewName, PlainLine};
use super::{compressed_response_head, integer, string};
use crate::date::{self, DATE_BYTES, UnixSeconds};
use crate::prepared_response::{Prepared, SharedFields};

/// Blocks of fields that are remembered: a page has few kinds of files.
const BLOCKS_MAX: usize = 8;
/// Bytes of all of them together, and their fields; then all of them are forgotten. With both, a
/// connection takes less than 4 KiB.
const BLOCKS_MAX_BYTES: usize = 1536;
const BLOCK_FIELDS_MAX: usize = 64;
/// Files that are remembered. Their fields become entries when they are asked for again.
const FILES: usize = 16;
/// Times of files that are remembered. Files of one site often have the same.
const TIMES: usize = 4;

/// The fields at the end of every response of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Tail<'a> {
    /// The value of `date`.
    pub date: &'a [u8; DATE_BYTES],
    /// The fields after it, from the static table and literals alone.
    pub fields: &'a [u8],
    /// `date` and these fields, in the same form.
    pub all: &'a [u8],
}

/// The repeated fields of a connection, with their entries in the table of the peer.
#[derive(Debug)]
pub(crate) struct Repeated<T> {
    pub(crate) table: T,
    date: [u8; DATE_BYTES],
    date_entry: EntryNumber,
    blocks: Vec<RepeatedBlock>,
    files: [File; FILES],
    next_file: usize,
    times: [(UnixSeconds, EntryNumber); TIMES],
    next_time: usize,
}

/// Fields that many answers share.
#[derive(Debug)]
struct RepeatedBlock {
    bytes: Box<[u8]>,
    /// The fields of the block; empty if the block cannot be inserted.
    fields: Box<[BlockField]>,
}

/// A field of a block.
#[derive(Clone, Copy, Debug)]
struct BlockField {
    /// The offset of the field in the block.
    start: u16,
    end: u16,
    /// Its place in the static table, from 0; [`NO_PLACE`] for a literal.
    place: u8,
    entry: EntryNumber,
}

const NO_PLACE: u8 = u8::MAX;

/// A file, by the fields that its responses have of their own.
#[derive(Clone, Copy, Debug)]
struct File {
    tag: Tag,
    /// [`NO_LENGTH`] in answers without.
    content_length: u64,
    tag_entry: EntryNumber,
    length_entry: EntryNumber,
}

type Tag = [u8; compressed_response_head::TAG_BYTES];

const NO_FILE: File = File {
    tag: [0; _],
    content_length: NO_LENGTH,
    tag_entry: EntryNumber::NONE,
    length_entry: EntryNumber::NONE,
};

/// A length that no content has.
const NO_LENGTH: u64 = u64::MAX;

impl<T: EntryTable> Repeated<T> {
    pub(crate) fn new(table: T) -> Repeated<T> {
        Repeated {
            table,
            date: [0; _],
            date_entry: EntryNumber::NONE,
            blocks: Vec::with_capacity(BLOCKS_MAX),
            files: [NO_FILE; FILES],
            next_file: 0,
            times: [(UnixSeconds::MIN, EntryNumber::NONE); TIMES],
            next_time: 0,
        }
    }

    /// Returns how many bytes of memory it occupies.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_block = |block: &RepeatedBlock| block.bytes.len() + size_of_val(&*block.fields);
        let blocks = self.blocks.capacity() * size_of::<RepeatedBlock>();
        size_of::<Self>() + blocks + self.blocks.iter().map(of_block).sum::<usize>()
    }

    /// Appends the fields of a prepared answer.
    #[inline]
    pub(crate) fn prepared(&mut self, out: &mut Vec<u8>, response: &Prepared<'_>, tail: Tail<'_>) {
        compressed_response_head::status(T::FORM, out, response.status);
        let shared = in_form(T::FORM, &response.shared);
        if shared.is_empty() {
            compressed_response_head::lines(T::FORM, out, response.shared.h1);
        } else {
            self.block(out, shared);
        }
        if response.has_rare_fields() {
            compressed_response_head::rare_fields(T::FORM, out, response);
        }
        match response.etag.and_then(<[u8]>::as_array) {
            Some(tag) => self.file_fields(out, tag, response),
            None => compressed_response_head::own_fields(T::FORM, out, response),
        }
        self.tail(out, tail);
    }

    /// Appends the fields at the end of every response.
    #[inline]
    pub(crate) fn tail(&mut self, out: &mut Vec<u8>, tail: Tail<'_>) {
        if self.date != *tail.date || !self.table.refer(out, self.date_entry) {
            self.insert_date(out, tail.date);
        }
        if !tail.fields.is_empty() {
            self.block(out, tail.fields);
        }
    }

    #[cold]
    fn insert_date(&mut self, out: &mut Vec<u8>, date: &[u8; DATE_BYTES]) {
        if self.date != *date {
            self.date = *date;
            self.date_entry = EntryNumber::NONE;
        }
        insert(&mut self.table, out, b"date", date, &mut self.date_entry);
    }

    /// Returns the position of a file, and whether it was asked for before.
    #[inline]
    fn file(&mut self, tag: &Tag, content_length: u64) -> (usize, bool) {
        let is_match = |file: &File| file.tag == *tag && file.content_length == content_length;
        if let Some(position) = self.files.iter().position(is_match) {
            return (position, true);
        }
        let position = self.next_file;
        self.files[position] = File { tag: *tag, content_length, ..NO_FILE };
        self.next_file = (position + 1) % FILES;
        (position, false)
    }

    /// Appends `etag`, `last-modified` and `content-length`. Those of a file that is asked for
    /// again become entries.
    #[inline]
    fn file_fields(&mut self, out: &mut Vec<u8>, tag: &Tag, response: &Prepared<'_>) {
        let (position, is_known) = self.file(tag, response.content_length.unwrap_or(NO_LENGTH));
        let File { tag_entry, length_entry, .. } = self.files[position];
        if !is_known {
            literal(T::FORM, out, b"etag", &quoted(tag));
        } else if !self.table.refer(out, tag_entry) {
            let entry = &mut self.files[position].tag_entry;
            insert(&mut self.table, out, b"etag", &quoted(tag), entry);
        }
        if let Some(time) = response.last_modified {
            self.time(out, time);
        }
        let Some(content_length) = response.content_length else { return };
        if !is_known {
            compressed_response_head::content_length(T::FORM, out, content_length);
        } else if !self.table.refer(out, length_entry) {
            let text = content_length.to_string();
            let entry = &mut self.files[position].length_entry;
            insert(&mut self.table, out, b"content-length", text.as_bytes(), entry);
        }
    }

    /// Appends `last-modified`. A time that comes again becomes an entry.
    #[inline]
    fn time(&mut self, out: &mut Vec<u8>, time: UnixSeconds) {
        let Some(position) = self.times.iter().position(|(known, _)| *known == time) else {
            self.times[self.next_time] = (time, EntryNumber::NONE);
            self.next_time = (self.next_time + 1) % TIMES;
            return literal(T::FORM, out, b"last-modified", &date::format(time));
        };
        let (_, entry) = &mut self.times[position];
        if !self.table.refer(out, *entry) {
            insert(&mut self.table, out, b"last-modified", &date::format(time), entry);
        }
    }

    /// Appends a block of fields, which become entries at its first use.
    #[inline]
    fn block(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        let Some(position) = self.blocks.iter().position(|block| *block.bytes == *bytes) else {
            return self.new_block(out, bytes);
        };
        let RepeatedBlock { bytes, fields } = &mut self.blocks[position];
        if fields.is_empty() {
            return out.extend_from_slice(bytes);
        }
        for field in fields {
            if field.place != NO_PLACE {
                T::FORM.indexed(out, usize::from(field.place));
            } else if !self.table.refer(out, field.entry) {
                insert_line(&mut self.table, out, bytes, field);
            }
        }
    }

    #[cold]
    fn new_block(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        if bytes.len() > BLOCKS_MAX_BYTES {
            return out.extend_from_slice(bytes);
        }
        let fields = self.fields_of(bytes).unwrap_or_default();
        let count = |of: fn(&RepeatedBlock) -> usize| self.blocks.iter().map(of).sum::<usize>();
        if self.blocks.len() == BLOCKS_MAX
            || count(|block| block.bytes.len()) + bytes.len() > BLOCKS_MAX_BYTES
            || count(|block| block.fields.len()) + fields.len() > BLOCK_FIELDS_MAX
        {
            self.blocks.clear();
        }
        self.blocks.push(RepeatedBlock { bytes: bytes.into(), fields });
        self.block(out, bytes);
    }

    /// Returns the fields of a block. `None` if they are not to be inserted: they are too many for
    /// the table, or one must not be an entry.
    fn fields_of(&self, bytes: &[u8]) -> Option<Box<[BlockField]>> {
        let (mut rest, mut size, mut fields) = (bytes, 0, Vec::new());
        while !rest.is_empty() {
            let start = bytes.len() - rest.len();
            let place = match PlainLine::read(T::FORM, &mut rest)? {
                PlainLine::Whole(place) => u8::try_from(place).ok()?,
                PlainLine::Literal(field) => {
                    size += field.size;
                    NO_PLACE
                }
            };
            let (start, end) = (start as u16, (bytes.len() - rest.len()) as u16);
            fields.push(BlockField { start, end, place, entry: EntryNumber::NONE });
        }
        let is_small = size <= self.table.bytes_max() / 2 && fields.len() <= BLOCK_FIELDS_MAX;
        is_small.then(|| fields.into())
    }
}

/// Appends a literal line of a block, which becomes an entry if that is possible.
#[cold]
fn insert_line<T: EntryTable>(
    table: &mut T,
    out: &mut Vec<u8>,
    bytes: &[u8],
    field: &mut BlockField,
) {
    let line = bytes.get(usize::from(field.start)..usize::from(field.end)).unwrap_or_default();
    if let Some(PlainLine::Literal(new)) = PlainLine::read(T::FORM, &mut &*line) {
        table.insert(out, new, &mut field.entry);
    }
}

/// Appends a field, which becomes an entry if that is possible. Its name is in the static table.
#[cold]
fn insert<T: EntryTable>(
    table: &mut T,
    out: &mut Vec<u8>,
    name: &[u8],
    value: &[u8],
    entry: &mut EntryNumber,
) {
    let mut written = Vec::with_capacity(1 + value.len());
    string::write(&mut written, 0, 7, value.iter().copied(), value.len());
    let place = NewName::Static(static_place(T::FORM, name));
    let size = name.len() + value.len() + ENTRY_BYTES;
    table.insert(out, NewField { name: place, value: &written, size }, entry);
}

/// Appends a field that does not become an entry. Its name is in the static table.
#[inline]
fn literal(form: CompressionForm, out: &mut Vec<u8>, name: &'static [u8], value: &[u8]) {
    form.named(out, static_place(form, name));
    integer::write(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// Returns the place of a name of this module in the static table, from 0 (RFC 7541 Appendix A, RFC
/// 9204 Appendix A).
#[inline(always)]
fn static_place(form: CompressionForm, name: &[u8]) -> usize {
    let (hpack, qpack) = match name {
        b"content-length" => (27, 4),
        b"date" => (32, 6),
        b"etag" => (33, 7),
        _ => (43, 10),
    };
    match form {
        CompressionForm::Hpack => hpack,
        CompressionForm::Qpack => qpack,
    }
}

fn in_form<'a>(form: CompressionForm, shared: &SharedFields<'a>) -> &'a [u8] {
    match form {
        CompressionForm::Hpack => shared.hpack,
        CompressionForm::Qpack => shared.qpack,
    }
}

/// Returns an entity tag in its quotes.
fn quoted(tag: &Tag) -> [u8; compressed_response_head::TAG_BYTES + 2] {
    let mut text = [b'"'; compressed_response_head::TAG_BYTES + 2];
    text[1..=tag.len()].copy_from_slice(tag);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_name_indices_match_the_static_tables() {
        for form in [CompressionForm::Hpack, CompressionForm::Qpack] {
            for name in [&b"content-length"[..], b"date", b"etag", b"last-modified"] {
                let (_, place) = form.table().find(name, b"");
                assert_eq!(place, Some(static_place(form, name)));
            }
        }
    }
}
