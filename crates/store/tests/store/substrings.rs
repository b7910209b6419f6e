use crate::test_client::Conversation;

#[test]
fn parts_of_strings_are_read_and_written() {
    Conversation::new().expect(&[
        ("SETRANGE a 3 xyz", ":6"),
        ("GET a", "$6 \0\0\0xyz"),
        ("SETRANGE a 4 \"\"", ":6"),
        ("SETRANGE b 4 \"\"", ":0"),
        ("SETRANGE a -1 x", "-ERR offset is out of range"),
        (
            "SETRANGE a 536870911 xx",
            "-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ),
        ("GETRANGE a -3 -2", "$2 xy"),
        ("SUBSTR a 3 100", "$3 xyz"),
        ("GETRANGE a -1 -2", "$0"),
        ("GETRANGE b 0 -1", "$0"),
    ]);
}

#[test]
fn lcs_finds_the_longest_common_subsequence() {
    Conversation::new().expect(&[
        ("MSET a ohmytext b mynewtext", "+OK"),
        ("LCS a b", "$6 mytext"),
        ("LCS a b LEN", ":6"),
        (
            "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
            "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6",
        ),
        ("LCS a none", "$0"),
        ("LCS a b LEN IDX", "-ERR If you want both the length and indexes, please just use IDX."),
        ("RPUSH list x", ":1"),
        ("LCS a list", "-ERR The specified keys must contain string values"),
    ]);
}

#[test]
fn strings_are_set_together_with_an_expiry() {
    let mut store = Conversation::new();
    store.expect(&[
        ("MSETEX 2 a 1 b 2 PX 100", ":1"),
        ("MSETEX 2 a 9 c 9 NX", ":0"),
        ("MSETEX 2 a 9 c 9 XX", ":0"),
        ("MSETEX 2 a 3 b 4 XX KEEPTTL", ":1"),
        ("MGET a b c", "*3 $1 3 $1 4 $-1"),
        ("MSETEX 0 a 1", "-ERR invalid numkeys value"),
        ("MSETEX 2 a 1", "-ERR wrong number of arguments for 'msetex' command"),
        ("MSETEX 1 a 1 GET", "-ERR syntax error"),
        ("MSETEX 1 a 1 EX 0", "-ERR invalid expire time in 'msetex' command"),
    ]);
    store.now_ms += 100;
    store.expect(&[("MGET a b", "*2 $-1 $-1"), ("MSETEX 1 a 1", ":1"), ("GET a", "$1 1")]);
}

#[test]
fn a_key_is_deleted_if_it_has_a_value() {
    Conversation::new().expect(&[
        ("SET a 1", "+OK"),
        ("DELIFEQ a 2", ":0"),
        ("DELIFEQ a 1", ":1"),
        ("DELIFEQ a 1", ":0"),
        ("RPUSH a 1", ":1"),
        ("DELIFEQ a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}
