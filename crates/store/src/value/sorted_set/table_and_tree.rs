//! The indexed form of a sorted set: an arena of members with their scores, a table that finds
//! members by their bytes, and a tree that has them in order. The table and the tree hold the
//! numbers of members.

use std::cmp::Ordering;
use std::ops::Range;

use super::ScoreChange;
use super::paged_arena::PagedArena;
use super::ranked_tree::{RankedEntry, RankedRange, RankedTree};
use crate::keyspace::allocation_size::allocated_bytes;
use crate::keyspace::key::KeyHasher;
use crate::keyspace::segment_table::SegmentTable;

/// A sorted set of any size. A change of one member moves at most a few pages of memory.
#[derive(Clone, Debug)]
pub(crate) struct IndexedSortedSet {
    members: PagedArena<Member, MEMBERS_OF_PAGE>,
    table: SegmentTable<u32>,
    order: RankedTree,
    hasher: KeyHasher,
    /// The bytes of memory that the texts of all members occupy.
    text_bytes: usize,
}

/// The number of members in one page of the arena, which has 6 KiB.
const MEMBERS_OF_PAGE: usize = 256;

#[derive(Clone, Debug)]
struct Member {
    bytes: Box<[u8]>,
    score: f64,
}

impl IndexedSortedSet {
    pub(super) fn new(hasher: KeyHasher) -> Self {
        Self {
            members: PagedArena::default(),
            table: SegmentTable::default(),
            order: RankedTree::default(),
            hasher,
            text_bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        allocated_bytes(size_of::<Self>())
            + self.members.allocated_bytes()
            + self.table.allocated_bytes()
            + self.order.allocated_bytes()
            + self.text_bytes
    }

    /// Returns the number of a member.
    fn find(&self, bytes: &[u8]) -> Option<u32> {
        let is_match = |&number: &u32| *self.members.get(number).bytes == *bytes;
        self.table.find(self.hasher.hash(bytes), is_match).copied()
    }

    fn hash_of(&self, number: u32) -> u64 {
        self.hasher.hash(&self.members.get(number).bytes)
    }

    pub(super) fn score(&self, bytes: &[u8]) -> Option<f64> {
        self.find(bytes).map(|number| self.members.get(number).score)
    }

    pub(super) fn rank(&self, bytes: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(bytes)?;
        Some((self.rank_of(bytes, score), score))
    }

    /// Returns the rank that a member with this score has, or would have.
    fn rank_of(&self, bytes: &[u8], score: f64) -> usize {
        self.order.rank_where(|entry| match entry.score.partial_cmp(&score) {
            // The text of a member is only read if the scores are equal.
            Some(Ordering::Less) => true,
            Some(Ordering::Greater) => false,
            _ => *self.members.get(entry.member).bytes < *bytes,
        })
    }

    pub(super) fn rank_where(&self, is_before: impl Fn(&[u8], f64) -> bool) -> usize {
        self.order.rank_where(|entry| is_before(&self.members.get(entry.member).bytes, entry.score))
    }

    pub(super) fn set_score(&mut self, bytes: &[u8], score: f64) -> ScoreChange {
        let Some(number) = self.find(bytes) else {
            self.add(bytes, score);
            return ScoreChange::Added;
        };
        let old = self.members.get(number).score;
        if old == score {
            return ScoreChange::Unchanged;
        }
        self.order.remove(self.rank_of(bytes, old));
        self.members.get_mut(number).score = score;
        self.order.insert(self.rank_of(bytes, score), RankedEntry { score, member: number });
        ScoreChange::Updated
    }

    fn add(&mut self, bytes: &[u8], score: f64) {
        let rank = self.rank_of(bytes, score);
        let number = self.members.insert(Member { bytes: bytes.into(), score });
        self.text_bytes += allocated_bytes(bytes.len());
        self.order.insert(rank, RankedEntry { score, member: number });
        let (members, hasher) = (&self.members, self.hasher);
        let hash_of = |&number: &u32| hasher.hash(&members.get(number).bytes);
        self.table.insert(hasher.hash(bytes), number, hash_of);
    }

    pub(super) fn remove(&mut self, bytes: &[u8]) -> Option<f64> {
        let (rank, score) = self.rank(bytes)?;
        self.remove_at(rank);
        Some(score)
    }

    /// Removes the member at a rank.
    pub(super) fn remove_at(&mut self, rank: usize) {
        let Some(RankedEntry { member: number, .. }) = self.order.remove(rank) else { return };
        let hash = self.hash_of(number);
        let (members, hasher) = (&self.members, self.hasher);
        let hash_of = |&number: &u32| hasher.hash(&members.get(number).bytes);
        self.table.remove(hash, |&it| it == number, hash_of);
        if let Some(member) = self.members.remove(number) {
            self.text_bytes -= allocated_bytes(member.bytes.len());
        }
    }

    pub(super) fn range(&self, ranks: Range<usize>) -> IndexedEntries<'_> {
        IndexedEntries { members: &self.members, order: self.order.range(ranks) }
    }

    pub(super) fn visit_from(
        &self,
        start: u64,
        count: usize,
        mut visit: impl FnMut(&[u8], f64),
    ) -> Option<u64> {
        let hash_of = |&number: &u32| self.hash_of(number);
        self.table.visit_from(start, count, hash_of, |&number| {
            let member = self.members.get(number);
            visit(&member.bytes, member.score);
        })
    }

    /// Asserts that the arena, the table and the tree are consistent.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.table.len(), self.len());
        let entries: Vec<_> = self.range(0..self.len()).collect();
        assert!(
            entries.is_sorted_by(|left, right| super::compare(*left, *right) == Ordering::Less)
        );
        for entry in self.order.range(0..self.len()) {
            let member = self.members.get(entry.member);
            assert_eq!(self.find(&member.bytes), Some(entry.member));
            assert_eq!(member.score.to_bits(), entry.score.to_bits());
        }
        let texts = entries.iter().map(|(bytes, _)| allocated_bytes(bytes.len()));
        assert_eq!(self.text_bytes, texts.sum::<usize>());
    }
}

/// An iterator over members of the indexed form with their scores, from both ends.
#[derive(Debug)]
pub(crate) struct IndexedEntries<'s> {
    members: &'s PagedArena<Member, MEMBERS_OF_PAGE>,
    order: RankedRange<'s>,
}

impl<'s> IndexedEntries<'s> {
    fn entry(&self, entry: RankedEntry) -> (&'s [u8], f64) {
        (&self.members.get(entry.member).bytes, entry.score)
    }
}

impl<'s> Iterator for IndexedEntries<'s> {
    type Item = (&'s [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.order.next()?;
        Some(self.entry(entry))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.order.size_hint()
    }
}

impl DoubleEndedIterator for IndexedEntries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.order.next_back()?;
        Some(self.entry(entry))
    }
}

impl ExactSizeIterator for IndexedEntries<'_> {}
