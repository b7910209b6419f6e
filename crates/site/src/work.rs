//! The room a request is answered in.

use pinion_archive::layout::VARIANT_PREFIX;
use pinion_archive::limits::TARGET_MAX_BYTES as ARCHIVE_TARGET_MAX_BYTES;
use pinion_archive::limits::{PATH_MAX_BYTES, SHARED_VARIANT_MAX_BYTES};
use pinion_archive::{Damage, Scratch};
use pinion_http::limits::{RANGES_MAX, TARGET_MAX_BYTES};
use pinion_http::prepared::Piece;

use crate::answer::NEVER_STORED;
use crate::template::LOCATION_MAX_BYTES;

/// What the text of one answer may need: a decoded path of the longest target with every byte
/// escaped, and a slash; or where a rule leads, with literals of the greatest length; or the field
/// lines of a page that is the content of an error.
const TEXT_CAPACITY_BYTES: usize = LOCATION_MAX_BYTES + ARCHIVE_TARGET_MAX_BYTES + 1;

const _: () = assert!(TEXT_CAPACITY_BYTES > 3 * TARGET_MAX_BYTES + 1);
const _: () = assert!(TEXT_CAPACITY_BYTES >= SHARED_VARIANT_MAX_BYTES + NEVER_STORED.len());

/// Buffers for one request at a time, kept from one to the next; one per worker.
#[derive(Debug)]
pub struct Work {
    /// The decoded path.
    pub(crate) path: Vec<u8>,
    /// A key made of it, the target of a rewrite, or the key of a variant.
    pub(crate) key: Vec<u8>,
    /// The record that answers.
    pub(crate) scratch: Scratch,
    /// A location, the headings of a multipart body, or the field lines of an error.
    pub(crate) text: Vec<u8>,
    pub(crate) damage: Option<Damage>,
}

impl Work {
    /// Allocates the buffers at their usual largest size.
    pub fn new() -> Work {
        Work {
            path: Vec::with_capacity(TARGET_MAX_BYTES),
            key: Vec::with_capacity(PATH_MAX_BYTES + VARIANT_PREFIX.len() + 1),
            scratch: Scratch::new(),
            text: Vec::with_capacity(TEXT_CAPACITY_BYTES),
            damage: None,
        }
    }

    /// The damage that made the last answer a 500, for the log.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }
}

impl Default for Work {
    fn default() -> Work {
        Work::new()
    }
}

/// Pieces of a multipart body: a heading and a slice for each range, and the end.
pub(crate) const PIECES_MAX: usize = 2 * RANGES_MAX + 1;

/// Where the pieces of one answer's body stand: made anew for each request, on the caller's
/// stack, because they borrow from the [`Work`]. Costs nothing until several ranges are asked for.
#[derive(Debug, Default)]
pub struct Pieces<'x> {
    one: Option<Piece<'x>>,
    many: Option<[Piece<'x>; PIECES_MAX]>,
}

impl<'x> Pieces<'x> {
    /// No pieces.
    pub const fn new() -> Pieces<'x> {
        Pieces { one: None, many: None }
    }

    /// The body that is one piece.
    pub(crate) fn one(&mut self, piece: Piece<'x>) -> &[Piece<'x>] {
        core::slice::from_ref(self.one.insert(piece))
    }

    /// Room for the pieces of a multipart body.
    pub(crate) fn many(&mut self) -> &mut [Piece<'x>; PIECES_MAX] {
        self.many.insert([Piece::Bytes(b""); PIECES_MAX])
    }
}
