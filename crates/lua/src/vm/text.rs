//! What a handler has written, as its VM hands it over.
//!
//! LuaJIT finds a string among all others by its length and four bytes at each of four places. The
//! pages of one template are alike there, and where more than 32 are, it hashes each of them from
//! the first byte to the last: 2 µs for 16 KiB. So a long text begins with a number that no other
//! has that is not forgotten yet, and that is left out here.

use std::ops::{Deref, Range};

use mlua::{BorrowedBytes, LuaString};

/// Numbers that may stand in front: those of [`STAMP_BYTES`] digits. A VM collects its garbage
/// before it comes round.
pub(super) const STAMPS: Range<u32> = 1000..10_000;

/// Of the number in front: one of the places that LuaJIT looks at.
const STAMP_BYTES: usize = 4;

/// Text that a handler has written.
pub(crate) struct Text {
    text: LuaString,
    is_stamped: bool,
}

impl Text {
    /// `is_stamped`: behind a number that is no part of it.
    pub(super) fn new(text: LuaString, is_stamped: bool) -> Self {
        Self { text, is_stamped }
    }

    /// What goes to the client.
    #[inline]
    pub(crate) fn as_bytes(&self) -> impl Deref<Target = [u8]> {
        Written { all: self.text.as_bytes(), from: if self.is_stamped { STAMP_BYTES } else { 0 } }
    }
}

struct Written {
    all: BorrowedBytes,
    from: usize,
}

impl Deref for Written {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.all.get(self.from..).unwrap_or_default()
    }
}
