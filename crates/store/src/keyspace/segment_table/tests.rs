use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// Returns a hash of a number with well distributed bits.
fn hash_of(number: &u64) -> u64 {
    siphasher::sip::SipHasher13::new().hash(&number.to_le_bytes())
}

/// Asserts the invariants that hold between all operations.
fn check(table: &SegmentTable<u64>) {
    assert_eq!(table.directory.len(), 1 << table.depth);
    let buckets = table.segments.iter().map(|segment| segment.table.num_buckets());
    assert!(buckets.max() <= Some(SEGMENT_BUCKETS_MAX));
    let mut counted = 0;
    let mut bytes = 0;
    for (index, segment) in table.segments.iter().enumerate() {
        let slots: Vec<_> = (0..table.directory.len())
            .filter(|&at| table.directory[at] as usize == index)
            .collect();
        bytes += segment.table.allocation_size();
        if table.unused.contains(&(index as u32)) {
            assert!(slots.is_empty() && segment.table.is_empty());
            continue;
        }
        assert_eq!(slots.len(), 1 << (table.depth - segment.depth));
        assert_eq!(slots[0] % slots.len(), 0);
        assert_eq!(slots[slots.len() - 1], slots[0] + slots.len() - 1);
        assert!(segment.table.len() <= SEGMENT_ENTRIES_MAX);
        for entry in &segment.table {
            assert!(slots.contains(&prefix(position(hash_of(entry)), table.depth)));
        }
        counted += segment.table.len();
    }
    assert_eq!(counted, table.len());
    assert_eq!(bytes, table.segment_bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After rounds of insertions and removals, the table agrees with a `HashMap`, and its
    /// structure is intact.
    #[test]
    fn a_segment_table_agrees_with_a_hash_map(
        rounds in prop::collection::vec((0_u64..6000, 0_u64..3000, any::<bool>()), 1..8),
    ) {
        let mut table = SegmentTable::default();
        let mut model = HashMap::new();
        for (from, count, inserts) in rounds {
            for number in from..from + count {
                let hash = hash_of(&number);
                if inserts && model.insert(number, ()).is_none() {
                    table.insert(hash, number, hash_of);
                } else if !inserts {
                    let removed = table.remove(hash, |&it| it == number, hash_of);
                    prop_assert_eq!(removed, model.remove(&number).map(|()| number));
                }
            }
            check(&table);
        }
        for number in 0..9000 {
            let found = table.find(hash_of(&number), |&it| it == number);
            prop_assert_eq!(found.is_some(), model.contains_key(&number));
        }
        prop_assert_eq!(table.iter().collect::<HashSet<_>>(), model.keys().collect());
    }

    /// An entry that exists during the whole enumeration is visited exactly once, although others
    /// are added and removed between the steps.
    #[test]
    fn an_enumeration_visits_each_entry_exactly_once(
        kept in 0_u64..4000,
        steps in prop::collection::vec((any::<bool>(), 0_u64..2000, 1_usize..600), 1..20),
    ) {
        const OTHERS: u64 = 1_000_000;
        let mut table = SegmentTable::default();
        for number in 0..kept {
            table.insert(hash_of(&number), number, hash_of);
        }
        let mut seen = HashMap::new();
        let mut start = Some(0);
        let mut steps = steps.into_iter().cycle();
        while let Some(at) = start {
            let (inserts, others, count) = steps.next().expect("endless");
            start = table.visit_from(at, count, hash_of, |&number| {
                *seen.entry(number).or_insert(0) += 1;
            });
            for number in OTHERS..OTHERS + others {
                let hash = hash_of(&number);
                if inserts && table.find(hash, |&it| it == number).is_none() {
                    table.insert(hash, number, hash_of);
                } else if !inserts {
                    table.remove(hash, |&it| it == number, hash_of);
                }
            }
        }
        check(&table);
        for number in 0..kept {
            prop_assert_eq!(seen.get(&number), Some(&1));
        }
        prop_assert!(seen.values().all(|&count| count == 1));
    }
}

#[test]
fn a_step_of_an_enumeration_has_about_as_many_entries_as_wanted() {
    let mut table = SegmentTable::default();
    for number in 0..100_000 {
        table.insert(hash_of(&number), number, hash_of);
    }
    let mut start = Some(0);
    let (mut steps, mut most) = (0, 0);
    while let Some(at) = start {
        let mut count = 0;
        start = table.visit_from(at, 10, hash_of, |_| count += 1);
        steps += 1;
        most = most.max(count);
    }
    assert!((10_000..30_000).contains(&steps), "{steps}");
    assert!(most < 40, "{most}");
}

#[test]
fn a_segment_table_releases_memory_when_emptied() {
    let mut table = SegmentTable::default();
    for number in 0..50_000 {
        table.insert(hash_of(&number), number, hash_of);
    }
    let full = table.allocated_bytes();
    for number in 0..50_000 {
        table.remove(hash_of(&number), |&it| it == number, hash_of);
    }
    check(&table);
    assert_eq!(table.segment_bytes, 0);
    assert!(table.allocated_bytes() < full / 20, "{} of {full}", table.allocated_bytes());
}

#[test]
fn random_entries_are_equally_likely() {
    let mut table = SegmentTable::default();
    for number in 0..700 {
        table.insert(hash_of(&number), number, hash_of);
    }
    let mut seed = 0_u64;
    let mut random = || {
        seed += 1;
        hash_of(&seed)
    };
    let mut counts = vec![0; 700];
    for _ in 0..140_000 {
        counts[*table.random(&mut random).expect("not empty") as usize] += 1;
    }
    // The counts are 200 on average, with a standard deviation of 14.
    assert!(counts.iter().all(|count| (120..300).contains(count)), "{counts:?}");
}

/// A random choice must not depend on the history of the table.
#[test]
fn a_random_entry_is_found_in_few_tries_while_a_table_shrinks() {
    for size in [1, 100, 450, 741, 1500] {
        let mut table = SegmentTable::default();
        for number in 0..size {
            table.insert(hash_of(&number), number, hash_of);
        }
        let mut seed = 0_u64;
        while !table.is_empty() {
            let mut tries = 0;
            let chosen = *table
                .random(|| {
                    seed += 1;
                    tries += 1;
                    assert!(tries < 100_000, "{} of {size} are left", table.len());
                    hash_of(&seed)
                })
                .expect("not empty");
            table.remove(hash_of(&chosen), |&it| it == chosen, hash_of);
        }
    }
}
