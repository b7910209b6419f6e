use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn hasher() -> KeyHasher {
    KeyHasher::new([3; 16])
}

/// Asserts the invariants that hold between all operations.
fn check(fields: &TableFields) {
    let entries = fields.table.iter();
    let bytes: usize = entries.map(FieldEntry::memory_bytes).sum();
    assert_eq!(fields.entry_bytes, bytes);
    let mut indexed: Vec<_> = fields.expiries.all().collect();
    let mut expected: Vec<_> = fields
        .table
        .iter()
        .filter_map(|entry| Some((entry.field().expiry_ms?, fields.hasher.hash(entry.name()))))
        .collect();
    assert_eq!(fields.expiries.len(), expected.len());
    expected.sort_unstable();
    for (index, (expiry_ms, hash)) in expected.into_iter().enumerate() {
        assert_eq!(indexed.len() + index, fields.expiries.len());
        let at = indexed.iter().position(|&(bounds, found)| {
            let bound = LeafBound { expiry_ms, hash };
            found == hash && bounds.0 <= bound && bound < bounds.1
        });
        indexed.swap_remove(at.expect("each field that expires is in its leaf"));
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Put { from: u32, count: u32, value_bytes: usize, expiry_ms: Option<u64> },
    Remove { from: u32, count: u32 },
    Expire { now_ms: u64, count: usize },
}

fn operation() -> impl Strategy<Value = Operation> {
    let expiry = prop::option::weighted(0.8, 1..100_u64);
    prop_oneof![
        4 => (0..900_u32, 0..700_u32, 0..40_usize, expiry).prop_map(
            |(from, count, value_bytes, expiry_ms)| Operation::Put {
                from,
                count,
                value_bytes,
                expiry_ms,
            }
        ),
        2 => (0..900_u32, 0..500_u32).prop_map(|(from, count)| Operation::Remove { from, count }),
        2 => (0..100_u64, 0..2000_usize)
            .prop_map(|(now_ms, count)| Operation::Expire { now_ms, count }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        max_shrink_time: 10_000,
        ..Default::default()
    })]

    /// A large hash behaves like a map of names to values and times, whichever fields have expired.
    #[test]
    fn a_large_hash_agrees_with_a_map(operations in prop::collection::vec(operation(), 1..20)) {
        let mut fields = TableFields::new(hasher());
        let mut model = BTreeMap::new();
        let mut now_ms = 0;
        for operation in operations {
            match operation {
                Operation::Put { from, count, value_bytes, expiry_ms } => {
                    for number in from..from + count {
                        // The times include equal and different ones.
                        let expiry_ms = expiry_ms.map(|at| at + u64::from(number % 3) * 10);
                        let (key, content) = (number.to_string(), "x".repeat(value_bytes));
                        let (name, value) = (key.as_bytes(), content.as_bytes());
                        fields.put(EncodedField { name, value, expiry_ms });
                        model.insert(key, (content, expiry_ms));
                    }
                }
                Operation::Remove { from, count } => {
                    for name in (from..from + count).map(|number| number.to_string()) {
                        let is_in_model = model.remove(&name).is_some();
                        prop_assert_eq!(fields.remove(name.as_bytes()).is_some(), is_in_model);
                    }
                }
                Operation::Expire { now_ms: at, count } => {
                    now_ms = now_ms.max(at);
                    let due = fields.expired_count(now_ms);
                    let removed = fields.remove_expired(now_ms, count);
                    prop_assert!(removed <= count);
                    prop_assert_eq!(fields.expired_count(now_ms), due - removed);
                    let is_there = |name: &String| fields.get(name.as_bytes()).is_some();
                    model.retain(|name, (_, at)| at.is_none_or(|at| at > now_ms) || is_there(name));
                }
            }
            check(&fields);
            let due = model.values().filter(|(_, at)| at.is_some_and(|at| at <= now_ms)).count();
            prop_assert_eq!(fields.expired_count(now_ms), due);
            prop_assert_eq!(fields.have_all_expired(now_ms), due == model.len() && due > 0);
        }
        prop_assert_eq!(fields.len(), model.len());
        for (name, (value, expiry_ms)) in &model {
            let field = fields.get(name.as_bytes()).expect("it is in the model");
            prop_assert_eq!((field.value, field.expiry_ms), (value.as_bytes(), *expiry_ms));
        }
    }
}

#[test]
fn an_expiry_costs_at_most_sixteen_bytes_on_average() {
    const FIELDS: u64 = 100_000;
    let bytes_of = |expiry_of: fn(u64) -> Option<u64>| {
        let mut fields = TableFields::new(hasher());
        for number in 0..FIELDS {
            let name = format!("field:{number:06}");
            // The values have all lengths, since allocations are multiples of 16 bytes.
            let value = &b"0123456789abcdef"[..(number % 16) as usize];
            let field = EncodedField { name: name.as_bytes(), value, expiry_ms: None };
            fields.put(EncodedField { expiry_ms: expiry_of(number), ..field });
        }
        fields.memory_bytes() as f64
    };
    let without = bytes_of(|_| None);
    for expiry_of in [|number| Some(number + 1), |number| Some(number % 7 + 1), |_| Some(1)] {
        let more = (bytes_of(expiry_of) - without) / FIELDS as f64;
        assert!(more <= 16.0, "{more} bytes");
    }
}

#[test]
fn many_fields_that_expire_at_once_are_removed_in_steps() {
    let mut fields = TableFields::new(hasher());
    for number in 0..20_000_u32 {
        let name = number.to_string();
        fields.put(EncodedField { name: name.as_bytes(), value: b"", expiry_ms: Some(1) });
    }
    let mut steps = 0;
    while fields.len() > 0 {
        assert_eq!(fields.remove_expired(1, 100), 100);
        steps += 1;
    }
    assert_eq!(steps, 200);
    check(&fields);
}
