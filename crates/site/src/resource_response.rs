//! The response of one resource: its representation, sent whole, in part or not at all.
//!
//! Negotiation comes first, because every representation has its own entity tag; then the
//! preconditions, then the range (RFC 9110 §13.2.2).

use pinion_archive::layout::VARIANT_PREFIX;
use pinion_archive::{ArchivePart, BodyLocation, Damage, Entry, Fault, SharedBlock};
use pinion_http::conditional::{self, PreconditionVerdict, Validators};
use pinion_http::field::KnownField;
use pinion_http::negotiate;
use pinion_http::prepared_response::{ContentRange, Piece, Prepared, PreparedBody};
use pinion_http::range::{self, ByteRange, Ranges};

use crate::field_rules::{FieldSort, SentPage};
use crate::generated_responses;
use crate::multipart_ranges;
use crate::request_buffers::{Pieces, ResponseBuffers};
use crate::response::SiteLookup;

/// The selected representation, and the facts for its response.
#[derive(Clone, Copy)]
pub(crate) struct SelectedRepresentation<'x> {
    /// The status of the response with all of it.
    pub(crate) status: u16,
    /// The value of `Content-Location`.
    pub(crate) content_location: Option<&'x [u8]>,
    /// The boundary between several ranges, see [`multipart_ranges`]; empty if it is not sent in
    /// several ranges.
    pub(crate) boundary: &'x [u8],
    /// Its length in bytes.
    pub(crate) bytes: u64,
    pub(crate) shared: SharedBlock<'x>,
    pub(crate) body: BodyLocation,
}

/// The rules for fields that have not been applied to the response yet.
#[derive(Clone, Copy)]
pub(crate) enum UnappliedRules<'k> {
    /// No rules: the stored fields have them all.
    None,
    /// The rules for the path of the request, for which this page is sent.
    StandIn(SentPage<'k>),
    /// All rules: the fields are those before any rule.
    All,
}

/// Returns the response to GET or HEAD of an entry by its own path, whose fields are stored with
/// the rules for that path. It is inlined, as are the steps on the way to a whole body: a response
/// is larger than registers, and each return would copy it.
#[inline(always)]
pub(crate) fn response<'x>(
    lookup: &SiteLookup<'_, 'x>,
    entry: Entry<'x>,
    selected: SelectedRepresentation<'x>,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let validators = validators(lookup, &entry, &selected);
    if is_unconditional(lookup, selected.status) {
        return whole(&validators, &selected, pieces);
    }
    conditional_response(lookup, &validators, selected, UnappliedRules::None, buffers, pieces)
}

/// Returns the response to GET or HEAD of a path for which another page is sent.
pub(crate) fn stand_in<'x>(
    lookup: &SiteLookup<'_, 'x>,
    entry: Entry<'x>,
    selected: SelectedRepresentation<'x>,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let validators = validators(lookup, &entry, &selected);
    let sent = sent_page(&entry, buffers.target);
    if is_unconditional(lookup, selected.status) {
        let shared = buffers.apply(lookup, selected.shared, FieldSort::Kept, sent);
        return whole(&validators, &SelectedRepresentation { shared, ..selected }, pieces);
    }
    let rules = UnappliedRules::StandIn(sent);
    conditional_response(lookup, &validators, selected, rules, buffers, pieces)
}

/// Returns the content of an entry with the status of an error.
pub(crate) fn page<'x>(
    lookup: &SiteLookup<'_, 'x>,
    entry: Entry<'x>,
    selected: SelectedRepresentation<'x>,
    status: u16,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    // A rule may give an error the content of a page that may be kept for a while; an error may
    // not (docs/rules.md).
    let sort = match (status, entry.status()) {
        (400.., ..400) => FieldSort::ErrorWithPage,
        (400.., _) => FieldSort::Error,
        _ => FieldSort::Kept,
    };
    let sent = sent_page(&entry, buffers.target);
    let shared = buffers.apply(lookup, selected.shared, sort, sent);
    content(status, &SelectedRepresentation { shared, ..selected }, pieces)
}

/// Returns the page that is sent in place of the path of a request, in `target` unless it is empty.
fn sent_page<'k>(entry: &Entry<'_>, target: &'k [u8]) -> SentPage<'k> {
    // Fallback pages have the fields of their folder instead.
    let is_of_path = entry.path().starts_with(b"/") || entry.path().starts_with(VARIANT_PREFIX);
    SentPage { path: target, is_stored: is_of_path }
}

#[inline(always)]
fn validators<'x>(
    lookup: &SiteLookup<'_, 'x>,
    entry: &Entry<'x>,
    selected: &SelectedRepresentation<'x>,
) -> Validators<'x> {
    let SiteLookup { archive, now, .. } = lookup;
    Validators {
        etag: archive.has_etags().then_some(selected.boundary),
        // RFC 9110 §8.8.2.1: no date later than that of the message.
        last_modified: entry.modified().filter(|modified| modified <= now),
    }
}

/// Returns whether every response to the request is the whole representation.
#[inline(always)]
pub(crate) fn is_unconditional(lookup: &SiteLookup<'_, '_>, status: u16) -> bool {
    // RFC 9110 §13.2.1: preconditions apply only to responses that would be a 2xx.
    !lookup.head.known.has_any(CONDITIONAL) || !(200..=299).contains(&status)
}

/// The fields that can change a response from the whole representation.
const CONDITIONAL: &[KnownField] = &[
    KnownField::IfMatch,
    KnownField::IfModifiedSince,
    KnownField::IfNoneMatch,
    KnownField::IfUnmodifiedSince,
    KnownField::Range,
];

/// Returns the response to a request with preconditions or a range.
pub(crate) fn conditional_response<'x>(
    lookup: &SiteLookup<'_, 'x>,
    validators: &Validators<'x>,
    mut selected: SelectedRepresentation<'x>,
    rules: UnappliedRules<'_>,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let SiteLookup { archive, now, .. } = lookup;
    let head = lookup.head;
    let verdict = conditional::evaluate(head, validators, *now);
    if verdict == PreconditionVerdict::PreconditionFailed {
        return generated_responses::error(lookup, 412, buffers);
    }
    let total = selected.bytes;
    let ranges = match range::requested(head, total) {
        _ if verdict == PreconditionVerdict::NotModified => Ranges::Ignore,
        Ranges::Ignore => Ranges::Ignore,
        _ if !conditional::if_range_holds(head, validators, *now) => Ranges::Ignore,
        ranges => ranges,
    };
    if ranges == Ranges::Unsatisfiable {
        let content_range = Some(ContentRange::Unsatisfied { total });
        return Prepared { content_range, ..generated_responses::error(lookup, 416, buffers) };
    }
    let ResponseBuffers { text, decoded, fields, .. } = buffers;
    let block = selected.shared;
    match rules {
        UnappliedRules::None => {}
        UnappliedRules::StandIn(sent) => {
            selected.shared = fields.apply(archive, head, block, FieldSort::Kept, sent, decoded);
        }
        UnappliedRules::All => selected.shared = fields.apply_all(archive, head, block, decoded),
    }
    if verdict == PreconditionVerdict::NotModified {
        let shared = selected.shared.not_modified_fields();
        let content_location = selected.content_location;
        let Validators { etag, last_modified } = *validators;
        let empty = Prepared::empty(304);
        return Prepared { shared, etag, last_modified, content_location, ..empty };
    }
    let Ranges::Satisfiable(set) = ranges else {
        return whole(validators, &selected, pieces);
    };
    match set.as_slice() {
        [range] => with_part(validators, &selected, *range, pieces),
        _ if selected.boundary.is_empty() => whole(validators, &selected, pieces),
        ranges => {
            let response = without_body(validators, &selected);
            multipart_ranges::response(response, &selected, ranges, text, pieces)
        }
    }
}

/// Returns the content of an entry as that of another response: a not-found page, the body of a
/// redirect. It has no validators and no ranges.
pub(crate) fn content<'x>(
    status: u16,
    selected: &SelectedRepresentation<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let none = Validators { etag: None, last_modified: None };
    Prepared { status, content_location: None, ..whole(&none, selected, pieces) }
}

/// Returns a range of a body, both ends included; it lies inside the body.
pub(crate) fn part<'x>(location: BodyLocation, range: ByteRange) -> Piece<'x> {
    match location {
        BodyLocation::Archive(mut slice) => {
            slice.offset += range.first;
            slice.bytes = range.bytes();
            Piece::Archive(slice)
        }
        BodyLocation::External(mut slice) => {
            slice.offset += range.first;
            slice.bytes = range.bytes();
            Piece::External(slice)
        }
    }
}

/// Selects the representation that is sent.
#[inline(always)]
pub(crate) fn select<'x>(
    lookup: &SiteLookup<'_, 'x>,
    entry: &Entry<'x>,
) -> Result<SelectedRepresentation<'x>, Damage> {
    let SiteLookup { archive, head, .. } = lookup;
    let available = entry.representations().map(|form| (form.coding(), form.bytes()));
    let rank = if entry.has_choice() {
        let accepted = negotiate::accepted(head.values(KnownField::AcceptEncoding));
        negotiate::choose(&accepted, available)
    } else {
        0
    };
    let representation = entry.representation(rank).ok_or(Damage {
        part: ArchivePart::Record,
        offset: entry.offset(),
        fault: Fault::Representations,
    })?;
    let shared = archive.shared(representation.shared())?;
    let body = archive.body_location(&representation)?;
    Ok(SelectedRepresentation {
        status: entry.status(),
        content_location: entry.target(),
        boundary: representation.etag(),
        bytes: representation.bytes(),
        shared,
        body,
    })
}

/// Returns the response with the whole representation.
#[inline(always)]
pub(crate) fn whole<'x>(
    validators: &Validators<'x>,
    selected: &SelectedRepresentation<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let bytes = selected.bytes;
    let body = match selected.body {
        _ if bytes == 0 => PreparedBody::None,
        BodyLocation::Archive(slice) => PreparedBody::Archive(pieces.one(Piece::Archive(slice))),
        BodyLocation::External(slice) => PreparedBody::Archive(pieces.one(Piece::External(slice))),
    };
    Prepared { content_length: Some(bytes), body, ..without_body(validators, selected) }
}

/// Returns the common part of a whole and a partial response.
#[inline(always)]
fn without_body<'x>(
    validators: &Validators<'x>,
    selected: &SelectedRepresentation<'x>,
) -> Prepared<'x> {
    Prepared {
        shared: selected.shared.full_fields(),
        etag: validators.etag,
        last_modified: validators.last_modified,
        content_location: selected.content_location,
        ..Prepared::empty(selected.status)
    }
}

fn with_part<'x>(
    validators: &Validators<'x>,
    selected: &SelectedRepresentation<'x>,
    range: ByteRange,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let total = selected.bytes;
    let ByteRange { first, last } = range;
    Prepared {
        status: 206,
        content_range: Some(ContentRange::Bytes { first, last, total }),
        content_length: Some(range.bytes()),
        body: PreparedBody::Archive(pieces.one(part(selected.body, range))),
        ..without_body(validators, selected)
    }
}
