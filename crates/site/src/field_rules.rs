//! Applies the rules for fields (`_headers`) to responses whose stored fields were made for another
//! path than that of the request: errors, the response to OPTIONS, redirects by patterns and
//! between slash forms, and pages that are sent for other paths.
//!
//! A rule has the same effect as in a build (`pinion_builder`), which has changed the fields of
//! each entry for its own path. A test compares both with a plain implementation of the rules
//! (`crates/pinion/tests/rules`).

use pinion_archive::limits::{PATH_MAX_BYTES, RULES_MAX, SHARED_VARIANT_MAX_BYTES};
use pinion_archive::{Archive, FieldChange, FieldPattern, SharedBlock, ValuePart};
use pinion_http::joined_field_values;
use pinion_http::limits::TARGET_MAX_BYTES;
use pinion_http::request_head::RequestHead;
use pinion_http::request_target::{PathError, decode_path};

use crate::field_lines::{first_line, has_line, is, is_storing, may_be_stored, split_line};
use crate::rule_target::write_captured;

/// The line that every error has.
pub(crate) const NEVER_STORED: &[u8] = b"Cache-Control: no-store\r\n";

/// Buffers for the fields of one response.
#[derive(Debug)]
pub(crate) struct FieldBuffers {
    /// The path of the request, decoded.
    path: Vec<u8>,
    /// The numbers of the rules that apply, in order.
    rules: Vec<u32>,
    /// One value that is joined to another.
    value: Vec<u8>,
    /// The lines of the response: a full one, then a 304.
    lines: Vec<u8>,
}

/// The sort of a response, which decides how rules for fields apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldSort {
    /// A response that may be kept if its fields say so.
    Kept,
    /// A response that is never kept, and has no content that a client has chosen.
    NoContent,
    /// An error, which is never kept unless the site says so. `Accept` chooses its content.
    Error,
    /// As [`FieldSort::Error`], with the content of a page that may be kept.
    ErrorWithPage,
}

/// The page that is sent for the path of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentPage<'k> {
    /// The target path of a rewrite; empty without a rewrite.
    pub(crate) path: &'k [u8],
    /// Whether its fields are stored with the rules for that path.
    pub(crate) is_stored: bool,
}

impl SentPage<'static> {
    /// No page of another path.
    pub(crate) const NONE: SentPage<'static> = SentPage { path: b"", is_stored: false };
}

impl FieldSort {
    /// Returns whether `Accept` chooses the content.
    fn is_negotiated(self) -> bool {
        matches!(self, FieldSort::Error | FieldSort::ErrorWithPage)
    }
}

/// The variant of a response whose fields are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldVariant {
    Full(FieldSort),
    NotModified,
}

/// The error that there is no room for all of the fields: no client would accept them either.
struct TooLong;

impl FieldBuffers {
    pub(crate) fn new() -> FieldBuffers {
        FieldBuffers {
            path: Vec::with_capacity(TARGET_MAX_BYTES),
            rules: Vec::with_capacity(2 * RULES_MAX),
            value: Vec::with_capacity(SHARED_VARIANT_MAX_BYTES),
            lines: Vec::with_capacity(LINES_MAX_BYTES),
        }
    }

    /// Returns the fields of a response to `head` that are stored in `block`, with the rules for
    /// its path, and for that of the page that is sent in its place. `decoded` is a buffer.
    ///
    /// The fields stay as they are stored if these rules have changed them already, if the path
    /// names no resource at all, and if they would become longer than a block may be. An error that
    /// caches may store gets `Vary: Accept` in any case.
    pub(crate) fn apply<'x>(
        &'x mut self,
        archive: &Archive<'x>,
        head: &RequestHead<'_>,
        block: SharedBlock<'x>,
        sort: FieldSort,
        sent: SentPage<'_>,
        decoded: &mut Vec<u8>,
    ) -> SharedBlock<'x> {
        let has_path = !archive.field_rules().is_empty() && self.note_path(head, decoded);
        self.apply_to_noted(has_path, archive, block, sort, sent)
    }

    /// Returns the fields of a response to `head` that may be kept, with all rules for its path:
    /// `block` has the fields before any rule.
    pub(crate) fn apply_all<'x>(
        &'x mut self,
        archive: &Archive<'x>,
        head: &RequestHead<'_>,
        block: SharedBlock<'x>,
        decoded: &mut Vec<u8>,
    ) -> SharedBlock<'x> {
        if archive.field_rules().is_empty() || !self.note_path(head, decoded) {
            return block;
        }
        self.find_rules(archive, SentPage::NONE);
        let (sort, has_rules) = (FieldSort::Kept, !self.rules.is_empty());
        let written = has_rules.then(|| self.write_all(archive, &block, &block, sort, b""));
        match written {
            Some(Ok(full_bytes)) => self.written(full_bytes, &block),
            Some(Err(TooLong)) | None => block,
        }
    }

    /// Returns the fields as [`apply`](Self::apply) does, for a path that is decoded already;
    /// `None` if there are no rules, or the path names no resource.
    pub(crate) fn apply_to_path<'x>(
        &'x mut self,
        archive: &Archive<'x>,
        path: Option<&[u8]>,
        block: SharedBlock<'x>,
        sort: FieldSort,
    ) -> SharedBlock<'x> {
        self.path.clear();
        self.path.extend_from_slice(path.unwrap_or_default());
        self.apply_to_noted(path.is_some(), archive, block, sort, SentPage::NONE)
    }

    /// Applies the rules for the stored path, if there is one.
    fn apply_to_noted<'x>(
        &'x mut self,
        has_path: bool,
        archive: &Archive<'x>,
        block: SharedBlock<'x>,
        sort: FieldSort,
        sent: SentPage<'_>,
    ) -> SharedBlock<'x> {
        let has_rules = has_path && self.find_rules(archive, sent);
        let mut written = None;
        if has_rules {
            let plain = block.plain.and_then(|plain| archive.shared(plain).ok());
            let plain = plain.unwrap_or(block);
            written = self.write_all(archive, &plain, &block, sort, sent.path).ok();
        }
        let is_changed_without_rules = match sort {
            FieldSort::Kept | FieldSort::NoContent => false,
            FieldSort::Error => may_be_stored(block.without_type()),
            FieldSort::ErrorWithPage => true,
        };
        if written.is_none() && is_changed_without_rules {
            self.rules.clear();
            written = self.write_all(archive, &block, &block, sort, b"").ok();
        }
        match written {
            Some(full_bytes) => self.written(full_bytes, &block),
            None => block,
        }
    }

    /// Writes the lines of `plain` as the rules have changed them, after the media type of `block`.
    /// Returns the length of the lines of a full response.
    fn write_all(
        &mut self,
        archive: &Archive<'_>,
        plain: &SharedBlock<'_>,
        block: &SharedBlock<'_>,
        sort: FieldSort,
        sent: &[u8],
    ) -> Result<usize, TooLong> {
        self.lines.clear();
        self.push(block.type_line())?;
        let from = self.lines.len();
        self.write(archive, sent, plain.without_type(), FieldVariant::Full(sort))?;
        if sort.is_negotiated() && may_be_stored(self.lines.get(from..).unwrap_or_default()) {
            self.vary_by_accept(from)?;
        }
        let full_bytes = self.lines.len();
        if sort == FieldSort::Kept {
            self.write(archive, sent, plain.not_modified, FieldVariant::NotModified)?;
        }
        Ok(full_bytes)
    }

    /// Adds `Accept` to the `Vary` of the lines from `from` on: caches that store the response must
    /// not give it to clients that prefer another format (RFC 9110 §12.5.5).
    fn vary_by_accept(&mut self, from: usize) -> Result<(), TooLong> {
        let mut at = from;
        self.value.clear();
        while let Some(line) = self.lines.get(at..).and_then(first_line) {
            let bytes = line.len();
            match split_line(line) {
                Some((name, value)) if is(name, b"Vary") => {
                    if !self.value.is_empty() {
                        self.value.extend_from_slice(b", ");
                    }
                    self.value.extend_from_slice(value);
                    self.lines.drain(at..at + bytes);
                }
                _ => at += bytes,
            }
        }
        self.push(b"Vary: ")?;
        let value_at = self.lines.len();
        let value = core::mem::take(&mut self.value);
        self.push(&value)?;
        self.value = value;
        joined_field_values::join(&mut self.lines, value_at, b"Vary", b"Accept");
        self.push(b"\r\n")
    }

    /// Returns the lines that were written.
    fn written(&self, full_bytes: usize, block: &SharedBlock<'_>) -> SharedBlock<'_> {
        let (full, not_modified) = self.lines.split_at(full_bytes.min(self.lines.len()));
        SharedBlock::of_lines(full, not_modified, block.type_line_bytes)
    }

    /// Copies the decoded path of a request; returns false if it has none.
    fn note_path(&mut self, head: &RequestHead<'_>, decoded: &mut Vec<u8>) -> bool {
        self.path.clear();
        append_path(head, decoded, &mut self.path)
    }

    /// Collects the rules that apply. Returns false if the stored fields have them all.
    fn find_rules(&mut self, archive: &Archive<'_>, sent: SentPage<'_>) -> bool {
        let rules = archive.field_rules();
        self.rules.clear();
        let mut are_stored = true;
        for (number, is_everywhere) in rules.about(&self.path) {
            self.rules.push(number);
            let is_stored = || sent.is_stored && is_about(archive, number, sent.path);
            are_stored &= is_everywhere || is_stored();
        }
        if sent.path.is_empty() {
            return !are_stored;
        }
        for (number, is_everywhere) in rules.about(sent.path) {
            self.rules.push(number);
            are_stored &= is_everywhere || sent.is_stored;
        }
        self.rules.sort_unstable();
        self.rules.dedup();
        !are_stored
    }

    /// Writes lines as the rules have changed them, and the lines that the rules have added.
    fn write(
        &mut self,
        archive: &Archive<'_>,
        sent: &[u8],
        plain: &[u8],
        variant: FieldVariant,
    ) -> Result<(), TooLong> {
        let start = self.lines.len();
        let strips = variant == FieldVariant::Full(FieldSort::ErrorWithPage);
        for line in plain.split_inclusive(|&byte| byte == b'\n') {
            let Some((name, value)) = split_line(line) else { continue };
            let is_of_page = strips && (is_storing(name) || is(name, b"Accept-Ranges"));
            if !is_of_page {
                self.write_field(archive, sent, name, Some(value), variant)?;
            }
        }
        if strips {
            self.lines.extend_from_slice(NEVER_STORED);
        }
        for rank in 0..self.rules.len() {
            let Some(&number) = self.rules.get(rank) else { break };
            let Some(rule) = archive.field_rules().get(number) else { continue };
            for change in rule.changes().filter(|change| change.value().is_some()) {
                if !has_line(self.lines.get(start..).unwrap_or_default(), change.name()) {
                    self.write_field(archive, sent, change.name(), None, variant)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the line of a field, if it has a value in the end; of `Set-Cookie` all lines.
    fn write_field(
        &mut self,
        archive: &Archive<'_>,
        sent: &[u8],
        name: &[u8],
        plain: Option<&[u8]>,
        variant: FieldVariant,
    ) -> Result<(), TooLong> {
        let start = self.lines.len();
        self.push(name)?;
        self.push(b": ")?;
        let mut line = OpenLine { start, value: self.lines.len(), is_there: plain.is_some() };
        self.push(plain.unwrap_or_default())?;
        let mut is_given = false;
        let applies = variant.takes(name);
        for rank in 0..if applies { self.rules.len() } else { 0 } {
            let Some(&number) = self.rules.get(rank) else { break };
            let Some(rule) = archive.field_rules().get(number) else { continue };
            for change in rule.changes().filter(|change| is(change.name(), name)) {
                match (change.value(), plain) {
                    (Some(_), _) => {
                        let joins = is_given || is(name, b"Vary");
                        self.give(change, rule.pattern(), sent, &mut line, joins)?;
                        is_given = true;
                    }
                    (None, Some(plain)) if is(name, b"Vary") => {
                        self.lines.truncate(line.value);
                        self.push(plain)?;
                        is_given = false;
                    }
                    (None, _) => {
                        self.lines.truncate(start);
                        self.push(name)?;
                        self.push(b": ")?;
                        line = OpenLine { start, value: self.lines.len(), is_there: false };
                        is_given = false;
                    }
                }
            }
        }
        if line.is_there {
            self.push(b"\r\n")
        } else {
            self.lines.truncate(line.start);
            Ok(())
        }
    }

    /// Adds one more value to a field.
    fn give(
        &mut self,
        change: FieldChange<'_>,
        pattern: FieldPattern<'_>,
        sent: &[u8],
        line: &mut OpenLine,
        joins: bool,
    ) -> Result<(), TooLong> {
        let name = change.name();
        self.fill(change, pattern, sent)?;
        if self.lines.len() + name.len() + self.value.len() + 6 > LINES_MAX_BYTES {
            return Err(TooLong);
        }
        let value = core::mem::take(&mut self.value);
        if line.is_there && joins && is(name, b"Set-Cookie") {
            // RFC 9110 §5.3: this is the one field whose lines cannot be joined.
            self.lines.extend_from_slice(b"\r\n");
            line.start = self.lines.len();
            self.lines.extend_from_slice(name);
            self.lines.extend_from_slice(b": ");
            line.value = self.lines.len();
            self.lines.extend_from_slice(&value);
        } else if line.is_there && joins {
            joined_field_values::join(&mut self.lines, line.value, name, &value);
        } else {
            self.lines.truncate(line.value);
            self.lines.extend_from_slice(&value);
        }
        line.is_there = true;
        self.value = value;
        Ok(())
    }

    /// Writes a value and fills in its placeholders, from the path of the request, or from the path
    /// that is sent if the rule matches only that one.
    fn fill(
        &mut self,
        change: FieldChange<'_>,
        pattern: FieldPattern<'_>,
        sent: &[u8],
    ) -> Result<(), TooLong> {
        self.value.clear();
        let mut captures = None;
        for part in change.value().into_iter().flatten() {
            let text = match part {
                ValuePart::Literal(text) => text,
                ValuePart::Capture(number) => {
                    let found = captures.get_or_insert_with(|| {
                        pattern.matched(&self.path).or_else(|| pattern.matched(sent))
                    });
                    found.as_ref().and_then(|captures| captures.get(number)).unwrap_or_default()
                }
            };
            if self.value.len() + 3 * text.len() > SHARED_VARIANT_MAX_BYTES {
                return Err(TooLong);
            }
            match part {
                ValuePart::Literal(text) => self.value.extend_from_slice(text),
                ValuePart::Capture(_) => write_captured(&mut self.value, text),
            }
        }
        Ok(())
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.lines.len() + bytes.len() > LINES_MAX_BYTES {
            return Err(TooLong);
        }
        self.lines.extend_from_slice(bytes);
        Ok(())
    }
}

/// Most bytes of all lines of one response: the most that a block may hold of a full response and
/// of a 304.
const LINES_MAX_BYTES: usize = 2 * SHARED_VARIANT_MAX_BYTES;

const _: () = assert!(PATH_MAX_BYTES <= TARGET_MAX_BYTES);

/// A line that is being written.
struct OpenLine {
    start: usize,
    /// The offset of its value.
    value: usize,
    is_there: bool,
}

impl FieldVariant {
    /// Returns whether rules may change a field.
    fn takes(self, name: &[u8]) -> bool {
        match self {
            FieldVariant::Full(FieldSort::Kept) => true,
            FieldVariant::Full(_) => !is_storing(name),
            // A 304 says nothing about the content (RFC 9110 §15.4.5).
            FieldVariant::NotModified => !is(name, b"Content-Language"),
        }
    }
}

/// Appends the decoded path of a request to `out`, in the form of rules. Returns false if the path
/// names no resource at all. `decoded` is a buffer.
pub(crate) fn append_path(
    head: &RequestHead<'_>,
    decoded: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> bool {
    append_decoded(head.target.path, decoded, out)
}

/// Does the request_buffers of [`append_path`] for a path as it was sent.
pub(crate) fn append_decoded(path: &[u8], decoded: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
    match decode_path(path, decoded) {
        Ok(path) => out.extend_from_slice(path),
        Err(PathError::NeverMatches) => out.extend_from_slice(decoded),
        Err(PathError::Malformed | PathError::AboveRoot) => return false,
    }
    true
}

fn is_about(archive: &Archive<'_>, number: u32, path: &[u8]) -> bool {
    let rule = (!path.is_empty()).then(|| archive.field_rules().get(number)).flatten();
    rule.is_some_and(|rule| rule.pattern().matched(path).is_some())
}
