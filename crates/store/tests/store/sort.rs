use crate::test_client::Conversation;

#[test]
fn sort_by_and_get_follow_patterns() {
    let mut store = Conversation::new();
    // The keys are in different shards.
    for number in 0..100 {
        store.say(&format!("RPUSH l {number}"));
        store.say(&format!("SET weight_{number} {}", 1000 - number));
        store.say(&format!("HSET object_{number} name name{number}"));
    }
    store.expect(&[
        ("SORT l LIMIT 0 3", "*3 $1 0 $1 1 $1 2"),
        (
            "SORT l BY weight_* LIMIT 0 2 GET # GET object_*->name",
            "*4 $2 99 $6 name99 $2 98 $6 name98",
        ),
        ("SORT l BY weight_* DESC LIMIT 98 10 GET none_*", "*2 $-1 $-1"),
        ("SORT l BY nosort LIMIT 0 2 STORE t", ":2"),
        ("LRANGE t 0 -1", "*2 $1 0 $1 1"),
        ("SORT none STORE t", ":0"),
        ("EXISTS t", ":0"),
        ("SORT_RO l STORE t", "-ERR syntax error"),
        ("COMMAND GETKEYS SORT l BY x* STORE t STORE u", "*2 $1 l $1 u"),
        ("SET s x", "+OK"),
        ("SORT s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("RPUSH l x", ":101"),
        ("SORT l", "-ERR One or more scores can't be converted into double"),
        ("SORT l ALPHA DESC LIMIT 0 1", "*1 $1 x"),
    ]);
}

#[test]
fn a_transaction_locks_the_keys_of_sort_patterns() {
    let mut store = Conversation::new();
    store.say("RPUSH l 1 2 3");
    store.say("MSET w1 3 w2 2 w3 1");
    store.expect(&[
        ("MULTI", "+OK"),
        ("SORT l BY w*", "+QUEUED"),
        ("SORT l GET w* STORE m", "+QUEUED"),
        ("EXEC", "*2 *3 $1 3 $1 2 $1 1 :3"),
        ("LRANGE m 0 -1", "*3 $1 3 $1 2 $1 1"),
    ]);
}
