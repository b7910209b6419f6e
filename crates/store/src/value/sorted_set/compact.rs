//! The compact form of a sorted set: one allocation.
//!
//! The first byte is the number of members. The members follow in order, each as the length of the
//! member (1 byte), the form of the score (1), the score (1 to 8), and the member.

use std::cmp::Ordering;
use std::ops::Range;

use super::{COMPACT_MAX_MEMBERS, COMPACT_MEMBER_MAX_BYTES, compare};
use crate::keyspace::allocation_size::allocated_bytes;
use crate::prefetch::prefetch;

/// A sorted set of at most [`COMPACT_MAX_MEMBERS`] members of at most [`COMPACT_MEMBER_MAX_BYTES`]
/// each.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompactSortedSet(Vec<u8>);

/// Number of bytes of the largest head of an entry.
const HEAD_MAX_BYTES: usize = 1 + 1 + 8;

/// The head of an entry: everything before the member.
struct EntryHead {
    bytes: [u8; HEAD_MAX_BYTES],
    length: usize,
}

impl EntryHead {
    /// Encodes the head of an entry. A score that is a small integer takes only as many bytes as it
    /// needs. Minus zero becomes zero, as in the compact form of Redis.
    fn new(member: &[u8], score: f64) -> Self {
        let integer = score as i32;
        let is_integer = f64::from(integer) == score;
        let mut bytes = [0; HEAD_MAX_BYTES];
        bytes[0] = member.len() as u8;
        let score_bytes = match integer {
            _ if !is_integer => 8,
            -0x80..=0x7f => 1,
            -0x8000..=0x7fff => 2,
            _ => 4,
        };
        bytes[1] = score_bytes as u8;
        let text = if is_integer {
            i64::from(integer).to_le_bytes()
        } else {
            score.to_bits().to_le_bytes()
        };
        bytes[2..2 + score_bytes].copy_from_slice(&text[..score_bytes]);
        Self { bytes, length: 2 + score_bytes }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A member and its score.
type CompactEntry<'s> = (&'s [u8], f64);

/// Splits the first entry off. Returns its member, its score and the rest.
fn decode(bytes: &[u8]) -> Option<(CompactEntry<'_>, &[u8])> {
    let (&[length, form], rest) = bytes.split_first_chunk()?;
    let (score, rest) = match form {
        1 => rest.split_first_chunk().map(|(&it, rest)| (i8::from_le_bytes(it).into(), rest))?,
        2 => rest.split_first_chunk().map(|(&it, rest)| (i16::from_le_bytes(it).into(), rest))?,
        4 => rest.split_first_chunk().map(|(&it, rest)| (i32::from_le_bytes(it).into(), rest))?,
        _ => rest.split_first_chunk().map(|(&it, rest)| (f64::from_le_bytes(it), rest))?,
    };
    let (member, rest) = rest.split_at_checked(length.into())?;
    Some(((member, score), rest))
}

impl CompactSortedSet {
    /// Prefetches the bytes of the set into the cache of the processor.
    pub(super) fn prefetch(&self) {
        prefetch(&self.0);
    }

    pub(super) fn len(&self) -> usize {
        self.0.first().copied().unwrap_or(0).into()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(self.0.capacity())
    }

    pub(super) fn entries(&self) -> CompactEntries<'_> {
        CompactEntries { bytes: self.0.get(1..).unwrap_or_default() }
    }

    /// Returns whether the compact form allows one more member, and a member of this length.
    pub(super) fn has_space_for(&self, member: &[u8]) -> bool {
        self.len() < COMPACT_MAX_MEMBERS && member.len() <= COMPACT_MEMBER_MAX_BYTES
    }

    /// Returns the rank and the score of a member.
    pub(super) fn find(&self, member: &[u8]) -> Option<(usize, f64)> {
        let mut entries = self.entries().enumerate();
        entries.find(|(_, (it, _))| *it == member).map(|(rank, (_, score))| (rank, score))
    }

    /// Returns the offset of the entry at a rank, or the end of the bytes if no entry has this
    /// rank.
    fn offset(&self, rank: usize) -> usize {
        let mut entries = self.entries();
        entries.advance(rank);
        self.0.len() - entries.bytes.len()
    }

    /// Adds a new member, for which the set must have space.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) {
        debug_assert!(self.has_space_for(member), "there is space for one more short member");
        let is_before = |it: &(&[u8], f64)| compare(*it, (member, score)) == Ordering::Less;
        let rank = self.entries().take_while(is_before).count();
        let head = EntryHead::new(member, score);
        let added = head.length + member.len();
        if self.0.is_empty() {
            self.0.reserve_exact(1 + added);
            self.0.push(0);
        }
        let offset = self.offset(rank);
        let old_length = self.0.len();
        self.0.reserve_exact(added);
        self.0.resize(old_length + added, 0);
        self.0.copy_within(offset..old_length, offset + added);
        self.0[offset..offset + head.length].copy_from_slice(head.as_bytes());
        self.0[offset + head.length..offset + added].copy_from_slice(member);
        self.0[0] += 1;
    }

    /// Removes a member. Returns its score.
    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (rank, score) = self.find(member)?;
        self.remove_range(rank..rank + 1);
        Some(score)
    }

    /// Removes the members of a range of ranks that exist.
    pub(super) fn remove_range(&mut self, ranks: Range<usize>) {
        if ranks.is_empty() {
            return;
        }
        let bytes = self.offset(ranks.start)..self.offset(ranks.end);
        self.0.drain(bytes);
        self.0[0] -= ranks.len() as u8;
        if self.0.len() * 2 < self.0.capacity() {
            self.0.shrink_to_fit();
        }
    }
}

/// An iterator over the entries of the compact form, in order.
#[derive(Clone, Debug)]
pub(crate) struct CompactEntries<'s> {
    bytes: &'s [u8],
}

impl CompactEntries<'_> {
    /// Skips `count` entries.
    pub(super) fn advance(&mut self, count: usize) {
        for _ in 0..count {
            let Some((_, rest)) = decode(self.bytes) else { return };
            self.bytes = rest;
        }
    }
}

impl<'s> Iterator for CompactEntries<'s> {
    type Item = (&'s [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        let (entry, rest) = decode(self.bytes)?;
        self.bytes = rest;
        Some(entry)
    }
}
