//! Field sections of a peer that has no table to refer to (RFC 9204 §4.5).

use super::static_table::QPACK;
use crate::field_section::{FieldSection, Fit};
use crate::hpack::{CompressionError as Error, integer, string};
use crate::limits::Limits;

/// Decodes a whole field section. The weights of fields, and the treatment of a section over the
/// limits, are as in [`hpack::decoder`](crate::hpack::decoder::Decoder::decode).
///
/// # Errors
/// The section is malformed or refers to a dynamic table; the connection must close with
/// [`QpackDecompressionFailed`](crate::h3::frame::ErrorCode::QpackDecompressionFailed).
pub fn decode(encoded: &[u8], section: &mut FieldSection, limits: &Limits) -> Result<Fit, Error> {
    section.begin(limits);
    let mut rest = encoded;
    prefix(&mut rest)?;
    while let Some(&first) = rest.first() {
        match first {
            // §4.5.2 to §4.5.4: a bit says whether the table is the static one.
            0xc0.. => {
                let place = integer::read_u32(&mut rest, 6)?;
                let (name, value) = QPACK.copy(place, section.room()).ok_or(Error::Index)?;
                section.take(name, value);
            }
            0x50..=0x5f | 0x70..=0x7f => {
                let place = integer::read_u32(&mut rest, 4)?;
                let room = if section.is_whole() { section.room() } else { &mut [] };
                let (name, _) = QPACK.copy(place, room).ok_or(Error::Index)?;
                let room = room.get_mut(name..).unwrap_or_default();
                let value = string::read(&mut rest, 7, room)?;
                section.take(name, value);
            }
            0x20..=0x3f => {
                let room = if section.is_whole() { section.room() } else { &mut [] };
                let name = string::read(&mut rest, 3, room)?;
                let room = room.get_mut(name..).unwrap_or_default();
                let value = string::read(&mut rest, 7, room)?;
                section.take(name, value);
            }
            _ => return Err(Error::NoTable),
        }
    }
    Ok(section.fit())
}

/// RFC 9204 §4.5.1: without a table, no entry can have been inserted. The base may be any number,
/// as no field refers to it, but the sign must not make it negative.
#[inline]
fn prefix(rest: &mut &[u8]) -> Result<(), Error> {
    if let [0, 0, tail @ ..] = rest {
        *rest = tail;
        return Ok(());
    }
    if integer::read(rest, 8)? != 0 {
        return Err(Error::NoTable);
    }
    let signed = rest.first().is_some_and(|&byte| byte & 0x80 != 0);
    integer::read(rest, 7)?;
    if signed { Err(Error::NoTable) } else { Ok(()) }
}
