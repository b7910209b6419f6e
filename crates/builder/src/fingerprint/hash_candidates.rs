//! Takes a name apart, and finds the parts that can be a hash.

use super::name_group::{Alphabet, NameForm};

/// A run of so many hexadecimal digits in a name is taken for a hash without further evidence: 64
/// bits, which no name has by chance.
const LONG_HEX_MIN: usize = 16;

/// Hexadecimal digits of a shorter hash: webpack, Parcel and mkdocs-material write 8, Django 12.
const HEX_BYTES: std::ops::Range<usize> = 8..LONG_HEX_MIN;

/// The length, beside 8, of hexadecimal digits of a hash after a dash. Others are ends of
/// identifiers.
const HEX_DASH_BYTES: usize = 10;

/// Characters of a hash in base 32 (esbuild).
const BASE32_BYTES: usize = 8;

/// Characters of a hash in base64url: Rollup and with it Vite write 8, Eleventy 10.
const BASE64_BYTES: [usize; 2] = [8, 10];

/// Texts that may stand between a hash and the extension: `main.57a0d79d.min.css`.
const BEHIND_HASH: [&[u8]; 4] = [b".min", b".chunk", b".bundle", b".lean"];

/// Returns every part at the end of a stem that may be a hash, with its form. `has_width` is true
/// if the width of a picture stood behind it.
pub(super) fn parts(stem: &[u8], has_width: bool) -> impl Iterator<Item = (NameForm, &[u8])> {
    // The last part of a UUID is none: it names a thing, with any content.
    let stem = if ends_in_uuid(stem) { &[] } else { stem };
    let hex = HEX_BYTES.map(|bytes| (Alphabet::Hex, bytes));
    let base64 = BASE64_BYTES.map(|bytes| (Alphabet::Base64, bytes));
    let forms = hex.chain([(Alphabet::Base32, BASE32_BYTES)]).chain(base64);
    forms.filter_map(move |(alphabet, bytes)| {
        let start = stem.len().checked_sub(bytes)?;
        let text = stem.get(start..).filter(|text| alphabet.has_all(text))?;
        let separator = match start.checked_sub(1) {
            Some(before) => *stem.get(before).filter(|byte| b".-_~".contains(byte))?,
            None => 0,
        };
        let is_usual = bytes == HEX_BYTES.start || bytes == HEX_DASH_BYTES;
        if alphabet == Alphabet::Hex && b"-_~".contains(&separator) && !is_usual {
            return None;
        }
        Some((NameForm { alphabet, separator, bytes: bytes as u8, has_width }, text))
    })
}

/// Returns whether a file is of a type that build tools give a hash: no page, no data, no download.
pub(crate) fn is_asset(name: &[u8], essence: &str) -> bool {
    let top = essence.split('/').next().unwrap_or_default();
    matches!(top, "image" | "font" | "audio" | "video")
        || matches!(
            essence,
            "text/css" | "text/javascript" | "application/wasm" | "application/vnd.ms-fontobject"
        )
        || name.ends_with(b".map")
}

/// Returns the name without its extension, and without the text that stands between a hash and the
/// extension. Returns `None` for a name without an extension.
pub(super) fn stem_of(name: &[u8], is_image: bool) -> Option<&[u8]> {
    let (mut stem, extension) = split_last(name, b'.')?;
    if extension == b"map"
        && let Some((inner, b"js" | b"mjs" | b"css")) = split_last(stem, b'.')
    {
        stem = inner;
    }
    while let Some(shorter) = BEHIND_HASH.iter().find_map(|suffix| stem.strip_suffix(*suffix)) {
        stem = shorter;
    }
    Some(if is_image { without_width(stem) } else { stem })
}

/// Returns the stem without the width: Eleventy makes pictures of several widths:
/// `KkPMmHd3hP-300.webp`.
fn without_width(stem: &[u8]) -> &[u8] {
    const DIGITS_MAX: usize = 5;
    match split_last(stem, b'-') {
        Some((before, width))
            if before.len() == 10
                && (1..=DIGITS_MAX).contains(&width.len())
                && width.iter().all(u8::is_ascii_digit) =>
        {
            before
        }
        _ => stem,
    }
}

/// Returns whether a stem holds a hash that is one without further evidence: a run of letters and
/// digits that are all hexadecimal, long enough, with a letter and a digit among them.
pub(super) fn has_long_hash(stem: &[u8]) -> bool {
    stem.split(|byte| !byte.is_ascii_alphanumeric()).any(|run| {
        run.len() >= LONG_HEX_MIN
            && run.iter().all(u8::is_ascii_hexdigit)
            && run.iter().any(u8::is_ascii_alphabetic)
            && run.iter().any(u8::is_ascii_digit)
    })
}

/// Returns whether a stem ends in groups of 8, 4, 4, 4 and 12 hexadecimal digits (RFC 9562).
fn ends_in_uuid(stem: &[u8]) -> bool {
    const GROUPS: [usize; 5] = [12, 4, 4, 4, 8];
    let mut groups = stem.rsplit(|&byte| byte == b'-');
    GROUPS.iter().enumerate().all(|(number, &bytes)| {
        let group = groups.next().unwrap_or_default();
        // Text before the first group belongs to the name.
        let start = group.len().checked_sub(bytes).filter(|&start| start == 0 || number == 4);
        let digits = start.and_then(|start| group.get(start..)).unwrap_or_default();
        digits.len() == bytes && digits.iter().all(u8::is_ascii_hexdigit)
    })
}

/// Returns the texts before and after the last `separator`.
fn split_last(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().rposition(|&byte| byte == separator)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}
