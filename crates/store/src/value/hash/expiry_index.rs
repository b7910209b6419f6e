//! An index that finds the fields of a large hash that expire first. It uses about ten bytes for
//! each field.
//!
//! The index identifies fields by their hashes. The hashes are in leaves of some hundred fields
//! each, and the leaves are in the order of expiry. The fields of one leaf are in no order, and
//! their times are only in the fields themselves. So an operation on the index examines one leaf,
//! and a field costs hardly more memory than its hash.

use std::collections::BTreeMap;

use crate::keyspace::allocation_size::allocated_bytes;

/// Most fields of a leaf. A split looks up each field of the leaf, which takes some 20
/// microseconds.
const LEAF_FIELDS_MAX: usize = 512;

/// The lower bound of a leaf: no field of the leaf has a lower pair of time and hash.
type LeafBound = (u64, u64);

/// The fields of a large hash that expire, in leaves ordered by time.
#[derive(Debug, Default)]
pub(super) struct ExpiryIndex {
    leaves: BTreeMap<LeafBound, Vec<u64>>,
    /// The bytes of memory that all leaves occupy.
    leaf_bytes: usize,
    /// The number of fields in all leaves.
    len: usize,
}

impl Clone for ExpiryIndex {
    fn clone(&self) -> Self {
        let leaves = self.leaves.clone();
        // A copied leaf has no space for more fields.
        let leaf_bytes = leaves.values().map(bytes_of).sum();
        Self { leaves, leaf_bytes, len: self.len }
    }
}

/// Returns the bytes of memory that a leaf occupies, including its part of a node of the tree.
fn bytes_of(leaf: &Vec<u64>) -> usize {
    const NODE_BYTES: usize = 64;
    NODE_BYTES + allocated_bytes(leaf.capacity() * size_of::<u64>())
}

impl ExpiryIndex {
    /// Returns a time before which no field expires, or `None` if no field expires at all.
    pub(super) fn earliest_ms(&self) -> Option<u64> {
        self.leaves.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns a lower bound for the expiry of the last field.
    pub(super) fn latest_bound_ms(&self) -> Option<u64> {
        self.leaves.last_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the number of fields.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.leaf_bytes
    }

    /// Adds a field. `expiry_of` returns the expiry of the field with a hash.
    pub(super) fn insert(
        &mut self,
        expiry_ms: u64,
        hash: u64,
        expiry_of: impl Fn(u64) -> Option<u64>,
    ) {
        let (bound, mut leaf) = match self.bound_of(expiry_ms, hash) {
            Some(bound) => (bound, self.take(bound)),
            // The field expires before all others, so it becomes the bound of the first leaf.
            None => match self.leaves.first_key_value().map(|(bound, _)| *bound) {
                Some(first) => ((expiry_ms, hash), self.take(first)),
                None => ((expiry_ms, hash), Vec::new()),
            },
        };
        if leaf.len() == leaf.capacity() {
            leaf.reserve_exact(leaf.len() / 8 + 4);
        }
        leaf.push(hash);
        if leaf.len() > LEAF_FIELDS_MAX {
            let expiry_of = |field: &u64| Some((expiry_of(*field)?, *field));
            let mut fields: Vec<_> = leaf.iter().filter_map(expiry_of).collect();
            fields.sort_unstable();
            let (lower, upper) = fields.split_at(fields.len() / 2);
            if let Some(&first) = upper.first().filter(|&&first| first > bound) {
                self.add_leaf(first, upper.iter().map(|&(_, field)| field).collect());
                leaf = lower.iter().map(|&(_, field)| field).collect();
            }
        }
        self.add_leaf(bound, leaf);
    }

    /// Removes a field that expires at this time.
    pub(super) fn remove(&mut self, expiry_ms: u64, hash: u64) {
        let Some(bound) = self.bound_of(expiry_ms, hash) else { return };
        let Some(leaf) = self.leaves.get_mut(&bound) else { return };
        let Some(index) = leaf.iter().position(|&field| field == hash) else { return };
        if leaf.len() == 1 {
            self.take(bound);
            return;
        }
        let before = bytes_of(leaf);
        leaf.swap_remove(index);
        if leaf.len() * 2 < leaf.capacity() {
            leaf.shrink_to_fit();
        }
        self.leaf_bytes = self.leaf_bytes - before + bytes_of(leaf);
        self.len -= 1;
    }

    /// Removes the first leaf and returns its fields, if some of them may have expired.
    pub(super) fn take_due_leaf(&mut self, now_ms: u64) -> Option<Vec<u64>> {
        let (&bound, _) = self.leaves.first_key_value()?;
        (bound.0 <= now_ms).then(|| self.take(bound))
    }

    /// Puts a leaf back that [`Self::take_due_leaf`] has removed, with a lower bound of its fields.
    pub(super) fn put_back(&mut self, bound: LeafBound, leaf: Vec<u64>) {
        self.add_leaf(bound, leaf);
    }

    /// Returns the number of fields that have expired. `expiry_of` returns the expiry of the field
    /// with a hash.
    pub(super) fn expired_count(
        &self,
        now_ms: u64,
        expiry_of: impl Fn(u64) -> Option<u64>,
    ) -> usize {
        let mut due = self.leaves.range(..=(now_ms, u64::MAX)).map(|(_, leaf)| leaf);
        // All leaves but the last one come before a leaf whose bound is not later than now, so all
        // their fields have expired.
        let Some(last) = due.next_back() else { return 0 };
        let has_expired = |&&field: &&u64| expiry_of(field).is_some_and(|at| at <= now_ms);
        last.iter().filter(has_expired).count() + due.map(Vec::len).sum::<usize>()
    }

    /// Returns the bound of the leaf that contains a field.
    fn bound_of(&self, expiry_ms: u64, hash: u64) -> Option<LeafBound> {
        self.leaves.range(..=(expiry_ms, hash)).next_back().map(|(bound, _)| *bound)
    }

    fn take(&mut self, bound: LeafBound) -> Vec<u64> {
        let leaf = self.leaves.remove(&bound).unwrap_or_default();
        self.leaf_bytes -= bytes_of(&leaf);
        self.len -= leaf.len();
        leaf
    }

    fn add_leaf(&mut self, bound: LeafBound, leaf: Vec<u64>) {
        self.leaf_bytes += bytes_of(&leaf);
        self.len += leaf.len();
        self.leaves.insert(bound, leaf);
    }

    /// Returns all fields, with the bound of their leaf and the one of the next leaf.
    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = ((LeafBound, LeafBound), u64)> {
        let last = (u64::MAX, u64::MAX);
        let nexts = self.leaves.keys().copied().skip(1).chain([last]);
        self.leaves.iter().zip(nexts).flat_map(|((&bound, leaf), next)| {
            leaf.iter().map(move |&field| ((bound, next), field))
        })
    }
}
