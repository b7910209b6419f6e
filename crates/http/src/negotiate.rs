//! Proactive negotiation (RFC 9110 §12): which coding, and the form of an error page.

use crate::content_coding::Coding;
use crate::error_page::ErrorFormat;
use crate::grammar::{self, list, trim};
use crate::limits::LIST_MEMBERS_MAX;
use crate::media_type::MediaType;

/// A quality value in thousandths: 0 is "not acceptable", 1000 is the best (RFC 9110 §12.4.2).
pub type Quality = u16;

/// The quality of each coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    quality: [Quality; Coding::ALL.len()],
}

impl Accepted {
    /// Only identity, for a client without the field. RFC 9110 §12.5.3 would allow any coding then,
    /// but clients without the field cannot decode any.
    pub const IDENTITY: Accepted = Accepted { quality: [0; Coding::ALL.len()] };

    /// Returns the quality of a coding. 0 for identity says only that no member named it: identity
    /// stays the fallback, whatever the field says.
    #[inline]
    #[must_use]
    pub fn quality(&self, coding: Coding) -> Quality {
        self.quality[coding as usize]
    }
}

/// Reads the values of `Accept-Encoding`, all its lines as one list (RFC 9110 §12.5.3).
///
/// Parses the values of `Accept-Encoding`. `*` means every coding that no member names. A malformed
/// member is skipped. Of two members for the same coding the first counts.
#[inline]
pub fn accepted<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Accepted {
    let Some(first) = values.next() else { return Accepted::IDENTITY };
    // These are the values of browsers and common clients, byte by byte.
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

/// Returns the index of the representation to send: highest quality, then fewest bytes, then first.
/// When none is acceptable it is identity (never 406), and the first when there is no identity
/// either.
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

/// Returns the format that a client prefers for an error page, by its `Accept` (RFC 9110 §12.5.1).
/// Parameters other than `q` are ignored.
///
/// Plain text needs a higher quality than HTML. JSON needs a range that names it, such as
/// `application/json`, `application/*` or any type that ends in `+json`, and a higher quality than
/// HTML and plain text. The same quality is enough for a type of JSON, as in `application/json,
/// text/plain, */*`, if HTML is not named.
#[must_use]
pub fn preferred_error_format<'a>(values: impl Iterator<Item = &'a [u8]>) -> ErrorFormat {
    let mut text = MediaQuality::of(b"text", b"text/plain");
    let mut html = MediaQuality::of(b"text", b"text/html");
    let mut problem = MediaQuality::of(b"application", b"application/problem+json");
    let mut other_json = None;
    for_each_range(values, |range, quality| {
        for media in [&mut text, &mut html, &mut problem] {
            media.take(range, quality);
        }
        if !problem.is_type(range) && MediaType::parse(range).is_some_and(|range| range.is_json()) {
            other_json = other_json.max(Some(quality));
        }
    });
    // Clients that take another type of JSON can read problem details, unless they refuse this type
    // by its name.
    let by_name = problem.of_type.or(other_json);
    let by_json = problem.of_type.or(other_json.max(problem.of_group)).unwrap_or(0);
    let (by_text, by_html) = (text.quality(), html.quality());
    let is_named = by_name == Some(by_json);
    let beats_html = by_json > by_html || (by_json == by_html && is_named && !html.is_named());
    let beats_text = by_json > by_text || (by_json == by_text && is_named);
    if by_json > 0 && beats_html && beats_text {
        ErrorFormat::ProblemDetails
    } else if by_text > by_html {
        ErrorFormat::Text
    } else {
        ErrorFormat::Html
    }
}

/// Returns whether a client prefers JSON to HTML: when its `Accept` gives `application/json` a
/// higher quality, or the same one and names it alone, as `application/json, */*` does.
#[must_use]
pub fn prefers_json<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut json = MediaQuality::of(b"application", b"application/json");
    let mut html = MediaQuality::of(b"text", b"text/html");
    read_ranges(values, &mut [&mut json, &mut html]);
    let (by_json, by_html) = (json.quality(), html.quality());
    let alone = json.is_named() && !html.is_named();
    by_json > by_html || (by_json == by_html && by_json > 0 && alone)
}

/// Returns whether a client names HTML among the media types that it accepts, as browsers do that
/// are about to show a page.
#[must_use]
pub fn names_html<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut html = MediaQuality::of(b"text", b"text/html");
    read_ranges(values, &mut [&mut html]);
    html.is_named() && html.quality() > 0
}

/// The qualities that `Accept` assigns to one media type. Of several equal ranges the highest
/// quality counts.
struct MediaQuality {
    group: &'static [u8],
    name: &'static [u8],
    /// The quality by `*/*`.
    of_all: Option<Quality>,
    /// The quality by a range such as `text/*`.
    of_group: Option<Quality>,
    /// The quality by the type itself.
    of_type: Option<Quality>,
}

impl MediaQuality {
    fn of(group: &'static [u8], name: &'static [u8]) -> MediaQuality {
        MediaQuality { group, name, of_all: None, of_group: None, of_type: None }
    }

    /// Returns the quality of the type: that of the most specific range.
    fn quality(&self) -> Quality {
        self.of_type.or(self.of_group).or(self.of_all).unwrap_or(0)
    }

    fn is_named(&self) -> bool {
        self.of_type.is_some()
    }

    /// Returns whether a range is the type itself.
    fn is_type(&self, range: &[u8]) -> bool {
        range.eq_ignore_ascii_case(self.name)
    }

    fn is_group(&self, range: &[u8]) -> bool {
        range.strip_suffix(b"/*").is_some_and(|group| group.eq_ignore_ascii_case(self.group))
    }

    fn take(&mut self, range: &[u8], quality: Quality) {
        let known = if range == b"*/*" {
            &mut self.of_all
        } else if self.is_group(range) {
            &mut self.of_group
        } else if self.is_type(range) {
            &mut self.of_type
        } else {
            return;
        };
        *known = (*known).max(Some(quality));
    }
}

fn read_ranges<'a>(values: impl Iterator<Item = &'a [u8]>, types: &mut [&mut MediaQuality]) {
    for_each_range(values, |range, quality| {
        types.iter_mut().for_each(|media| media.take(range, quality));
    });
}

/// Calls `take` with each media range of `Accept` and its quality.
fn for_each_range<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    mut take: impl FnMut(&'a [u8], Quality),
) {
    for member in values.flat_map(list).take(LIST_MEMBERS_MAX) {
        let (range, parameters) = split_at_semicolon(member);
        if let Some(quality) = media_quality(parameters) {
            take(range, quality);
        }
    }
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

/// Parses `[ OWS ";" OWS "q=" qvalue ]` and nothing else: codings have no parameters.
fn coding_weight(weight: Option<&[u8]>) -> Option<Quality> {
    match weight {
        None => Some(1000),
        Some(weight) => quality_of(trim(weight)),
    }
}

/// Returns the `q` among the parameters of a media range.
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

/// Parses `q=0`, `q=1`, up to three decimals, not above 1 (RFC 9110 §12.4.2).
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

/// Returns the part before the first semicolon outside of quotes, trimmed, and the part after it.
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

    /// The usual values take a short cut, whose result must be that of the general way.
    #[test]
    fn fast_paths_equal_the_full_negotiation() {
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
    fn an_unacceptable_coding_falls_back_to_identity() {
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
        let format =
            |lines: &[&str]| preferred_error_format(lines.iter().map(|line| line.as_bytes()));
        let text = |lines: &[&str]| format(lines) == ErrorFormat::Text;
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

    #[test]
    fn problem_details_for_clients_that_prefer_json() {
        let format = |line: &str| preferred_error_format(core::iter::once(line.as_bytes()));
        for line in [
            "application/json",
            "application/problem+json",
            "APPLICATION/VND.API+JSON",
            "application/json;charset=utf-8",
            "application/json, */*;q=0.5",
            "application/json, */*",
            "application/json, text/plain, */*",
            "application/json, text/javascript, */*; q=0.01",
            "text/html;q=0.9, application/json",
            "application/json;q=0.2, application/ld+json;q=0.9, text/html;q=0.5",
            "application/*",
            "application/*, text/html;q=0.9",
            "application/json;q=0, application/*",
            "application/json;q=0.5, application/*, text/html;q=0.9",
            "application/*;q=0, application/json",
            "application/json;q=0, application/json",
            "application/json;q=0.1, application/json, text/html;q=0.5",
        ] {
            assert_eq!(format(line), ErrorFormat::ProblemDetails, "{line}");
        }
        for line in [
            "",
            "*/*",
            "image/png",
            "application/json;q=0",
            "application/json;q=0.5, */*",
            "application/json, text/html",
            "application/json;q=0.9, text/html",
            "application/*, text/html",
            "application/*;q=0.5, text/html;q=0.6",
            "application/problem+json;q=0, application/json, text/html;q=0.1",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
            "application/xhtml+xml, text/html",
            "text/json",
            "+json",
            "x+json",
            "/+json",
            "application/+json",
            "*/x+json",
            "a b/x+json",
            "application/json;q=0, application/*, */*",
            "application/json;q=0.5, application/*, */*",
            "application/problem+json;q=0, application/*",
            "text/html;q=0.1, text/html, application/json;q=0.5",
        ] {
            assert_eq!(format(line), ErrorFormat::Html, "{line}");
        }
        for line in ["text/plain, application/json;q=0.5", "text/plain, application/*"] {
            assert_eq!(format(line), ErrorFormat::Text, "{line}");
        }
    }

    #[test]
    fn json_or_html() {
        let json = |line: &str| prefers_json(core::iter::once(line.as_bytes()));
        for line in [
            "application/json",
            "application/json, text/plain, */*",
            "application/*",
            "application/*, text/html;q=0.9",
            "text/html;q=0.5, APPLICATION/JSON;q=0.6",
            "application/json;q=0.1, */*;q=0.1",
        ] {
            assert!(json(line), "{line}");
        }
        for line in [
            "",
            "*/*",
            "application/*, text/*",
            "application/json, text/html",
            "application/json;q=0",
            "application/json;q=0.5, */*",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
        ] {
            assert!(!json(line), "{line}");
        }
        assert!(!prefers_json(core::iter::empty()));
    }

    #[test]
    fn html_by_name() {
        let html = |line: &str| names_html(core::iter::once(line.as_bytes()));
        assert!(html("text/html") && html("*/*, Text/HTML;q=0.1"));
        for line in ["", "*/*", "text/*", "text/html;q=0", "text/htmlx", "image/avif"] {
            assert!(!html(line), "{line}");
        }
    }
}
