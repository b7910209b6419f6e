//! The buffers in which the response to a request is made.

use pinion_archive::layout::VARIANT_PREFIX;
use pinion_archive::limits::PATH_MAX_BYTES;
use pinion_archive::limits::TARGET_MAX_BYTES as ARCHIVE_TARGET_MAX_BYTES;
use pinion_archive::{Damage, Scratch, SharedBlock};
use pinion_http::limits::{RANGES_MAX, TARGET_MAX_BYTES};
use pinion_http::prepared_response::Piece;

use crate::field_rules::{FieldBuffers, FieldSort, SentPage};
use crate::response::SiteLookup;
use crate::rule_target::LOCATION_MAX_BYTES;

/// The most text of one response: a decoded path of the longest target with every byte escaped, and
/// a slash; or the target of a rule, with literals of the greatest length.
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
    /// The entry of the response.
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

    /// Returns the damage that made the last response a 500, for the log.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }
}

impl Default for RequestBuffers {
    fn default() -> RequestBuffers {
        RequestBuffers::new()
    }
}

/// The buffers in which a response is made, once its entry is known.
pub(crate) struct ResponseBuffers<'x> {
    /// The text of the response, see [`RequestBuffers::text`].
    pub(crate) text: &'x mut Vec<u8>,
    /// A buffer to decode the path of the request once more.
    pub(crate) decoded: &'x mut Vec<u8>,
    /// The target of a rewrite, see [`RequestBuffers::target`].
    pub(crate) target: &'x [u8],
    /// The fields of the response, see [`RequestBuffers::fields`].
    pub(crate) fields: &'x mut FieldBuffers,
}

impl<'x> ResponseBuffers<'x> {
    /// Returns the fields of `block` with the rules for the path of the request, see
    /// [`FieldBuffers::apply`].
    pub(crate) fn apply(
        self,
        lookup: &SiteLookup<'_, 'x>,
        block: SharedBlock<'x>,
        sort: FieldSort,
        sent: SentPage<'_>,
    ) -> SharedBlock<'x> {
        let SiteLookup { archive, head, .. } = lookup;
        self.fields.apply(archive, head, block, sort, sent, self.decoded)
    }
}

/// Pieces of a multipart body: a heading and a slice for each range, and the end.
pub(crate) const PIECES_MAX: usize = 2 * RANGES_MAX + 1;

/// The pieces of one response's body: made anew for each request, on the caller's stack, because
/// they borrow from the [`RequestBuffers`]. They cost nothing until several ranges are requested.
#[derive(Debug, Default)]
pub struct Pieces<'x> {
    one: Option<Piece<'x>>,
    many: Option<[Piece<'x>; PIECES_MAX]>,
}

impl<'x> Pieces<'x> {
    /// Creates an empty list.
    pub const fn new() -> Pieces<'x> {
        Pieces { one: None, many: None }
    }

    /// Returns the body that is one piece.
    pub(crate) fn one(&mut self, piece: Piece<'x>) -> &[Piece<'x>] {
        core::slice::from_ref(self.one.insert(piece))
    }

    /// Returns room for the pieces of a multipart body.
    pub(crate) fn many(&mut self) -> &mut [Piece<'x>; PIECES_MAX] {
        self.many.insert([Piece::Bytes(b""); PIECES_MAX])
    }
}
