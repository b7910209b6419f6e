use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn hasher() -> KeyHasher {
    KeyHasher::new([3; 16])
}

/// Returns the members of a model in order.
fn sorted(model: &HashMap<Vec<u8>, f64>) -> Vec<(&[u8], f64)> {
    let mut entries: Vec<_> = model.iter().map(|(member, &score)| (&member[..], score)).collect();
    entries.sort_by(|left, right| compare(*left, *right));
    entries
}

fn check(set: &SortedSet, model: &HashMap<Vec<u8>, f64>) {
    let expected = sorted(model);
    assert_eq!(set.len(), expected.len());
    assert_eq!(set.iter().collect::<Vec<_>>(), expected);
    let mut reversed: Vec<_> = set.range_reversed(0..set.len()).collect();
    reversed.reverse();
    assert_eq!(reversed, expected);
    for (rank, &(member, score)) in expected.iter().enumerate() {
        assert_eq!(set.rank(member), Some((rank, score)));
        assert_eq!(set.score(member), Some(score));
        let rank_where = set.rank_where(|it, at| compare((it, at), (member, score)).is_lt());
        assert_eq!(rank_where, rank);
    }
    let mut visited = HashMap::new();
    let mut cursor = Some(0);
    while let Some(start) = cursor {
        cursor = set.visit_from(start, 10, |member, score| {
            assert_eq!(visited.insert(member.to_vec(), score), None);
        });
    }
    assert_eq!(visited, *model);
    match set {
        SortedSet::Compact(_) => assert!(set.len() <= COMPACT_MAX_MEMBERS),
        SortedSet::Indexed(set) => set.check(),
    }
}

#[test]
fn scores_keep_all_their_bits() {
    let mut set = SortedSet::default();
    let scores = [0.0, 1.0, -1.0, 127.0, 128.0, -129.0, 32768.0, -40_000.0, 2147483648.0];
    let others = [0.1, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -2.5e-10];
    for (number, score) in scores.into_iter().chain(others).enumerate() {
        let member = number.to_string();
        set.set_score(member.as_bytes(), score, hasher());
        let stored = set.score(member.as_bytes()).map(f64::to_bits);
        assert_eq!(stored, Some(score.to_bits()), "{score}");
    }
    assert_eq!(set.encoding(), "listpack");
}

#[test]
fn a_large_sorted_set_leaves_its_compact_form() {
    let mut set = SortedSet::default();
    for number in 0..COMPACT_MAX_MEMBERS {
        set.set_score(number.to_string().as_bytes(), 1.0, hasher());
    }
    assert_eq!(set.encoding(), "listpack");
    set.set_score(b"one more", 2.0, hasher());
    assert_eq!(set.encoding(), "skiplist");
    let mut set = SortedSet::default();
    set.set_score(&[b'x'; COMPACT_MEMBER_MAX_BYTES], 1.0, hasher());
    assert_eq!(set.encoding(), "listpack");
    set.set_score(&[b'x'; COMPACT_MEMBER_MAX_BYTES + 1], 1.0, hasher());
    assert_eq!(set.encoding(), "skiplist");
    assert_eq!(set.len(), 2);
}

#[test]
fn a_member_of_a_large_set_takes_less_memory_than_in_redis() {
    let mut set = SortedSet::default();
    const MEMBERS: u32 = 20_000;
    for number in 0..MEMBERS {
        let member = format!("member:{number:06}");
        set.set_score(member.as_bytes(), f64::from(number.reverse_bits()), hasher());
    }
    let bytes = set.memory_bytes() / MEMBERS as usize;
    // redis-server 7.0.15 has 95 bytes for each of these members (MEMORY USAGE with SAMPLES 0).
    assert!(bytes < 95, "{bytes}");
}

proptest! {
    #[test]
    fn a_sorted_set_agrees_with_an_ordered_map(
        steps in prop::collection::vec((0..10_u8, 0..400_u16, -20..20_i8), 0..700),
        removed in (0..500_usize, 0..100_usize),
        is_long in any::<bool>(),
    ) {
        let mut set = SortedSet::default();
        let mut model = HashMap::new();
        for (step, name, score) in steps {
            let mut member = name.to_string().into_bytes();
            if is_long {
                member.resize(70, b'.');
            }
            let score = f64::from(score) / 2.0;
            if step < 7 {
                let change = set.set_score(&member, score, hasher());
                let expected = match model.insert(member, score) {
                    None => ScoreChange::Added,
                    Some(old) if old == score => ScoreChange::Unchanged,
                    Some(_) => ScoreChange::Updated,
                };
                prop_assert_eq!(change, expected);
            } else {
                prop_assert_eq!(set.remove(&member), model.remove(&member));
            }
        }
        check(&set, &model);
        let copy = set.clone();
        let (start, count) = removed;
        let entries = sorted(&model);
        let range = start.min(entries.len())..(start + count).min(entries.len());
        let gone: Vec<_> = entries[range].iter().map(|(member, _)| member.to_vec()).collect();
        prop_assert_eq!(set.remove_range(start..start + count), gone.len());
        let whole = model.clone();
        for member in gone {
            model.remove(&member);
        }
        check(&set, &model);
        check(&copy, &whole);
    }
}
