use crate::test_client::Conversation;

#[test]
fn bits_are_set_counted_and_found() {
    Conversation::new().expect(&[
        ("SETBIT a 7 1", ":0"),
        ("SETBIT a 7 1", ":1"),
        ("GETBIT a 7", ":1"),
        ("GETBIT a 100", ":0"),
        ("SETBIT a 7 2", "-ERR bit is not an integer or out of range"),
        ("SETBIT a 4294967296 1", "-ERR bit offset is not an integer or out of range"),
        ("SETBIT a 23 1", ":0"),
        ("STRLEN a", ":3"),
        ("BITCOUNT a", ":2"),
        ("BITCOUNT a 1 -1", ":1"),
        ("BITCOUNT a 8 22 BIT", ":0"),
        ("BITCOUNT a 1", "-ERR syntax error"),
        ("BITPOS a 1", ":7"),
        ("BITPOS a 1 1", ":23"),
        ("BITPOS a 1 8 22 BIT", ":-1"),
        ("BITPOS a 2", "-ERR The bit argument must be 1 or 0."),
        ("BITPOS none 0", ":0"),
        ("SET b \"\\xff\"", "+OK"),
        ("BITPOS b 0", ":8"),
        ("BITPOS b 0 0 -1", ":-1"),
    ]);
}

#[test]
fn strings_are_combined_bit_by_bit() {
    Conversation::new().expect(&[
        ("MSET a abc b AB", "+OK"),
        ("BITOP AND c a b", ":3"),
        ("GET c", "$3 AB\0"),
        ("BITOP OR c a b", ":3"),
        ("GET c", "$3 abc"),
        ("BITOP XOR c a a", ":3"),
        ("GET c", "$3 \0\0\0"),
        ("BITOP NOT c a b", "-ERR BITOP NOT must be called with a single source key."),
        ("BITOP NOT c none", ":0"),
        ("EXISTS c", ":0"),
        ("BITOP MAYBE c a", "-ERR syntax error"),
    ]);
}

#[test]
fn bitfield_reads_and_writes_integers() {
    Conversation::new().expect(&[
        ("BITFIELD a SET u8 0 255 GET u4 4 INCRBY i5 #1 -3", "*3 :0 :15 :-7"),
        ("BITFIELD_RO a GET u16 0", "*1 :65088"),
        ("BITFIELD a OVERFLOW SAT INCRBY u8 0 100 OVERFLOW FAIL INCRBY u8 0 100", "*2 :255 $-1"),
        ("BITFIELD a OVERFLOW WRAP INCRBY u8 0 1", "*1 :0"),
        ("BITFIELD a SET i64 1 -1 GET i64 1", "*2 :36028797018963968 :-1"),
        ("BITFIELD_RO a SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        (
            "BITFIELD a GET u64 0",
            "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
             supported but i64 is.",
        ),
        ("BITFIELD a OVERFLOW UP", "-ERR Invalid OVERFLOW type specified"),
        ("BITFIELD none GET u8 100", "*1 :0"),
        ("EXISTS none", ":0"),
    ]);
}
