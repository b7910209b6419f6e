//! Field sections of the responses of one connection, by the dynamic table of its peer.
//!
//! Repeated fields become entries, as with
//! [`hpack::dynamic_encoder`](crate::hpack::dynamic_encoder). A section refers only to entries that
//! the peer has acknowledged, so no stream ever waits for another one (RFC 9204 §2.1.2), and an
//! entry is removed only when no section that refers to it is under way (§2.1.1).

use std::collections::VecDeque;

use super::static_encoder;
use crate::field::Field;
use crate::hpack::dynamic_table::ENTRY_BYTES;
use crate::hpack::hpack_qpack_form::CompressionForm;
use crate::hpack::integer;
use crate::hpack::peer_dynamic_table::{
    EntryNumber, EntryTable, NewField, NewName, TABLE_BYTES, TableEntries, USED_TABLE_MIN_BYTES,
};
use crate::hpack::repeated_fields::Repeated;
pub use crate::hpack::repeated_fields::Tail;
use crate::prepared_response::Prepared;

/// Sections that refer to entries and that the peer has not acknowledged. Beyond them, sections
/// refer to none.
const SECTIONS_MAX: usize = 64;

/// Bytes of instructions that wait to be sent. Beyond them, nothing is inserted.
const INSTRUCTIONS_MAX_BYTES: usize = 2048;

/// The sending end of a connection's compression.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The capacity that the peer allows: `SETTINGS_QPACK_MAX_TABLE_CAPACITY`, in bytes.
    capacity_max: u64,
    has_responded: bool,
    /// The repeated fields, from the second response on, if the peer allows a table.
    repeated: Option<Box<Repeated<QpackTable>>>,
}

/// The table of a peer of HTTP/3.
#[derive(Debug)]
struct QpackTable {
    entries: TableEntries,
    /// Entries that a table of the capacity that the peer allows may have (§4.5.1.1).
    entries_max: u64,
    /// Entries that the peer has acknowledged (§2.1.4).
    known: u32,
    /// Sections on their way, with the oldest entry that each refers to.
    sections: VecDeque<(u64, EntryNumber)>,
    /// The output for the encoder stream.
    instructions: Vec<u8>,
    section: SectionReferences,
}

/// The entries that the section refers to which is being written.
#[derive(Clone, Copy, Debug)]
struct SectionReferences {
    oldest: EntryNumber,
    newest: EntryNumber,
}

const NO_REFERENCE: SectionReferences =
    SectionReferences { oldest: EntryNumber(u32::MAX), newest: EntryNumber::NONE };

impl EntryTable for QpackTable {
    const FORM: CompressionForm = CompressionForm::Qpack;

    fn bytes_max(&self) -> usize {
        self.entries.bytes_max()
    }

    #[inline]
    fn refer(&mut self, out: &mut Vec<u8>, entry: EntryNumber) -> bool {
        let is_known = entry.0 <= self.known && self.entries.has(entry);
        if !is_known || self.sections.len() >= SECTIONS_MAX {
            return false;
        }
        // The base of the section is the number of insertions that the peer knows (§4.5.2).
        integer::write(out, 0x80, 6, (self.known - entry.0) as usize);
        let SectionReferences { oldest, newest } = &mut self.section;
        (*oldest, *newest) = ((*oldest).min(entry), (*newest).max(entry));
        true
    }

    fn insert(&mut self, out: &mut Vec<u8>, field: NewField<'_>, entry: &mut EntryNumber) {
        match field.name {
            NewName::Static(place) => CompressionForm::Qpack.named(out, place),
            NewName::Written { is_coded, text } => NewName::write(out, 0x20, 3, is_coded, text),
        }
        out.extend_from_slice(field.value);
        let is_on_its_way = *entry != EntryNumber::NONE && self.entries.has(*entry);
        let fits = self.instructions.len() + field.value.len() < INSTRUCTIONS_MAX_BYTES;
        if !is_on_its_way && fits && self.entries.has_room(field.size, self.removable()) {
            *entry = self.send_entry(&field);
        }
    }
}

impl QpackTable {
    fn new(capacity_max: u64) -> QpackTable {
        let capacity = capacity_max.min(TABLE_BYTES as u64) as usize;
        let mut instructions = Vec::new();
        // §4.3.1. A table has no size before that.
        integer::write(&mut instructions, 0x20, 5, capacity);
        QpackTable {
            entries: TableEntries::new(capacity),
            entries_max: capacity_max / ENTRY_BYTES as u64,
            known: 0,
            sections: VecDeque::new(),
            instructions,
            section: NO_REFERENCE,
        }
    }

    /// Returns the newest entry that may be removed if all older ones are: the peer has it, and no
    /// section under way refers to it.
    fn removable(&self) -> EntryNumber {
        let on_their_way = self.sections.iter().map(|(_, oldest)| *oldest);
        let first = on_their_way.chain([self.section.oldest]).min().unwrap_or_default();
        EntryNumber(self.known.min(first.0.saturating_sub(1)))
    }

    /// Writes the instruction that inserts an entry (§4.3.2, §4.3.3).
    fn send_entry(&mut self, field: &NewField<'_>) -> EntryNumber {
        match field.name {
            NewName::Static(place) => integer::write(&mut self.instructions, 0xc0, 6, place),
            NewName::Written { is_coded, text } => {
                NewName::write(&mut self.instructions, 0x40, 5, is_coded, text);
            }
        }
        self.instructions.extend_from_slice(field.value);
        self.entries.insert(field.size)
    }

    /// Puts the prefix of a section, whose fields begin at `start`, in front of them (§4.5.1).
    fn end_section(&mut self, out: &mut Vec<u8>, start: usize, stream: u64) {
        let SectionReferences { oldest, newest } =
            std::mem::replace(&mut self.section, NO_REFERENCE);
        if newest == EntryNumber::NONE {
            return;
        }
        let mut prefix = Vec::with_capacity(8);
        let required = u64::from(newest.0) % (2 * self.entries_max) + 1;
        integer::write(&mut prefix, 0, 8, required as usize);
        integer::write(&mut prefix, 0, 7, (self.known - newest.0) as usize);
        match out.get_mut(start..start + prefix.len()) {
            Some(place) if prefix.len() == static_encoder::PREFIX.len() => {
                place.copy_from_slice(&prefix);
            }
            _ => drop(out.splice(start..start + static_encoder::PREFIX.len(), prefix)),
        }
        self.sections.push_back((stream, oldest));
    }
}

impl Encoder {
    /// Sets the size of the table that the peer allows.
    pub fn set_capacity_max(&mut self, bytes: u64) {
        self.capacity_max = bytes;
    }

    /// Bytes of memory that it occupies beside itself: none before the second response.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.repeated.as_ref().map_or(0, |repeated| {
            let QpackTable { sections, instructions, .. } = &repeated.table;
            let sections = sections.capacity() * size_of::<(u64, EntryNumber)>();
            repeated.memory_bytes() + sections + instructions.capacity()
        })
    }

    /// Appends the field section of a prepared answer on a stream.
    #[inline]
    pub fn prepared(
        &mut self,
        stream: u64,
        out: &mut Vec<u8>,
        response: &Prepared<'_>,
        tail: Tail<'_>,
    ) {
        let Some(repeated) = self.repeated() else {
            return static_encoder::prepared(out, response, tail.all);
        };
        let start = out.len();
        out.extend_from_slice(&static_encoder::PREFIX);
        repeated.prepared(out, response, tail);
        repeated.table.end_section(out, start, stream);
    }

    /// Appends the field section of a dynamic answer on a stream; `length` is that of its content,
    /// if it is known. The same fields are left out as in [`static_encoder::head`].
    pub fn head<'f>(
        &mut self,
        stream: u64,
        out: &mut Vec<u8>,
        (status, length): (u16, Option<u64>),
        fields: impl Iterator<Item = Field<'f>>,
        tail: Tail<'_>,
    ) {
        let start = out.len();
        static_encoder::head(out, status, fields, length, b"");
        match self.repeated() {
            Some(repeated) => {
                repeated.tail(out, tail);
                repeated.table.end_section(out, start, stream);
            }
            None => out.extend_from_slice(tail.all),
        }
    }

    /// Returns the bytes to send on the encoder stream; the caller removes those that it has sent.
    pub fn instructions(&mut self) -> Option<&mut Vec<u8>> {
        let repeated = self.repeated.as_mut()?;
        Some(&mut repeated.table.instructions).filter(|instructions| !instructions.is_empty())
    }

    /// Returns whether a section was sent that the peer has to acknowledge.
    pub(super) fn awaits_acknowledgement(&self) -> bool {
        self.repeated.as_ref().is_some_and(|repeated| !repeated.table.sections.is_empty())
    }

    /// Returns whether entries were sent that the peer has not acknowledged.
    pub(super) fn awaits_increment(&self) -> bool {
        let table = self.repeated.as_ref().map(|repeated| &repeated.table);
        table.is_some_and(|table| table.known < table.entries.inserted())
    }

    /// Records that the peer has acknowledged a section on a stream (§4.4.1). Returns whether there
    /// was one.
    pub(super) fn acknowledge(&mut self, stream: u64) -> bool {
        let Some(repeated) = &mut self.repeated else { return false };
        let sections = &mut repeated.table.sections;
        let position = sections.iter().position(|(on, _)| *on == stream);
        position.and_then(|position| sections.remove(position)).is_some()
    }

    /// Handles a cancellation: the peer has stopped reading a stream (§4.4.2).
    pub(super) fn cancel(&mut self, stream: u64) {
        if let Some(repeated) = &mut self.repeated {
            repeated.table.sections.retain(|(on, _)| *on != stream);
        }
    }

    /// Records that the peer has that many more entries (§4.4.3). Returns whether they were sent.
    pub(super) fn increment(&mut self, count: u64) -> bool {
        let Some(QpackTable { known, entries, .. }) =
            self.repeated.as_mut().map(|repeated| &mut repeated.table)
        else {
            return false;
        };
        let more = u64::from(entries.inserted() - *known);
        let is_right = count > 0 && count <= more;
        *known += if is_right { count as u32 } else { 0 };
        is_right
    }

    #[inline]
    fn repeated(&mut self) -> Option<&mut Repeated<QpackTable>> {
        if !self.has_responded {
            self.has_responded = true;
            return None;
        }
        if self.capacity_max < USED_TABLE_MIN_BYTES as u64 {
            return None;
        }
        let capacity_max = self.capacity_max;
        let table = || Box::new(Repeated::new(QpackTable::new(capacity_max)));
        Some(self.repeated.get_or_insert_with(table))
    }
}
