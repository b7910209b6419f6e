//! A block of response fields: names and values, each as a number of eight characters; a value may
//! be written out instead, as `Z`, its length in three letters, and its bytes.

use crate::archive::{NUMBER_BYTES, RecordFault, is_number, number};
use crate::limits::{FIELDS_MAX, LITERAL_MAX_BYTES};
use crate::static_header_table::{NAMES, VALUES};

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KawipikoField<'a> {
    /// Its name; `!Status` is the status of the response.
    pub name: &'static str,
    /// Its value.
    pub value: &'a [u8],
}

/// Parses a block.
pub(crate) fn parse(block: &[u8]) -> Result<Vec<KawipikoField<'_>>, RecordFault> {
    let (mut fields, mut rest) = (Vec::new(), block);
    while !rest.is_empty() {
        if fields.len() == FIELDS_MAX {
            return Err(RecordFault::TooManyFields);
        }
        let (name, behind) = rest.split_first_chunk().ok_or(RecordFault::CutShort)?;
        let name = word(&NAMES, name, b'h').ok_or(RecordFault::Name)?;
        let (value, behind) = value(behind)?;
        fields.push(KawipikoField { name, value });
        rest = behind;
    }
    Ok(fields)
}

/// Returns the value at the beginning, and the rest.
fn value(block: &[u8]) -> Result<(&[u8], &[u8]), RecordFault> {
    if let [b'Z', a, b, c, rest @ ..] = block {
        let digit = |letter: u8| match letter {
            b'a'..=b'y' => Ok(usize::from(letter - b'a')),
            _ => Err(RecordFault::Value),
        };
        let length = (digit(*a)? * 25 + digit(*b)?) * 25 + digit(*c)?;
        if length > LITERAL_MAX_BYTES {
            return Err(RecordFault::LongValue);
        }
        return rest.split_at_checked(length).ok_or(RecordFault::CutShort);
    }
    let (value, rest) = block.split_first_chunk().ok_or(RecordFault::CutShort)?;
    let value = word(&VALUES, value, b'H').ok_or(RecordFault::Value)?;
    Ok((value.as_bytes(), rest))
}

/// Returns the word of a number, counted from 1.
fn word(words: &[&'static str], key: &[u8; NUMBER_BYTES], letter: u8) -> Option<&'static str> {
    let rank = is_number(key, letter).then(|| number(key))?.checked_sub(1)?;
    words.get(rank as usize).copied()
}
