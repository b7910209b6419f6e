//! Field blocks of the responses of one connection, by the dynamic table of its peer.
//!
//! The first response uses the static table alone, as [`static_encoder`] does: connections with one
//! request need no memory for more. From the second one on, repeated fields become entries of the
//! peer's table, and then each is an index of one or two bytes: the fields that many files share,
//! the fields of the server, the date of the second, and the fields of a file that was requested
//! before.
//!
//! Only fields of prepared responses and of the server are inserted. Fields of scripts and of other
//! servers are not, since they may hold secrets whose length an attacker could measure (RFC 7541
//! §7.1).

use super::hpack_qpack_form::CompressionForm;
use super::integer;
use super::peer_dynamic_table::{
    EntryNumber, EntryTable, NewField, NewName, TABLE_BYTES, TableEntries, USED_TABLE_MIN_BYTES,
};
use super::repeated_fields::Repeated;
pub use super::repeated_fields::Tail;
use super::static_encoder;
use super::static_table::HPACK;
use crate::field::Field;
use crate::prepared_response::Prepared;

/// The sending end of a connection's compression.
#[derive(Debug)]
pub struct Encoder {
    table_bytes: u16,
    /// The table is smaller than the peer knows, and the next block has to say so.
    has_shrunk: bool,
    has_responded: bool,
    /// The repeated fields, from the second response on.
    repeated: Option<Box<Repeated<HpackTable>>>,
}

/// The table of a peer of HTTP/2, which has each entry as soon as it has the block with it.
#[derive(Debug)]
struct HpackTable(TableEntries);

impl EntryTable for HpackTable {
    const FORM: CompressionForm = CompressionForm::Hpack;

    fn bytes_max(&self) -> usize {
        self.0.bytes_max()
    }

    #[inline]
    fn refer(&mut self, out: &mut Vec<u8>, entry: EntryNumber) -> bool {
        let has_it = self.0.has(entry);
        if has_it {
            // The newest entry has the first index behind the static table (RFC 7541 §2.3.3).
            let newer = self.0.inserted() - entry.0;
            integer::write(out, 0x80, 7, HPACK.len() + 1 + newer as usize);
        }
        has_it
    }

    fn insert(&mut self, out: &mut Vec<u8>, field: NewField<'_>, entry: &mut EntryNumber) {
        let any = EntryNumber(u32::MAX);
        let (flags, prefix) = if self.0.has_room(field.size, any) { (0x40, 6) } else { (0, 4) };
        match field.name {
            NewName::Static(place) => integer::write(out, flags, prefix, place + 1),
            NewName::Written { is_coded, text } => {
                out.push(flags);
                NewName::write(out, 0, 7, is_coded, text);
            }
        }
        out.extend_from_slice(field.value);
        *entry = if flags == 0 { EntryNumber::NONE } else { self.0.insert(field.size) };
    }
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// Returns the encoder of a new connection.
    #[must_use]
    pub const fn new() -> Encoder {
        let table_bytes = TABLE_BYTES as u16;
        Encoder { table_bytes, has_shrunk: false, has_responded: false, repeated: None }
    }

    /// Sets the size of the table that the peer allows (`SETTINGS_HEADER_TABLE_SIZE`). A table that
    /// was small once does not grow again.
    pub fn limit_table(&mut self, bytes: u32) {
        let bytes = bytes.min(TABLE_BYTES as u32) as u16;
        if bytes < self.table_bytes {
            self.table_bytes = bytes;
            self.has_shrunk = true;
            match &mut self.repeated {
                Some(repeated) if usize::from(bytes) >= USED_TABLE_MIN_BYTES => {
                    repeated.table.0.shrink(usize::from(bytes));
                }
                _ => self.repeated = None,
            }
        }
    }

    /// Bytes of memory that it occupies beside itself: none before the second response.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.repeated.as_ref().map_or(0, |repeated| repeated.memory_bytes())
    }

    /// Appends the required begin of a block (RFC 7541 §4.2: "This dynamic table size update MUST
    /// occur at the beginning of the first header block following the change").
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.has_shrunk {
            self.has_shrunk = false;
            // A table that is not used is dropped, so that the peer need not keep it.
            if usize::from(self.table_bytes) < USED_TABLE_MIN_BYTES {
                self.table_bytes = 0;
            }
            integer::write(out, 0x20, 5, usize::from(self.table_bytes));
        }
    }

    /// Appends the field block of a prepared answer.
    #[inline]
    pub fn prepared(&mut self, out: &mut Vec<u8>, response: &Prepared<'_>, tail: Tail<'_>) {
        match self.repeated() {
            Some(repeated) => repeated.prepared(out, response, tail),
            None => static_encoder::prepared(out, response, tail.all),
        }
    }

    /// Appends the field block of a dynamic answer; `length` is that of its content, if it is
    /// known. The same fields are left out as in [`static_encoder::head`].
    pub fn head<'f>(
        &mut self,
        out: &mut Vec<u8>,
        status: u16,
        fields: impl Iterator<Item = Field<'f>>,
        length: Option<u64>,
        tail: Tail<'_>,
    ) {
        static_encoder::head(out, status, fields, length, b"");
        match self.repeated() {
            Some(repeated) => repeated.tail(out, tail),
            None => out.extend_from_slice(tail.all),
        }
    }

    #[inline]
    fn repeated(&mut self) -> Option<&mut Repeated<HpackTable>> {
        if !self.has_responded {
            self.has_responded = true;
            return None;
        }
        let table_bytes = usize::from(self.table_bytes);
        if table_bytes < USED_TABLE_MIN_BYTES {
            return None;
        }
        let table = || Box::new(Repeated::new(HpackTable(TableEntries::new(table_bytes))));
        Some(self.repeated.get_or_insert_with(table))
    }
}
