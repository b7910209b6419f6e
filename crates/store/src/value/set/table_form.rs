//! The table form of a set, for large sets.

use super::Member;
use crate::keyspace::allocation_size::allocated_bytes;
use crate::keyspace::key::KeyHasher;
use crate::keyspace::segment_table::SegmentTable;

/// A large set: a table of members.
#[derive(Clone, Debug, Default)]
pub(super) struct TableMembers {
    table: SegmentTable<MemberText>,
    /// The bytes of memory that all members occupy, without the table.
    member_bytes: usize,
}

/// The bytes of one member.
#[derive(Clone, Debug)]
pub(super) struct MemberText(Box<[u8]>);

impl MemberText {
    pub(super) fn member(&self) -> Member<'_> {
        Member::Text(&self.0)
    }
}

impl TableMembers {
    pub(super) fn table(&self) -> &SegmentTable<MemberText> {
        &self.table
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.table.allocated_bytes() + self.member_bytes
    }

    pub(super) fn hash_of(hasher: KeyHasher) -> impl Fn(&MemberText) -> u64 {
        move |member| hasher.hash(&member.0)
    }

    pub(super) fn contains(&self, member: &[u8], hasher: KeyHasher) -> bool {
        self.table.find(hasher.hash(member), |other| *other.0 == *member).is_some()
    }

    /// Adds a member. Returns whether it is new.
    pub(super) fn insert(&mut self, member: &[u8], hasher: KeyHasher) -> bool {
        let is_new = !self.contains(member, hasher);
        if is_new {
            self.member_bytes += allocated_bytes(member.len());
            self.table.insert(
                hasher.hash(member),
                MemberText(member.into()),
                Self::hash_of(hasher),
            );
        }
        is_new
    }

    /// Removes a member. Returns whether it existed.
    pub(super) fn remove(&mut self, member: &[u8], hasher: KeyHasher) -> bool {
        let is_match = |other: &MemberText| *other.0 == *member;
        let removed = self.table.remove(hasher.hash(member), is_match, Self::hash_of(hasher));
        self.member_bytes -= removed.as_ref().map_or(0, |member| allocated_bytes(member.0.len()));
        removed.is_some()
    }
}
