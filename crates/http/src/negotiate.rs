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

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Brotli, Gzip, Identity, Zstd};

    /// Qualities of identity, gzip, br, zstd.
    fn qualities(lines: &[&str]) -> [Quality; 4] {
        accepted(lines.iter().map(|line| line.as_bytes())).quality
    }

    fn chosen(field: &str, available: &[(Coding, u64)]) -> Coding {
        let accepted = accepted(core::iter::once(field.as_bytes()));
        available[choose(&accepted, available.iter().copied())].0
    }

    /// The usual values take a short cut, which must say what the long way says.
    #[test]
    fn short_cuts_agree_with_the_long_way() {
        for usual in [
            "gzip, deflate, br, zstd",
            "gzip, deflate, br",
            "gzip, deflate",
            "deflate, gzip",
            "gzip",
            "identity",
        ] {
            assert_eq!(qualities(&[usual]), qualities(&[usual, ""]), "{usual}");
        }
    }

    /// RFC 9110 §12.5.3, with its examples.
    #[test]
    fn members_and_weights() {
        assert_eq!(qualities(&[]), [0, 0, 0, 0]);
        assert_eq!(qualities(&["compress, gzip"]), [0, 1000, 0, 0]);
        assert_eq!(qualities(&[""]), [1000, 0, 0, 0]);
        assert_eq!(qualities(&["*"]), [1000, 1000, 1000, 1000]);
        assert_eq!(qualities(&["compress;q=0.5, gzip;q=1.0"]), [0, 1000, 0, 0]);
        assert_eq!(qualities(&["gzip;q=1.0, identity; q=0.5, *;q=0"]), [500, 1000, 0, 0]);
        assert_eq!(qualities(&["br;q=0.001", "zstd;q=0.12 , gzip ; Q=1."]), [0, 1000, 1, 120]);
        assert_eq!(qualities(&["GZIP, X-Gzip;q=0"]), [0, 1000, 0, 0]);
        assert_eq!(qualities(&["gzip;q=0, gzip"]), [0, 0, 0, 0]);
        assert_eq!(qualities(&["*;q=0.2, br;q=0"]), [200, 200, 0, 200]);
    }

    #[test]
    fn malformed_members_are_skipped() {
        for bad in [
            "gzip;q=1.001",
            "gzip;q=2",
            "gzip;q=0.1234",
            "gzip;q=.5",
            "gzip;q=-1",
            "gzip;q=",
            "gzip;q",
            "gzip;",
            "gzip;q=1;x=2",
            "gzip;x=2",
            "gzip;q = 1",
            "gzip br",
            "g zip",
            "\"gzip\"",
        ] {
            assert_eq!(qualities(&[bad]), [0; 4], "{bad}");
            assert_eq!(qualities(&[&format!("{bad}, br")]), [0, 0, 1000, 0], "{bad}");
        }
    }

    #[test]
    fn highest_quality_then_fewest_bytes_then_identity() {
        let all = [(Identity, 100), (Gzip, 40), (Brotli, 30), (Zstd, 35)];
        assert_eq!(chosen("gzip, deflate, br, zstd", &all), Brotli);
        assert_eq!(chosen("gzip, zstd", &all), Zstd);
        assert_eq!(chosen("gzip;q=0.9, br;q=0.8", &all), Gzip);
        assert_eq!(chosen("br;q=0, *", &all), Zstd);
        assert_eq!(chosen("identity, gzip;q=0.5", &all), Identity);
        assert_eq!(chosen("identity;q=0.5, gzip;q=0.6", &all), Gzip);
        assert_eq!(chosen("gzip;q=0.001", &all), Gzip);
        assert_eq!(chosen("*", &[(Identity, 10), (Gzip, 30)]), Identity);
        assert_eq!(chosen("gzip, br", &[(Identity, 9), (Brotli, 5), (Gzip, 5)]), Brotli);
    }

    /// RFC 9110 §12.5.3 allows 406 or the fallback; ours is the fallback.
    #[test]
    fn never_406() {
        let all = [(Gzip, 40), (Identity, 100)];
        assert_eq!(chosen("identity;q=0", &all), Identity);
        assert_eq!(chosen("*;q=0", &all), Identity);
        assert_eq!(chosen("br, *;q=0", &all), Identity);
        assert_eq!(chosen("deflate", &all), Identity);
        assert_eq!(chosen("br", &[(Gzip, 40)]), Gzip);
        assert_eq!(choose(&Accepted::IDENTITY, core::iter::empty()), 0);
    }

    /// RFC 9110 §12.5.1: the most specific range counts.
    #[test]
    fn text_or_html() {
        let text = |lines: &[&str]| prefers_text(lines.iter().map(|line| line.as_bytes()));
        for line in [
            "text/plain",
            "text/plain, */*;q=0.1",
            "text/plain;charset=utf-8;q=0.9, text/html;q=0.8",
            "text/*;q=0.5, text/html;q=0.4",
            "*/*, text/html;q=0",
            "TEXT/PLAIN",
        ] {
            assert!(text(&[line]), "{line}");
        }
        for line in [
            "",
            "*/*",
            "text/*",
            "text/html",
            "application/json",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
            "text/plain, text/html",
            "text/plain;q=0.5, text/*",
            "text/plain;q=oops, text/html;q=0.1",
            "text/plain;q=0",
        ] {
            assert!(!text(&[line]), "{line}");
        }
        assert!(!text(&[]));
        assert!(text(&["text/html;q=0.1", "text/plain"]));
    }
}
