//! The fields of shared blocks in the forms of HTTP/2 and HTTP/3, made when an archive is opened
//! (docs/decisions/0016), so that a response copies them.

use pinion_http::prepared_response::SharedFields;
use pinion_http::{hpack, qpack};

/// All blocks of an archive.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncodedFields {
    text: Box<[u8]>,
    blocks: Box<[BlockPositions]>,
}

/// The positions of the forms of one block in the text.
#[derive(Clone, Copy, Debug)]
struct BlockPositions {
    hpack: RenderedForm,
    qpack: RenderedForm,
}

/// One form: from `start` the `Content-Type` field, then the others of a full response, then those
/// of a 304.
#[derive(Clone, Copy, Debug)]
struct RenderedForm {
    start: u32,
    type_end: u32,
    full_end: u32,
    not_modified_end: u32,
}

/// The forms of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedBlock<'a> {
    text: &'a [u8],
    positions: &'a BlockPositions,
}

/// Lines of HTTP/1 of one block, well-formed.
pub(crate) struct BlockLines<'a> {
    pub(crate) type_line: &'a [u8],
    pub(crate) without_type: &'a [u8],
    pub(crate) not_modified: &'a [u8],
}

impl EncodedFields {
    /// Renders all blocks.
    pub(crate) fn new<'a>(blocks: impl Iterator<Item = BlockLines<'a>>) -> EncodedFields {
        let mut text = Vec::new();
        let positions = blocks
            .map(|lines| BlockPositions {
                hpack: lines.render(&mut text, hpack::static_encoder::lines),
                qpack: lines.render(&mut text, qpack::static_encoder::lines),
            })
            .collect();
        EncodedFields { text: text.into(), blocks: positions }
    }

    /// Returns the forms of a block; [`EncodedBlock::NONE`] as long as nothing is rendered.
    #[inline(always)]
    pub(crate) fn get(&self, block: usize) -> EncodedBlock<'_> {
        match self.blocks.get(block) {
            Some(positions) => EncodedBlock { text: &self.text, positions },
            None => EncodedBlock::NONE,
        }
    }
}

impl BlockLines<'_> {
    /// Appends one form. All lines of an archive have at most
    /// [`SHARED_SECTION_MAX_BYTES`](crate::limits::SHARED_SECTION_MAX_BYTES), and hardly more in
    /// these forms, so positions fit into 32 bits.
    fn render(&self, text: &mut Vec<u8>, lines: fn(&mut Vec<u8>, &[u8])) -> RenderedForm {
        let start = text.len() as u32;
        let mut append = |h1_lines| {
            lines(text, h1_lines);
            text.len() as u32
        };
        RenderedForm {
            start,
            type_end: append(self.type_line),
            full_end: append(self.without_type),
            not_modified_end: append(self.not_modified),
        }
    }
}

impl<'a> EncodedBlock<'a> {
    /// The forms of a block that was not rendered.
    pub(crate) const NONE: EncodedBlock<'static> = {
        const EMPTY: RenderedForm =
            RenderedForm { start: 0, type_end: 0, full_end: 0, not_modified_end: 0 };
        EncodedBlock { text: b"", positions: &BlockPositions { hpack: EMPTY, qpack: EMPTY } }
    };

    #[inline(always)]
    pub(crate) fn full(&self, h1: &'a [u8]) -> SharedFields<'a> {
        self.fields(h1, |form| (form.start, form.full_end))
    }

    #[inline(always)]
    pub(crate) fn without_type(&self, h1: &'a [u8]) -> SharedFields<'a> {
        self.fields(h1, |form| (form.type_end, form.full_end))
    }

    #[inline(always)]
    pub(crate) fn not_modified(&self, h1: &'a [u8]) -> SharedFields<'a> {
        self.fields(h1, |form| (form.full_end, form.not_modified_end))
    }

    #[inline(always)]
    fn fields(&self, h1: &'a [u8], part: impl Fn(&RenderedForm) -> (u32, u32)) -> SharedFields<'a> {
        let text = |form| {
            let (start, end) = part(form);
            self.text.get(start as usize..end as usize).unwrap_or_default()
        };
        SharedFields { h1, hpack: text(&self.positions.hpack), qpack: text(&self.positions.qpack) }
    }
}
