//! Sorted sets: members with scores, in the order of the scores.
//!
//! A small set is one allocation ([`compact`]); a larger one has a table and a tree
//! ([`table_and_tree`]). Members with equal scores are in the order of their bytes. A rank is an
//! index in that order.

mod compact;
mod paged_arena;
mod ranked_tree;
mod table_and_tree;

use std::cmp::Ordering;
use std::iter::Rev;
use std::ops::Range;

use compact::{CompactEntries, CompactSortedSet};
use table_and_tree::{IndexedEntries, IndexedSortedSet};

use super::{Collection, StoreValue};
use crate::keyspace::key::KeyHasher;
use crate::prefetch::prefetch_two;

/// Most members of the compact form, as in Redis (`zset-max-listpack-entries`).
pub(crate) const COMPACT_MAX_MEMBERS: usize = 128;
/// Longest member in the compact form, in bytes, as in Redis (`zset-max-listpack-value`).
pub(crate) const COMPACT_MEMBER_MAX_BYTES: usize = 64;

/// A sorted set: unique members with scores.
#[derive(Clone, Debug)]
pub(crate) enum SortedSet {
    /// The compact form: at most [`COMPACT_MAX_MEMBERS`] short members.
    Compact(CompactSortedSet),
    /// The indexed form, for any members.
    Indexed(Box<IndexedSortedSet>),
}

/// The effect of setting a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScoreChange {
    /// The member is new.
    Added,
    /// The member has another score now.
    Updated,
    /// The member had this score before.
    Unchanged,
}

/// Compares two members by their scores, which must not be NaN, and then by their bytes.
pub(crate) fn compare(left: (&[u8], f64), right: (&[u8], f64)) -> Ordering {
    let scores = left.1.partial_cmp(&right.1).unwrap_or(Ordering::Equal);
    scores.then_with(|| left.0.cmp(right.0))
}

impl Default for SortedSet {
    fn default() -> Self {
        Self::Compact(CompactSortedSet::default())
    }
}

impl Collection for SortedSet {
    fn of(value: &StoreValue) -> Option<&Self> {
        match value {
            StoreValue::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    fn of_mut(value: &mut StoreValue) -> Option<&mut Self> {
        match value {
            StoreValue::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    fn into_value(self) -> StoreValue {
        StoreValue::SortedSet(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl SortedSet {
    /// Prefetches the data of the set into the cache of the processor.
    pub(crate) fn prefetch(&self) {
        match self {
            Self::Compact(set) => set.prefetch(),
            Self::Indexed(set) => prefetch_two(&**set),
        }
    }

    /// Returns the number of members.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Compact(set) => set.len(),
            Self::Indexed(set) => set.len(),
        }
    }

    /// Returns the bytes of memory that the set has allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Compact(set) => set.memory_bytes(),
            Self::Indexed(set) => set.memory_bytes(),
        }
    }

    /// Returns the approximate number of allocations of the set.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Self::Compact(_) => 1,
            Self::Indexed(set) => set.len(),
        }
    }

    /// Returns the name of the form for `OBJECT ENCODING`.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Self::Compact(_) => "listpack",
            Self::Indexed(_) => "skiplist",
        }
    }

    /// Returns the score of a member.
    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Compact(set) => set.find(member).map(|(_, score)| score),
            Self::Indexed(set) => set.score(member),
        }
    }

    /// Returns the rank of a member, counted from the lowest score, and its score.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match self {
            Self::Compact(set) => set.find(member),
            Self::Indexed(set) => set.rank(member),
        }
    }

    /// Returns the number of members that satisfy a condition, which must hold for a prefix of the
    /// members only.
    pub(crate) fn rank_where(&self, is_before: impl Fn(&[u8], f64) -> bool) -> usize {
        match self {
            Self::Compact(set) => {
                set.entries().take_while(|&(member, score)| is_before(member, score)).count()
            }
            Self::Indexed(set) => set.rank_where(is_before),
        }
    }

    /// Sets the score of a member, and adds the member if it does not exist. `hasher` is used if
    /// the set changes to the indexed form.
    pub(crate) fn set_score(
        &mut self,
        member: &[u8],
        score: f64,
        hasher: KeyHasher,
    ) -> ScoreChange {
        debug_assert!(!score.is_nan(), "a score is a number");
        if let Self::Compact(set) = self {
            match set.find(member) {
                Some((_, old)) if old == score => return ScoreChange::Unchanged,
                Some(_) => {
                    set.remove(member);
                    set.insert(member, score);
                    return ScoreChange::Updated;
                }
                None if set.has_space_for(member) => {
                    set.insert(member, score);
                    return ScoreChange::Added;
                }
                None => {}
            }
        }
        self.make_indexed(hasher).set_score(member, score)
    }

    /// Converts the set to the indexed form.
    fn make_indexed(&mut self, hasher: KeyHasher) -> &mut IndexedSortedSet {
        if let Self::Compact(compact) = self {
            let mut indexed = IndexedSortedSet::new(hasher);
            for (member, score) in compact.entries() {
                indexed.set_score(member, score);
            }
            *self = Self::Indexed(Box::new(indexed));
        }
        match self {
            Self::Indexed(set) => set,
            Self::Compact(_) => unreachable!("it was just changed"),
        }
    }

    /// Removes a member. Returns its score.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Compact(set) => set.remove(member),
            Self::Indexed(set) => set.remove(member),
        }
    }

    /// Removes the members of a range of ranks. Returns their number. The time grows with that
    /// number.
    pub(crate) fn remove_range(&mut self, ranks: Range<usize>) -> usize {
        let end = ranks.end.min(self.len());
        let start = ranks.start.min(end);
        match self {
            Self::Compact(set) => set.remove_range(start..end),
            Self::Indexed(set) => {
                for rank in (start..end).rev() {
                    set.remove_at(rank);
                }
            }
        }
        end - start
    }

    /// Returns the members of a range of ranks with their scores, in order.
    pub(crate) fn range(&self, ranks: Range<usize>) -> SortedSetEntries<'_> {
        let end = ranks.end.min(self.len());
        let ranks = ranks.start.min(end)..end;
        match self {
            Self::Compact(set) => {
                let mut entries = set.entries();
                entries.advance(ranks.start);
                SortedSetEntries::Compact { entries, count: ranks.len() }
            }
            Self::Indexed(set) => SortedSetEntries::Indexed(set.range(ranks)),
        }
    }

    /// Returns the members of a range of ranks in the reverse order.
    pub(crate) fn range_reversed(&self, ranks: Range<usize>) -> ReversedEntries<'_> {
        let end = ranks.end.min(self.len());
        let ranks = ranks.start.min(end)..end;
        match self {
            Self::Compact(set) => {
                let entries: Vec<_> = set.entries().take(ranks.end).skip(ranks.start).collect();
                ReversedEntries::Compact(entries.into_iter().rev())
            }
            Self::Indexed(set) => ReversedEntries::Indexed(set.range(ranks).rev()),
        }
    }

    /// Returns all members with their scores, in order.
    pub(crate) fn iter(&self) -> SortedSetEntries<'_> {
        self.range(0..self.len())
    }

    /// Visits members for `ZSCAN`, as `SegmentTable::visit_from` does. All members of the compact
    /// form are visited in one step.
    pub(crate) fn visit_from(
        &self,
        start: u64,
        count: usize,
        mut visit: impl FnMut(&[u8], f64),
    ) -> Option<u64> {
        match self {
            Self::Compact(set) => {
                set.entries().for_each(|(member, score)| visit(member, score));
                None
            }
            Self::Indexed(set) => set.visit_from(start, count, visit),
        }
    }
}

/// An iterator over members of a sorted set with their scores.
#[derive(Debug)]
pub(crate) enum SortedSetEntries<'s> {
    /// The next `count` entries of the compact form.
    Compact { entries: CompactEntries<'s>, count: usize },
    /// Entries of the indexed form.
    Indexed(IndexedEntries<'s>),
}

impl<'s> Iterator for SortedSetEntries<'s> {
    type Item = (&'s [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Compact { entries, count } => {
                *count = count.checked_sub(1)?;
                entries.next()
            }
            Self::Indexed(entries) => entries.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Compact { count, .. } => (*count, Some(*count)),
            Self::Indexed(entries) => entries.size_hint(),
        }
    }
}

impl ExactSizeIterator for SortedSetEntries<'_> {}

/// An iterator over members of a sorted set with their scores, in reverse order.
#[derive(Debug)]
pub(crate) enum ReversedEntries<'s> {
    /// Entries of the compact form.
    Compact(Rev<std::vec::IntoIter<(&'s [u8], f64)>>),
    /// Entries of the indexed form.
    Indexed(Rev<IndexedEntries<'s>>),
}

impl<'s> Iterator for ReversedEntries<'s> {
    type Item = (&'s [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Compact(entries) => entries.next(),
            Self::Indexed(entries) => entries.next(),
        }
    }
}

#[cfg(test)]
mod tests;
