//! Fills the captures of a rule into its target: a `Location`, or the key of an entry.

use pinion_archive::limits::PATH_MAX_BYTES;
use pinion_archive::{Rule, TargetPart};
use pinion_http::request_target::{escape, is_path_byte, is_uri_byte};

use crate::form_urlencoded;
use crate::rule_matching::{RuleCapture, RuleCaptures};

/// The longest `Location` of a rule: twice as much as common clients accept as a whole head. A
/// target can name a capture more than once, so its length needs a limit.
pub(crate) const LOCATION_MAX_BYTES: usize = 32 * 1024;

/// The byte that represents an escaped slash in a decoded path; no other byte is a NUL there,
/// unless the path has `%00`.
pub(crate) const ESCAPED_SLASH: u8 = 0;

/// Appends a captured part of a path, escaped as in a path. An escaped slash stays one.
pub(crate) fn write_captured(out: &mut Vec<u8>, text: &[u8]) {
    write_escaped(out, text, is_path_byte);
}

fn write_escaped(out: &mut Vec<u8>, text: &[u8], plain: impl Fn(u8) -> bool) {
    for piece in text.split_inclusive(|&byte| byte == ESCAPED_SLASH) {
        let without = piece.strip_suffix(&[ESCAPED_SLASH]);
        escape(out, without.unwrap_or(piece).iter().copied(), &plain);
        out.extend_from_slice(if without.is_some() { b"%2F" } else { b"" });
    }
}

/// Writes the location of a redirect. Returns false when it would be longer than
/// [`LOCATION_MAX_BYTES`].
///
/// Captures are escaped, more strictly in a query, where they could end it or begin a field of
/// their own. A path of this site never becomes `//host`, the name of another one (RFC 3986 §4.2).
pub(crate) fn location(
    rule: &Rule<'_>,
    captures: &RuleCaptures<'_>,
    query: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> bool {
    out.clear();
    let mut query = query.filter(|_| rule.keeps_query());
    let mut behind_path = false;
    for part in rule.target() {
        match part {
            TargetPart::Literal(text) => {
                // The fragment stays last.
                let (before, fragment) = match text.iter().position(|&byte| byte == b'#') {
                    Some(at) if query.is_some() => text.split_at(at),
                    _ => (text, &[][..]),
                };
                out.extend_from_slice(before);
                behind_path |= before.iter().any(|byte| b"?#".contains(byte));
                if !fragment.is_empty() && !join(out, query.take(), behind_path) {
                    return false;
                }
                out.extend_from_slice(fragment);
                behind_path |= !fragment.is_empty();
            }
            TargetPart::Capture(number) => {
                let plain = if behind_path { is_value_byte } else { is_path_byte };
                let fits = match captures.get(number) {
                    Some(RuleCapture::Path(text)) => push_path(out, text, plain),
                    Some(RuleCapture::Query(text)) => {
                        push(out, form_urlencoded::decoded(text), text, plain)
                    }
                    None => false,
                };
                if !fits {
                    return false;
                }
            }
        }
    }
    let slashes = out.iter().take_while(|&&byte| byte == b'/').count();
    out.drain(..slashes.saturating_sub(1));
    join(out, query, behind_path)
}

/// Writes the key of the target entry of a rule. Returns false when no key is as long.
pub(crate) fn key(rule: &Rule<'_>, captures: &RuleCaptures<'_>, out: &mut Vec<u8>) -> bool {
    out.clear();
    for part in rule.target() {
        let part = match part {
            TargetPart::Literal(text) => Some(RuleCapture::Path(text)),
            TargetPart::Capture(number) => captures.get(number),
        };
        let fits = |text: &[u8]| out.len() + text.len() <= PATH_MAX_BYTES;
        match part {
            Some(RuleCapture::Path(text)) if fits(text) => out.extend_from_slice(text),
            Some(RuleCapture::Query(text)) if fits(text) => {
                out.extend(form_urlencoded::decoded(text));
            }
            _ => return false,
        }
    }
    true
}

/// Appends the query of the request; returns false when it does not fit.
fn join(out: &mut Vec<u8>, query: Option<&[u8]>, has_query: bool) -> bool {
    let Some(query) = query else { return true };
    out.push(if has_query { b'&' } else { b'?' });
    push(out, query.iter().copied(), query, is_uri_byte)
}

/// Appends bytes, made of `source` and no longer, escaped; returns false when they might not fit.
fn push(
    out: &mut Vec<u8>,
    bytes: impl Iterator<Item = u8>,
    source: &[u8],
    plain: impl Fn(u8) -> bool,
) -> bool {
    let fits = out.len() + 3 * source.len() <= LOCATION_MAX_BYTES;
    if fits {
        escape(out, bytes, plain);
    }
    fits
}

/// Appends a captured part of a path, escaped; returns false when it might not fit.
fn push_path(out: &mut Vec<u8>, text: &[u8], plain: impl Fn(u8) -> bool) -> bool {
    let fits = out.len() + 3 * text.len() <= LOCATION_MAX_BYTES;
    if fits {
        write_escaped(out, text, plain);
    }
    fits
}

/// Returns whether a byte can neither end a value of a query, nor begin another one.
fn is_value_byte(byte: u8) -> bool {
    is_path_byte(byte) && !b"&+=;".contains(&byte)
}
