use crate::test_client::Conversation;

#[test]
fn a_transaction_is_executed_at_once() {
    Conversation::new().expect(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("INCR a", "+QUEUED"),
        ("SELECT 1", "+QUEUED"),
        ("GET a", "+QUEUED"),
        ("EXEC", "*4 +OK :2 +OK $-1"),
        ("SELECT 0", "+OK"),
        ("MULTI", "+OK"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", "+OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("DISCARD", "+OK"),
        ("GET a", "$1 2"),
    ]);
}

#[test]
fn a_watched_key_that_changes_stops_the_transaction() {
    let mut store = Conversation::new();
    let changes = ["SET a 2", "DEL a", "APPEND a x", "GETEX a EX 10", "SET a 1"];
    for change in changes {
        store.expect(&[("SET a 1", "+OK"), ("WATCH a b", "+OK"), ("MULTI", "+OK")]);
        store.say("INCR b");
        store.say_as(1, change);
        assert_eq!(store.say("EXEC"), "*-1", "{change}");
    }
    store.expect(&[("WATCH a", "+OK"), ("GET a", "$1 1"), ("MULTI", "+OK"), ("EXEC", "*0")]);
    store.expect(&[("SET a 1 PX 10", "+OK"), ("WATCH a", "+OK"), ("MULTI", "+OK")]);
    store.now_ms += 10;
    assert_eq!(store.say("EXEC"), "*-1");
    assert_eq!(store.say("EXISTS b"), ":0");
}

#[test]
fn a_watched_set_is_not_changed_by_a_member_that_it_has() {
    let mut store = Conversation::new();
    store.expect(&[("SADD from a b", ":2"), ("SADD to a", ":1"), ("WATCH to", "+OK")]);
    assert_eq!(store.say_as(1, "SMOVE from to a"), ":1");
    store.expect(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "*1 +PONG")]);
    store.expect(&[("WATCH from to", "+OK"), ("SMOVE from to b", ":1"), ("MULTI", "+OK")]);
    assert_eq!(store.say("EXEC"), "*-1");
}
