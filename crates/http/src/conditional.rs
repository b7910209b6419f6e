//! Conditional requests (RFC 9110 §13).

use crate::date::{self, UnixSeconds};
use crate::field::KnownField;
use crate::grammar::trim;
use crate::limits::LIST_MEMBERS_MAX;
use crate::method::Method;
use crate::request_head::ConditionalRequest;

/// The validators of the selected representation. It exists: the preconditions of a missing
/// resource are not evaluated (RFC 9110 §13.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The opaque tag of the representation that would be sent (every coding has its own), without
    /// quotes; a strong one.
    pub etag: Option<&'a [u8]>,
    /// The time of the last change.
    pub last_modified: Option<UnixSeconds>,
}

/// The result of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionVerdict {
    /// Answer as if there were none.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
}

/// Evaluates the preconditions in the order of RFC 9110 §13.2.2, steps 1 to 4. Step 5 is
/// [`if_range_holds`]. `now` only tells the century of a two-digit year.
#[inline]
#[must_use]
pub fn evaluate(
    head: &impl ConditionalRequest,
    validators: &Validators<'_>,
    now: UnixSeconds,
) -> PreconditionVerdict {
    if head.has_any(&PRECONDITIONS) {
        evaluate_present(head, validators, now)
    } else {
        PreconditionVerdict::Proceed
    }
}

/// Returns whether a `Range` may be honoured, as far as `If-Range` decides (step 5 of RFC 9110
/// §13.2.2).
///
/// A date is a strong validator only when the representation is at least one second older than
/// `now` (RFC 9110 §8.8.2.2); it must be the very date of `Last-Modified`.
#[must_use]
pub fn if_range_holds(
    head: &impl ConditionalRequest,
    validators: &Validators<'_>,
    now: UnixSeconds,
) -> bool {
    let Some(value) = head.first_value(KnownField::IfRange) else { return true };
    if head.is_repeated(KnownField::IfRange) {
        return false;
    }
    match entity_tag(value) {
        Some((tag, b"")) => !tag.weak && Some(tag.opaque) == validators.etag,
        Some(_) => false,
        None => match (date::parse(value, now), validators.last_modified) {
            (Some(date), Some(modified)) => {
                date == modified && now.saturating_sub(modified) >= STRONG_AFTER_SECONDS
            }
            _ => false,
        },
    }
}

const PRECONDITIONS: [KnownField; 4] = [
    KnownField::IfMatch,
    KnownField::IfNoneMatch,
    KnownField::IfModifiedSince,
    KnownField::IfUnmodifiedSince,
];

/// A second change within the same second would carry the same date.
const STRONG_AFTER_SECONDS: i64 = 1;

fn evaluate_present(
    head: &impl ConditionalRequest,
    validators: &Validators<'_>,
    now: UnixSeconds,
) -> PreconditionVerdict {
    // RFC 9110 §13.2.1: no precondition on methods that select no representation.
    if matches!(head.method(), Method::Connect | Method::Options | Method::Trace) {
        return PreconditionVerdict::Proceed;
    }
    let reads = head.method().selects_representation();

    if head.has_field(KnownField::IfMatch) {
        if !names_tag(head, KnownField::IfMatch, validators.etag, TagComparison::Strong) {
            return PreconditionVerdict::PreconditionFailed;
        }
    } else if let Some(modified) = validators.last_modified
        && let Some(date) = date_of(head, KnownField::IfUnmodifiedSince, now)
        && modified > date
    {
        return PreconditionVerdict::PreconditionFailed;
    }

    if head.has_field(KnownField::IfNoneMatch) {
        if names_tag(head, KnownField::IfNoneMatch, validators.etag, TagComparison::Weak) {
            return if reads {
                PreconditionVerdict::NotModified
            } else {
                PreconditionVerdict::PreconditionFailed
            };
        }
    } else if reads
        && let Some(modified) = validators.last_modified
        && let Some(date) = date_of(head, KnownField::IfModifiedSince, now)
        && modified <= date
    {
        return PreconditionVerdict::NotModified;
    }
    PreconditionVerdict::Proceed
}

/// Returns the date of a field. A field that occurs twice, or is no date, counts as absent (RFC
/// 9110 §13.1.3).
fn date_of(
    head: &impl ConditionalRequest,
    field: KnownField,
    now: UnixSeconds,
) -> Option<UnixSeconds> {
    if head.is_repeated(field) {
        return None;
    }
    date::parse(head.first_value(field)?, now)
}

/// The comparison of two entity tags (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum TagComparison {
    Strong,
    Weak,
}

/// Returns whether the field is `*` or has a tag that equals that of the representation. The text
/// after a malformed member of a line is ignored.
fn names_tag(
    head: &impl ConditionalRequest,
    field: KnownField,
    etag: Option<&[u8]>,
    comparison: TagComparison,
) -> bool {
    let mut members = 0;
    for value in head.all_values(field) {
        if trim(value) == b"*" {
            return true;
        }
        let mut rest = value;
        while let Some(tag) = next_tag(&mut rest) {
            let comparable = comparison == TagComparison::Weak || !tag.weak;
            if comparable && Some(tag.opaque) == etag {
                return true;
            }
            members += 1;
            if members == LIST_MEMBERS_MAX {
                return false;
            }
        }
    }
    false
}

/// An entity tag (RFC 9110 §8.8.3).
struct EntityTag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

/// Takes the next member off a list of entity tags; `None` at the end and when it is malformed.
fn next_tag<'a>(rest: &mut &'a [u8]) -> Option<EntityTag<'a>> {
    let mut text = *rest;
    while let [b' ' | b'\t' | b',', tail @ ..] = text {
        text = tail;
    }
    let (tag, tail) = entity_tag(text)?;
    *rest = match trim(tail) {
        [] => &[],
        [b',', tail @ ..] => tail,
        _ => return None,
    };
    Some(tag)
}

/// Parses the tag at the front, and returns the rest. A backslash in a tag is itself, not an
/// escape.
fn entity_tag(text: &[u8]) -> Option<(EntityTag<'_>, &[u8])> {
    let (weak, text) = match text {
        [b'W', b'/', b'"', tail @ ..] => (true, tail),
        [b'"', tail @ ..] => (false, tail),
        _ => return None,
    };
    let close = memchr::memchr(b'"', text)?;
    let opaque = text.get(..close)?;
    if !opaque.iter().all(|&byte| byte >= 0x21 && byte != 0x7f) {
        return None;
    }
    Some((EntityTag { weak, opaque }, text.get(close + 1..)?))
}

#[cfg(test)]
mod tests;
