//! A B+ tree that holds members in the order of their scores. Its branches count the entries of
//! each child, so it finds entries by rank.
//!
//! An entry is a score and the number of a member. The tree is changed at ranks. A rank is found by
//! a condition that holds for a prefix of the entries and for none after it, so the tree needs no
//! comparison of its own. Each of these operations takes logarithmic time in the number of entries.

use std::ops::Range;

use super::paged_arena::PagedArena;

/// Most entries of a leaf, and most children of a branch.
const CAPACITY: usize = 64;
/// A node with fewer entries is merged with a neighbour if both fit into [`MERGED_MAX`].
const MERGED_MIN: usize = CAPACITY / 4;
/// Most entries of a node that was merged, so that the next insertion does not split it.
const MERGED_MAX: usize = CAPACITY * 3 / 4;

/// An entry: a score, and the number of the member that has the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RankedEntry {
    pub(super) score: f64,
    pub(super) member: u32,
}

/// A sequence of entries that is searched by conditions and changed at ranks.
#[derive(Clone, Debug)]
pub(super) struct RankedTree {
    leaves: PagedArena<Leaf, 32>,
    branches: PagedArena<Branch, 16>,
    root: u32,
    /// The number of branches above each leaf.
    height: u32,
    len: usize,
}

/// A leaf: consecutive entries.
#[derive(Clone, Debug)]
struct Leaf {
    len: usize,
    scores: [f64; CAPACITY],
    members: [u32; CAPACITY],
}

/// A branch: consecutive nodes, each with its number of entries and its first entry.
#[derive(Clone, Debug)]
struct Branch {
    len: usize,
    children: [u32; CAPACITY],
    counts: [u32; CAPACITY],
    first_scores: [f64; CAPACITY],
    first_members: [u32; CAPACITY],
}

/// The data that a branch has of one child.
#[derive(Clone, Copy, Debug)]
struct Child {
    node: u32,
    count: u32,
    first: RankedEntry,
}

/// Inserts a value into the first `len` elements of an array that has space for it.
fn insert_into<T: Copy>(array: &mut [T; CAPACITY], len: usize, at: usize, value: T) {
    array.copy_within(at..len, at + 1);
    array[at] = value;
}

/// Returns the number of the first `len` indices that satisfy a condition, which must hold for a
/// prefix of them only.
fn partition_point(len: usize, mut is_before: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl Leaf {
    fn new() -> Self {
        Self { len: 0, scores: [0.0; CAPACITY], members: [0; CAPACITY] }
    }

    fn entry(&self, at: usize) -> RankedEntry {
        RankedEntry { score: self.scores[at], member: self.members[at] }
    }

    fn insert(&mut self, at: usize, entry: RankedEntry) {
        insert_into(&mut self.scores, self.len, at, entry.score);
        insert_into(&mut self.members, self.len, at, entry.member);
        self.len += 1;
    }

    fn remove(&mut self, at: usize) -> RankedEntry {
        let entry = self.entry(at);
        self.scores.copy_within(at + 1..self.len, at);
        self.members.copy_within(at + 1..self.len, at);
        self.len -= 1;
        entry
    }

    /// Moves the entries from `at` on into a new leaf.
    fn split_off(&mut self, at: usize) -> Self {
        let mut upper = Self::new();
        upper.append(self, at..self.len);
        self.len = at;
        upper
    }

    /// Appends a range of the entries of another leaf. The leaf must have space for them.
    fn append(&mut self, other: &Self, range: Range<usize>) {
        let target = self.len..self.len + range.len();
        self.len = target.end;
        self.scores[target.clone()].copy_from_slice(&other.scores[range.clone()]);
        self.members[target].copy_from_slice(&other.members[range]);
    }
}

impl Branch {
    fn new() -> Self {
        Self {
            len: 0,
            children: [0; CAPACITY],
            counts: [0; CAPACITY],
            first_scores: [0.0; CAPACITY],
            first_members: [0; CAPACITY],
        }
    }

    fn first(&self, slot: usize) -> RankedEntry {
        RankedEntry { score: self.first_scores[slot], member: self.first_members[slot] }
    }

    fn count(&self, slots: Range<usize>) -> usize {
        self.counts[slots].iter().map(|&count| count as usize).sum()
    }

    fn set(&mut self, slot: usize, child: Child) {
        self.children[slot] = child.node;
        self.counts[slot] = child.count;
        self.first_scores[slot] = child.first.score;
        self.first_members[slot] = child.first.member;
    }

    fn insert(&mut self, slot: usize, child: Child) {
        insert_into(&mut self.children, self.len, slot, child.node);
        insert_into(&mut self.counts, self.len, slot, child.count);
        insert_into(&mut self.first_scores, self.len, slot, child.first.score);
        insert_into(&mut self.first_members, self.len, slot, child.first.member);
        self.len += 1;
    }

    fn remove(&mut self, slot: usize) {
        self.children.copy_within(slot + 1..self.len, slot);
        self.counts.copy_within(slot + 1..self.len, slot);
        self.first_scores.copy_within(slot + 1..self.len, slot);
        self.first_members.copy_within(slot + 1..self.len, slot);
        self.len -= 1;
    }

    /// Moves the children from `slot` on into a new branch.
    fn split_off(&mut self, slot: usize) -> Self {
        let mut upper = Self::new();
        upper.append(self, slot..self.len);
        self.len = slot;
        upper
    }

    /// Appends a range of the children of another branch. The branch must have space for them.
    fn append(&mut self, other: &Self, range: Range<usize>) {
        let target = self.len..self.len + range.len();
        self.len = target.end;
        self.children[target.clone()].copy_from_slice(&other.children[range.clone()]);
        self.counts[target.clone()].copy_from_slice(&other.counts[range.clone()]);
        self.first_scores[target.clone()].copy_from_slice(&other.first_scores[range.clone()]);
        self.first_members[target].copy_from_slice(&other.first_members[range]);
    }

    /// Returns the child that has the entry at a rank, and the rank within the child. A rank at the
    /// end leads to the end of the last child.
    fn child_at(&self, mut rank: usize) -> (usize, usize) {
        let mut slot = 0;
        while slot + 1 < self.len && rank >= self.counts[slot] as usize {
            rank -= self.counts[slot] as usize;
            slot += 1;
        }
        (slot, rank)
    }
}

impl Default for RankedTree {
    fn default() -> Self {
        let mut leaves = PagedArena::default();
        let root = leaves.insert(Leaf::new());
        Self { leaves, branches: PagedArena::default(), root, height: 0, len: 0 }
    }
}

impl RankedTree {
    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of memory that the tree has allocated.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.leaves.allocated_bytes() + self.branches.allocated_bytes()
    }

    /// Returns the rank of the first entry that does not satisfy a condition, which must hold for a
    /// prefix of the entries only. This is the number of entries that satisfy it.
    pub(super) fn rank_where(&self, is_before: impl Fn(RankedEntry) -> bool) -> usize {
        let (mut rank, mut node) = (0, self.root);
        for _ in 0..self.height {
            let branch = self.branches.get(node);
            // The rank is within, or at the end of, the last child whose first entry satisfies the
            // condition.
            let slot = partition_point(branch.len, |slot| is_before(branch.first(slot)));
            let slot = slot.saturating_sub(1);
            rank += branch.count(0..slot);
            node = branch.children[slot];
        }
        let leaf = self.leaves.get(node);
        rank + partition_point(leaf.len, |at| is_before(leaf.entry(at)))
    }

    /// Returns the leaf that has the entry at a rank, and its index in it.
    fn leaf_at(&self, mut rank: usize) -> (&Leaf, usize) {
        let mut node = self.root;
        for _ in 0..self.height {
            let branch = self.branches.get(node);
            let (slot, rank_in_child) = branch.child_at(rank);
            node = branch.children[slot];
            rank = rank_in_child;
        }
        (self.leaves.get(node), rank)
    }

    /// Returns the entry at a rank.
    #[cfg(test)]
    fn get(&self, rank: usize) -> Option<RankedEntry> {
        let (leaf, at) = self.leaf_at(rank);
        (at < leaf.len).then(|| leaf.entry(at))
    }

    /// Returns the entries of a range of ranks.
    pub(super) fn range(&self, ranks: Range<usize>) -> RankedRange<'_> {
        let end = ranks.end.min(self.len);
        RankedRange { tree: self, ranks: ranks.start.min(end)..end, front: None, back: None }
    }

    /// Inserts an entry at a rank that is at most the number of entries.
    pub(super) fn insert(&mut self, rank: usize, entry: RankedEntry) {
        debug_assert!(rank <= self.len, "a rank is at most the number of entries");
        self.len += 1;
        let Some(sibling) = self.insert_below(self.root, self.height, rank, entry) else { return };
        let mut root = Branch::new();
        root.insert(0, self.child(self.root, self.height));
        root.insert(1, self.child(sibling, self.height));
        self.root = self.branches.insert(root);
        self.height += 1;
    }

    /// Inserts an entry below a node. If the node was split, returns the new node that follows it.
    fn insert_below(
        &mut self,
        node: u32,
        height: u32,
        rank: usize,
        entry: RankedEntry,
    ) -> Option<u32> {
        if height == 0 {
            return self.insert_into_leaf(node, rank, entry);
        }
        let branch = self.branches.get(node);
        let (slot, rank) = branch.child_at(rank);
        let child = branch.children[slot];
        let sibling = self.insert_below(child, height - 1, rank, entry);
        let child = self.child(child, height - 1);
        self.branches.get_mut(node).set(slot, child);
        let sibling = self.child(sibling?, height - 1);
        self.insert_into_branch(node, slot + 1, sibling)
    }

    fn insert_into_leaf(&mut self, node: u32, rank: usize, entry: RankedEntry) -> Option<u32> {
        let leaf = self.leaves.get_mut(node);
        if leaf.len < CAPACITY {
            leaf.insert(rank, entry);
            return None;
        }
        // An entry at the end starts a new leaf, so members that are added in order leave full
        // leaves.
        let kept = if rank == CAPACITY { CAPACITY } else { CAPACITY / 2 };
        let mut upper = leaf.split_off(kept);
        if rank < kept {
            leaf.insert(rank, entry);
        } else {
            upper.insert(rank - kept, entry);
        }
        Some(self.leaves.insert(upper))
    }

    fn insert_into_branch(&mut self, node: u32, slot: usize, child: Child) -> Option<u32> {
        let branch = self.branches.get_mut(node);
        if branch.len < CAPACITY {
            branch.insert(slot, child);
            return None;
        }
        let kept = if slot == CAPACITY { CAPACITY } else { CAPACITY / 2 };
        let mut upper = branch.split_off(kept);
        if slot < kept {
            branch.insert(slot, child);
        } else {
            upper.insert(slot - kept, child);
        }
        Some(self.branches.insert(upper))
    }

    /// Returns the data that a branch holds of a node.
    fn child(&self, node: u32, height: u32) -> Child {
        if height == 0 {
            let leaf = self.leaves.get(node);
            return Child { node, count: leaf.len as u32, first: leaf.entry(0) };
        }
        let branch = self.branches.get(node);
        Child { node, count: branch.count(0..branch.len) as u32, first: branch.first(0) }
    }

    /// Removes the entry at a rank.
    pub(super) fn remove(&mut self, rank: usize) -> Option<RankedEntry> {
        if rank >= self.len {
            return None;
        }
        let entry = self.remove_below(self.root, self.height, rank);
        self.len -= 1;
        while self.height > 0 && self.branches.get(self.root).len == 1 {
            let root = self.branches.get(self.root).children[0];
            self.branches.remove(self.root);
            self.root = root;
            self.height -= 1;
        }
        Some(entry)
    }

    fn remove_below(&mut self, node: u32, height: u32, rank: usize) -> RankedEntry {
        if height == 0 {
            return self.leaves.get_mut(node).remove(rank);
        }
        let branch = self.branches.get(node);
        let (slot, rank) = branch.child_at(rank);
        let child = branch.children[slot];
        let entry = self.remove_below(child, height - 1, rank);
        let child_len = self.node_len(child, height - 1);
        if child_len > 0 {
            let child = self.child(child, height - 1);
            self.branches.get_mut(node).set(slot, child);
        }
        if child_len < MERGED_MIN {
            self.merge_child(node, height, slot);
        }
        entry
    }

    fn node_len(&self, node: u32, height: u32) -> usize {
        if height == 0 { self.leaves.get(node).len } else { self.branches.get(node).len }
    }

    /// Moves the entries of a child to the previous or the next child, if they fit there.
    fn merge_child(&mut self, node: u32, height: u32, slot: usize) {
        let branch = self.branches.get(node);
        let is_mergeable = |lower: usize| {
            let pair = branch.children[..branch.len].get(lower..lower + 2)?;
            let sum = pair.iter().map(|&child| self.node_len(child, height - 1)).sum::<usize>();
            (sum <= MERGED_MAX).then_some((lower, pair[0], pair[1]))
        };
        let before = slot.checked_sub(1).and_then(is_mergeable);
        let Some((lower, kept, merged)) = before.or_else(|| is_mergeable(slot)) else {
            // An empty child has no first entry, so it must be removed.
            if self.node_len(branch.children[slot], height - 1) == 0 {
                self.free(branch.children[slot], height - 1);
                self.branches.get_mut(node).remove(slot);
            }
            return;
        };
        if height == 1 {
            if let Some(merged) = self.leaves.remove(merged) {
                self.leaves.get_mut(kept).append(&merged, 0..merged.len);
            }
        } else if let Some(merged) = self.branches.remove(merged) {
            self.branches.get_mut(kept).append(&merged, 0..merged.len);
        }
        let child = self.child(kept, height - 1);
        let branch = self.branches.get_mut(node);
        branch.remove(lower + 1);
        branch.set(lower, child);
    }

    fn free(&mut self, node: u32, height: u32) {
        if height == 0 {
            self.leaves.remove(node);
        } else {
            self.branches.remove(node);
        }
    }
}

/// An iterator over the entries of a range of ranks, from both ends.
#[derive(Debug)]
pub(super) struct RankedRange<'t> {
    tree: &'t RankedTree,
    ranks: Range<usize>,
    /// The leaf of the next entry and its index.
    front: Option<(&'t Leaf, usize)>,
    back: Option<(&'t Leaf, usize)>,
}

impl Iterator for RankedRange<'_> {
    type Item = RankedEntry;

    fn next(&mut self) -> Option<RankedEntry> {
        let rank = self.ranks.next()?;
        let (leaf, at) = match self.front {
            Some((leaf, at)) if at < leaf.len => (leaf, at),
            _ => self.tree.leaf_at(rank),
        };
        self.front = Some((leaf, at + 1));
        Some(leaf.entry(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}

impl DoubleEndedIterator for RankedRange<'_> {
    fn next_back(&mut self) -> Option<RankedEntry> {
        let rank = self.ranks.next_back()?;
        let (leaf, at) = match self.back {
            Some((leaf, at)) if at > 0 => (leaf, at - 1),
            _ => self.tree.leaf_at(rank),
        };
        self.back = Some((leaf, at));
        Some(leaf.entry(at))
    }
}

impl ExactSizeIterator for RankedRange<'_> {}

#[cfg(test)]
mod tests;
