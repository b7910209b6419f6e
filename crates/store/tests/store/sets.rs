use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::test_client::Conversation;

#[test]
fn sets_are_stored_and_combined() {
    Conversation::new().expect(&[
        ("SADD a 3 1 2 1", ":3"),
        ("SADD a 1", ":0"),
        ("SMEMBERS a", "*3 $1 1 $1 2 $1 3"),
        ("SADD a x", ":1"),
        ("SMEMBERS a", "*4 $1 1 $1 2 $1 3 $1 x"),
        ("SISMEMBER a x", ":1"),
        ("SMISMEMBER a x y", "*2 :1 :0"),
        ("SCARD a", ":4"),
        ("SREM a 3 y", ":1"),
        ("SADD b 2 x y", ":3"),
        ("SINTER a b", "*2 $1 2 $1 x"),
        ("SINTER a none", "*0"),
        ("SDIFF a b", "*1 $1 1"),
        ("SUNION a b", "*4 $1 1 $1 2 $1 x $1 y"),
        ("SINTERCARD 2 a b", ":2"),
        ("SINTERCARD 2 a b LIMIT 1", ":1"),
        ("SINTERCARD 3 a b", "-ERR Number of keys can't be greater than number of args"),
        ("SINTERCARD x a b", "-ERR numkeys should be greater than 0"),
        ("SINTERSTORE a a b", ":2"),
        ("SUNIONSTORE c a b", ":3"),
        ("SDIFFSTORE c a b", ":0"),
        ("EXISTS c", ":0"),
        ("SMOVE b c y", ":1"),
        ("SMOVE b c y", ":0"),
        ("SMEMBERS c", "*1 $1 y"),
        ("SPOP c", "$1 y"),
        ("SPOP c", "$-1"),
        ("SPOP c 2", "*0"),
        ("SREM a x", ":1"),
        ("SPOP a 5", "*1 $1 2"),
        ("EXISTS a", ":0"),
        ("TYPE b", "+set"),
        ("SADD b", "-ERR wrong number of arguments for 'sadd' command"),
        ("INCR b", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SRANDMEMBER b -3000000", "-ERR value is out of range"),
    ]);
}

/// Returns the strings of a reply that is an array.
fn strings(reply: &str) -> Vec<String> {
    reply.split(' ').skip(2).step_by(2).map(str::to_owned).collect()
}

#[test]
fn random_members_belong_to_the_set() {
    for (count, member) in [(5, "m"), (100, ""), (400, ""), (400, "m"), (3000, "m")] {
        let mut store = Conversation::new();
        let mut left: BTreeSet<_> = (0..count).map(|number| format!("{member}{number}")).collect();
        left.iter().for_each(|member| {
            store.say(&format!("SADD s {member}"));
        });
        let chosen = strings(&store.say(&format!("SRANDMEMBER s -{count}")));
        assert_eq!(chosen.len(), count);
        let different: BTreeSet<_> = chosen.into_iter().collect();
        // The number of different elements is random: 63 % of all.
        assert!(different.is_subset(&left) && different.len() * 10 > count * 4, "{count}");
        for wanted in [1, count / 4, count - 1, count, count * 2] {
            let chosen = strings(&store.say(&format!("SRANDMEMBER s {wanted}")));
            assert_eq!(chosen.len(), wanted.min(count));
            let different: BTreeSet<_> = chosen.iter().cloned().collect();
            assert!(different.len() == chosen.len() && different.is_subset(&left));
        }
        while !left.is_empty() {
            let popped = strings(&store.say(&format!("SPOP s {}", left.len() / 3 + 1)));
            assert!(popped.iter().all(|member| left.remove(member)));
            assert_eq!(store.say("SCARD s"), format!(":{}", left.len()));
        }
        assert_eq!(store.say("EXISTS s"), ":0");
    }
}

/// Members of all forms: integers of all lengths, short strings and long ones.
fn member() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => (-20..20_i64).prop_map(|number| number.to_string()),
        20 => any::<i32>().prop_map(|number| (number % 50_000).to_string()),
        5 => any::<i64>().prop_map(|number| number.to_string()),
        5 => "[a-c]{1,2}",
        1 => "[a-c]{65}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        max_shrink_time: 10_000,
        ..Default::default()
    })]

    #[test]
    fn a_set_agrees_with_a_model_set(
        operations in prop::collection::vec((member(), 0..4_u32), 1..900),
    ) {
        let mut store = Conversation::new();
        let mut model = BTreeSet::new();
        for (member, kind) in operations {
            let (command, is_changed) = if kind > 0 {
                ("SADD", model.insert(member.clone()))
            } else {
                ("SREM", model.remove(&member))
            };
            let reply = store.say(&format!("{command} s {member}"));
            prop_assert_eq!(reply, format!(":{}", u8::from(is_changed)));
        }
        prop_assert_eq!(store.say("SCARD s"), format!(":{}", model.len()));
        let members: Vec<_> = strings(&store.say("SMEMBERS s"));
        prop_assert_eq!(members.len(), model.len());
        prop_assert_eq!(members.into_iter().collect::<BTreeSet<_>>(), model);
    }
}
