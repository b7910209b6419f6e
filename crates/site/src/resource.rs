//! One resource: which representation, and whole, in part or not at all.
//!
//! Negotiation comes first, because every representation has its own entity tag; then the
//! preconditions, then the range (RFC 9110 §13.2.2).

use pinion_archive::{Damage, Entry, Fault, Part, Place, Representation, SharedBlock};
use pinion_http::conditional::{self, Validators, Verdict};
use pinion_http::field::KnownField;
use pinion_http::negotiate;
use pinion_http::prepared::{ContentRange, Piece, Prepared, PreparedBody};
use pinion_http::range::{self, ByteRange, Ranges};

use crate::answer::Question;
use crate::generated;
use crate::multipart;
use crate::work::Pieces;

/// The representation that will be sent, and what is known about it.
#[derive(Clone, Copy)]
pub(crate) struct Selected<'x> {
    pub(crate) representation: Representation<'x>,
    pub(crate) shared: SharedBlock<'x>,
    pub(crate) place: Place,
}

/// The answer to GET or HEAD. Inlined, as are the steps on the way to a whole body: an answer is
/// larger than registers, and each hand-over would copy it.
#[inline(always)]
pub(crate) fn answer<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    text: &'x mut Vec<u8>,
    pieces: &'x mut Pieces<'x>,
) -> Result<Prepared<'x>, Damage> {
    let Question { archive, head, now } = question;
    let selected = select(question, &entry)?;
    let validators = Validators {
        etag: archive.tells_etags().then(|| selected.representation.etag().as_slice()),
        // RFC 9110 §8.8.2.1: no date later than that of the message.
        last_modified: entry.modified().filter(|modified| modified <= now),
    };
    // RFC 9110 §13.2.1: preconditions are for what would be a 2xx.
    let plain = !head.known.has_any(CONDITIONAL) || !(200..=299).contains(&entry.status());
    if plain {
        return Ok(whole(entry, &validators, &selected, pieces));
    }
    conditional_answer(question, entry, &validators, &selected, text, pieces)
}

/// The fields that can make an answer something else than the whole representation.
const CONDITIONAL: &[KnownField] = &[
    KnownField::IfMatch,
    KnownField::IfModifiedSince,
    KnownField::IfNoneMatch,
    KnownField::IfUnmodifiedSince,
    KnownField::Range,
];

/// The answer to a request with preconditions or a range.
fn conditional_answer<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    validators: &Validators<'x>,
    selected: &Selected<'x>,
    text: &'x mut Vec<u8>,
    pieces: &'x mut Pieces<'x>,
) -> Result<Prepared<'x>, Damage> {
    let Question { archive, head, now } = question;
    match conditional::evaluate(head, validators, *now) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            let shared = selected.shared.not_modified_fields();
            let content_location = entry.target();
            let Validators { etag, last_modified } = *validators;
            let empty = Prepared::empty(304);
            return Ok(Prepared { shared, etag, last_modified, content_location, ..empty });
        }
        Verdict::PreconditionFailed => return Ok(generated::error(412, archive, head)),
    }
    let total = selected.representation.bytes();
    match range::requested(head, total) {
        Ranges::Ignore => Ok(whole(entry, validators, selected, pieces)),
        _ if !conditional::if_range_holds(head, validators, *now) => {
            Ok(whole(entry, validators, selected, pieces))
        }
        Ranges::Unsatisfiable => Ok(Prepared {
            content_range: Some(ContentRange::Unsatisfied { total }),
            ..generated::error(416, archive, head)
        }),
        Ranges::Satisfiable(set) => match set.as_slice() {
            [range] => Ok(with_part(entry, validators, selected, *range, pieces)),
            ranges => {
                let answer = without_body(entry, validators, selected);
                Ok(multipart::answer(answer, selected, ranges, text, pieces))
            }
        },
    }
}

/// The content of an entry as that of another answer: a not-found page, the body of a redirect. No
/// validators, no ranges.
pub(crate) fn content<'x>(
    question: &Question<'_, 'x>,
    entry: Entry<'x>,
    status: u16,
    pieces: &'x mut Pieces<'x>,
) -> Result<Prepared<'x>, Damage> {
    let selected = select(question, &entry)?;
    let none = Validators { etag: None, last_modified: None };
    Ok(Prepared { status, content_location: None, ..whole(entry, &none, &selected, pieces) })
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

#[inline(always)]
fn select<'x>(question: &Question<'_, 'x>, entry: &Entry<'x>) -> Result<Selected<'x>, Damage> {
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
