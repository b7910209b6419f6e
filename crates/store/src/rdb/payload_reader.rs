//! A reader for the pieces of a payload. Every function returns `None` if the bytes are damaged.

use std::borrow::Cow;

use super::lzf;
use super::packed_element::Element;
use crate::limits::STRING_MAX_BYTES;
use crate::resp::number::IntegerText;

/// A reader over the remaining bytes of a payload.
#[derive(Debug)]
pub(super) struct PayloadReader<'p> {
    bytes: &'p [u8],
    /// The number of bytes that may still be decompressed.
    decompressed_left: usize,
}

/// A decoded length, or the special encoding of the string that follows.
enum Length {
    Plain(u64),
    /// The number of a special encoding of strings.
    Special(u8),
}

impl<'p> PayloadReader<'p> {
    pub(super) fn new(bytes: &'p [u8]) -> Self {
        Self { bytes, decompressed_left: STRING_MAX_BYTES }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'p [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn any_length(&mut self) -> Option<Length> {
        let first = self.byte()?;
        Some(match (first >> 6, first) {
            (0, _) => Length::Plain(first.into()),
            (1, _) => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            (2, 0x80) => Length::Plain(u32::from_be_bytes(self.array()?).into()),
            (2, 0x81) => Length::Plain(u64::from_be_bytes(self.array()?)),
            (3, _) => Length::Special(first & 0x3f),
            _ => return None,
        })
    }

    /// Takes a number of elements. The number is not verified, so the caller must not allocate
    /// memory by it.
    pub(super) fn number(&mut self) -> Option<u64> {
        match self.any_length()? {
            Length::Plain(number) => Some(number),
            Length::Special(_) => None,
        }
    }

    /// Takes a string in any of its encodings.
    pub(super) fn string(&mut self) -> Option<Cow<'p, [u8]>> {
        let integer = |number: i64| Some(IntegerText::new(number).as_bytes().to_vec().into());
        match self.any_length()? {
            Length::Plain(length) => self.take(usize::try_from(length).ok()?).map(Cow::Borrowed),
            Length::Special(0) => integer(i8::from_le_bytes(self.array()?).into()),
            Length::Special(1) => integer(i16::from_le_bytes(self.array()?).into()),
            Length::Special(2) => integer(i32::from_le_bytes(self.array()?).into()),
            Length::Special(3) => {
                let compressed_bytes = usize::try_from(self.number()?).ok()?;
                let bytes = usize::try_from(self.number()?).ok()?;
                let compressed = self.take(compressed_bytes)?;
                self.decompressed_left = self.decompressed_left.checked_sub(bytes)?;
                lzf::decompress(compressed, bytes).map(Cow::Owned)
            }
            Length::Special(_) => None,
        }
    }

    /// Takes a score, as text or as 8 bytes.
    pub(super) fn score(&mut self, is_text: bool) -> Option<f64> {
        if !is_text {
            return Some(f64::from_le_bytes(self.array()?)).filter(|score| !score.is_nan());
        }
        match self.byte()? {
            253 => None,
            254 => Some(f64::INFINITY),
            255 => Some(f64::NEG_INFINITY),
            length => Element::Text(self.take(length.into())?).score(),
        }
    }
}
