//! Ranges of the file, with arithmetic that cannot overflow.

/// `bytes` bytes from `offset` on. A span is only made when its end fits into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSpan {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl ByteSpan {
    /// Returns the span; `None` when the end would not fit into 64 bits.
    pub(crate) fn new(offset: u64, bytes: u64) -> Option<ByteSpan> {
        offset.checked_add(bytes).map(|_| ByteSpan { offset, bytes })
    }

    pub(crate) fn end(self) -> u64 {
        self.offset + self.bytes
    }

    /// Returns whether `bytes` bytes from `offset` on lie wholly inside.
    pub(crate) fn contains(self, offset: u64, bytes: u64) -> bool {
        match offset.checked_add(bytes) {
            Some(end) => offset >= self.offset && end <= self.end(),
            None => false,
        }
    }
}

/// Returns the bytes of a span; `None` when `file` is too short.
pub(crate) fn slice(file: &[u8], offset: u64, bytes: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(bytes).ok()?)?;
    file.get(start..end)
}

/// Zeros needed after `length` bytes to reach a multiple of `align`.
pub(crate) const fn padding(length: u64, align: u64) -> u64 {
    (align - length % align) % align
}
