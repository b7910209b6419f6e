use crate::test_client::Conversation;

#[test]
fn gcra_takes_tokens_and_restores_them_over_time() {
    let mut store = Conversation::new();
    store.expect(&[
        ("GCRA a 5 10 60", "*5 :0 :6 :5 :-1 :6"),
        ("TTL a", ":6"),
        ("GCRA a 5 10 60 TOKENS 3", "*5 :0 :6 :2 :-1 :24"),
        ("GCRA a 5 10 60 tokens 3", "*5 :1 :6 :2 :6 :24"),
        ("GCRA a 5 10 60 TOKENS 7", "*5 :1 :6 :2 :-1 :24"),
        ("GCRA a 5 10 60 TOKENS 2", "*5 :0 :6 :0 :-1 :36"),
        ("GCRA a 5 10 60", "*5 :1 :6 :0 :6 :36"),
        ("GCRA b 5 10 60", "*5 :0 :6 :5 :-1 :6"),
    ]);
    store.now_ms += 5_999;
    store.expect(&[("GCRA a 5 10 60", "*5 :1 :6 :0 :1 :31")]);
    store.now_ms += 1;
    store.expect(&[("GCRA a 5 10 60", "*5 :0 :6 :0 :-1 :36"), ("TYPE a", "+string")]);
    store.now_ms += 36_000;
    store.expect(&[("EXISTS a", ":0"), ("GCRA a 0 1 0.5", "*5 :0 :1 :0 :-1 :1")]);
    // A token is regained in less than a millisecond, and the key still exists.
    store.expect(&[("GCRA c 1 10000 1", "*5 :0 :2 :1 :-1 :1"), ("PTTL c", ":1")]);
}

#[test]
fn wrong_arguments_are_errors() {
    let overflow = "-ERR Combination of max-burst, tokens-per-period, period and TOKENS would \
                    cause an overflow";
    let out_of_range = "-ERR value is out of range, value must between 1 and 9223372036854775807";
    Conversation::new().expect(&[
        ("GCRA a 10 5", "-ERR wrong number of arguments for 'gcra' command"),
        ("GCRA a 1 1 1 TOKENS 1 x", "-ERR wrong number of arguments for 'gcra' command"),
        ("GCRA a -1 5 10", "-ERR value is out of range, must be positive"),
        ("GCRA a x 5 10", "-ERR value is out of range, must be positive"),
        ("GCRA a 10 0 10", out_of_range),
        ("GCRA a 10 x 10", "-ERR value is not an integer or out of range"),
        ("GCRA a 10 5 0", "-ERR period must be > 0 and < 1e12"),
        ("GCRA a 10 5 inf", "-ERR period must be > 0 and < 1e12"),
        ("GCRA a 10 5 x", "-ERR value is not a valid float"),
        ("GCRA a 10 5 10 TOKENS", "-ERR Missing TOKENS value"),
        ("GCRA a 10 5 10 x 1", "-ERR syntax error"),
        ("GCRA a 10 5 10 TOKENS 0", out_of_range),
        ("GCRA a 1 1 86400 TOKENS 200000000", overflow),
        ("GCRA a 200000000 1 86400", overflow),
        ("GCRA a 1 1 999999999999", overflow),
        ("EXISTS a", ":0"),
        ("SET a x", "+OK"),
        ("GCRA a 1 1 1", "-ERR Invalid GCRA key"),
        ("RPUSH l x", ":1"),
        ("GCRA l 1 1 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}
