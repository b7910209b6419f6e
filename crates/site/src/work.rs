//! The room a request is answered in.

use pinion_archive::layout::VARIANT_PREFIX;
use pinion_archive::limits::PATH_MAX_BYTES;
use pinion_archive::limits::TARGET_MAX_BYTES as ARCHIVE_TARGET_MAX_BYTES;
use pinion_archive::{Damage, Scratch, SharedBlock};
use pinion_http::limits::{RANGES_MAX, TARGET_MAX_BYTES};
use pinion_http::prepared::Piece;

use crate::answer::Question;
use crate::fields::{FieldBuffers, FieldSort, SentPage};
use crate::template::LOCATION_MAX_BYTES;

/// What the text of one answer may need: a decoded path of the longest target with every byte
/// escaped, and a slash; or where a rule leads, with literals of the greatest length.
const TEXT_CAPACITY_BYTES: usize = LOCATION_MAX_BYTES + ARCHIVE_TARGET_MAX_BYTES + 1;

const _: () = assert!(TEXT_CAPACITY_BYTES > 3 * TARGET_MAX_BYTES + 1);

/// Buffers for one request at a time, kept from one to the next; one per worker.
#[derive(Debug)]
pub struct RequestBuffers {
    /// The decoded path.
    pub(crate) path: Vec<u8>,
    /// A key made of it, or the key of a variant.
    pub(crate) key: Vec<u8>,
    /// The path that a rewrite leads to; empty without one.
    pub(crate) target: Vec<u8>,
    /// The record that answers.
    pub(crate) scratch: Scratch,
    /// A location, or the headings of a multipart body.
    pub(crate) text: Vec<u8>,
    /// Fields that rules have changed for the path of the request.
    pub(crate) fields: FieldBuffers,
    /// The fields of a live file, before rules.
    pub(crate) live: Vec<u8>,
    pub(crate) damage: Option<Damage>,
}

impl RequestBuffers {
    /// Allocates the buffers at their usual largest size.
    pub fn new() -> RequestBuffers {
        RequestBuffers {
            path: Vec::with_capacity(TARGET_MAX_BYTES),
            key: Vec::with_capacity(PATH_MAX_BYTES + VARIANT_PREFIX.len() + 1),
            target: Vec::with_capacity(PATH_MAX_BYTES),
            scratch: Scratch::new(),
            fields: FieldBuffers::new(),
            text: Vec::with_capacity(TEXT_CAPACITY_BYTES),
            live: Vec::new(),
            damage: None,
        }
    }

    /// The damage that made the last answer a 500, for the log.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }
}

impl Default for RequestBuffers {
    fn default() -> RequestBuffers {
        RequestBuffers::new()
    }
}

/// The buffers that a response is made in, once it is known what answers.
pub(crate) struct ResponseBuffers<'x> {
    /// See [`RequestBuffers::text`].
    pub(crate) text: &'x mut Vec<u8>,
    /// For the path of the request, once more.
    pub(crate) decoded: &'x mut Vec<u8>,
    /// See [`RequestBuffers::target`].
    pub(crate) target: &'x [u8],
    /// See [`RequestBuffers::fields`].
    pub(crate) fields: &'x mut FieldBuffers,
}

impl<'x> ResponseBuffers<'x> {
    /// The fields of `block` with the rules for the path of the request, see
    /// [`FieldBuffers::apply`].
    pub(crate) fn apply(
        self,
        question: &Question<'_, 'x>,
        block: SharedBlock<'x>,
        sort: FieldSort,
        sent: SentPage<'_>,
    ) -> SharedBlock<'x> {
        let Question { archive, head, .. } = question;
        self.fields.apply(archive, head, block, sort, sent, self.decoded)
    }
}

/// Pieces of a multipart body: a heading and a slice for each range, and the end.
pub(crate) const PIECES_MAX: usize = 2 * RANGES_MAX + 1;

/// Where the pieces of one answer's body stand: made anew for each request, on the caller's
/// stack, because they borrow from the [`RequestBuffers`]. Costs nothing until several ranges are
/// asked for.
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
