//! Commands that count and find bits.

use std::ops::Range;

use crate::command::call::Call;
use crate::command::ranges::{byte_range, is_reversed, parse_integer};
use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use crate::resp::number::parse_i64;

const NO_BIT: Error = Error::constant("ERR The bit argument must be 1 or 0.");

/// The unit of the indices of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexUnit {
    Byte,
    Bit,
}

impl IndexUnit {
    /// Parses an argument, if there is one.
    ///
    /// # Errors
    /// The text is not a unit.
    fn parse(text: Option<&[u8]>) -> Result<Self, Error> {
        match text {
            None => Ok(Self::Byte),
            Some(unit) if unit.eq_ignore_ascii_case(b"byte") => Ok(Self::Byte),
            Some(unit) if unit.eq_ignore_ascii_case(b"bit") => Ok(Self::Bit),
            Some(_) => Err(SYNTAX),
        }
    }

    /// Returns the range of bits from one index to another, inclusive, of a string with a length in
    /// bytes.
    fn bits(self, start: i64, stop: i64, bytes: usize) -> Range<usize> {
        if self == Self::Bit {
            return byte_range(start, stop, bytes.saturating_mul(8));
        }
        let range = byte_range(start, stop, bytes);
        range.start * 8..range.end * 8
    }
}

/// Parses an integer if there is one.
fn optional_integer(call: &Call<'_, '_>, index: usize) -> Result<Option<i64>, Error> {
    call.arguments.get(index).map(parse_integer).transpose()
}

/// Returns the bits of a byte that are in a range, with 0 for the others. `at` is the index of the
/// byte.
fn masked(byte: u8, at: usize, bits: &Range<usize>) -> u8 {
    let before = bits.start.saturating_sub(at * 8).min(8);
    let behind = (at * 8 + 8).saturating_sub(bits.end).min(8);
    let mask = (0xff_u16 >> before) & (0xff_u16 << behind);
    byte & mask as u8
}

/// Counts the bits of a range that are 1.
fn count_ones(bytes: &[u8], bits: &Range<usize>) -> usize {
    let touched = bits.start / 8..bits.end.div_ceil(8).min(bytes.len());
    let Some(touched_bytes) = bytes.get(touched.clone()) else { return 0 };
    let (words, rest) = touched_bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize);
    let rest = rest.iter().map(|byte| byte.count_ones() as usize);
    let outside = match (touched_bytes.first(), touched_bytes.last()) {
        (Some(&first), Some(_)) if touched.len() == 1 => {
            (first & !masked(first, touched.start, bits)).count_ones()
        }
        (Some(&first), Some(&last)) => {
            (first & !masked(first, touched.start, bits)).count_ones()
                + (last & !masked(last, touched.end - 1, bits)).count_ones()
        }
        _ => 0,
    };
    words.sum::<usize>() + rest.sum::<usize>() - outside as usize
}

/// `BITCOUNT`
pub(super) fn count(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let is_form = matches!(call.arguments.len(), 2 | 4 | 5);
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let Some(length) = database.string(key, context)?.map(<[u8]>::len) else {
        call.reply.size(0);
        return Ok(());
    };
    if !is_form {
        return Err(SYNTAX);
    }
    let start = optional_integer(call, 2)?.unwrap_or(0);
    let stop = optional_integer(call, 3)?.unwrap_or(-1);
    if is_reversed(start, stop) {
        call.reply.size(0);
        return Ok(());
    }
    let bits = IndexUnit::parse(call.arguments.get(4))?.bits(start, stop, length);
    let (database, context) = call.locks.database(call.database, key);
    let count = database.string(key, context)?.map_or(0, |bytes| count_ones(bytes, &bits));
    call.reply.size(count);
    Ok(())
}

/// Returns the first bit of a range that has this value.
fn find_bit(bytes: &[u8], is_set: bool, bits: &Range<usize>) -> Option<usize> {
    let touched = bits.start / 8..bits.end.div_ceil(8).min(bytes.len());
    let touched_bytes = bytes.get(touched.clone())?;
    let turned = |byte: u8| if is_set { byte } else { !byte };
    let boring = turned(0);
    let mut at = 0;
    while let Some(rest) = touched_bytes.get(at..)
        && let Some(skipped) = rest.iter().position(|&byte| byte != boring)
    {
        at += skipped;
        let index = touched.start + at;
        let found = masked(turned(touched_bytes[at]), index, bits);
        if found != 0 {
            return Some(index * 8 + found.leading_zeros() as usize);
        }
        at += 1;
    }
    None
}

/// `BITPOS`
pub(super) fn position(call: &mut Call<'_, '_>) -> Result<(), Error> {
    let is_set = match parse_i64(call.argument(2)).ok_or(NOT_AN_INTEGER)? {
        0 => false,
        1 => true,
        _ => return Err(NO_BIT),
    };
    let key = call.key(1);
    let (database, context) = call.locks.database(call.database, key);
    let Some(length) = database.string(key, context)?.map(<[u8]>::len) else {
        call.reply.integer(if is_set { -1 } else { 0 });
        return Ok(());
    };
    if call.arguments.len() > 6 {
        return Err(SYNTAX);
    }
    let start = optional_integer(call, 3)?.unwrap_or(0);
    let unit = IndexUnit::parse(call.arguments.get(5))?;
    let stop = optional_integer(call, 4)?.unwrap_or(-1);
    let bits = unit.bits(start, stop, length);
    let has_end = call.arguments.len() > 4;
    let (database, context) = call.locks.database(call.database, key);
    let bytes = database.string(key, context)?.unwrap_or_default();
    match find_bit(bytes, is_set, &bits) {
        Some(found) => call.reply.size(found),
        // The string counts as followed by zeros, unless the range has an end.
        None if !is_set && !has_end && !bits.is_empty() => call.reply.size(length * 8),
        None => call.reply.integer(-1),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::bit_at;
    use super::*;

    proptest! {
        #[test]
        fn bits_are_counted_and_found(
            bytes in prop::collection::vec(prop_oneof![Just(0), Just(255), any::<u8>()], 0..40),
            start in 0..330_usize,
            end in 0..330_usize,
        ) {
            let end = end.min(bytes.len() * 8);
            let bits = start.min(end)..end;
            let count = bits.clone().filter(|&bit| bit_at(&bytes, bit)).count();
            prop_assert_eq!(count_ones(&bytes, &bits), count);
            for is_set in [false, true] {
                let first = bits.clone().find(|&bit| bit_at(&bytes, bit) == is_set);
                prop_assert_eq!(find_bit(&bytes, is_set, &bits), first);
            }
        }
    }
}
