//! Field blocks of a peer (RFC 7541 §3, §6), with the table that it fills.

use super::CompressionError as Error;
use super::dynamic_table::{ENTRY_BYTES, Table};
use super::integer;
use super::static_table::HPACK;
use super::string;
use crate::field_section::{FieldSection, Fit};
use crate::limits::{Limits, TABLE_COPY_MAX_BYTES};

/// The receiving end of a connection's compression.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
}

/// The use of a literal beyond its section (RFC 7541 §6.2).
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    /// The field becomes an entry of the table.
    Yes,
    No,
}

impl Decoder {
    /// Creates a decoder whose peer may use a table of `table_bytes`, at most
    /// [`TABLE_MAX_BYTES`](crate::limits::TABLE_MAX_BYTES). Until a peer has read our settings it
    /// assumes 4096 (RFC 9113 §6.5.2), so the value should not be less. Nothing is allocated before
    /// the first entry.
    #[must_use]
    pub fn new(table_bytes: usize) -> Decoder {
        Decoder { table: Table::new(table_bytes) }
    }

    /// Bytes of memory the table takes: none before the first entry, then about its size.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// Decodes a whole field block into `section`.
    ///
    /// As in a head of HTTP/1 the fields may have [`Limits::head_bytes`] and [`Limits::fields`]
    /// lines; [`section`](crate::field_section) documents their weights. A block over one of these
    /// is decoded to its end, because the peer goes on with the resulting table, but the excess is
    /// not copied.
    ///
    /// # Errors
    /// The block is malformed, and the connection must close: the table is no longer the peer's.
    pub fn decode(
        &mut self,
        block: &[u8],
        section: &mut FieldSection,
        limits: &Limits,
    ) -> Result<Fit, Error> {
        section.begin(limits);
        let mut rest = block;
        while let [0x20..=0x3f, ..] = rest {
            let size = integer::read_u32(&mut rest, 5)?;
            if !self.table.resize(size) {
                return Err(Error::TableSize);
            }
        }
        // Bytes of names that were copied within the table for a section that has no use for them.
        let mut copied = 0;
        while let Some(&first) = rest.first() {
            match first {
                0x80.. if !section.is_whole() && self.pass_over(&mut rest)? => {}
                0x80.. => {
                    let index = integer::read_u32(&mut rest, 7)?;
                    self.indexed(index, section)?;
                }
                0x40.. => copied += self.literal(&mut rest, 6, Keep::Yes, section)?,
                0x20.. => return Err(Error::TableSize),
                // Never to be indexed (§6.2.3) makes no difference to who indexes nothing.
                _ => copied += self.literal(&mut rest, 4, Keep::No, section)?,
            }
            if copied > TABLE_COPY_MAX_BYTES {
                return Err(Error::Work);
            }
        }
        Ok(section.fit())
    }

    /// Passes over indexes of one byte for a section that has no use for them, many at once: a
    /// byte is all that each costs its sender. False when there are few.
    #[cold]
    fn pass_over(&self, rest: &mut &[u8]) -> Result<bool, Error> {
        const AT_ONCE: usize = 32;
        let mut largest = 0;
        let mut bytes = 0;
        for piece in rest.chunks_exact(AT_ONCE) {
            let least = piece.iter().fold(0xff, |least: u8, byte| least.min(*byte));
            let most = piece.iter().fold(0, |most: u8, byte| most.max(*byte));
            // Below are other forms and the index 0, 0xff goes on in the next byte.
            if least <= 0x80 || most == 0xff {
                break;
            }
            largest = largest.max(most & 0x7f);
            bytes += AT_ONCE;
        }
        let place = usize::from(largest).wrapping_sub(1 + HPACK.len());
        if usize::from(largest) > HPACK.len() && self.table.lengths(place).is_none() {
            return Err(Error::Index);
        }
        *rest = rest.get(bytes..).unwrap_or_default();
        Ok(bytes > 0)
    }

    /// Decodes an indexed field (RFC 7541 §6.1).
    #[inline(always)]
    fn indexed(&self, index: usize, section: &mut FieldSection) -> Result<(), Error> {
        let place = index.wrapping_sub(1);
        let lengths = if place < HPACK.len() {
            HPACK.copy(place, section.room())
        } else if section.is_whole() {
            self.table.copy(place.wrapping_sub(HPACK.len()), section.room())
        } else {
            self.table.lengths(place.wrapping_sub(HPACK.len()))
        };
        let (name, value) = lengths.ok_or(Error::Index)?;
        section.take(name, value);
        Ok(())
    }

    /// Decodes a literal field (RFC 7541 §6.2). Returns how much was copied within the table alone.
    #[inline]
    fn literal(
        &mut self,
        rest: &mut &[u8],
        prefix: u32,
        keep: Keep,
        section: &mut FieldSection,
    ) -> Result<usize, Error> {
        let index = integer::read_u32(rest, prefix)?;
        // Where neither section nor table takes the field it is only checked.
        let whole = section.is_whole();
        let room = if whole || keep == Keep::Yes { section.room() } else { &mut [] };
        let name = match index.checked_sub(1) {
            None => string::read(rest, 7, room)?,
            Some(place) => self.name(place, room).ok_or(Error::Index)?,
        };
        let value = string::read(rest, 7, room.get_mut(name..).unwrap_or_default())?;
        if keep == Keep::Yes {
            self.table.insert(room, name, value);
        }
        section.take(name, value);
        let within_table = !whole && index > HPACK.len() && keep == Keep::Yes;
        Ok(if within_table { name } else { 0 })
    }

    /// Copies the name of an entry of either table to the front of `room`.
    #[inline]
    fn name(&self, place: usize, room: &mut [u8]) -> Option<usize> {
        if place < HPACK.len() {
            return HPACK.copy(place, room).map(|(name, _)| name);
        }
        let place = place - HPACK.len();
        if room.is_empty() {
            self.table.lengths(place).map(|(name, _)| name)
        } else {
            self.table.copy_name(place, room)
        }
    }
}

// The room of a section takes whatever may become an entry.
const _: () =
    assert!(crate::limits::TABLE_MAX_BYTES - ENTRY_BYTES <= crate::limits::HEAD_MAX_BYTES);
