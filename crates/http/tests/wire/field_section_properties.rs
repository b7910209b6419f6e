//! Properties: field sections made of the representations there are, in order and spoiled, each
//! given to the oracle's check.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use pinion_http::hpack::static_encoder;

use crate::oracle;

/// Writes an integer after the bits of a representation.
fn integer(flags: u8, prefix: u32, value: usize) -> Vec<u8> {
    let mask = (1usize << prefix) - 1;
    if value < mask {
        return vec![flags | value as u8];
    }
    let mut out = vec![flags | mask as u8];
    let mut rest = value - mask;
    while rest >= 128 {
        out.push(0x80 | rest as u8);
        rest /= 128;
    }
    out.push(rest as u8);
    out
}

/// Writes a string as it is, or in code where that is shorter; `flags` and `prefix` are of QPACK's
/// names.
fn literal(flags: u8, prefix: u32, text: &[u8], coded: bool) -> Vec<u8> {
    if coded && prefix == 7 {
        // The result is the value of a field whose name is one letter: three bytes precede it.
        let mut out = Vec::new();
        static_encoder::field(&mut out, b"x", text);
        return out.split_off(3);
    }
    [integer(flags, prefix, text.len()), text.to_vec()].concat()
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-z0-9-]{0,12}".prop_map(String::into_bytes),
        2 => vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 0..5000usize).prop_map(|(byte, count)| vec![byte; count]),
        1 => select(vec!["www.example.com", "/index.html?a=b", "text/html, */*;q=0.8"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// Returns indices: mostly existing ones, and a few that may not exist, which would end the
/// connection.
fn index() -> impl Strategy<Value = usize> {
    let wild = prop_oneof![62..75usize, select(vec![0, 127, 128, 200, 1 << 31])];
    prop_oneof![30 => 1..62usize, 30 => 62..66usize, 1 => wild]
}

/// Returns a field of HPACK: whole, or with a name by number or by letters.
fn hpack_field() -> impl Strategy<Value = Vec<u8>> {
    let kind = select(vec![(0x40, 6), (0x40, 6), (0x00, 4), (0x10, 4)]);
    let named = (kind.clone(), index(), text(), any::<bool>()).prop_map(
        |((flags, prefix), index, value, coded)| {
            [integer(flags, prefix, index), literal(0, 7, &value, coded)].concat()
        },
    );
    let lettered =
        (kind, text(), text(), any::<[bool; 2]>()).prop_map(|((flags, _), name, value, coded)| {
            let [name, value] = [(name, coded[0]), (value, coded[1])]
                .map(|(text, coded)| literal(0, 7, &text, coded));
            [vec![flags], name, value].concat()
        });
    // An entry has 64 bytes, as the table counts: such entries fill it exactly.
    let exact = any::<u8>().prop_map(|byte| [&[0x40, 1, byte, 31][..], &[byte; 31]].concat());
    prop_oneof![
        4 => index().prop_map(|index| integer(0x80, 7, index)),
        2 => named,
        2 => lettered,
        2 => exact,
    ]
}

/// Returns a block that fills the table of a connection, so that there are entries to refer to.
fn first_block() -> Vec<u8> {
    (b'a'..b'k').flat_map(|byte| [0x40, 1, byte, 1, byte]).collect()
}

fn size_update() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![0..300usize, Just(4096), 0..20_000usize].prop_map(|size| integer(0x20, 5, size))
}

fn hpack_block() -> impl Strategy<Value = Vec<u8>> {
    let sizes = prop_oneof![6 => Just(Vec::new()), 1 => vec(size_update(), 1..3)];
    (sizes, vec(hpack_field(), 0..8)).prop_map(|(sizes, fields)| [sizes, fields].concat().concat())
}

/// Returns a field of QPACK, mostly without a table.
fn qpack_field() -> impl Strategy<Value = Vec<u8>> {
    let row = prop_oneof![9 => 0..99usize, 1 => 99..200usize];
    let named = (row.clone(), text(), any::<bool>(), select(vec![0x50, 0x70])).prop_map(
        |(row, value, coded, flags)| {
            [integer(flags, 4, row), literal(0, 7, &value, coded)].concat()
        },
    );
    let lettered = (text(), text(), any::<bool>(), select(vec![0x20, 0x30])).prop_map(
        |(name, value, coded, flags)| {
            [literal(flags, 3, &name, false), literal(0, 7, &value, coded)].concat()
        },
    );
    prop_oneof![
        20 => row.prop_map(|row| integer(0xc0, 6, row)),
        10 => named,
        10 => lettered,
        1 => vec(any::<u8>(), 1..3),
    ]
}

fn qpack_section() -> impl Strategy<Value = Vec<u8>> {
    let prefix = select(vec![&[0, 0][..], &[0, 0], &[0, 5], &[0, 0x80], &[1, 0], &[0, 0x7f, 1]]);
    (prefix, vec(qpack_field(), 0..8))
        .prop_map(|(prefix, fields)| [prefix.to_vec(), fields.concat()].concat())
}

fn spoil(bytes: &mut Vec<u8>, at: Index, byte: u8, how: u8) {
    if bytes.is_empty() {
        return;
    }
    let at = at.index(bytes.len());
    match how {
        0 => bytes[at] = byte,
        1 => bytes[at] ^= 1 << (byte & 7),
        2 => bytes.insert(at, byte),
        3 => drop(bytes.remove(at)),
        _ => bytes.truncate(at),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4 * ProptestConfig::default().cases))]

    #[test]
    fn hpack_blocks(
        table in select(vec![0, 64, 256, 320, 1000, 4096, 16 * 1024]),
        blocks in vec(hpack_block(), 0..12),
    ) {
        let first = first_block();
        let blocks = blocks.iter().map(Vec::as_slice);
        oracle::hpack::check_blocks(table, [&*first].into_iter().chain(blocks));
    }

    #[test]
    fn hpack_blocks_with_a_byte_changed(
        blocks in vec(hpack_block(), 1..8),
        which: Index,
        at: Index,
        byte: u8,
        how in 0..5u8,
    ) {
        let mut blocks = blocks;
        let which = which.index(blocks.len());
        spoil(&mut blocks[which], at, byte, how);
        blocks.insert(0, first_block());
        oracle::hpack::check_blocks(4096, blocks.iter().map(Vec::as_slice));
    }

    #[test]
    fn hpack_bytes(data in vec(any::<u8>(), 0..300)) {
        oracle::hpack::check(&data);
    }

    #[test]
    fn qpack_sections(section in qpack_section()) {
        oracle::qpack::check(&section);
    }

    #[test]
    fn qpack_sections_with_a_byte_changed(
        section in qpack_section(),
        at: Index,
        byte: u8,
        how in 0..5u8,
    ) {
        let mut section = section;
        spoil(&mut section, at, byte, how);
        oracle::qpack::check(&section);
    }

    #[test]
    fn qpack_bytes(data in vec(any::<u8>(), 0..60)) {
        oracle::qpack::check(&data);
        oracle::qpack::check(&[&[0, 0][..], &data].concat());
    }
}
