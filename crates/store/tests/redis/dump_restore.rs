//! Values that redis-server dumps are restored by a store, and the other way round.

use std::cell::RefCell;

use pinion_store::limits::WORK_MAX;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};

use crate::GROUPS;
use crate::command_table::Part::{Float, Integer, Key, Member, Repeated, Text, Value};
use crate::command_table::{Comparison, Group, Row, row};
use crate::comparison::StoreClient;
use crate::generator::{KEYS, Request, read_request, valid_requests_of_group};
use crate::payload_checksum::seal;
use crate::redis_server::RedisServer;
use crate::resp_reply::RespReply;
use crate::ziplist_listpack_writer::{listpack, string, ziplist};

const LONG_BYTES: [u8; 3000] = [b'x'; 3000];
/// The text is compressed; three of them are more than a part of a list has space for.
const LONG: &str = match std::str::from_utf8(&LONG_BYTES) {
    Ok(text) => text,
    Err(_) => panic!("it is ASCII"),
};
/// Strings and integers of all lengths that payloads make a difference between.
const TEXTS: &[&str] = &[
    "",
    "12",
    "-1",
    "127",
    "128",
    "-129",
    "4095",
    "-4096",
    "32768",
    "-8388609",
    "2147483647",
    "-2147483649",
    "9223372036854775807",
    "-9223372036854775808",
    "007",
    "a text that is longer than sixty-three bytes, and that is not the same",
    "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc, and something else",
    LONG,
];

const GROUP: Group = Group {
    commands: &[
        row("set", &[Key, Text(TEXTS)]),
        row("rpush", &[Key, Repeated(&[Text(TEXTS)])]),
        row("rpush", &[Key, Repeated(&[Member])]),
        row("sadd", &[Key, Repeated(&[Text(TEXTS)])]),
        row("sadd", &[Key, Repeated(&[Integer])]),
        row("zadd", &[Key, Repeated(&[Float, Text(TEXTS)])]),
        row("zadd", &[Key, Repeated(&[Integer, Member])]),
        row("hset", &[Key, Repeated(&[Text(TEXTS), Value])]),
        row("hset", &[Key, Repeated(&[Member, Text(TEXTS)])]),
        row("del", &[Key]),
    ],
    final_reads: &[],
};

/// The settings of redis-server for the largest size of a packed collection.
const LIMITS: [&str; 5] = [
    "list-max-listpack-size",
    "hash-max-listpack-entries",
    "zset-max-listpack-entries",
    "set-max-intset-entries",
    "list-compress-depth",
];

fn request(words: &[&[u8]]) -> Request {
    let arguments = words.iter().map(|&word| word.into()).collect();
    Request { arguments, comparison: Comparison::Exact }
}

/// Returns the requests that show all values, but not how they are stored.
fn final_reads() -> Vec<Request> {
    let is_about_value = |row: &&Row| !matches!(row.name, "ttl" | "object");
    let rows = || GROUPS.iter().flat_map(|group| group.final_reads).filter(is_about_value);
    KEYS.iter().flat_map(|key| rows().map(|row| read_request(row, key))).collect()
}

/// Restores payloads with a function, which returns the reply.
fn restore_all(
    payloads: &[(&str, Vec<u8>)],
    mut restore: impl FnMut(Request) -> RespReply,
) -> TestCaseResult {
    for (key, payload) in payloads {
        let reply = restore(request(&[b"RESTORE", key.as_bytes(), b"0", payload]));
        prop_assert_eq!(format!("{reply:?}"), "+OK", "{}: {}", key, payload.escape_ascii());
    }
    Ok(())
}

/// Dumps all keys with a function.
fn dump_all(mut dump: impl FnMut(Request) -> RespReply) -> Vec<(&'static str, Vec<u8>)> {
    let dumped = KEYS.iter().map(|key| (*key, dump(request(&[b"DUMP", key.as_bytes()]))));
    dumped.filter_map(|(key, reply)| Some((key, reply.into_text()?))).collect()
}

fn check(server: &mut RedisServer, limits: &str, requests: &[Request]) -> TestCaseResult {
    for name in LIMITS {
        let value = if name == "list-compress-depth" && limits != "128" { "1" } else { limits };
        server.replies(&[request(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()])]);
    }
    server.replies(&[request(&[b"FLUSHALL"])]);
    server.replies(requests);
    let final_reads = final_reads();
    let expected = server.replies(&final_reads);
    let mut one = |request| server.replies(&[request]).remove(0);

    let dumped = dump_all(&mut one);
    let mut store = StoreClient::new(WORK_MAX);
    restore_all(&dumped, |request| store.reply(&request))?;
    for (read, expected) in final_reads.iter().zip(&expected) {
        let reply = store.reply(read);
        prop_assert!(
            reply.matches(expected, read.comparison),
            "{read:?}\nredis-server: {expected:?}\n       store: {reply:?}"
        );
    }

    let dumped = dump_all(|request| store.reply(&request));
    one(request(&[b"FLUSHALL"]));
    restore_all(&dumped, &mut one)?;
    for (read, expected) in final_reads.iter().zip(&expected) {
        let reply = one(read.clone());
        prop_assert!(
            reply.matches(expected, read.comparison),
            "{read:?} of what the store has dumped\nbefore: {expected:?}\n after: {reply:?}"
        );
    }
    Ok(())
}

#[test]
fn dumped_values_are_exchanged_with_redis_both_ways() {
    const CASES: u32 = 1000;
    const SHRINKING_MS: u32 = 20_000;
    let mut config = ProptestConfig { max_shrink_time: SHRINKING_MS, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let server = RefCell::new(RedisServer::start());
    let strategy = (prop::sample::select(&["128", "2"][..]), valid_requests_of_group(&GROUP));
    let result = TestRunner::new(config)
        .run(&strategy, |(limits, requests)| check(&mut server.borrow_mut(), limits, &requests));
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Returns values in forms that redis-server 7.0 reads and does not write, or seldom.
fn seldom_forms() -> Vec<(&'static str, Vec<u8>)> {
    let long = [&[0x40 | 300_u16.to_be_bytes()[0], 300_u16.to_be_bytes()[1]][..], &[b'y'; 300]];
    let (long, huge) = (long.concat(), [&[0x80, 0, 0, 0x40, 0][..], &[b'z'; 16_384]].concat());
    let elements: [&[u8]; 12] = [
        b"\x03abc",
        &long,
        b"\xf1",
        b"\xfd",
        b"\xfe\x80",
        b"\xc0\x00\x80",
        b"\xf0\x00\x00\x80",
        b"\xd0\x00\x00\x00\x80",
        b"\xe0\x00\x00\x00\x00\x00\x00\x00\x80",
        b"\x00",
        b"\x01b",
        &huge,
    ];
    let packed: [&[u8]; 10] = [
        b"\x05",
        b"\x83abc",
        b"\xdf\xff",
        b"\xd0\x00",
        b"\xf1\x00\x80",
        b"\xf2\x00\x00\x80",
        b"\xf3\x00\x00\x00\x80",
        b"\xf4\x00\x00\x00\x00\x00\x00\x00\x80",
        b"\x80",
        b"\xf0\x01\x00\x00\x00c",
    ];
    let with_kind = |kind: u8, value: Vec<u8>| [vec![kind], value].concat();
    let scores: [&[u8]; 8] =
        [b"\x01d", b"\x04-inf", b"\x01a", b"\x041e-3", b"\x01b", b"\xf2", b"\x01c", b"\x03inf"];
    let integers = b"\x02\0\0\0\x03\0\0\0\x00\x80\xff\xff\x05\x00";
    let wide = b"\x08\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\x80";
    vec![
        ("list", with_kind(10, string(&ziplist(&elements)))),
        ("list", [vec![14, 2], string(&ziplist(&elements)), string(&ziplist(&[b"\xf1"]))].concat()),
        ("list", [vec![18, 2, 2], string(&listpack(&packed)), vec![1], string(b"e")].concat()),
        ("set", with_kind(11, string(integers))),
        ("set", with_kind(11, string(wide))),
        ("sorted set", with_kind(12, string(&ziplist(&scores)))),
        ("sorted set", b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff".to_vec()),
        ("hash", with_kind(13, string(&ziplist(&elements)))),
        ("hash", with_kind(16, string(&listpack(&packed)))),
        ("hash", with_kind(9, string(b"\x02\x01a\x03\x00xyz\x01b\x01\x02x\0\0\xff"))),
        ("string", b"\x00\xc3\x06\x14\x00a\xe0\x0a\x00".to_vec()),
        ("string", b"\x00\xc3\x05\x14\x00a\xe0\x0a\x00".to_vec()),
    ]
}

#[test]
fn old_and_rare_dump_formats_are_restored() {
    let mut server = RedisServer::start();
    let mut store = StoreClient::new(WORK_MAX);
    for (name, value) in seldom_forms() {
        let payload = seal(&value, 9);
        let restore = request(&[b"RESTORE", b"a", b"0", &payload, b"REPLACE"]);
        let expected = server.replies(std::slice::from_ref(&restore)).remove(0);
        let reply = store.reply(&restore);
        assert_eq!(format!("{reply:?}"), format!("{expected:?}"), "{name}: {value:?}");
        for read in final_reads().iter().take(final_reads().len() / KEYS.len()) {
            let expected = server.replies(std::slice::from_ref(read)).remove(0);
            let reply = store.reply(read);
            let is_same = reply.matches(&expected, read.comparison);
            assert!(is_same, "{name}: {read:?}\n{expected:?}\n{reply:?}");
        }
    }
}

/// The length after an element has one byte more where its seven bits are all ones.
#[test]
fn elements_at_the_limits_of_length_encodings_are_exchanged() {
    let mut server = RedisServer::start();
    let mut one = |request| server.replies(&[request]).remove(0);
    one(request(&[b"CONFIG", b"SET", b"list-max-listpack-size", b"-5"]));
    let mut store = StoreClient::new(WORK_MAX);
    // There are bytes before the length itself: 1, 2 or 5 of them precede an element.
    for bytes in (60..70).chain(120..130).chain(16_370..16_390).chain(2_097_140..2_097_160) {
        let element = vec![b'x'; bytes];
        one(request(&[b"DEL", b"a"]));
        one(request(&[b"RPUSH", b"a", &element, b"behind"]));
        let payload = one(request(&[b"DUMP", b"a"])).into_text().expect("a payload");
        let restored = store.reply(&request(&[b"RESTORE", b"a", b"0", &payload, b"REPLACE"]));
        assert_eq!(format!("{restored:?}"), "+OK", "{bytes}");
        let read = request(&[b"LRANGE", b"a", b"0", b"-1"]);
        assert!(store.reply(&read) == one(read.clone()), "{bytes}");
        let payload = store.reply(&request(&[b"DUMP", b"a"])).into_text().expect("a payload");
        let restored = one(request(&[b"RESTORE", b"a", b"0", &payload, b"REPLACE"]));
        assert_eq!(format!("{restored:?}"), "+OK", "{bytes}");
        assert!(store.reply(&read) == one(read.clone()), "{bytes}");
    }
}
