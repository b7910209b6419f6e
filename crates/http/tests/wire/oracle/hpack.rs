//! HPACK against another implementation, block after block on one connection.
//!
//! The first byte of the data is the size of the table in units of 64 bytes; then come blocks, each
//! behind a byte of its length.

use loona_hpack::decoder::{Decoder as Other, DecoderError, IntegerDecodingError};
use pinion_http::hpack::CompressionError;
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::{FIELDS_MAX, HEAD_MAX_BYTES, Limits};
use pinion_http::section::{FieldSection, Fit};

/// Panics when the two read the data in different ways.
pub(crate) fn check(data: &[u8]) {
    let Some((&size, mut rest)) = data.split_first() else { return };
    let mut blocks = Vec::new();
    while let Some((&length, tail)) = rest.split_first() {
        let (block, tail) = tail.split_at(usize::from(length).min(tail.len()));
        blocks.push(block);
        rest = tail;
    }
    check_blocks(64 * usize::from(size), blocks);
}

/// The same with blocks of any length.
pub(crate) fn check_blocks<'b>(table_bytes: usize, blocks: impl IntoIterator<Item = &'b [u8]>) {
    let mut decoder = Decoder::new(table_bytes);
    let mut strict = Decoder::new(table_bytes);
    let mut other = Other::new();
    other.set_max_allowed_table_size(table_bytes);
    other.set_max_table_size(table_bytes);
    let mut section = FieldSection::new();
    let limits = Limits::default();
    for block in blocks {
        let fit = decoder.decode(block, &mut section, &limits);
        check_small(&mut strict, block, &section, fit);
        let expected = match other.decode(block) {
            // It wants a field behind a change of size; RFC 7541 §4.2 does not.
            Err(DecoderError::SizeUpdateAtEnd) if fit.is_ok() => Vec::new(),
            Err(DecoderError::IntegerDecodingError(IntegerDecodingError::TooManyOctets)) => return,
            expected => match (expected, fit) {
                (Ok(expected), Ok(_)) => expected,
                // It bears a change of size anywhere, and any amount of work.
                (Ok(_), Err(CompressionError::TableSize)) => {
                    assert!(changes_size_late(block), "{block:02x?}");
                    return;
                }
                (Ok(expected), Err(CompressionError::Work)) => {
                    assert!(is_over(&expected), "{block:02x?}");
                    return;
                }
                (Err(_), Err(_)) => return,
                (expected, _) => panic!("{block:02x?}: {expected:?}, but {fit:?}"),
            },
        };
        let fields: Vec<_> =
            section.fields().iter().map(|x| (x.name.to_vec(), x.value.to_vec())).collect();
        assert!(expected.starts_with(&fields), "{fields:?} of {expected:?}");
        match fit {
            Ok(Fit::Whole) => assert_eq!(fields.len(), expected.len()),
            _ => assert!(is_over(&expected)),
        }
    }
}

/// Small limits change how much of a section is there, and nothing else.
fn check_small(
    strict: &mut Decoder,
    block: &[u8],
    whole: &FieldSection,
    fit: Result<Fit, CompressionError>,
) {
    let mut section = FieldSection::new();
    let limits = Limits { fields: 3, head_bytes: 60, ..Limits::default() };
    let small = strict.decode(block, &mut section, &limits);
    if small == Err(CompressionError::Work) {
        return;
    }
    assert_eq!(small.map(drop), fit.map(drop));
    let mut all = whole.fields().iter();
    assert!(section.fields().iter().all(|field| all.next() == Some(field)));
    let bytes: usize = section.fields().iter().map(|x| x.name.len() + x.value.len()).sum();
    assert!(bytes <= 60 && section.fields().len() <= 3);
    assert!(small != Ok(Fit::Whole) || all.next().is_none());
}

fn is_over(fields: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    bytes > HEAD_MAX_BYTES || fields.len() > FIELDS_MAX
}

/// Whether a change of size stands behind a field, in a block that is otherwise well-formed.
fn changes_size_late(block: &[u8]) -> bool {
    let mut at = 0;
    let mut seen = false;
    while let Some(&first) = block.get(at) {
        let (prefix, strings, is_size) = match first {
            0x80.. => (7, 0, false),
            0x40.. => (6, 1, false),
            0x20.. => (5, 0, true),
            _ => (4, 1, false),
        };
        if is_size && seen {
            return true;
        }
        seen |= !is_size;
        let has_name = strings == 1 && integer(block, &mut at, prefix) == 0;
        if strings == 0 {
            integer(block, &mut at, prefix);
        }
        for _ in 0..strings + usize::from(has_name) {
            at += integer(block, &mut at, 7);
        }
    }
    false
}

fn integer(block: &[u8], at: &mut usize, prefix: u32) -> usize {
    let mask = (1 << prefix) - 1;
    let mut value = usize::from(block[*at]) & mask;
    *at += 1;
    if value == mask {
        for shift in (0..).step_by(7) {
            let byte = block[*at];
            *at += 1;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    value
}
