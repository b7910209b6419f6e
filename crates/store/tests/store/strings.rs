use pinion_store::limits::{REPORTED_STEP_BYTES, SHARDS};

use crate::test_client::Conversation;

#[test]
fn strings_are_stored_and_returned() {
    Conversation::new().expect(&[
        ("GET a", "$-1"),
        ("SET a 1", "+OK"),
        ("GET a", "$1 1"),
        ("SET a 2 NX", "$-1"),
        ("SET a 2 XX GET", "$1 1"),
        ("SET a 3 IFEQ 2", "+OK"),
        ("SET a 4 IFEQ 2", "$-1"),
        ("GET a", "$1 3"),
        ("INCRBY a 39", ":42"),
        ("DECR a", ":41"),
        ("APPEND a x", ":3"),
        ("INCR a", "-ERR value is not an integer or out of range"),
        ("STRLEN a", ":3"),
        ("MSET b 1 c 2", "+OK"),
        ("MSET b 1 c", "-ERR wrong number of arguments for 'mset' command"),
        ("MGET a b c d", "*4 $3 41x $1 1 $1 2 $-1"),
        ("MSETNX d 1 a 1", ":0"),
        ("EXISTS a a d", ":2"),
        ("DEL a b c d", ":3"),
        ("TYPE a", "+none"),
        ("SET a", "-ERR wrong number of arguments for 'set' command"),
        ("SET a b c", "-ERR syntax error"),
        ("SET a b EX 0", "-ERR invalid expire time in 'set' command"),
        ("NOTHING a b", "-ERR unknown command 'NOTHING', with args beginning with: 'a' 'b'"),
    ]);
}

#[test]
fn keys_expire() {
    let mut store = Conversation::new();
    store.expect(&[("SET a 1 PX 100", "+OK"), ("SETEX b 1 x", "+OK"), ("GET a", "$1 1")]);
    store.now_ms += 99;
    store.expect(&[("GETEX a PX 1000", "$1 1"), ("APPEND b y", ":2")]);
    store.now_ms += 901;
    store.expect(&[("GET a", "$1 1"), ("GET b", "$-1"), ("SET a 2 KEEPTTL", "+OK")]);
    store.now_ms += 99;
    store.expect(&[("GET a", "$-1"), ("EXISTS a", ":0")]);
}

#[test]
fn memory_of_keys_and_values_is_counted() {
    let mut store = Conversation::new();
    for number in 0..40_000 {
        store.say(&format!("SET key:{number} {number} EX 100"));
    }
    store.say(&format!("SET long {}", "x".repeat(50_000)));
    assert!(store.store.used_bytes() > 2_000_000, "{}", store.store.used_bytes());
    store.say("APPEND long y");
    for number in 0..40_000 {
        store.say(&format!("DEL key:{number}"));
    }
    store.say("DEL long");
    // Only empty tables are left, and bytes that shards have not reported yet.
    let most = SHARDS * REPORTED_STEP_BYTES;
    assert!(store.store.used_bytes() < most, "{}", store.store.used_bytes());
}
