//! The constant database of D. J. Bernstein (<https://cr.yp.to/cdb/cdb.txt>), read from memory.
//!
//! ```text
//! 0     256 × (u32 offset of a table, u32 slots in it)                    2048 bytes
//! 2048  u32 length of key, u32 length of data, key, data                  again and again
//!       256 tables: slots × (u32 hash of a key, u32 offset of its record)
//! ```
//!
//! All numbers are little endian. The low 8 bits of the hash of a key select the table in which it
//! is looked up, and the other bits the first slot; the search ends at an empty slot (offset 0).

use crate::limits::FILE_MAX_BYTES;

/// The offset of the first record.
const RECORDS_AT: usize = 256 * 8;

/// A database.
#[derive(Clone, Copy, Debug)]
pub struct Cdb<'a> {
    bytes: &'a [u8],
    /// The end of the records, which is the first table.
    records_end: usize,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CdbRecord<'a> {
    /// The key of the record.
    pub key: &'a [u8],
    /// The value of the record.
    pub data: &'a [u8],
}

/// An error of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdbError {
    /// The file ends before its first record.
    #[error("not a cdb file: shorter than 2048 bytes")]
    Short,
    /// The file is longer than its offsets reach.
    #[error("not a cdb file: longer than 4 GiB")]
    Long,
    /// A table does not lie in the file.
    #[error("cdb table {0} lies outside of the file")]
    Table(u8),
    /// A record does not lie before the tables.
    #[error("cdb record at byte {0} does not end before the tables")]
    Record(usize),
}

impl<'a> Cdb<'a> {
    /// Opens a database, and checks the positions of its tables.
    ///
    /// # Errors
    /// Returns the [`CdbError`] of the file or a table.
    pub fn open(bytes: &'a [u8]) -> Result<Cdb<'a>, CdbError> {
        if bytes.len() < RECORDS_AT {
            return Err(CdbError::Short);
        }
        if bytes.len() as u64 > FILE_MAX_BYTES {
            return Err(CdbError::Long);
        }
        let mut cdb = Cdb { bytes, records_end: bytes.len() };
        let mut records_end = None;
        for number in 0..=u8::MAX {
            let (offset, slots) = cdb.table(number);
            let end = slots.checked_mul(8).and_then(|length| offset.checked_add(length));
            if slots > 0 && (offset < RECORDS_AT || end.is_none_or(|end| end > bytes.len())) {
                return Err(CdbError::Table(number));
            }
            if slots > 0 {
                records_end = Some(records_end.unwrap_or(offset).min(offset));
            }
        }
        cdb.records_end = records_end.unwrap_or(RECORDS_AT);
        Ok(cdb)
    }

    /// Returns the value of the first record with this key.
    ///
    /// # Errors
    /// Fails if a record on the way does not lie in the file.
    pub fn get(&self, key: &[u8]) -> Result<Option<&'a [u8]>, CdbError> {
        let hash = hash(key);
        let (offset, slots) = self.table(hash as u8);
        let Some(first) = (hash as usize >> 8).checked_rem(slots) else { return Ok(None) };
        for slot in (first..slots).chain(0..first) {
            let slot_at = offset + slot * 8;
            let (Some(slot_hash), Some(record_at)) = (self.word(slot_at), self.word(slot_at + 4))
            else {
                return Err(CdbError::Table(hash as u8));
            };
            if record_at == 0 {
                return Ok(None);
            }
            if slot_hash == hash {
                let record_at = record_at as usize;
                let (record, _) = self.record(record_at).ok_or(CdbError::Record(record_at))?;
                if record.key == key {
                    return Ok(Some(record.data));
                }
            }
        }
        Ok(None)
    }

    /// Returns every record, in the order in which they were written.
    pub fn records(&self) -> impl Iterator<Item = Result<CdbRecord<'a>, CdbError>> + use<'a> {
        let (cdb, mut at) = (*self, RECORDS_AT);
        std::iter::from_fn(move || {
            if at >= cdb.records_end {
                return None;
            }
            let read = cdb.record(at).ok_or(CdbError::Record(at));
            at = read.map_or(cdb.records_end, |(_, end)| end);
            Some(read.map(|(record, _)| record))
        })
    }

    /// Returns the record at `at`, and its end.
    fn record(&self, at: usize) -> Option<(CdbRecord<'a>, usize)> {
        let records = self.bytes.get(..self.records_end)?;
        let rest = records.get(at..).filter(|_| at >= RECORDS_AT)?;
        let (key_bytes, rest) = split_length(rest)?;
        let (data_bytes, rest) = split_length(rest)?;
        let (key, rest) = rest.split_at_checked(key_bytes)?;
        let (data, rest) = rest.split_at_checked(data_bytes)?;
        Some((CdbRecord { key, data }, self.records_end - rest.len()))
    }

    /// Returns the offset and number of slots of a table.
    fn table(&self, number: u8) -> (usize, usize) {
        let at = usize::from(number) * 8;
        let word = |at| self.word(at).unwrap_or_default() as usize;
        (word(at), word(at + 4))
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }
}

/// Returns the length at the beginning, and the rest.
fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*length) as usize, rest))
}

/// Returns the hash of a key.
fn hash(key: &[u8]) -> u32 {
    key.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33) ^ u32::from(byte))
}
