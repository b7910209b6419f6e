//! The text that a handler has written, as its VM passes it on.
//!
//! LuaJIT finds a string among all others by its length and four bytes at each of four positions.
//! The pages of one template are alike there, and where more than 32 are, it hashes each of them
//! from the first byte to the last: 2 µs for 16 KiB. So a long text begins with a number that no
//! other living text has, and that is left out here.

use std::ops::{Deref, Range};

use mlua::{BorrowedBytes, LuaString};

/// The range of these numbers: those of [`PREFIX_BYTES`] digits. A VM collects its garbage before
/// the numbers repeat.
pub(super) const PREFIXES: Range<u32> = 1000..10_000;

/// The length of the number at the begin: one of the positions that LuaJIT compares.
const PREFIX_BYTES: usize = 4;

/// Text that a handler has written.
pub(crate) struct WrittenText {
    text: LuaString,
    has_prefix: bool,
}

impl WrittenText {
    /// Creates a text; `has_prefix` means that it follows a number that is no part of it.
    pub(super) fn new(text: LuaString, has_prefix: bool) -> Self {
        Self { text, has_prefix }
    }

    /// Returns the bytes for the client.
    #[inline]
    pub(crate) fn as_bytes(&self) -> impl Deref<Target = [u8]> {
        WrittenBytes {
            all: self.text.as_bytes(),
            from: if self.has_prefix { PREFIX_BYTES } else { 0 },
        }
    }
}

struct WrittenBytes {
    all: BorrowedBytes,
    from: usize,
}

impl Deref for WrittenBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.all.get(self.from..).unwrap_or_default()
    }
}
