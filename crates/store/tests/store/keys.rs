use std::collections::BTreeSet;

use crate::test_client::Conversation;

#[test]
fn keys_are_renamed_copied_and_moved() {
    Conversation::new().expect(&[
        ("RENAME a b", "-ERR no such key"),
        ("SET a 1 EX 100", "+OK"),
        ("RENAME a b", "+OK"),
        ("TTL b", ":100"),
        ("SET a 2", "+OK"),
        ("RENAMENX a b", ":0"),
        ("RENAMENX a a", ":0"),
        ("RENAME a a", "+OK"),
        ("COPY a b", ":0"),
        ("COPY a b REPLACE", ":1"),
        ("COPY a a", "-ERR source and destination objects are the same"),
        ("COPY a a DB 1", ":1"),
        ("COPY a a DB 16", "-ERR DB index is out of range"),
        ("MGET a b", "*2 $1 2 $1 2"),
        ("TTL b", ":-1"),
        ("MOVE b 1", ":1"),
        ("MOVE a 1", ":0"),
        ("DBSIZE", ":1"),
        ("SWAPDB 0 1", "+OK"),
        ("DBSIZE", ":2"),
        ("SWAPDB 0 x", "-ERR invalid second DB index"),
        ("FLUSHDB", "+OK"),
        ("DBSIZE", ":0"),
        ("SWAPDB 0 1", "+OK"),
        ("EXISTS a", ":1"),
        ("RANDOMKEY", "$1 a"),
        ("FLUSHALL ASYNC", "+OK"),
        ("RANDOMKEY", "$-1"),
        ("FLUSHALL NOW", "-ERR syntax error"),
    ]);
}

#[test]
fn expiry_is_set_with_conditions() {
    let mut store = Conversation::new();
    store.expect(&[
        ("EXPIRE a 10", ":0"),
        ("SET a 1", "+OK"),
        ("EXPIRE a 10 XX", ":0"),
        ("EXPIRE a 10 GT", ":0"),
        ("EXPIRE a 10 NX", ":1"),
        ("EXPIRE a 9 GT", ":0"),
        ("EXPIRE a 9 LT", ":1"),
        ("PTTL a", ":9000"),
        ("EXPIRETIME a", ":1700000009"),
        ("PERSIST a", ":1"),
        ("PERSIST a", ":0"),
        ("TTL a", ":-1"),
        ("TTL b", ":-2"),
        ("EXPIRE a 10 XY", "-ERR Unsupported option XY"),
        (
            "EXPIRE a 10 NX GT",
            "-ERR NX and XX, GT or LT options at the same time are not compatible",
        ),
        ("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
        ("EXPIRE a x", "-ERR value is not an integer or out of range"),
        ("PEXPIREAT a 1", ":1"),
        ("EXISTS a", ":0"),
    ]);
}

/// Enumerates all keys. Returns them, and the number of steps.
fn scan(store: &mut Conversation, options: &str) -> (Vec<String>, usize) {
    let (mut cursor, mut keys, mut steps) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = store.say(&format!("SCAN {cursor} {options}"));
        let words: Vec<_> = reply.split(' ').map(str::to_owned).collect();
        cursor.clone_from(&words[2]);
        keys.extend(words[4..].iter().skip(1).step_by(2).cloned());
        steps += 1;
        if cursor == "0" {
            return (keys, steps);
        }
    }
}

#[test]
fn a_scan_returns_each_key_once() {
    let mut store = Conversation::new();
    let expected: BTreeSet<_> = (0..3000).map(|number| format!("key:{number}")).collect();
    for key in &expected {
        store.say(&format!("SET {key} 1"));
    }
    let (keys, steps) = scan(&mut store, "COUNT 100");
    assert_eq!(keys.len(), 3000);
    assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!((20..60).contains(&steps), "{steps}");
    let (mut keys, _) = scan(&mut store, "MATCH key:1?? COUNT 1000 TYPE string");
    keys.sort();
    assert_eq!(keys, (100..200).map(|number| format!("key:{number}")).collect::<Vec<_>>());
    assert_eq!(scan(&mut store, "TYPE list COUNT 1000").0, Vec::<String>::new());
    assert_eq!(store.say("KEYS key:299?").split(' ').count(), 21);
    store.expect(&[
        ("SCAN x", "-ERR invalid cursor"),
        ("SCAN 0 COUNT 0", "-ERR syntax error"),
        ("SCAN 18446744073709551615", "*2 $1 0 *0"),
    ]);
}
