//! The pieces that rules are stored in: a tag of one byte each, and texts with their lengths.

use crate::damage::Fault;

/// A part and the bytes after it; `None` when it is malformed.
pub(crate) type Read<'a, P> = Option<(P, &'a [u8])>;

/// Iterator over parts, until there are none.
#[derive(Clone)]
pub(crate) struct PartIterator<'a, P> {
    pub(crate) rest: &'a [u8],
    pub(crate) read: fn(&'a [u8]) -> Read<'a, P>,
}

impl<P> Iterator for PartIterator<'_, P> {
    type Item = P;

    #[inline]
    fn next(&mut self) -> Option<P> {
        let (part, rest) = (self.read)(self.rest)?;
        self.rest = rest;
        Some(part)
    }
}

/// Reads a text: its length in two bytes, and so many bytes.
#[inline]
pub(crate) fn text(bytes: &[u8]) -> Read<'_, &[u8]> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_le_bytes(*length).into())
}

/// Appends a tag and a text.
pub(crate) fn push_text(out: &mut Vec<u8>, tag: u8, text: &[u8]) -> Result<(), Fault> {
    out.push(tag);
    push_length(out, text)
}

/// Appends a text.
pub(crate) fn push_length(out: &mut Vec<u8>, text: &[u8]) -> Result<(), Fault> {
    let length = u16::try_from(text.len()).map_err(|_| Fault::Length)?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text);
    Ok(())
}
