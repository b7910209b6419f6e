//! Names that the content proves: a part of the name is the beginning of a digest of the content.

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};

use super::hash_candidates::{is_asset, stem_of};
use super::name_group::Alphabet;
use super::split_name;
use super::word_or_hash::{PartKind, classify};

/// The algorithms with which tools hash content for names; some tools hash other things than the
/// content.
const ALGORITHMS: [&Algorithm; 4] = [&SHA256, &SHA1_FOR_LEGACY_USE_ONLY, &SHA384, &SHA512];

/// Fewest characters of a digest that prove anything: 32 bits in hexadecimal digits, 48 in
/// base64url.
const PART_MIN: usize = 8;

/// Returns whether a part of the last name of `key` is the beginning of a digest of the content, in
/// hexadecimal digits or in base64url. It depends on the name, the type and the content alone.
pub(crate) fn is_named_by_content(key: &[u8], essence: &str, content: &[u8]) -> bool {
    let Some(parts) = NameParts::of(key, essence) else { return false };
    ALGORITHMS.iter().any(|algorithm| parts.begin(digest(algorithm, content).as_ref()))
}

/// Returns whether the name has a part that may be the beginning of a digest.
pub(crate) fn may_be_named_by_content(key: &[u8], essence: &str) -> bool {
    NameParts::of(key, essence).is_some()
}

/// Parts of a name that may be the beginning of a digest.
struct NameParts<'a> {
    hex: Vec<&'a [u8]>,
    base64: Vec<&'a [u8]>,
}

impl<'a> NameParts<'a> {
    fn of(key: &'a [u8], essence: &str) -> Option<NameParts<'a>> {
        let (_, name) = split_name(key);
        if !is_asset(name, essence) {
            return None;
        }
        let stem = stem_of(name, essence.starts_with("image/"))?;
        let hex = stem.split(|byte| !byte.is_ascii_alphanumeric());
        let hex = hex.filter(|run| run.len() >= PART_MIN && run.iter().all(u8::is_ascii_hexdigit));
        let base64 = ends(stem)
            .filter(|end| end.len() >= PART_MIN && Alphabet::Base64.has_all(end))
            .filter(|end| classify(end, Alphabet::Base64) != PartKind::Word);
        let parts = NameParts { hex: hex.collect(), base64: base64.collect() };
        (!parts.hex.is_empty() || !parts.base64.is_empty()).then_some(parts)
    }

    /// Returns whether one of them is the beginning of the digest.
    fn begin(&self, digest: &[u8]) -> bool {
        self.hex.iter().any(|part| begins_in_hex(digest, part))
            || self.base64.iter().any(|part| begins_in_base64(digest, part))
    }
}

/// Returns the stem, and the text after each separator in it.
fn ends(stem: &[u8]) -> impl Iterator<Item = &[u8]> {
    let behind = stem.iter().enumerate().filter(|(_, byte)| b".-_".contains(byte));
    std::iter::once(stem).chain(behind.filter_map(|(at, _)| stem.get(at + 1..)))
}

fn begins_in_hex(digest: &[u8], part: &[u8]) -> bool {
    let nibble = |at: usize| {
        let byte = *digest.get(at / 2)?;
        char::from_digit(u32::from(if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 }), 16)
    };
    part.iter()
        .enumerate()
        .all(|(at, byte)| nibble(at) == Some(char::from(byte.to_ascii_lowercase())))
}

fn begins_in_base64(digest: &[u8], part: &[u8]) -> bool {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digit = |at: usize| {
        let bit = at * 6;
        let first = u16::from(*digest.get(bit / 8)?) << 8;
        let both = first | u16::from(digest.get(bit / 8 + 1).copied().unwrap_or_default());
        DIGITS.get(usize::from(both >> (10 - bit % 8) & 63)).copied()
    };
    part.iter().enumerate().all(|(at, &byte)| digit(at) == Some(byte))
}
