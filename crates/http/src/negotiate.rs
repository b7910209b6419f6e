//! Proactive negotiation (RFC 9110 §12): which coding, and whether an error page is HTML or text.

use crate::coding::Coding;
use crate::grammar::{self, list, trim};
use crate::limits::LIST_MEMBERS_MAX;

/// A quality value in thousandths: 0 is "not acceptable", 1000 is the best (RFC 9110 §12.4.2).
pub type Quality = u16;

/// How welcome each coding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    quality: [Quality; Coding::ALL.len()],
}

impl Accepted {
    /// Nothing but identity: what a client without the field gets. RFC 9110 §12.5.3 would allow
    /// any coding then, but clients that say nothing cannot decode any.
    pub const IDENTITY: Accepted = Accepted { quality: [0; Coding::ALL.len()] };

    /// The quality of a coding. 0 for identity says only that no member named it: identity stays
    /// the fallback, whatever the field says.
    #[inline]
    #[must_use]
    pub fn quality(&self, coding: Coding) -> Quality {
        self.quality[coding as usize]
    }
}

/// Reads the values of `Accept-Encoding`, all its lines as one list (RFC 9110 §12.5.3).
///
/// `*` stands for every coding no member names. A malformed member is skipped. Of two members for
/// the same coding the first counts.
#[inline]
pub fn accepted<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Accepted {
    let Some(first) = values.next() else { return Accepted::IDENTITY };
    // What browsers and common clients send, letter by letter.
    let usual = match first {
        b"gzip, deflate, br, zstd" => Some([0, 1000, 1000, 1000]),
        b"gzip, deflate, br" => Some([0, 1000, 1000, 0]),
        b"gzip, deflate" | b"deflate, gzip" | b"gzip" => Some([0, 1000, 0, 0]),
        b"identity" | b"" => Some([1000, 0, 0, 0]),
        _ => None,
    };
    match (usual, values.next()) {
        (Some(quality), None) => Accepted { quality },
        (_, second) => read_members([first].into_iter().chain(second).chain(values)),
    }
}

/// The index of the representation to send: highest quality, then fewest bytes, then first. When
/// none is welcome it is identity (never 406), and the first when there is no identity either.
#[inline]
#[must_use]
pub fn choose(accepted: &Accepted, available: impl Iterator<Item = (Coding, u64)>) -> usize {
    let mut best: Option<(usize, Quality, u64)> = None;
    let mut identity = 0;
    for (index, (coding, bytes)) in available.enumerate() {
        if coding == Coding::Identity {
            identity = index;
        }
        let quality = accepted.quality(coding);
        let better = match best {
            None => true,
            Some((_, best, fewest)) => quality > best || (quality == best && bytes < fewest),
        };
        if quality > 0 && better {
            best = Some((index, quality, bytes));
        }
    }
    best.map_or(identity, |(index, _, _)| index)
}

/// Whether a client would rather have an error page as plain text than as HTML: when its `Accept`
/// gives `text/plain` a higher quality (RFC 9110 §12.5.1). Parameters other than `q` are ignored.
#[must_use]
pub fn prefers_text<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    // Quality by how exact the range is: `*/*`, `text/*`, the type itself.
    let mut html: [Option<Quality>; 3] = [None; 3];
    let mut text: [Option<Quality>; 3] = [None; 3];
    for member in values.flat_map(list).take(LIST_MEMBERS_MAX) {
        let (range, parameters) = split_at_semicolon(member);
        let Some(quality) = media_quality(parameters) else { continue };
        let is = |name: &[u8]| range.eq_ignore_ascii_case(name);
        if is(b"*/*") {
            html[0].get_or_insert(quality);
            text[0].get_or_insert(quality);
        } else if is(b"text/*") {
            html[1].get_or_insert(quality);
            text[1].get_or_insert(quality);
        } else if is(b"text/html") {
            html[2].get_or_insert(quality);
        } else if is(b"text/plain") {
            text[2].get_or_insert(quality);
        }
    }
    let exact = |by: [Option<Quality>; 3]| by[2].or(by[1]).or(by[0]).unwrap_or(0);
    exact(text) > exact(html)
}

fn read_members<'a>(values: impl Iterator<Item = &'a [u8]>) -> Accepted {
    let mut named: [Option<Quality>; Coding::ALL.len()] = [None; Coding::ALL.len()];
    let mut star = None;
    for member in values.flat_map(list).take(LIST_MEMBERS_MAX) {
        let (token, weight) = split_at_semicolon(member);
        let Some(quality) = coding_weight(weight) else { continue };
        if token == b"*" {
            star.get_or_insert(quality);
        } else if let Some(coding) = Coding::from_token(token) {
            named[coding as usize].get_or_insert(quality);
        }
    }
    Accepted { quality: named.map(|quality| quality.or(star).unwrap_or(0)) }
}

/// `[ OWS ";" OWS "q=" qvalue ]` and nothing else: codings have no parameters.
fn coding_weight(weight: Option<&[u8]>) -> Option<Quality> {
    match weight {
        None => Some(1000),
        Some(weight) => quality_of(trim(weight)),
    }
}

/// The `q` among the parameters of a media range.
fn media_quality(parameters: Option<&[u8]>) -> Option<Quality> {
    let mut rest = parameters;
    while let Some(parameters) = rest {
        let (parameter, next) = split_at_semicolon(parameters);
        if matches!(parameter, [b'q' | b'Q', b'=', ..]) {
            return quality_of(parameter);
        }
        rest = next;
    }
    Some(1000)
}

/// `q=0`, `q=1`, up to three decimals, not above 1 (RFC 9110 §12.4.2).
fn quality_of(parameter: &[u8]) -> Option<Quality> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (*whole, decimals),
        _ => return None,
    };
    let mut thousandths = Quality::from(whole - b'0');
    for place in 0..3 {
        let digit = decimals.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths = thousandths * 10 + Quality::from(digit - b'0');
    }
    (thousandths <= 1000).then_some(thousandths)
}

/// The part before the first semicolon outside of quotes, trimmed, and the part behind it.
fn split_at_semicolon(member: &[u8]) -> (&[u8], Option<&[u8]>) {
    match grammar::find_unquoted(member, b';') {
        Some(at) => (trim(member.get(..at).unwrap_or_default()), member.get(at + 1..)),
        None => (trim(member), None),
    }
}
