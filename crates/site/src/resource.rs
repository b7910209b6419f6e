//! One resource: which representation, and whole, in part or not at all.
//!
//! Negotiation comes first, because every representation has its own entity tag; then the
//! preconditions, then the range (RFC 9110 §13.2.2).

use pinion_archive::layout::VARIANT_PREFIX;
use pinion_archive::{Damage, Entry, Fault, Part, Place, Representation, SharedBlock};
use pinion_http::conditional::{self, Validators, Verdict};
use pinion_http::field::KnownField;
use pinion_http::negotiate;
use pinion_http::prepared::{ContentRange, Piece, Prepared, PreparedBody};
use pinion_http::range::{self, ByteRange, Ranges};

use crate::answer::Question;
use crate::fields::{FieldSort, SentPage};
use crate::generated;
use crate::multipart;
use crate::work::{Pieces, ResponseBuffers};

/// The representation that will be sent, and what is known about it.
#[derive(Clone, Copy)]
pub(crate) struct Selected<'x> {
    pub(crate) representation: Representation<'x>,
    pub(crate) shared: SharedBlock<'x>,
    pub(crate) place: Place,
}

/// The answer to GET or HEAD of an entry by its own path, whose fields are stored with the rules
/// for that path. Inlined, as are the steps on the way to a whole body: an answer is larger than
/// registers, and each hand-over would copy it.
#[inline(always)]
pub(crate) fn answer<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    selected: Selected<'x>,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let validators = validators(question, &entry, &selected);
    if is_unconditional(question, &entry) {
        return whole(entry, &validators, &selected, pieces);
    }
    conditional_answer(question, entry, &validators, selected, None, buffers, pieces)
}

/// The answer to GET or HEAD of a path that another page stands for.
pub(crate) fn stand_in<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    selected: Selected<'x>,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let validators = validators(question, &entry, &selected);
    let sent = sent_page(&entry, buffers.target);
    if is_unconditional(question, &entry) {
        let shared = buffers.apply(question, selected.shared, FieldSort::Kept, sent);
        return whole(entry, &validators, &Selected { shared, ..selected }, pieces);
    }
    conditional_answer(question, entry, &validators, selected, Some(sent), buffers, pieces)
}

/// The content of an entry with the status of an error.
pub(crate) fn page<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    selected: Selected<'x>,
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
    let shared = buffers.apply(question, selected.shared, sort, sent);
    content(entry, status, &Selected { shared, ..selected }, pieces)
}

/// The page that is sent in place of the path of a request, in `target` unless it is empty.
fn sent_page<'k>(entry: &Entry<'_>, target: &'k [u8]) -> SentPage<'k> {
    // Pages for what is missing have the fields of their folder instead.
    let is_of_path = entry.path().starts_with(b"/") || entry.path().starts_with(VARIANT_PREFIX);
    SentPage { path: target, is_stored: is_of_path }
}

#[inline(always)]
fn validators<'x>(
    question: &Question<'_, 'x>,
    entry: &Entry<'x>,
    selected: &Selected<'x>,
) -> Validators<'x> {
    let Question { archive, now, .. } = question;
    Validators {
        etag: archive.tells_etags().then(|| selected.representation.etag().as_slice()),
        // RFC 9110 §8.8.2.1: no date later than that of the message.
        last_modified: entry.modified().filter(|modified| modified <= now),
    }
}

/// Whether nothing in the request can make its answer something else than the whole
/// representation.
#[inline(always)]
fn is_unconditional(question: &Question<'_, '_>, entry: &Entry<'_>) -> bool {
    // RFC 9110 §13.2.1: preconditions are for what would be a 2xx.
    !question.head.known.has_any(CONDITIONAL) || !(200..=299).contains(&entry.status())
}

/// The fields that can make an answer something else than the whole representation.
const CONDITIONAL: &[KnownField] = &[
    KnownField::IfMatch,
    KnownField::IfModifiedSince,
    KnownField::IfNoneMatch,
    KnownField::IfUnmodifiedSince,
    KnownField::Range,
];

/// The answer to a request with preconditions or a range. `sent` is the page that stands for its
/// path, if it is another one.
fn conditional_answer<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    validators: &Validators<'x>,
    mut selected: Selected<'x>,
    sent: Option<SentPage<'_>>,
    buffers: ResponseBuffers<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let Question { archive, now, .. } = question;
    let head = question.head;
    let verdict = conditional::evaluate(head, validators, *now);
    if verdict == Verdict::PreconditionFailed {
        return generated::error(question, 412, buffers);
    }
    let total = selected.representation.bytes();
    let ranges = match range::requested(head, total) {
        _ if verdict == Verdict::NotModified => Ranges::Ignore,
        Ranges::Ignore => Ranges::Ignore,
        _ if !conditional::if_range_holds(head, validators, *now) => Ranges::Ignore,
        ranges => ranges,
    };
    if ranges == Ranges::Unsatisfiable {
        let content_range = Some(ContentRange::Unsatisfied { total });
        return Prepared { content_range, ..generated::error(question, 416, buffers) };
    }
    let ResponseBuffers { text, decoded, fields, .. } = buffers;
    if let Some(sent) = sent {
        let (block, sort) = (selected.shared, FieldSort::Kept);
        selected.shared = fields.apply(archive, head, block, sort, sent, decoded);
    }
    if verdict == Verdict::NotModified {
        let shared = selected.shared.not_modified_fields();
        let content_location = entry.target();
        let Validators { etag, last_modified } = *validators;
        let empty = Prepared::empty(304);
        return Prepared { shared, etag, last_modified, content_location, ..empty };
    }
    let Ranges::Satisfiable(set) = ranges else {
        return whole(entry, validators, &selected, pieces);
    };
    match set.as_slice() {
        [range] => with_part(entry, validators, &selected, *range, pieces),
        ranges => {
            let answer = without_body(entry, validators, &selected);
            multipart::answer(answer, &selected, ranges, text, pieces)
        }
    }
}

/// The content of an entry as that of another answer: a not-found page, the body of a redirect. No
/// validators, no ranges.
pub(crate) fn content<'x>(
    entry: Entry<'x>,
    status: u16,
    selected: &Selected<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let none = Validators { etag: None, last_modified: None };
    Prepared { status, content_location: None, ..whole(entry, &none, selected, pieces) }
}

/// A range of the place, both ends included; it lies inside it.
pub(crate) fn part<'x>(place: Place, range: ByteRange) -> Piece<'x> {
    match place {
        Place::Archive(mut slice) => {
            slice.offset += range.first;
            slice.bytes = range.bytes();
            Piece::Archive(slice)
        }
        Place::External(mut slice) => {
            slice.offset += range.first;
            slice.bytes = range.bytes();
            Piece::External(slice)
        }
    }
}

/// The representation that will be sent.
#[inline(always)]
pub(crate) fn select<'x>(
    question: &Question<'_, 'x>,
    entry: &Entry<'x>,
) -> Result<Selected<'x>, Damage> {
    let Question { archive, head, .. } = question;
    let available = entry.representations().map(|form| (form.coding(), form.bytes()));
    let rank = if entry.has_choice() {
        let accepted = negotiate::accepted(head.values(KnownField::AcceptEncoding));
        negotiate::choose(&accepted, available)
    } else {
        0
    };
    let representation = entry.representation(rank).ok_or(Damage {
        part: Part::Record,
        offset: entry.offset(),
        fault: Fault::Representations,
    })?;
    let shared = archive.shared(representation.shared())?;
    let place = archive.place(&representation)?;
    Ok(Selected { representation, shared, place })
}

/// The whole representation.
#[inline(always)]
fn whole<'x>(
    entry: Entry<'x>,
    validators: &Validators<'x>,
    selected: &Selected<'x>,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let bytes = selected.representation.bytes();
    let body = match selected.place {
        _ if bytes == 0 => PreparedBody::None,
        Place::Archive(slice) => PreparedBody::Archive(pieces.one(Piece::Archive(slice))),
        Place::External(slice) => PreparedBody::Archive(pieces.one(Piece::External(slice))),
    };
    Prepared { content_length: Some(bytes), body, ..without_body(entry, validators, selected) }
}

/// What a whole and a partial answer have in common.
#[inline(always)]
fn without_body<'x>(
    entry: Entry<'x>,
    validators: &Validators<'x>,
    selected: &Selected<'x>,
) -> Prepared<'x> {
    Prepared {
        shared: selected.shared.full_fields(),
        etag: validators.etag,
        last_modified: validators.last_modified,
        content_location: entry.target(),
        ..Prepared::empty(entry.status())
    }
}

fn with_part<'x>(
    entry: Entry<'x>,
    validators: &Validators<'x>,
    selected: &Selected<'x>,
    range: ByteRange,
    pieces: &'x mut Pieces<'x>,
) -> Prepared<'x> {
    let total = selected.representation.bytes();
    let ByteRange { first, last } = range;
    Prepared {
        status: 206,
        content_range: Some(ContentRange::Bytes { first, last, total }),
        content_length: Some(range.bytes()),
        body: PreparedBody::Archive(pieces.one(part(selected.place, range))),
        ..without_body(entry, validators, selected)
    }
}
