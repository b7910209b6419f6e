//! A file of templates in pieces: text, values, Lua, tags.

use std::ops::Range;

use crate::escaping::Trust;
use crate::limits::PIECE_BYTES;
use crate::lua::LuaToken;
use crate::value_suffix::Conversion;

/// A file that was read.
#[derive(Debug)]
pub(crate) struct TemplateSource<'a> {
    /// Its path in the site.
    pub(crate) path: String,
    pub(crate) bytes: &'a [u8],
    /// All tokens of Lua, in order; pieces name ranges of them.
    pub(crate) tokens: Vec<LuaToken>,
    pub(crate) shows: Vec<Show>,
    pub(crate) pieces: Vec<SourcePiece>,
    /// Whether its first line is `#! parallel`.
    pub(crate) parallel: bool,
}

/// A part of a file.
#[derive(Clone, Debug)]
pub(crate) struct SourcePiece {
    pub(crate) line: u32,
    pub(crate) kind: PieceKind,
}

#[derive(Clone, Debug)]
pub(crate) enum PieceKind {
    /// Text that is sent unchanged: bytes of the file.
    Text(Range<usize>),
    /// A value in the text, by its rank in `shows`.
    Show(usize),
    /// Lua, as written and as tokens.
    Lua {
        bytes: Range<usize>,
        tokens: Range<usize>,
    },
    /// `<?lua` opens a block that waits for `done()`; it contains all pieces until `AsyncClose`.
    AsyncOpen,
    AsyncClose,
    Include(String),
    Layout(String),
    SlotOpen(String),
    SlotClose,
    /// The place of a slot; if the name is empty, of the content that is in no slot.
    Yield(String),
}

/// `#[[…]]`.
#[derive(Clone, Debug)]
pub(crate) struct Show {
    /// The expression; at least one token.
    pub(crate) tokens: Range<usize>,
    pub(crate) conversion: Option<Conversion>,
    /// The trust that the page declares for the value.
    pub(crate) trust: Trust,
}

impl<'a> TemplateSource<'a> {
    /// Returns the tokens of a range.
    pub(crate) fn tokens(&self, range: &Range<usize>) -> &[LuaToken] {
        &self.tokens[range.clone()]
    }

    /// Returns the expression of a value, as written.
    pub(crate) fn expression(&self, show: &Show) -> &'a [u8] {
        match self.tokens(&show.tokens) {
            [first, .., last] => &self.bytes[first.start as usize..last.end as usize],
            [only] => only.of(self.bytes),
            [] => b"nil",
        }
    }

    /// Returns the size that a piece adds to a page.
    pub(crate) fn size(&self, piece: usize) -> usize {
        PIECE_BYTES
            + match &self.pieces[piece].kind {
                PieceKind::Text(bytes) | PieceKind::Lua { bytes, .. } => bytes.len(),
                PieceKind::Show(rank) => self.expression(&self.shows[*rank]).len(),
                _ => 0,
            }
    }
}
