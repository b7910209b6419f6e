use proptest::prelude::*;

use super::*;

/// Asserts that the tree has these scores, and that the counts and the first entries in its
/// branches are right.
fn check(tree: &RankedTree, model: &[f64]) {
    assert_eq!(tree.len(), model.len());
    let entries: Vec<f64> = tree.range(0..usize::MAX).map(|entry| entry.score).collect();
    assert_eq!(entries, model);
    check_node(tree, tree.root, tree.height);
}

/// Returns the number of entries below a node.
fn check_node(tree: &RankedTree, node: u32, height: u32) -> usize {
    if height == 0 {
        return tree.leaves.get(node).len;
    }
    let branch = tree.branches.get(node);
    assert!(branch.len > 0, "no branch is empty");
    for slot in 0..branch.len {
        let child = tree.child(branch.children[slot], height - 1);
        assert_eq!(branch.first(slot), child.first);
        let count = check_node(tree, child.node, height - 1);
        assert!(count > 0, "no child is empty");
        assert_eq!(branch.counts[slot] as usize, count);
    }
    branch.count(0..branch.len)
}

#[test]
fn sorted_insertion_fills_the_leaves_of_the_tree() {
    let mut tree = RankedTree::default();
    for number in 0..10_000 {
        tree.insert(number, RankedEntry { score: number as f64, member: number as u32 });
    }
    let model: Vec<f64> = (0..10_000).map(f64::from).collect();
    check(&tree, &model);
    // A leaf has 64 entries of 12 bytes.
    assert!(tree.allocated_bytes() < 10_000 * 14, "{}", tree.allocated_bytes());
    for start in [0, 1, 63, 64, 65, 5000, 9999, 10_000] {
        let backwards: Vec<f64> = tree.range(start..9000).rev().map(|entry| entry.score).collect();
        let expected: Vec<f64> = (start..9000).rev().map(|number| number as f64).collect();
        assert_eq!(backwards, expected);
        assert_eq!(tree.rank_where(|entry| entry.score < start as f64), start);
    }
}

#[test]
fn a_ranked_tree_releases_the_memory_of_removed_entries() {
    let mut tree = RankedTree::default();
    for number in 0..50_000_u32 {
        let score = f64::from(number.reverse_bits());
        let rank = tree.rank_where(|entry| entry.score < score);
        tree.insert(rank, RankedEntry { score, member: number });
    }
    let full_bytes = tree.allocated_bytes();
    for number in 0..50_000_u32 {
        let score = f64::from(number.reverse_bits());
        let rank = tree.rank_where(|entry| entry.score < score);
        assert_eq!(tree.remove(rank), Some(RankedEntry { score, member: number }));
    }
    check(&tree, &[]);
    assert_eq!(tree.height, 0);
    assert!(tree.allocated_bytes() * 10 < full_bytes, "{} of {full_bytes}", tree.allocated_bytes());
}

proptest! {
    #[test]
    fn a_ranked_tree_agrees_with_a_sorted_sequence(
        grows in prop::collection::vec(0..2000_u16, 0..1500),
        steps in prop::collection::vec((0..8_u8, 0..2000_u16), 0..1500),
    ) {
        let mut tree = RankedTree::default();
        let mut model: Vec<f64> = Vec::new();
        let all = grows.into_iter().map(|number| (7, number)).chain(steps);
        for (step, number) in all {
            let score = f64::from(number);
            let rank = tree.rank_where(|entry| entry.score < score);
            prop_assert_eq!(rank, model.partition_point(|&it| it < score));
            if step > 4 {
                tree.insert(rank, RankedEntry { score, member: 0 });
                model.insert(rank, score);
            } else if rank < model.len() {
                prop_assert_eq!(tree.get(rank).map(|it| it.score), Some(model[rank]));
                tree.remove(rank);
                model.remove(rank);
            } else {
                prop_assert_eq!(tree.remove(rank), None);
            }
        }
        check(&tree, &model);
        while let Some(entry) = tree.remove(tree.len() / 3) {
            prop_assert_eq!(entry.score, model.remove(model.len() / 3));
            if tree.len() % 50 == 0 {
                check(&tree, &model);
            }
        }
    }
}
