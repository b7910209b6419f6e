//! Encodes and decodes numbers and texts. Numbers are little-endian. A text follows its length,
//! which has 16 bits, or 32 bits where texts may be longer.

/// A writer that appends values to a buffer.
#[derive(Debug, Default)]
pub(crate) struct ByteWriter {
    bytes: Vec<u8>,
}

impl ByteWriter {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends the length of a text and the text. Returns `None`, and appends nothing, if the
    /// length does not fit into 16 bits.
    pub(crate) fn text(&mut self, text: &[u8]) -> Option<()> {
        self.u16(u16::try_from(text.len()).ok()?);
        self.bytes.extend_from_slice(text);
        Some(())
    }

    /// Appends the length of a text in 32 bits and the text. Returns `None`, and appends nothing,
    /// if the length does not fit.
    pub(crate) fn long_text(&mut self, text: &[u8]) -> Option<()> {
        self.u32(u32::try_from(text.len()).ok()?);
        self.bytes.extend_from_slice(text);
        Some(())
    }

    /// Appends the length of a list. Returns `None` if it does not fit into 16 bits.
    pub(crate) fn count(&mut self, count: usize) -> Option<()> {
        self.u16(u16::try_from(count).ok()?);
        Some(())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A reader that takes values from the front of a slice. Each method returns `None` if there are
/// too few bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'b> {
    rest: &'b [u8],
}

impl<'b> ByteReader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.u16()?;
        let (text, rest) = self.rest.split_at_checked(usize::from(length))?;
        self.rest = rest;
        Some(text)
    }

    /// Takes a text that follows its length in 32 bits.
    pub(crate) fn long_text(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(text)
    }

    /// Takes the length of a list, of at most `max` elements.
    pub(crate) fn count(&mut self, max: usize) -> Option<usize> {
        self.u16().map(usize::from).filter(|count| *count <= max)
    }

    /// Returns `Some` if all bytes were taken.
    pub(crate) fn end(self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }

    fn array<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }
}
