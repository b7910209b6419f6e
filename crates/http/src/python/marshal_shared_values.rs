//! Values that several requests of a batch have, from the second one on: the reader makes one
//! object of each, to which the later requests refer (`FLAG_REF` and `TYPE_REF` of Python's
//! `marshal`, since version 3). Most names of variables are the same in all requests, and so are
//! many of their values.

use super::limits::SHARED_VALUE_MAX_BYTES;
use super::marshal_writer::{
    BYTES, DIGIT_BYTES, INT, LIST, LONG, PREFIX_BYTES, REFERRED, SHORT_ASCII, SHORT_ASCII_INTERNED,
    SHORT_PREFIX_BYTES, SMALL_TUPLE, TEXT_TYPES, write_reference,
};

/// The values that are remembered. A value that takes the place of another one is only written
/// again, so that clients gain nothing by values that do so.
const SLOTS: usize = 128;

/// A reference is not longer than the value, so that a batch never becomes longer by references.
const SHARED_VALUE_MIN_BYTES: usize = PREFIX_BYTES;

/// A value that was written so that others can refer to it.
#[derive(Clone, Copy, Debug, Default)]
struct SharedSlot {
    /// The offset of the value in the batch; 0 if there is none.
    at: u32,
    /// The number of the value among those that can be referred to.
    number: u32,
}

/// The values of a batch to which later requests can refer.
#[derive(Clone, Debug)]
pub(super) struct SharedValues {
    slots: [SharedSlot; SLOTS],
    /// The number of values that can be referred to.
    values: u32,
}

impl SharedValues {
    pub(super) const fn new() -> SharedValues {
        SharedValues { slots: [SharedSlot { at: 0, number: 0 }; SLOTS], values: 0 }
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        if self.values > 0 {
            *self = SharedValues::new();
        }
    }

    /// Appends values to those of a batch, which is not empty.
    pub(super) fn append(&mut self, mut values: &[u8], out: &mut Vec<u8>) {
        while let Some(&kind) = values.first() {
            let (value, rest) = values.split_at(value_bytes(kind, values).min(values.len()));
            values = rest;
            // The front of another tuple is too short.
            let is_shared =
                matches!(kind, SHORT_ASCII | SHORT_ASCII_INTERNED | BYTES | SMALL_TUPLE)
                    && (SHARED_VALUE_MIN_BYTES..=SHARED_VALUE_MAX_BYTES).contains(&value.len());
            if is_shared {
                self.share(value, out);
            } else {
                out.extend_from_slice(value);
            }
        }
    }

    /// Appends a value, or a reference to the same one.
    fn share(&mut self, value: &[u8], out: &mut Vec<u8>) {
        let Some((kind, rest)) = value.split_first() else { return };
        let Some(slot) = self.slots.get_mut(slot_of(value)) else { return };
        let known = out.get(slot.at as usize..).and_then(|known| known.split_first());
        if slot.at > 0
            && known
                .is_some_and(|(first, known)| *first == kind | REFERRED && known.starts_with(rest))
        {
            write_reference(out, slot.number);
            return;
        }
        *slot = SharedSlot { at: out.len() as u32, number: self.values };
        self.values += 1;
        out.push(kind | REFERRED);
        out.extend_from_slice(rest);
    }
}

/// Returns how many bytes a value has: of a container, those before its values. A field of a scope,
/// which is a tuple of two `bytes`, counts as one value.
fn value_bytes(kind: u8, values: &[u8]) -> usize {
    match kind {
        SHORT_ASCII | SHORT_ASCII_INTERNED => {
            SHORT_PREFIX_BYTES + values.get(1).map_or(0, |&bytes| usize::from(bytes))
        }
        BYTES => PREFIX_BYTES + number(values),
        SMALL_TUPLE => field_bytes(values).unwrap_or(SHORT_PREFIX_BYTES),
        LIST | INT => PREFIX_BYTES,
        LONG => PREFIX_BYTES + DIGIT_BYTES * number(values),
        kind if TEXT_TYPES.contains(&kind) => PREFIX_BYTES + number(values),
        _ => 1,
    }
}

/// Returns how many bytes the tuple of a field has, or `None` if it is no such tuple.
fn field_bytes(values: &[u8]) -> Option<usize> {
    let mut bytes = SHORT_PREFIX_BYTES;
    if values.get(1) != Some(&2) {
        return None;
    }
    for _ in 0..2 {
        let value = values.get(bytes..).filter(|value| value.first() == Some(&BYTES))?;
        bytes += PREFIX_BYTES + number(value);
    }
    Some(bytes)
}

/// Returns the number after the type of a value.
fn number(value: &[u8]) -> usize {
    let number = value.get(1..).and_then(|behind| behind.first_chunk::<4>());
    number.map_or(0, |number| u32::from_le_bytes(*number) as usize)
}

/// Returns the slot of a value, by its length, its first and its last bytes.
fn slot_of(value: &[u8]) -> usize {
    let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let short = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    let (first, last) = match value.len() {
        ..8 => (value.iter().fold(0, short), 0),
        _ => (word(value.first_chunk()), word(value.last_chunk())),
    };
    // The multiplier of Fibonacci hashing: 2^64 divided by the golden ratio.
    let mixed =
        (first ^ last.rotate_left(29) ^ value.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (u64::BITS - SLOTS.ilog2())) as usize
}
