//! Tests with the examples of RFC 7541 Appendix C, byte for byte, and of the table at its limits.

use super::CompressionError;
use super::decoder::Decoder;
use super::dynamic_encoder::Encoder;
use super::static_encoder;
use crate::field_section::{FieldSection, Fit};
use crate::limits::{HEAD_MAX_BYTES, Limits, TABLE_COPY_MAX_BYTES, TABLE_MAX_BYTES};

/// The bytes of a hexadecimal dump.
fn hex(dump: &str) -> Vec<u8> {
    let digits: Vec<u8> = dump
        .bytes()
        .filter_map(|byte| crate::grammar::hex_digit(byte.to_ascii_lowercase()))
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Fields as lines of text.
fn text(section: &FieldSection) -> Vec<String> {
    let line = |field: crate::field::Field<'_>| {
        let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}: {}", part(field.name), part(field.value))
    };
    section.fields().iter().map(line).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, CompressionError> {
    let mut section = FieldSection::new();
    let fit = decoder.decode(block, &mut section, &Limits::default())?;
    assert_eq!(fit, Fit::Whole);
    assert_eq!(section.fit(), Fit::Whole);
    Ok(text(&section))
}

/// Decodes blocks one after the other and compares the fields of each.
fn check(decoder: &mut Decoder, blocks: &[(&str, &[&str])]) {
    for (dump, fields) in blocks {
        assert_eq!(decode(decoder, &hex(dump)).unwrap(), *fields, "{dump}");
    }
}

#[test]
fn c2_single_fields() {
    for (dump, field) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header",
        ),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path"),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret"),
        ("82", ":method: GET"),
    ] {
        check(&mut Decoder::new(4096), &[(dump, &[field])]);
    }
}

const REQUESTS: [&[&str]; 3] = [
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
    &[
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
        "cache-control: no-cache",
    ],
    &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ],
];

#[test]
fn c3_requests_as_they_are() {
    check(
        &mut Decoder::new(4096),
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0]),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1]),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                REQUESTS[2],
            ),
        ],
    );
}

#[test]
fn c4_requests_in_huffman_code() {
    check(
        &mut Decoder::new(4096),
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0]),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1]),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2]),
        ],
    );
}

const RESPONSES: [&[&str]; 3] = [
    &[
        ":status: 302",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ],
    &[
        ":status: 307",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ],
    &[
        ":status: 200",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:22 GMT",
        "location: https://www.example.com",
        "content-encoding: gzip",
        "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ],
];

/// "The SETTINGS_HEADER_TABLE_SIZE is set to the value of 256 octets, causing some evictions".
#[test]
fn c5_responses_as_they_are() {
    check(
        &mut Decoder::new(256),
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
                 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
                 6c65 2e63 6f6d",
                RESPONSES[0],
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1]),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
                 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
                 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
                 3d31",
                RESPONSES[2],
            ),
        ],
    );
}

/// The same as C.5 in Huffman code: "the eviction mechanism uses the length of the decoded literal
/// values, so the same evictions occur".
#[test]
fn c6_responses_in_huffman_code() {
    check(
        &mut Decoder::new(256),
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
                 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                RESPONSES[0],
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1]),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
                 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
                 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                RESPONSES[2],
            ),
        ],
    );
}

/// The encoder encodes C.2.2 and C.2.4 of RFC 7541 as they are there. It also encodes the literals
/// of C.4 and C.6, but for the bits that would add them to the table.
#[test]
fn written_fields_have_the_expected_bytes() {
    let field = |name: &str, value: &str| {
        let mut out = Vec::new();
        static_encoder::field(&mut out, name.as_bytes(), value.as_bytes());
        out
    };
    assert_eq!(field(":method", "GET"), hex("82"));
    assert_eq!(field("Accept-Encoding", "gzip, deflate"), hex("90"));
    assert_eq!(field("cache-control", "private"), hex("0f09 85aec3 771a 4b"));
    assert_eq!(
        field("CUSTOM-Key", " custom-value\t"),
        hex("0088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf")
    );
    assert_eq!(field("x", "\u{e9}"), hex("00 01 78 02 c3a9"), "no longer in code than as it is");
    assert_eq!(field("x", ""), hex("00 01 78 00"));
    for (status, dump) in
        [(200, "88"), (204, "89"), (206, "8a"), (304, "8b"), (400, "8c"), (404, "8d"), (500, "8e")]
    {
        let mut out = Vec::new();
        static_encoder::status(&mut out, status);
        assert_eq!(out, hex(dump));
    }
    for (name, dump) in [("Set-Cookie", "1f28 01 78"), ("authorization", "1f08 01 78")] {
        assert_eq!(field(name, "x"), hex(dump), "never to be indexed");
    }
}

#[test]
fn a_table_size_update_is_sent_once() {
    let mut encoder = Encoder::new();
    let mut begin = |limits: &[u32]| {
        let mut out = Vec::new();
        limits.iter().for_each(|limit| encoder.limit_table(*limit));
        encoder.begin(&mut out);
        out
    };
    assert_eq!(begin(&[]), hex(""));
    assert_eq!(begin(&[65_536, 4096]), hex(""));
    assert_eq!(begin(&[2048, 4096]), hex("3fe1 0f"));
    assert_eq!(begin(&[4096]), hex(""));
    // A table that is too small to be of use is disabled.
    assert_eq!(begin(&[100]), hex("20"));
    assert_eq!(begin(&[0]), hex(""));
}

/// Literals with indexing, of one name and value.
fn kept(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0x40];
    for part in [name, value] {
        super::integer::write(&mut block, 0, 7, part.len());
        block.extend_from_slice(part.as_bytes());
    }
    block
}

/// RFC 7541 §2.3.3: "Indices strictly greater than the sum of the lengths of both tables MUST be
/// treated as a decoding error"; §6.1: "The index value of 0 is not used".
#[test]
fn invalid_indices_and_truncated_blocks_are_errors() {
    for (dump, error) in [
        ("80", CompressionError::Index),
        ("be", CompressionError::Index),
        ("7e 01 61", CompressionError::Index),
        ("0f2f 01 61", CompressionError::Index),
        ("ff ffff ff7f", CompressionError::Index),
        ("ff ffff ffff 7f", CompressionError::Integer),
        ("ff", CompressionError::Truncated),
        ("40", CompressionError::Truncated),
        ("4001", CompressionError::Truncated),
        ("400161", CompressionError::Truncated),
        ("40016101", CompressionError::Truncated),
        ("4001617f ffff ff0f", CompressionError::Truncated),
        ("0481 00", CompressionError::Huffman),
    ] {
        assert_eq!(decode(&mut Decoder::new(4096), &hex(dump)), Err(error), "{dump}");
    }
    let mut decoder = Decoder::new(4096);
    assert_eq!(decode(&mut decoder, &[&kept("a", "b")[..], &[0xbe]].concat()).unwrap().len(), 2);
    assert_eq!(decode(&mut decoder, &[0xbf]), Err(CompressionError::Index));
}

/// A size of the table must be within the allowed one, and come before the first field (RFC 7541
/// §4.2, §6.3).
#[test]
fn sizes_of_the_table() {
    let mut decoder = Decoder::new(4096);
    assert_eq!(decode(&mut decoder, &kept("a", "b")).unwrap(), ["a: b"]);
    assert_eq!(decode(&mut decoder, &hex("be")).unwrap(), ["a: b"]);
    assert_eq!(decode(&mut decoder, &hex("203f e11f be")), Err(CompressionError::Index), "emptied");
    let block = [hex("20 3fe1 1f"), kept("a", "b"), hex("be")].concat();
    assert_eq!(decode(&mut decoder, &block).unwrap(), ["a: b", "a: b"]);
    for over in ["3fe2 1f", "3fe0 ffff ff0f"] {
        let result = decode(&mut Decoder::new(4096), &hex(over));
        assert_eq!(result, Err(CompressionError::TableSize));
    }
    assert_eq!(decode(&mut decoder, &hex("82 20")), Err(CompressionError::TableSize));
    let none = [kept("a", "b"), hex("be")].concat();
    assert_eq!(decode(&mut Decoder::new(0), &none), Err(CompressionError::Index));
}

/// RFC 7541 §4.4: "an attempt to add an entry larger than the maximum size causes the table to be
/// emptied of all existing entries and results in an empty table".
#[test]
fn entries_of_any_size() {
    for size in [40, 256, 4096, TABLE_MAX_BYTES] {
        let value = "v".repeat(size - 33);
        let mut decoder = Decoder::new(size);
        assert_eq!(decode(&mut decoder, &kept("n", &value)).unwrap().len(), 1);
        assert_eq!(decode(&mut decoder, &hex("be")).unwrap(), [format!("n: {value}")]);
        assert_eq!(decode(&mut decoder, &kept("n", &format!("{value}v"))).unwrap().len(), 1);
        assert_eq!(decode(&mut decoder, &hex("be")), Err(CompressionError::Index));
    }
    // Not even the section has room for this field.
    let mut decoder = Decoder::new(TABLE_MAX_BYTES);
    let mut section = FieldSection::new();
    decode(&mut decoder, &kept("a", "b")).unwrap();
    let block = [kept("n", &"v".repeat(5 * HEAD_MAX_BYTES)), kept("c", "d")].concat();
    let fit = decoder.decode(&block, &mut section, &Limits::default());
    assert_eq!((fit, section.fields().len()), (Ok(Fit::TooLarge), 0));
    assert_eq!(decode(&mut decoder, &hex("be")).unwrap(), ["c: d"]);
    assert_eq!(decode(&mut decoder, &hex("bf")), Err(CompressionError::Index));
}

/// A section over the limits is decoded to its end, and the table continues to work.
#[test]
fn sections_over_the_limits_are_decoded_as_too_large() {
    let mut section = FieldSection::new();
    let limits = Limits { head_bytes: 20, fields: 2, ..Limits::default() };
    let mut decoder = Decoder::new(4096);
    let block = [kept("name", "0123456789"), kept("next", "0123456789"), hex("82")].concat();
    assert_eq!(decoder.decode(&block, &mut section, &limits), Ok(Fit::TooLarge));
    assert_eq!(text(&section), ["name: 0123456789"]);
    let fit = decoder.decode(&hex("82 be bf"), &mut section, &Limits::default());
    assert_eq!(fit, Ok(Fit::Whole));
    assert_eq!(text(&section), [":method: GET", "next: 0123456789", "name: 0123456789"]);
    // 2 lines, then 3; in HTTP/1 20 bytes, then 24.
    for (dump, fit) in [
        ("0001 6100 0001 6100", Fit::Whole),
        ("0001 6100 0001 6100 0001 6100", Fit::TooMany),
        ("8d82", Fit::Whole),
        ("8d82 82", Fit::TooLarge),
        ("8d82 82 be", Fit::TooLarge),
    ] {
        assert_eq!(decoder.decode(&hex(dump), &mut section, &limits), Ok(fit), "{dump}");
    }
    for (rest, error) in [
        ("ff 7f", CompressionError::Index),
        ("0481 00", CompressionError::Huffman),
        ("0f7f 0161", CompressionError::Index),
        ("20", CompressionError::TableSize),
        ("0403 6161", CompressionError::Truncated),
    ] {
        let block = hex(&format!("8d82 82 {rest}"));
        assert_eq!(decoder.decode(&block, &mut section, &limits), Err(error), "{rest}");
    }
    // No listener can raise the limits above the storage.
    let many = [0x82].repeat(HEAD_MAX_BYTES);
    let boundless = Limits { head_bytes: usize::MAX, fields: usize::MAX, ..Limits::default() };
    assert_eq!(decoder.decode(&many, &mut section, &boundless), Ok(Fit::TooMany));
    // Only the four pseudo-header fields, which HTTP/1 does not have, come in addition.
    assert_eq!(section.fields().len(), crate::limits::FIELDS_MAX + 4);
}

/// A section that is too large is checked to its end, at whatever position it has an error.
#[test]
fn sections_over_the_limits_are_checked_to_their_end() {
    let mut section = FieldSection::new();
    let limits = Limits { fields: 2, ..Limits::default() };
    let (mut decoder, many) = (Decoder::new(4096), [0xbe].repeat(300));
    decoder.decode(&kept("name", "value"), &mut section, &limits).unwrap();
    for at in [0, 1, 31, 32, 33, 64, 200, 299, 300] {
        for (part, result) in [
            ("be", Ok(Fit::TooMany)),
            ("ff 80 00", Err(CompressionError::Index)),
            ("bd", Ok(Fit::TooMany)),
            ("0001 6100", Ok(Fit::TooMany)),
            ("80", Err(CompressionError::Index)),
            ("bf", Err(CompressionError::Index)),
            ("20", Err(CompressionError::TableSize)),
        ] {
            let block = [&[0x8d, 0x8d, 0x8d], &many[..at], &hex(part), &many[at..]].concat();
            assert_eq!(decoder.decode(&block, &mut section, &limits), result, "{part} at {at}");
        }
    }
}

/// For a section that is already too large, two bytes copy a whole entry, again and again.
#[test]
fn the_work_of_decoding_is_limited() {
    let name = "n".repeat(4000);
    let rounds = TABLE_COPY_MAX_BYTES / name.len();
    let mut section = FieldSection::new();
    for (count, result) in [(rounds, Ok(Fit::TooMany)), (rounds + 1, Err(CompressionError::Work))] {
        let mut decoder = Decoder::new(4096);
        let block = [kept(&name, ""), [0x8d, 0x8d].to_vec(), [0x7e, 0x00].repeat(count)].concat();
        let limits = Limits { fields: 2, ..Limits::default() };
        assert_eq!(decoder.decode(&block, &mut section, &limits), result);
    }
}

/// There is no memory before the first entry, and never more than announced.
#[test]
fn memory_is_bounded_by_the_announced_table_size() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &hex("8286 8404 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff")).unwrap();
    assert_eq!(decoder.memory_bytes(), 0);
    for round in 0..1000 {
        let entry = kept(&"n".repeat(round % 90), &round.to_string());
        let expected = decode(&mut decoder, &entry).unwrap();
        assert_eq!(decode(&mut decoder, &hex("be")).unwrap(), expected);
    }
    assert!((4096..=4096 + 2048).contains(&decoder.memory_bytes()), "{}", decoder.memory_bytes());
}

/// The table against a list of strings: every entry after every insertion, in tables that entries
/// fill exactly, and across the end of the ring again and again.
#[test]
fn the_table_is_a_list() {
    for size in [64, 128, 256, 320, 1000] {
        let mut decoder = Decoder::new(size);
        let mut list = std::collections::VecDeque::new();
        for round in 0..500usize {
            let letter = char::from(b'a' + (round % 26) as u8).to_string();
            let value = letter.repeat([31, 0, 31, 31, 95, 7, 31, 150, 31, 300][round % 10]);
            decode(&mut decoder, &kept(&letter, &value)).unwrap();
            list.push_front(format!("{letter}: {value}"));
            // A colon and a space more, so 30 for the 32 that an entry counts.
            while list.iter().map(|line| line.len() + 30).sum::<usize>() > size {
                list.pop_back();
            }
            let all: Vec<u8> = (0..list.len()).map(|place| 0x80 | (62 + place) as u8).collect();
            let said = decode(&mut decoder, &all).unwrap();
            assert_eq!(said, *list.make_contiguous(), "{size}, {round}");
            let beyond = [0x80 | (62 + list.len()) as u8];
            assert_eq!(decode(&mut decoder, &beyond), Err(CompressionError::Index));
        }
    }
}
