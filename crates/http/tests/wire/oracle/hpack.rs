//! HPACK against another implementation, block after block on one connection.
//!
//! The first byte of the data is the size of the table in units of 64 bytes; blocks follow, each
//! after a byte with its length.

use loona_hpack::decoder::{Decoder as Other, DecoderError, IntegerDecodingError};
use pinion_http::field_section::{FieldSection, Fit};
use pinion_http::hpack::CompressionError;
use pinion_http::hpack::decoder::Decoder;
use pinion_http::limits::Limits;

use super::http1_equivalent_head::{Pair, within};

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

/// Checks as [`check`] does, with blocks of any length.
pub(crate) fn check_blocks<'b>(table_bytes: usize, blocks: impl IntoIterator<Item = &'b [u8]>) {
    let mut decoder = Decoder::new(table_bytes);
    let mut strict = Some(Decoder::new(table_bytes));
    let mut other = Other::new();
    other.set_max_allowed_table_size(table_bytes);
    other.set_max_table_size(table_bytes);
    let mut section = FieldSection::new();
    let limits = Limits::default();
    for block in blocks {
        let fit = decoder.decode(block, &mut section, &limits);
        let small = check_small(&mut strict, block, fit);
        let expected = match other.decode(block) {
            // The other decoder requires a field after a change of size; RFC 7541 §4.2 does not.
            Err(DecoderError::SizeUpdateAtEnd) if fit.is_ok() => Vec::new(),
            Err(DecoderError::IntegerDecodingError(IntegerDecodingError::TooManyOctets)) => return,
            expected => match (expected, fit) {
                (Ok(expected), Ok(_)) => expected,
                // The other decoder accepts a change of size anywhere, and any amount of work.
                (Ok(_), Err(CompressionError::TableSize)) => {
                    assert!(changes_size_late(block), "{block:02x?}");
                    return;
                }
                (Ok(expected), Err(CompressionError::Work)) => {
                    assert!(!within(&expected, &limits).1, "{block:02x?}");
                    return;
                }
                (Err(_), Err(_)) => return,
                (expected, _) => panic!("{block:02x?}: {expected:?}, but {fit:?}"),
            },
        };
        assert_eq!(decoded(&section), within(&expected, &limits), "{expected:?}");
        if let Some(small) = small {
            assert_eq!(decoded(&small), within(&expected, &SMALL), "{expected:?}");
        }
    }
}

const SMALL: Limits = Limits { fields: 3, head_bytes: 60, target_bytes: 30, body_bytes: 0 };

/// Decodes a block with small limits, which change the available part of a section, and nothing
/// else. If that makes too much work for the decoder, no section is returned and the decoder is
/// removed.
fn check_small(
    strict: &mut Option<Decoder>,
    block: &[u8],
    fit: Result<Fit, CompressionError>,
) -> Option<FieldSection> {
    let mut section = FieldSection::new();
    let small = strict.as_mut()?.decode(block, &mut section, &SMALL);
    if small == Err(CompressionError::Work) {
        *strict = None;
        return None;
    }
    assert_eq!(small.map(drop), fit.map(drop));
    Some(section)
}

fn decoded(section: &FieldSection) -> (Vec<Pair>, bool) {
    let pairs = section.fields().iter().map(|x| (x.name.to_vec(), x.value.to_vec()));
    (pairs.collect(), section.fit() == Fit::Whole)
}

/// Returns whether a change of size follows a field, in a block that is otherwise well-formed.
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
