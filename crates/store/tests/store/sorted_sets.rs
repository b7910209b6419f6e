use crate::test_client::Conversation;

#[test]
fn scores_are_set_with_conditions() {
    Conversation::new().expect(&[
        ("ZADD a 1 x 2 y 1 x", ":2"),
        ("ZADD a CH 1 x 3 y 4 z", ":2"),
        ("ZADD a NX XX 1 x", "-ERR XX and NX options at the same time are not compatible"),
        ("ZADD a GT LT 1 x", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
        ("ZADD a NX CH 9 x", ":0"),
        ("ZADD a XX CH 9 new", ":0"),
        ("ZADD a GT CH 0 x 9 y", ":1"),
        ("ZADD a LT CH 0 x 10 y", ":1"),
        ("ZADD a INCR 1.5 x", "$3 1.5"),
        ("ZADD a NX INCR 1.5 x", "$-1"),
        ("ZADD a INCR 1 x 1 y", "-ERR INCR option supports a single increment-element pair"),
        ("ZADD a 1", "-ERR wrong number of arguments for 'zadd' command"),
        ("ZADD a 1 x 2", "-ERR syntax error"),
        ("ZADD a 5 new nan y", "-ERR value is not a valid float"),
        ("ZSCORE a new", "$-1"),
        ("ZINCRBY a inf x", "$3 inf"),
        ("ZINCRBY a -inf x", "-ERR resulting score is not a number (NaN)"),
        ("ZMSCORE a x new y", "*3 $3 inf $-1 $1 9"),
        ("ZCARD a", ":3"),
        ("ZREM a x new x", ":1"),
        ("ZREM a y z", ":2"),
        ("EXISTS a", ":0"),
        ("ZADD a XX 1 x", ":0"),
        ("EXISTS a", ":0"),
        ("SET b 1", "+OK"),
        ("ZADD b 1 x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("TYPE a", "+none"),
    ]);
}

#[test]
fn ranks_are_found_from_both_ends() {
    Conversation::new().expect(&[
        ("ZADD a 1 x 2 y 2 z", ":3"),
        ("ZRANK a z", ":2"),
        ("ZREVRANK a z", ":0"),
        ("ZRANK a z WITHSCORE", "*2 :2 $1 2"),
        ("ZRANK a new", "$-1"),
        ("ZRANK a new WITHSCORE", "*-1"),
        ("ZREVRANK a x WITHSCORE", "*2 :2 $1 1"),
        ("ZRANK a x WITHSCORES", "-ERR syntax error"),
        ("ZRANK a x WITHSCORE y", "-ERR wrong number of arguments for 'zrank' command"),
    ]);
}

#[test]
fn ranges_select_by_rank_score_or_text() {
    Conversation::new().expect(&[
        ("ZADD a 1 x 2 y 3 z", ":3"),
        ("ZRANGE a 0 -1", "*3 $1 x $1 y $1 z"),
        ("ZRANGE a 0 1 REV WITHSCORES", "*4 $1 z $1 3 $1 y $1 2"),
        ("ZRANGE a (1 3 BYSCORE", "*2 $1 y $1 z"),
        ("ZRANGE a 3 (1 BYSCORE REV LIMIT 1 5", "*1 $1 y"),
        ("ZREVRANGEBYSCORE a +inf -inf LIMIT 0 1 WITHSCORES", "*2 $1 z $1 3"),
        (
            "ZRANGE a 0 1 LIMIT 0 1",
            "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
             BYLEX",
        ),
        (
            "ZRANGE a - + BYLEX WITHSCORES",
            "-ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ),
        ("ZRANGE a 1 x BYSCORE", "-ERR min or max is not a float"),
        ("ZRANGE a 1 [x BYLEX", "-ERR min or max not valid string range item"),
        ("ZCOUNT a (1 inf", ":2"),
        ("ZADD b 0 a 0 b 0 c 0 d", ":4"),
        ("ZRANGEBYLEX b [b (d", "*2 $1 b $1 c"),
        ("ZREVRANGEBYLEX b + (b LIMIT 0 1", "*1 $1 d"),
        ("ZLEXCOUNT b - +", ":4"),
        ("ZRANGESTORE c a 2 inf BYSCORE", ":2"),
        ("ZRANGE c 0 -1 WITHSCORES", "*4 $1 y $1 2 $1 z $1 3"),
        ("ZRANGESTORE c a 5 inf BYSCORE", ":0"),
        ("EXISTS c", ":0"),
        ("ZREMRANGEBYRANK b 1 -2", ":2"),
        ("ZREMRANGEBYLEX b [a [a", ":1"),
        ("ZREMRANGEBYSCORE a -inf (3", ":2"),
        ("ZRANGE a 0 -1", "*1 $1 z"),
    ]);
}

#[test]
fn members_are_taken_from_both_ends() {
    Conversation::new().expect(&[
        ("ZADD a 1 x 2 y 3 z 4 w", ":4"),
        ("ZPOPMIN a", "*2 $1 x $1 1"),
        ("ZPOPMAX a 2", "*4 $1 w $1 4 $1 z $1 3"),
        ("ZPOPMAX a 0", "*0"),
        ("ZPOPMAX a -1", "-ERR value is out of range, must be positive"),
        ("ZMPOP 2 none a MAX COUNT 5", "*2 $1 a *1 *2 $1 y $1 2"),
        ("ZMPOP 2 none a MAX", "*-1"),
        ("ZMPOP 0 a MAX", "-ERR numkeys should be greater than 0"),
        ("ZPOPMIN a", "*0"),
        ("EXISTS a", ":0"),
    ]);
}

#[test]
fn sets_are_combined() {
    Conversation::new().expect(&[
        ("ZADD a 1 x 2 y", ":2"),
        ("ZADD b 10 y 20 z", ":2"),
        ("SADD s y", ":1"),
        ("ZUNION 3 a b s WITHSCORES", "*6 $1 x $1 1 $1 y $2 13 $1 z $2 20"),
        ("ZINTER 2 a b WEIGHTS 2 1 WITHSCORES", "*2 $1 y $2 14"),
        ("ZDIFF 2 a s", "*1 $1 x"),
        ("ZINTERCARD 2 a b LIMIT 1", ":1"),
        ("ZUNIONSTORE c 2 a b AGGREGATE MAX", ":3"),
        ("ZRANGE c 0 -1 WITHSCORES", "*6 $1 x $1 1 $1 y $2 10 $1 z $2 20"),
        ("ZINTERSTORE c 2 c none", ":0"),
        ("EXISTS c", ":0"),
        ("ZDIFFSTORE a 1 a", ":2"),
        ("ZUNION 0 a", "-ERR at least 1 input key is needed for 'zunion' command"),
        ("ZUNION 2 a", "-ERR syntax error"),
        ("ZUNION 1 a WEIGHTS x", "-ERR weight value is not a float"),
    ]);
}

#[test]
fn random_members_belong_to_the_sorted_set() {
    let mut store = Conversation::new();
    for number in 0..300 {
        store.say(&format!("ZADD a {number} {number}"));
    }
    let reply = store.say("ZRANDMEMBER a 50");
    let members = reply.split(' ').skip(2).step_by(2);
    let mut members: Vec<u32> = members.filter_map(|member| member.parse().ok()).collect();
    members.sort_unstable();
    members.dedup();
    assert_eq!(members.len(), 50, "{reply}");
    assert!(members.iter().all(|member| *member < 300));
    assert!(store.say("ZRANDMEMBER a 1000").starts_with("*300 "));
    assert!(store.say("ZRANDMEMBER a -1000 WITHSCORES").starts_with("*2000 "));
    store.expect(&[("ZRANDMEMBER none 5", "*0"), ("ZRANDMEMBER none", "$-1")]);
}

#[test]
fn a_removed_sorted_set_leaves_no_memory() {
    let mut store = Conversation::new();
    for number in 0..20_000 {
        store.say(&format!("ZADD a {number} member:{number}"));
    }
    assert!(store.store.used_bytes() > 1_000_000);
    assert_eq!(store.say("ZREMRANGEBYRANK a 10 -1"), ":19990");
    // Its table and its tree keep a little.
    assert!(store.store.used_bytes() < 100_000, "{}", store.store.used_bytes());
    store.say("ZADD a 1 x");
    assert_eq!(store.say("ZCARD a"), ":11");
    store.say("DEL a");
    assert!(store.store.used_bytes() < 32 * 1024, "{}", store.store.used_bytes());
}

#[test]
fn a_transaction_watches_sorted_sets() {
    let mut store = Conversation::new();
    for (line, is_change) in [("ZADD a 2 x", true), ("ZADD a 1 x", false), ("ZREM a y", false)] {
        store.say("ZADD a 1 x");
        store.expect(&[("WATCH a", "+OK"), ("MULTI", "+OK"), ("ZCARD a", "+QUEUED")]);
        store.say_as(1, line);
        let expected = if is_change { "*-1" } else { "*1 :1" };
        assert_eq!(store.say("EXEC"), expected, "{line}");
    }
}
