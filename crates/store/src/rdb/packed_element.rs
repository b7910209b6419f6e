//! An element of a packed collection.

use crate::resp::number::{IntegerText, parse_f64};

/// An element of a listpack, a ziplist or an intset: an integer or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element<'p> {
    Integer(i64),
    Text(&'p [u8]),
}

impl Element<'_> {
    /// Calls a function with the element as text.
    pub(super) fn with_text<R>(self, function: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Integer(number) => function(IntegerText::new(number).as_bytes()),
            Self::Text(text) => function(text),
        }
    }

    /// Returns the element as a score, or `None` if it is not a number.
    pub(super) fn score(self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(number as f64),
            Self::Text(text) => parse_f64(text),
        }
    }
}

/// Decodes a signed little-endian integer of at most 8 bytes.
pub(super) fn signed(bytes: &[u8]) -> i64 {
    let mut all = [0; 8];
    all[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(all) >> (8 * (8 - bytes.len()))
}
