//! Several ranges in one body: `multipart/byteranges` (RFC 9110 §14.6).

use core::ops::Range;

use pinion_http::limits::RANGES_MAX;
use pinion_http::multipart_byteranges;
use pinion_http::prepared_response::{Piece, Prepared, PreparedBody};
use pinion_http::range::ByteRange;

use crate::request_buffers::Pieces;
use crate::resource_response::{SelectedRepresentation, part};

/// Returns a 206 with a part for each of 2 to [`RANGES_MAX`] ranges.
///
/// The boundary is 128 bits that cannot occur in the content: for an archive the entity tag, a hash
/// of that content, and random bits for any other file. `text` receives the media type and the
/// headings, `pieces` the order of the whole body.
pub(crate) fn response<'x>(
    response: Prepared<'x>,
    selected: &SelectedRepresentation<'x>,
    ranges: &[ByteRange],
    text: &'x mut Vec<u8>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    text.clear();
    let (boundary, total) = (selected.boundary, selected.bytes);
    multipart_byteranges::write_type(text, boundary);
    let type_end = text.len();
    let mut headings: [Range<usize>; RANGES_MAX] = core::array::from_fn(|_| 0..0);
    let mut content_length = 0;
    for (heading, range) in headings.iter_mut().zip(ranges) {
        let start = text.len();
        multipart_byteranges::write_heading(
            text,
            boundary,
            selected.shared.type_line(),
            *range,
            total,
        );
        *heading = start..text.len();
        content_length += heading.len() as u64 + range.bytes();
    }
    let end = text.len();
    multipart_byteranges::write_end(text, boundary);
    content_length += (text.len() - end) as u64;

    let text: &'x [u8] = text;
    let slots = pieces.many();
    let count = 2 * ranges.len().min(RANGES_MAX) + 1;
    let parts = headings.into_iter().zip(ranges).flat_map(|(heading, range)| {
        let heading = Piece::Bytes(text.get(heading).unwrap_or_default());
        [heading, part(selected.body, *range)]
    });
    let closing = Piece::Bytes(text.get(end..).unwrap_or_default());
    slots.iter_mut().zip(parts.chain([closing])).for_each(|(slot, piece)| *slot = piece);
    Prepared {
        status: 206,
        shared: selected.shared.fields_without_type(),
        content_type: text.get(..type_end),
        content_length: Some(content_length),
        body: PreparedBody::Archive(slots.get(..count).unwrap_or_default()),
        ..response
    }
}
