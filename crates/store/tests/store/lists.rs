use crate::test_client::Conversation;

#[test]
fn elements_are_pushed_and_popped_at_both_ends() {
    Conversation::new().expect(&[
        ("LPUSH a 2 1", ":2"),
        ("RPUSH a 3 4", ":4"),
        ("LPUSHX b 1", ":0"),
        ("RPUSHX a 5", ":5"),
        ("LRANGE a 0 -1", "*5 $1 1 $1 2 $1 3 $1 4 $1 5"),
        ("LRANGE a -2 100", "*2 $1 4 $1 5"),
        ("LLEN a", ":5"),
        ("LPOP a", "$1 1"),
        ("RPOP a 2", "*2 $1 5 $1 4"),
        ("LPOP a 0", "*0"),
        ("LPOP b", "$-1"),
        ("LPOP b 1", "*-1"),
        ("LPOP a -1", "-ERR value is out of range, must be positive"),
        ("LMPOP 2 b a RIGHT COUNT 5", "*2 $1 a *2 $1 3 $1 2"),
        ("LMPOP 2 b a RIGHT", "*-1"),
        ("LMPOP 1 a UP", "-ERR syntax error"),
        ("EXISTS a", ":0"),
        ("SET b 1", "+OK"),
        ("LPUSH b 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn list_elements_are_read_and_changed_by_index() {
    Conversation::new().expect(&[
        ("RPUSH a 1 2 3", ":3"),
        ("LINDEX a -1", "$1 3"),
        ("LINDEX a 3", "$-1"),
        ("LSET a 1 two", "+OK"),
        ("LSET a 3 x", "-ERR index out of range"),
        ("LSET b 0 x", "-ERR no such key"),
        ("LINSERT a BEFORE two x", ":4"),
        ("LINSERT a AFTER 3 y", ":5"),
        ("LINSERT a AFTER none y", ":-1"),
        ("LINSERT b AFTER none y", ":0"),
        ("LRANGE a 0 -1", "*5 $1 1 $1 x $3 two $1 3 $1 y"),
        ("LTRIM a 1 -2", "+OK"),
        ("LRANGE a 0 -1", "*3 $1 x $3 two $1 3"),
        ("LTRIM a 5 9", "+OK"),
        ("EXISTS a", ":0"),
    ]);
}

#[test]
fn elements_are_found_and_removed_by_value() {
    Conversation::new().expect(&[
        ("RPUSH a x y x y x", ":5"),
        ("LPOS a x", ":0"),
        ("LPOS a x RANK -1", ":4"),
        ("LPOS a x RANK 2 COUNT 0", "*2 :2 :4"),
        ("LPOS a x COUNT 0 MAXLEN 3", "*2 :0 :2"),
        ("LPOS a z", "$-1"),
        (
            "LPOS a z RANK 0",
            "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
             or use negative to start from the end of the list",
        ),
        ("LREM a -2 x", ":2"),
        ("LRANGE a 0 -1", "*3 $1 x $1 y $1 y"),
        ("LREM a 1 y", ":1"),
        ("LREM a 0 y", ":1"),
        ("LREM a 0 x", ":1"),
        ("EXISTS a", ":0"),
    ]);
}

#[test]
fn elements_move_between_lists() {
    Conversation::new().expect(&[
        ("RPUSH a 1 2 3", ":3"),
        ("RPOPLPUSH a b", "$1 3"),
        ("LMOVE a b LEFT RIGHT", "$1 1"),
        ("LRANGE b 0 -1", "*2 $1 3 $1 1"),
        ("LMOVE b b LEFT RIGHT", "$1 3"),
        ("LRANGE b 0 -1", "*2 $1 1 $1 3"),
        ("LMOVE a a LEFT LEFT", "$1 2"),
        ("LMOVE none b LEFT LEFT", "$-1"),
        ("LMOVE a b UP LEFT", "-ERR syntax error"),
        ("SET c 1", "+OK"),
        (
            "LMOVE a c LEFT LEFT",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("LLEN a", ":1"),
        ("RPOPLPUSH a b", "$1 2"),
        ("EXISTS a", ":0"),
    ]);
}

#[test]
fn a_long_list_leaves_no_memory() {
    let mut store = Conversation::new();
    let element = "x".repeat(90);
    for _ in 0..10_000 {
        store.say(&format!("RPUSH a {element}"));
    }
    // Two bytes of length for each, and a hundredth for the chunks.
    let used_bytes = store.store.used_bytes();
    assert!((900_000..980_000).contains(&used_bytes), "{used_bytes}");
    store.say("LTRIM a 5 9");
    assert!(store.store.used_bytes() < 32 * 1024, "{}", store.store.used_bytes());
    assert!(store.store.free_garbage(), "many chunks are freed by another thread");
    assert_eq!(store.say("LLEN a"), ":5");
}
