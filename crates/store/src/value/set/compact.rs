//! The compact form of a set: all members follow one another in one allocation.

use std::ops::Range;

use crate::keyspace::allocation_size::allocated_bytes;
use crate::prefetch::prefetch;
use crate::value::hash_field_encoding::{decode_number, encode_number, number_bytes};

/// The encoded set: the number of members (2 bytes), and the length and the bytes of each member.
/// Without members the encoding is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct CompactMembers {
    bytes: Vec<u8>,
}

const COUNT_BYTES: usize = 2;

impl CompactMembers {
    /// Prefetches the bytes of the set into the cache of the processor.
    pub(super) fn prefetch(&self) {
        prefetch(&self.bytes);
    }

    pub(super) fn len(&self) -> usize {
        match self.bytes[..] {
            [low, high, ..] => u16::from_le_bytes([low, high]).into(),
            _ => 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(self.bytes.capacity())
    }

    /// Returns the members, each with the byte range of its length and itself.
    fn ranges(&self) -> impl Iterator<Item = (Range<usize>, &[u8])> {
        let mut at = COUNT_BYTES;
        std::iter::from_fn(move || {
            let bytes = self.bytes.get(at..).filter(|bytes| !bytes.is_empty())?;
            let (length, length_bytes) = decode_number(bytes);
            let start = at;
            at += length_bytes + length;
            Some((start..at, &bytes[length_bytes..length_bytes + length]))
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges().map(|(_, member)| member)
    }

    pub(super) fn contains(&self, member: &[u8]) -> bool {
        self.iter().any(|other| other == member)
    }

    /// Adds a new member.
    pub(super) fn push(&mut self, member: &[u8]) {
        let added_bytes = number_bytes(member.len()) + member.len();
        if self.bytes.is_empty() {
            self.bytes.reserve_exact(COUNT_BYTES + added_bytes);
            self.bytes.resize(COUNT_BYTES, 0);
        }
        if self.bytes.capacity() - self.bytes.len() < added_bytes {
            // The new capacity has some spare bytes, so that not every addition of many moves all
            // members.
            let spare_bytes = self.bytes.len() / 8;
            self.bytes.reserve_exact(added_bytes + spare_bytes);
        }
        encode_number(member.len(), &mut self.bytes);
        self.bytes.extend_from_slice(member);
        self.set_len(self.len() + 1);
    }

    /// Removes a member. Returns whether it existed.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let found = self.ranges().find(|(_, other)| *other == member);
        let Some((range, _)) = found else { return false };
        self.bytes.drain(range);
        self.set_len(self.len() - 1);
        if self.bytes.len() * 2 < self.bytes.capacity() {
            self.bytes.shrink_to_fit();
        }
        true
    }

    fn set_len(&mut self, len: usize) {
        self.bytes[..COUNT_BYTES].copy_from_slice(&(len as u16).to_le_bytes());
    }
}
