//! The compact form of a hash: all fields follow one another in one allocation.

use std::ops::Range;

use super::PreviousField;
use crate::keyspace::allocation_size::allocated_bytes;
use crate::prefetch::prefetch;
use crate::value::hash_field_encoding::{
    EXPIRY_BYTES, EncodedField, decode_expiry, decode_head, decode_number, encode_expiry,
    encode_number, number_bytes,
};

/// The encoded fields: the number of fields (2 bytes), a time before which no field expires (6
/// bytes, 0 if none expires), and for each field its head, the length of its value and its value.
/// Without fields the encoding is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct CompactFields {
    bytes: Vec<u8>,
}

const COUNT_BYTES: usize = 2;
const HEAD_BYTES: usize = COUNT_BYTES + EXPIRY_BYTES;

impl CompactFields {
    /// Prefetches the bytes of the hash into the cache of the processor.
    pub(super) fn prefetch(&self) {
        prefetch(&self.bytes);
    }

    pub(super) fn len(&self) -> usize {
        match self.bytes[..] {
            [low, high, ..] => u16::from_le_bytes([low, high]).into(),
            _ => 0,
        }
    }

    /// Returns a time before which no field expires, or `None` if no field expires at all.
    pub(super) fn earliest_expiry_ms(&self) -> Option<u64> {
        let bytes = self.bytes.get(COUNT_BYTES..)?;
        Some(decode_expiry(bytes)).filter(|&at| at != 0)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(self.bytes.capacity())
    }

    /// Returns the fields in their order, including expired ones.
    pub(super) fn iter(&self) -> CompactFieldsIter<'_> {
        CompactFieldsIter { bytes: &self.bytes, at: HEAD_BYTES }
    }

    /// Returns the range of a field in the bytes, with the field.
    fn find(&self, name: &[u8]) -> Option<(Range<usize>, EncodedField<'_>)> {
        let mut fields = self.iter();
        let mut start = fields.at;
        while let Some(field) = fields.next() {
            if field.name == name {
                return Some((start..fields.at, field));
            }
            start = fields.at;
        }
        None
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<EncodedField<'_>> {
        self.find(name).map(|(_, field)| field)
    }

    /// Adds a field, or replaces the one of the same name. Returns the replaced field, if there was
    /// one.
    pub(super) fn put(&mut self, field: EncodedField<'_>) -> Option<PreviousField> {
        let found = self.find(field.name);
        let found =
            found.map(|(range, field)| (range, PreviousField { expiry_ms: field.expiry_ms }));
        let (old, replaced) = found.unzip();
        let is_there = old.is_some();
        if self.bytes.is_empty() {
            self.bytes.reserve_exact(HEAD_BYTES + encoded_bytes(field));
            self.bytes.resize(HEAD_BYTES, 0);
        }
        let old = old.unwrap_or(self.bytes.len()..self.bytes.len());
        let more_bytes = encoded_bytes(field).saturating_sub(old.len());
        if self.bytes.capacity() - self.bytes.len() < more_bytes {
            // The new capacity has some spare bytes, so that not every addition of many moves all
            // fields.
            let spare_bytes = self.bytes.len() / 8;
            self.bytes.reserve_exact(more_bytes + spare_bytes);
        }
        if is_there {
            let mut entry = Vec::with_capacity(encoded_bytes(field));
            encode(field, &mut entry);
            self.bytes.splice(old, entry);
            self.shrink();
        } else {
            encode(field, &mut self.bytes);
            self.set_len(self.len() + 1);
        }
        self.note_expiry(field.expiry_ms);
        replaced
    }

    /// Removes a field. Returns the removed field, or `None` if it did not exist.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<PreviousField> {
        let (range, field) = self.find(name)?;
        let removed = PreviousField { expiry_ms: field.expiry_ms };
        self.bytes.drain(range);
        self.set_len(self.len() - 1);
        self.shrink();
        Some(removed)
    }

    /// Removes the fields that have expired. Returns their number.
    pub(super) fn remove_expired(&mut self, now_ms: u64) -> usize {
        let mut kept = Vec::with_capacity(self.bytes.len());
        kept.resize(HEAD_BYTES, 0);
        let (mut count, mut earliest) = (0, u64::MAX);
        for field in self.iter().filter(|field| !field.has_expired(now_ms)) {
            encode(field, &mut kept);
            count += 1;
            earliest = earliest.min(field.expiry_ms.unwrap_or(u64::MAX));
        }
        let removed = self.len() - count;
        self.bytes = kept;
        self.set_len(count);
        let earliest = if earliest == u64::MAX { 0 } else { earliest };
        self.bytes[COUNT_BYTES..HEAD_BYTES].copy_from_slice(&encode_expiry(earliest));
        self.shrink();
        removed
    }

    fn set_len(&mut self, len: usize) {
        self.bytes[..COUNT_BYTES].copy_from_slice(&(len as u16).to_le_bytes());
    }

    fn note_expiry(&mut self, expiry_ms: Option<u64>) {
        let Some(expiry_ms) = expiry_ms else { return };
        let earliest = self.earliest_expiry_ms().unwrap_or(u64::MAX).min(expiry_ms);
        self.bytes[COUNT_BYTES..HEAD_BYTES].copy_from_slice(&encode_expiry(earliest));
    }

    /// Frees memory that is not needed.
    fn shrink(&mut self) {
        if self.bytes.len() * 2 < self.bytes.capacity() {
            self.bytes.shrink_to_fit();
        }
    }
}

fn encoded_bytes(field: EncodedField<'_>) -> usize {
    field.head_bytes() + number_bytes(field.value.len()) + field.value.len()
}

fn encode(field: EncodedField<'_>, bytes: &mut Vec<u8>) {
    field.encode_head(bytes);
    encode_number(field.value.len(), bytes);
    bytes.extend_from_slice(field.value);
}

/// An iterator over the fields of a small hash.
#[derive(Clone, Debug)]
pub(super) struct CompactFieldsIter<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for CompactFieldsIter<'a> {
    type Item = EncodedField<'a>;

    fn next(&mut self) -> Option<EncodedField<'a>> {
        let bytes = self.bytes.get(self.at..).filter(|bytes| !bytes.is_empty())?;
        let (name, expiry_ms, head_bytes) = decode_head(bytes);
        let (length, length_bytes) = decode_number(&bytes[head_bytes..]);
        let start = head_bytes + length_bytes;
        self.at += start + length;
        Some(EncodedField { name, value: &bytes[start..start + length], expiry_ms })
    }
}
