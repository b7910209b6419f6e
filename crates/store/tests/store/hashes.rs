use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::test_client::Conversation;

#[test]
fn hashes_are_stored_and_returned() {
    Conversation::new().expect(&[
        ("HSET h a 1 b 2", ":2"),
        ("HSET h a 3 c 4", ":1"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command"),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command"),
        ("HMSET h d 5", "+OK"),
        ("HSETNX h a 9", ":0"),
        ("HSETNX h e 6", ":1"),
        ("HGET h a", "$1 3"),
        ("HGET h x", "$-1"),
        ("HMGET h a x e", "*3 $1 3 $-1 $1 6"),
        ("HGETALL h", "*10 $1 a $1 3 $1 b $1 2 $1 c $1 4 $1 d $1 5 $1 e $1 6"),
        ("HLEN h", ":5"),
        ("HDEL h a b x", ":2"),
        ("HKEYS h", "*3 $1 c $1 d $1 e"),
        ("HVALS h", "*3 $1 4 $1 5 $1 6"),
        ("HEXISTS h c", ":1"),
        ("HSTRLEN h c", ":1"),
        ("HINCRBY h c 38", ":42"),
        ("HINCRBYFLOAT h c 0.5", "$4 42.5"),
        ("HINCRBY h c 1", "-ERR hash value is not an integer"),
        ("HRANDFIELD h 0", "*0"),
        ("HRANDFIELD h -2000000", "-ERR value is out of range"),
        ("GET h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("TYPE h", "+hash"),
        ("HDEL h c d e", ":3"),
        ("EXISTS h", ":0"),
        ("HGETALL h", "*0"),
    ]);
}

#[test]
fn hash_fields_expire_at_their_time() {
    let mut store = Conversation::new();
    store.expect(&[
        ("HSET h a 1 b 2 c 3", ":3"),
        ("HEXPIRE h 10 FIELDS 2 a x", "*2 :1 :-2"),
        ("HPEXPIRE h 20000 FIELDS 1 b", "*1 :1"),
        ("HEXPIRE h 5 GT FIELDS 2 a c", "*2 :0 :0"),
        ("HEXPIRE h 5 LT FIELDS 1 a", "*1 :1"),
        ("HEXPIRE h 5 NX FIELDS 1 a", "*1 :0"),
        ("HEXPIRE h 10 XX FIELDS 2 a c", "*2 :1 :0"),
        ("HTTL h FIELDS 4 a b c x", "*4 :10 :20 :-1 :-2"),
        ("HPTTL h FIELDS 1 a", "*1 :10000"),
        ("HEXPIRETIME h FIELDS 1 a", "*1 :1700000010"),
        ("HPEXPIRETIME h FIELDS 1 a", "*1 :1700000010000"),
        ("HPERSIST h FIELDS 3 b c x", "*3 :1 :-1 :-2"),
        ("HINCRBY h a 1", ":2"),
        ("HTTL none FIELDS 2 a b", "*2 :-2 :-2"),
    ]);
    store.now_ms += 9999;
    store.expect(&[("HTTL h FIELDS 1 a", "*1 :1"), ("HLEN h", ":3")]);
    store.now_ms += 1;
    store.expect(&[
        ("HGET h a", "$-1"),
        ("HLEN h", ":2"),
        ("HGETALL h", "*4 $1 b $1 2 $1 c $1 3"),
        ("HSETNX h a 7", ":1"),
        ("HTTL h FIELDS 1 a", "*1 :-1"),
        ("HPEXPIREAT h 1 FIELDS 1 a", "*1 :2"),
        ("HEXPIREAT h 1800000000 FIELDS 2 b c", "*2 :1 :1"),
        ("HSET h b 5", ":0"),
        ("HEXPIRETIME h FIELDS 2 b c", "*2 :-1 :1800000000"),
        ("HDEL h b", ":1"),
        ("EXISTS h", ":1"),
    ]);
    store.now_ms = 1_800_000_000_000;
    store.expect(&[("EXISTS h", ":0"), ("TYPE h", "+none"), ("HLEN h", ":0"), ("SET h 1", "+OK")]);
}

#[test]
fn expiry_of_fields_has_the_errors_of_redis() {
    let mandatory = "-ERR Mandatory argument FIELDS is missing or not at the right position";
    let mismatch = "-ERR The `numfields` parameter must match the number of arguments";
    Conversation::new().expect(&[
        ("SET s 1", "+OK"),
        (
            "HEXPIRE s x FIELDS 1 a",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("HEXPIRE h x FIELDS 1 a", "-ERR value is not an integer or out of range"),
        ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0"),
        (
            "HEXPIRE h 9223372036854775807 FIELDS 1 a",
            "-ERR invalid expire time in 'hexpire' command",
        ),
        ("HEXPIRE h 1 XY FIELDS 1 a", mandatory),
        ("HEXPIRE h 1 NX XX FIELDS 1 a", mandatory),
        ("HEXPIRE h 1 FIELDS 0 a", "-ERR Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 FIELDS 2 a", mismatch),
        ("HEXPIRE h 1 FIELDS 1", "-ERR wrong number of arguments for 'hexpire' command"),
        ("HTTL h FIELDS x a", "-ERR Number of fields must be a positive integer"),
        ("HTTL h NAMES 1 a", mandatory),
        ("HGETDEL h FIELDS 1 a b", mismatch),
        ("HGETEX h EX 1 NAMES 1 a", mandatory),
        ("HSETEX h FIELDS 0 a 1", "-ERR invalid number of fields"),
        ("HSETEX h FIELDS 2 a 1", "-ERR wrong number of arguments for 'hsetex' command"),
        ("HSETEX h FNX FXX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified"),
        (
            "HSETEX h EX 1 KEEPTTL FIELDS 1 a 1",
            "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("HSETEX h XY FIELDS 1 a 1", "-ERR unknown argument: XY"),
    ]);
}

#[test]
fn fields_are_read_and_written_with_their_expiry() {
    let mut store = Conversation::new();
    store.expect(&[
        ("HSETEX h EX 10 FIELDS 2 a 1 b 2", ":1"),
        ("HTTL h FIELDS 2 a b", "*2 :10 :10"),
        ("HSETEX h FNX FIELDS 2 a 1 c 2", ":0"),
        ("HSETEX h FXX FIELDS 2 a 1 c 2", ":0"),
        ("HSETEX h FXX KEEPTTL FIELDS 1 a 3", ":1"),
        ("HTTL h FIELDS 1 a", "*1 :10"),
        ("HSETEX h FIELDS 1 a 4", ":1"),
        ("HTTL h FIELDS 1 a", "*1 :-1"),
        ("HGETEX h FIELDS 2 b x", "*2 $1 2 $-1"),
        ("HGETEX h PX 500 FIELDS 2 a b", "*2 $1 4 $1 2"),
        ("HPTTL h FIELDS 2 a b", "*2 :500 :500"),
        ("HGETEX h PERSIST FIELDS 1 b", "*1 $1 2"),
        ("HPTTL h FIELDS 2 a b", "*2 :500 :-1"),
        ("HGETEX h EXAT 1 FIELDS 1 a", "*1 $1 4"),
        ("HEXISTS h a", ":0"),
        ("HSETEX h PXAT 1 FIELDS 1 z 1", ":1"),
        ("HSET h c 5", ":1"),
        ("HGETDEL h FIELDS 3 b b x", "*3 $1 2 $-1 $-1"),
        ("HGETDEL h FIELDS 1 c", "*1 $1 5"),
        ("EXISTS h", ":0"),
        ("HGETDEL h FIELDS 1 c", "*1 $-1"),
        ("HSETEX n EXAT 1 FIELDS 1 a 1", ":1"),
        ("EXISTS n", ":0"),
    ]);
}

#[test]
fn a_cycle_removes_expired_fields() {
    let mut store = Conversation::new();
    for number in 0..3000 {
        store.say(&format!("HSETEX large PX {} FIELDS 1 field:{number} 1", number % 10 + 1));
    }
    // So many that a shard takes several steps.
    for number in 0..30_000 {
        store.say(&format!("HSETEX small:{number} PX 5 FIELDS 1 a 1"));
        store.say(&format!("HSETEX kept:{number} PX 50 FIELDS 1 a 1"));
    }
    store.now_ms += 5;
    let cycle = |store: &Conversation| {
        let (mut cursor, mut steps) = (0, 0);
        loop {
            cursor = store.store.remove_expired_fields(cursor, store.now_ms);
            steps += 1;
            if cursor == 0 {
                return steps;
            }
        }
    };
    assert_eq!(store.say("DBSIZE"), ":60001");
    assert!(cycle(&store) > 64 * 4);
    assert_eq!(store.say("DBSIZE"), ":30001");
    for _ in 0..20 {
        cycle(&store);
    }
    assert_eq!(store.say("HLEN large"), ":1500");
    store.now_ms += 5;
    assert_eq!(store.say("EXISTS large"), ":0");
}

#[derive(Clone, Debug)]
enum Operation {
    Set { fields: std::ops::Range<u32>, expiry_ms: Option<u64> },
    Delete { fields: std::ops::Range<u32> },
    Expire { field: u32, ms: u64 },
    Persist { field: u32 },
    Wait { ms: u64 },
}

/// Operations on this many fields. Up to 128 the hash is compact.
fn operations(fields: u32) -> impl Strategy<Value = Vec<Operation>> {
    let range = move || (0..fields, 0..fields / 2 + 2).prop_map(|(from, count)| from..from + count);
    let operation = prop_oneof![
        3 => (range(), prop::option::of(1..200_u64))
            .prop_map(|(fields, expiry_ms)| Operation::Set { fields, expiry_ms }),
        1 => range().prop_map(|fields| Operation::Delete { fields }),
        2 => (0..fields, 0..200_u64).prop_map(|(field, ms)| Operation::Expire { field, ms }),
        1 => (0..fields).prop_map(|field| Operation::Persist { field }),
        2 => (0..100_u64).prop_map(|ms| Operation::Wait { ms }),
    ];
    prop::collection::vec(operation, 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        max_shrink_time: 10_000,
        ..Default::default()
    })]

    /// A hash is a map, in both forms, and fields that have expired are not seen by anyone.
    #[test]
    fn a_hash_agrees_with_a_map(
        operations in prop_oneof![operations(10), operations(200)],
        has_cycle in any::<bool>(),
    ) {
        let mut store = Conversation::new();
        let mut model: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Set { fields, expiry_ms } => {
                    for field in fields {
                        let option = expiry_ms.map(|ms| format!("PX {ms}")).unwrap_or_default();
                        store.say(&format!("HSETEX h {option} FIELDS 1 {field} {field}"));
                        model.insert(field, expiry_ms.map(|ms| store.now_ms + ms));
                    }
                }
                Operation::Delete { fields } => {
                    for field in fields {
                        let expected = usize::from(model.remove(&field).is_some());
                        let reply = store.say(&format!("HDEL h {field}"));
                        prop_assert_eq!(reply, format!(":{expected}"));
                    }
                }
                Operation::Expire { field, ms } => {
                    store.say(&format!("HPEXPIRE h {ms} FIELDS 1 {field}"));
                    model.entry(field).and_modify(|at| *at = Some(store.now_ms + ms));
                }
                Operation::Persist { field } => {
                    store.say(&format!("HPERSIST h FIELDS 1 {field}"));
                    model.entry(field).and_modify(|at| *at = None);
                }
                Operation::Wait { ms } => store.now_ms += ms,
            }
            model.retain(|_, at| at.is_none_or(|at| at > store.now_ms));
            if has_cycle {
                for shard in 0..64 {
                    store.store.remove_expired_fields(shard << 44, store.now_ms);
                }
            }
            prop_assert_eq!(store.say("HLEN h"), format!(":{}", model.len()));
            let exists = usize::from(!model.is_empty());
            prop_assert_eq!(store.say("EXISTS h"), format!(":{exists}"));
        }
        let reply = store.say("HGETALL h");
        let words: Vec<_> = reply.split(' ').skip(1).collect();
        let mut fields: Vec<u32> =
            words.chunks(4).map(|pair| pair[1].parse().unwrap()).collect();
        fields.sort_unstable();
        prop_assert_eq!(fields, model.keys().copied().collect::<Vec<_>>());
        for (field, at) in model {
            let left = at.map_or(-1, |at| (at - store.now_ms) as i64);
            let reply = store.say(&format!("HPTTL h FIELDS 1 {field}"));
            prop_assert_eq!(reply, format!("*1 :{left}"));
        }
    }
}
