//! Reading of packed collections that only older versions of Redis write: ziplists, zipmaps, and
//! sets of integers.

use super::packed_element::{Element, signed};
use super::payload_reader::PayloadReader;

/// Calls `visit` for each element of a ziplist. A ziplist consists of its length in bytes (4
/// bytes), the position of the last element (4), the number of elements (2), the elements, and a
/// byte 255. Before each element is the length of the previous one. Returns `None` if the ziplist
/// is damaged, or if `visit` does.
pub(super) fn ziplist(
    ziplist: &[u8],
    mut visit: impl FnMut(Element<'_>) -> Option<()>,
) -> Option<()> {
    let mut reader = PayloadReader::new(ziplist);
    let bytes = u32::from_le_bytes(reader.array()?);
    let _tail_and_count: [u8; 6] = reader.array()?;
    if usize::try_from(bytes).ok()? != ziplist.len() {
        return None;
    }
    loop {
        match reader.byte()? {
            0xff => return reader.is_at_end().then_some(()),
            0xfe => {
                reader.take(4)?;
            }
            _ => {}
        }
        visit(ziplist_element(&mut reader)?)?;
    }
}

fn ziplist_element<'p>(reader: &mut PayloadReader<'p>) -> Option<Element<'p>> {
    let first = reader.byte()?;
    let bytes = match first {
        0x00..=0x3f => return reader.take(first.into()).map(Element::Text),
        0x40..=0x7f => {
            let length = usize::from(first & 0x3f) << 8 | usize::from(reader.byte()?);
            return reader.take(length).map(Element::Text);
        }
        0x80 => {
            let length = u32::from_be_bytes(reader.array()?);
            return reader.take(usize::try_from(length).ok()?).map(Element::Text);
        }
        0xc0 => 2,
        0xd0 => 4,
        0xe0 => 8,
        0xf0 => 3,
        0xfe => 1,
        0xf1..=0xfd => return Some(Element::Integer(i64::from(first & 0x0f) - 1)),
        _ => return None,
    };
    reader.take(bytes).map(|bytes| Element::Integer(signed(bytes)))
}

/// Calls `visit` for each name and value of a zipmap. A zipmap consists of a byte for the number of
/// fields, the names and values with their lengths, and a byte 255. Unused bytes may follow a
/// value.
pub(super) fn zipmap(
    zipmap: &[u8],
    mut visit: impl FnMut(Element<'_>) -> Option<()>,
) -> Option<()> {
    let mut reader = PayloadReader::new(zipmap);
    reader.byte()?;
    while let Some(length) = zipmap_length(&mut reader)? {
        visit(Element::Text(reader.take(length)?))?;
        let length = zipmap_length(&mut reader)??;
        let unused = reader.byte()?;
        visit(Element::Text(reader.take(length)?))?;
        reader.take(unused.into())?;
    }
    reader.is_at_end().then_some(())
}

/// Takes a length. Returns `Some(None)` at the end.
#[expect(clippy::option_option, reason = "the outer one is damage, as everywhere here")]
fn zipmap_length(reader: &mut PayloadReader<'_>) -> Option<Option<usize>> {
    match reader.byte()? {
        0xff => Some(None),
        0xfe => Some(Some(usize::try_from(u32::from_le_bytes(reader.array()?)).ok()?)),
        length => Some(Some(length.into())),
    }
}

/// Calls `visit` for each member of a set of integers. Such a set consists of the number of bytes
/// of each integer (4 bytes), the number of integers (4), and the integers in little-endian order.
pub(super) fn integers(set: &[u8], mut visit: impl FnMut(Element<'_>) -> Option<()>) -> Option<()> {
    let mut reader = PayloadReader::new(set);
    let bytes = u32::from_le_bytes(reader.array()?);
    let count = u32::from_le_bytes(reader.array()?);
    if !matches!(bytes, 2 | 4 | 8) {
        return None;
    }
    for _ in 0..count {
        visit(Element::Integer(signed(reader.take(bytes as usize)?)))?;
    }
    reader.is_at_end().then_some(())
}
