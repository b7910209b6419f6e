//! The target of a rule of `_redirects`.

use pinion_archive::{SegmentPart, SegmentPattern};
use pinion_http::request_target::is_uri_byte;

use super::host_names::{host_of, to_ascii};
use super::percent_escapes::decoded;
use super::redirect_condition::{RulePattern, SPLAT, is_name_byte};
use super::redirects::{RedirectPart, TargetPart};
use super::source_lines::{LineFault, Word};
use crate::path_aliases::escaped;

/// The names that a target may use, in the order of their numbers.
pub(super) struct Captures<'s>(pub(super) &'s [String]);

/// The right side of a rule.
#[derive(Debug, Default)]
pub(super) struct RuleTarget {
    pub(super) parts: Vec<TargetPart>,
    /// Lower case, without port.
    pub(super) host: Option<Box<[u8]>>,
    pub(super) keeps_query: bool,
}

impl RuleTarget {
    /// Returns the path that a rule is about, as it is.
    pub(super) fn same_as(source: &RulePattern) -> RuleTarget {
        let mut parts = TargetParts::default();
        let mut numbers = 0..;
        let mut next = || numbers.next().unwrap_or_default();
        for part in &source.path {
            parts.literal(b"/");
            match part {
                RedirectPart::Literal(segment) => parts.literal(segment),
                RedirectPart::Capture => parts.capture(next()),
                RedirectPart::Mixed(encoded) => {
                    for part in SegmentPattern::of(encoded).parts() {
                        match part {
                            SegmentPart::Literal(text) => parts.literal(text),
                            SegmentPart::Capture | SegmentPart::Star => parts.capture(next()),
                        }
                    }
                }
                RedirectPart::Rest(prefix) => {
                    parts.literal(prefix);
                    parts.capture(next());
                }
            }
        }
        RuleTarget { parts: parts.finished(), ..RuleTarget::default() }
    }

    /// Reads `to`.
    pub(super) fn parse(
        folder: &[u8],
        to: Word<'_>,
        status: u16,
        captures: &Captures<'_>,
    ) -> Result<RuleTarget, LineFault> {
        if (300..400).contains(&status) {
            return location(folder, to, captures);
        }
        let (prefix, path) = split_folder(folder, to);
        if !path.text.starts_with('/') || path.text.starts_with("//") {
            let fault = LineFault::new(to.column, "a path of this site");
            return Err(fault.advise(format!(
                "with status {status} the server sends a file of its own, and does not fetch it \
                 from elsewhere: redirect with 301 or 302, or use a proxy in front"
            )));
        }
        if let Some(at) = path.text.find(['?', '#']) {
            let fault = LineFault::new(path.column_at(at), "a path without ? and #");
            let advice = format!("with status {status} the target is a file of the site");
            return Err(fault.advise(advice));
        }
        let mut parts = TargetParts::default();
        parts.literal(prefix);
        pieces(path, captures, |piece| {
            match piece {
                TargetPiece::Capture(number) => parts.capture(number),
                TargetPiece::Text(text) => parts.literal(&decoded(text)?),
            }
            Ok(())
        })?;
        let dots = |segment: &str| segment == "." || segment == "..";
        if path.text.split('/').any(dots) {
            return Err(LineFault::new(path.column, "a path without . and .. in it"));
        }
        Ok(RuleTarget { parts: parts.finished(), ..RuleTarget::default() })
    }
}

/// Returns a target that clients are sent to.
fn location(folder: &[u8], to: Word<'_>, captures: &Captures<'_>) -> Result<RuleTarget, LineFault> {
    let mut parts = TargetParts::default();
    let (prefix, rest) = split_folder(folder, to);
    parts.literal(&escaped(prefix));
    if rest.text.starts_with("//") {
        return Err(LineFault::new(
            rest.column,
            "a path that begins with one slash, or a URL with http:// or https://",
        ));
    }
    let authority_at = ["http://", "https://"]
        .iter()
        .find(|begin| rest.text.starts_with(**begin))
        .map(|begin| begin.len());
    let mut host = None;
    let mut path = rest;
    if let Some(at) = authority_at {
        let authority = rest.from(at);
        let end = authority.text.find(['/', '?', '#']).unwrap_or(authority.text.len());
        let name = authority.text.get(..end).unwrap_or_default();
        host = Some(host_of(name).filter(|_| !name.contains('*')).ok_or_else(|| {
            LineFault::new(authority.column, "a host such as example.org, without placeholders")
        })?);
        path = rest.from(at + end);
        parts.literal(rest.text.get(..at).unwrap_or_default().as_bytes());
        parts.literal(to_ascii(name).unwrap_or_default().as_bytes());
    }
    pieces(path, captures, |piece| {
        match piece {
            TargetPiece::Capture(number) => parts.capture(number),
            TargetPiece::Text(text) => {
                // For its errors alone: escapes are kept.
                super::percent_escapes::query_decoded(text)?;
                parts.literal(&reference(text.text));
            }
        }
        Ok(())
    })?;
    let keeps_query = !path.text.contains('?');
    Ok(RuleTarget { parts: parts.finished(), host, keeps_query })
}

/// Returns the folder of a relative target, without its slash, and the text after the dot.
fn split_folder<'f, 't>(folder: &'f [u8], to: Word<'t>) -> (&'f [u8], Word<'t>) {
    if to.text.starts_with("./") {
        (folder.strip_suffix(b"/").unwrap_or(folder), to.from(1))
    } else {
        (b"", to)
    }
}

/// A piece of a target as it is written.
enum TargetPiece<'t> {
    Text(Word<'t>),
    Capture(u8),
}

/// Cuts a target at the placeholders it knows. A colon within a segment that none of them follows
/// is a colon: `/wiki/Special:Search`.
fn pieces<'t>(
    to: Word<'t>,
    captures: &Captures<'_>,
    mut take: impl FnMut(TargetPiece<'t>) -> Result<(), LineFault>,
) -> Result<(), LineFault> {
    let (mut start, mut at) = (0, 0);
    while let Some(found) = to.text.get(at..).and_then(|rest| rest.find(':')) {
        let colon = at + found;
        at = colon + 1;
        let behind = to.text.get(at..).unwrap_or_default();
        if let Some((number, name)) = captures.longest(behind) {
            let before = to.from(start);
            let text = before.text.get(..colon - start).unwrap_or_default();
            if !text.is_empty() {
                take(TargetPiece::Text(Word { text, ..before }))?;
            }
            take(TargetPiece::Capture(number))?;
            at += name.len();
            start = at;
        } else {
            let before = to.text.as_bytes().get(..colon).unwrap_or_default();
            let begins = matches!(before.last(), None | Some(b'/' | b'='));
            if begins && behind.bytes().next().is_some_and(is_name_byte) {
                return Err(captures.unknown(to.column_at(colon)));
            }
        }
    }
    let rest = to.from(start);
    if rest.text.is_empty() { Ok(()) } else { take(TargetPiece::Text(rest)) }
}

impl<'s> Captures<'s> {
    /// Returns the longest name that `text` begins with as a whole word.
    fn longest(&self, text: &str) -> Option<(u8, &'s str)> {
        let is_whole = |name: &str| {
            let behind = text.strip_prefix(name).and_then(|rest| rest.bytes().next());
            text.starts_with(name)
                && !behind.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let named = (0..).zip(self.0.iter().map(String::as_str));
        named.filter(|(_, name)| is_whole(name)).max_by_key(|(_, name)| name.len())
    }

    fn unknown(&self, column: usize) -> LineFault {
        let known: Vec<String> = self.0.iter().map(|name| format!(":{name}")).collect();
        let advice = if known.is_empty() {
            format!("the rule has none: add :name, or * for :{SPLAT}, to its path")
        } else {
            format!("the rule has {}", known.join(", "))
        };
        LineFault::new(column, "a placeholder of the path or query").advise(advice)
    }
}

/// Returns a piece of a URI reference: bytes that are not allowed in one are escaped, and an escape
/// stays one.
fn reference(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'%' | b'#' | b'[' | b']' => out.push(byte),
            byte if is_uri_byte(byte) => out.push(byte),
            byte => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

/// Parts of a target, literals next to each other as one.
#[derive(Default)]
struct TargetParts {
    parts: Vec<TargetPart>,
    literal: Vec<u8>,
}

impl TargetParts {
    fn literal(&mut self, bytes: &[u8]) {
        self.literal.extend_from_slice(bytes);
    }

    fn capture(&mut self, number: u8) {
        self.flush();
        self.parts.push(TargetPart::Capture(number));
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            self.parts.push(TargetPart::Literal(std::mem::take(&mut self.literal).into()));
        }
    }

    fn finished(mut self) -> Vec<TargetPart> {
        self.flush();
        self.parts
    }
}
