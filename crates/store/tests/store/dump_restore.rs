use proptest::prelude::*;

use crate::fuzz_checks::dump_restore_round_trip::check;
use crate::fuzz_checks::payload_checksum::seal;
use crate::test_client::Conversation;

/// Returns a line of an inline command for bytes.
fn quoted(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{escaped}\"")
}

/// Values of all types, without their ends.
fn values() -> Vec<Vec<u8>> {
    let integers = b"\x0b\x0e\x02\0\0\0\x03\0\0\0\x00\x80\xff\xff\x05\x00";
    let ziplist = b"\x11\0\0\0\x0e\0\0\0\x02\0\0\x02ab\x04\xf3\xff";
    let listpack = b"\x0d\0\0\0\x02\0\x82ab\x03\x05\x01\xff";
    vec![
        b"\x00\x03abc".to_vec(),
        b"\x00\xc3\x05\x14\x00a\xe0\x0a\x00".to_vec(),
        b"\x01\x03\x01a\xc0\x05\xc1\x00\x01".to_vec(),
        b"\x02\x03\x01a\xc0\x05\x02bc".to_vec(),
        b"\x03\x02\x01a\x031.5\x01b\xff".to_vec(),
        b"\x04\x02\x01a\x01b\xc0\x05\xc2\x00\x00\x01\x00".to_vec(),
        [&b"\x05\x01\x01a"[..], &1.5_f64.to_le_bytes()].concat(),
        b"\x09\x0e\x02\x01a\x01\x00x\x01b\x01\x02x\0\0\xff".to_vec(),
        [&b"\x0a\x11"[..], ziplist].concat(),
        integers.to_vec(),
        [&b"\x0c\x11"[..], ziplist].concat(),
        [&b"\x0d\x11"[..], ziplist].concat(),
        [&b"\x0e\x01\x11"[..], ziplist].concat(),
        [&b"\x10\x0d"[..], listpack].concat(),
        [&b"\x11\x0d"[..], listpack].concat(),
        [&b"\x12\x02\x02\x0d"[..], listpack, b"\x01\x01x"].concat(),
        [&b"\x14\x0d"[..], listpack].concat(),
        [&b"\x18"[..], &2_000_000_000_000_u64.to_le_bytes(), b"\x02\x00\x01a\x01b\x05\x01c\x01d"]
            .concat(),
    ]
}

#[test]
fn values_of_all_types_are_restored() {
    let mut store = Conversation::new();
    for value in values() {
        let payload = quoted(&seal(&value, 12));
        let reply = store.say(&format!("RESTORE a 0 {payload} REPLACE"));
        assert_eq!(reply, "+OK", "{}", value.escape_ascii());
        check(&value);
        // Only the sealed bytes are taken, and nothing may be left.
        assert_eq!(store.say(&format!("RESTORE a 0 {} REPLACE", quoted(&value)))[..4], *"-ERR");
        let longer = seal(&[&value[..], b"\0"].concat(), 12);
        let reply = store.say(&format!("RESTORE a 0 {} REPLACE", quoted(&longer)));
        assert_eq!(reply, "-ERR Bad data format", "{}", value.escape_ascii());
    }
}

#[test]
fn claimed_lengths_allocate_nothing() {
    let huge = b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff";
    for kind in [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 16, 17, 18, 20] {
        check(&[&[kind][..], huge, b"\x01a\x01b"].concat());
    }
    check(&[&b"\x00\xc3\x03"[..], huge, b"\x01ab"].concat());
    check(b"\x0b\x0a\x02\0\0\0\xff\xff\xff\xff\x00\x80");
    check(&[&b"\x18\0\0\0\0\0\0\0\0"[..], huge].concat());
}

#[test]
fn options_of_restore_are_applied() {
    let mut store = Conversation::new();
    let payload = quoted(&seal(b"\x00\x03abc", 10));
    let newer = quoted(&seal(b"\x00\x03abc", 13));
    store.expect(&[
        (&format!("RESTORE a 5000 {payload}"), "+OK"),
        ("PTTL a", ":5000"),
        ("GET a", "$3 abc"),
        (&format!("RESTORE a 0 {payload}"), "-BUSYKEY Target key name already exists."),
        (&format!("RESTORE a 0 {payload} REPLACE IDLETIME 100"), "+OK"),
        ("OBJECT IDLETIME a", ":100"),
        ("PTTL a", ":-1"),
        (&format!("RESTORE a 1700000009000 {payload} REPLACE ABSTTL"), "+OK"),
        ("PTTL a", ":9000"),
        (&format!("RESTORE a 1 {payload} REPLACE ABSTTL"), "+OK"),
        ("EXISTS a", ":0"),
        (
            &format!("RESTORE a 0 {payload} FREQ 256"),
            "-ERR Invalid FREQ value, must be >= 0 and <= 255",
        ),
        (&format!("RESTORE a 0 {payload} FREQ 1 IDLETIME 1"), "-ERR syntax error"),
        (&format!("RESTORE a 0 {newer}"), "-ERR DUMP payload version or checksum are wrong"),
        ("CONFIG SET maxmemory-policy allkeys-lfu", "+OK"),
        (&format!("RESTORE a 0 {payload} FREQ 77"), "+OK"),
        ("OBJECT FREQ a", ":77"),
    ]);
}

#[test]
fn fields_that_expire_are_dumped() {
    let mut store = Conversation::new();
    store.say("HSET a x 1 y 2 z 3");
    store.say("HPEXPIREAT a 1700000001000 FIELDS 1 x");
    store.say("HPEXPIREAT a 1700000003000 FIELDS 1 y");
    let value = [&b"\x18"[..], &1_700_000_001_000_u64.to_le_bytes()].concat();
    let value = [&value[..], b"\x03\x01\x01x\xc0\x01\x47\xd1\x01y\xc0\x02\x00\x01z\xc0\x03"];
    let expected = seal(&value.concat(), 12);
    let dumped = store.say("DUMP a");
    let expected = String::from_utf8_lossy(&expected).replace("\r\n", " ");
    assert!(dumped.ends_with(expected.trim_end()), "{dumped:?}\n{expected:?}");
    let payload = quoted(&seal(&value.concat(), 12));
    store.expect(&[
        (&format!("RESTORE b 0 {payload}"), "+OK"),
        ("HPEXPIRETIME b FIELDS 3 x y z", "*3 :1700000001000 :1700000003000 :-1"),
        ("HGETALL b", "*6 $1 x $1 1 $1 y $1 2 $1 z $1 3"),
    ]);
    // Redis 7.4 dumps a small hash in this form.
    let listpack =
        b"\x82xy\x03\x05\x01\xf4\xe8\x69\xe5\xcf\x8b\x01\0\0\x09\x81z\x02\x06\x01\x00\x01";
    let mut value = [&b"\x19\0\0\0\0\0\0\0\0"[..], &[listpack.len() as u8 + 7]].concat();
    value.extend_from_slice(&[listpack.len() as u8 + 7, 0, 0, 0, 6, 0]);
    value.extend_from_slice(listpack);
    value.push(0xff);
    store.expect(&[
        (&format!("RESTORE c 0 {}", quoted(&seal(&value, 12))), "+OK"),
        ("HPEXPIRETIME c FIELDS 2 xy z", "*2 :1700000000488 :-1"),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..Default::default() })]

    /// The payload is one of the values, in which some bytes are changed or removed.
    #[test]
    fn damaged_values_are_refused_or_whole(
        value in prop::sample::select(values()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 0..4),
    ) {
        let mut value = value;
        for (index, byte, edit) in edits {
            let at = index.index(value.len());
            match edit {
                0 => value[at] = byte,
                1 => value.insert(at, byte),
                2 => value[at] ^= 1 << (byte % 8),
                _ => value.truncate(at + 1),
            }
        }
        check(&value);
    }

    #[test]
    fn arbitrary_values_are_refused_or_whole(
        kind in 0..26_u8,
        value in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        check(&[vec![kind], value].concat());
    }
}
