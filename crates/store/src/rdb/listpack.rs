//! Reading of listpacks, the encoding of small collections in Redis 7: each is one string.
//!
//! A listpack is its length in bytes (4 bytes), the number of elements (2 bytes), the elements and
//! a byte 255. Behind each element is its length, for reading from the end.

use super::packed_element::{Element, signed};
use super::payload_reader::PayloadReader;

/// Calls `visit` for each element. Returns `None` if the listpack is damaged, or `visit` does.
pub(super) fn elements(
    listpack: &[u8],
    visit: impl FnMut(Element<'_>) -> Option<()>,
) -> Option<()> {
    let mut visit = visit;
    let mut reader = PayloadReader::new(listpack);
    let bytes = u32::from_le_bytes(reader.array()?);
    let _count: [u8; 2] = reader.array()?;
    if usize::try_from(bytes).ok()? != listpack.len() {
        return None;
    }
    while let Some((element, bytes)) = element(&mut reader)? {
        reader.take(length_bytes(bytes))?;
        visit(element)?;
    }
    reader.is_at_end().then_some(())
}

/// Decodes an element. Returns it with its number of bytes, or `Some(None)` at the end of the
/// listpack.
#[expect(clippy::option_option, reason = "the outer one is damage, as everywhere here")]
fn element<'p>(reader: &mut PayloadReader<'p>) -> Option<Option<(Element<'p>, usize)>> {
    let first = reader.byte()?;
    let mut text = |head: usize, length: usize| {
        Some(Some((Element::Text(reader.take(length)?), head + length)))
    };
    let bytes = match first {
        0x00..=0x7f => return Some(Some((Element::Integer(first.into()), 1))),
        0x80..=0xbf => return text(1, usize::from(first & 0x3f)),
        0xc0..=0xdf => {
            let number = i64::from(first & 0x1f) << 8 | i64::from(reader.byte()?);
            // The integer has thirteen bits, of which the highest one is the sign.
            return Some(Some((Element::Integer(number << 51 >> 51), 2)));
        }
        0xe0..=0xef => {
            let length = usize::from(first & 0x0f) << 8 | usize::from(reader.byte()?);
            return Some(Some((Element::Text(reader.take(length)?), 2 + length)));
        }
        0xf0 => {
            let length = usize::try_from(u32::from_le_bytes(reader.array()?)).ok()?;
            return Some(Some((Element::Text(reader.take(length)?), 5 + length)));
        }
        0xf1 => 2,
        0xf2 => 3,
        0xf3 => 4,
        0xf4 => 8,
        0xff => return Some(None),
        _ => return None,
    };
    Some(Some((Element::Integer(signed(reader.take(bytes)?)), 1 + bytes)))
}

/// Returns the number of bytes of the length field behind an element. Each byte holds seven bits.
/// As in Redis, the largest number of two, three and four bytes takes one byte more.
fn length_bytes(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16_382 => 2,
        16_383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}
