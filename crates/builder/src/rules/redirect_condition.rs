//! The condition of a rule of `_redirects`: host, path and query.

use pinion_archive::limits::{PATH_MAX_BYTES, RULE_CAPTURES_MAX, RULE_HOST_MAX_BYTES};
use pinion_archive::{SegmentPart, SegmentPattern};

use super::host_names::host_of;
use super::percent_escapes::{decoded, query_decoded};
use super::redirects::{QueryValue, RedirectPart};
use super::source_lines::{LineFault, Word};

/// The name of the capture of a trailing `*`.
pub(super) const SPLAT: &str = "splat";

/// The left side of a rule.
#[derive(Debug, Default)]
pub(super) struct RulePattern {
    pub(super) host: Option<Box<[u8]>>,
    pub(super) path: Vec<RedirectPart>,
    pub(super) query: Vec<(Box<[u8]>, QueryValue)>,
    /// The names of the captures, in their order.
    pub(super) names: Vec<String>,
}

impl RulePattern {
    /// Reads `from` and the parameters after it. The placeholders that `to` names help to decide
    /// which colons begin one.
    pub(super) fn parse(
        folder: &[u8],
        from: Word<'_>,
        query: &[Word<'_>],
        to: &str,
    ) -> Result<RulePattern, LineFault> {
        let mut source = RulePattern::default();
        let path = if let Some(below) = from.text.strip_prefix("./") {
            source.enter(folder);
            from.from(from.text.len() - below.len())
        } else if folder != b"/" {
            let fault = LineFault::new(from.column, "a path that begins with ./");
            let advice = "in a _redirects below the root, paths are relative to its folder";
            return Err(fault.advise(advice));
        } else {
            let path = source.take_host(from)?;
            path.from(1)
        };
        source.take_path(path, to)?;
        let bytes = |part: &RedirectPart| match part {
            RedirectPart::Literal(text) | RedirectPart::Rest(text) | RedirectPart::Mixed(text) => {
                1 + text.len()
            }
            RedirectPart::Capture => 1,
        };
        if source.path.iter().map(bytes).sum::<usize>() >= PATH_MAX_BYTES {
            return Err(LineFault::new(
                from.column,
                format!("a path of less than {PATH_MAX_BYTES} bytes"),
            ));
        }
        for parameter in query {
            source.take_parameter(*parameter)?;
        }
        Ok(source)
    }

    /// Returns whether the path ends with `/*`.
    pub(super) fn ends_with_rest(&self) -> bool {
        matches!(self.path.last(), Some(RedirectPart::Rest(prefix)) if prefix.is_empty())
    }

    fn enter(&mut self, folder: &[u8]) {
        let segments = folder.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty());
        self.path.extend(segments.map(|segment| RedirectPart::Literal(segment.into())));
    }

    /// Takes the host of a URL; the path is left, with its slash.
    fn take_host<'t>(&mut self, from: Word<'t>) -> Result<Word<'t>, LineFault> {
        if from.text.starts_with('/') {
            return Ok(from);
        }
        let schemes = ["http://", "https://", "://"];
        let Some(scheme) = schemes.into_iter().find(|scheme| from.text.starts_with(scheme)) else {
            let expected = "a path that begins with / or ./, or a URL";
            return Err(LineFault::new(from.column, expected));
        };
        let behind = from.from(scheme.len());
        let end = behind.text.find(['/', '?', '#']).unwrap_or(behind.text.len());
        let authority = behind.text.get(..end).unwrap_or_default();
        self.host = match authority {
            "*" => None,
            _ => Some(host_pattern(authority).ok_or_else(|| {
                LineFault::new(behind.column, "a host such as example.org or *.example.org")
            })?),
        };
        let path = behind.from(end);
        Ok(if path.text.is_empty() { Word { text: "/", ..path } } else { path })
    }

    /// Reads the text after the first slash.
    fn take_path(&mut self, path: Word<'_>, to: &str) -> Result<(), LineFault> {
        if let Some(at) = path.text.find(['?', '#']) {
            let (expected, advice) = match path.text.as_bytes().get(at) {
                Some(b'?') => ("a path without ?", "write a query after the path, as in /a id=7"),
                _ => ("a path without #", "browsers do not send this part of a URL"),
            };
            return Err(LineFault::new(path.column_at(at), expected).advise(advice));
        }
        let whole = path.text.strip_suffix('/').unwrap_or(path.text);
        if path.text.is_empty() {
            return Ok(());
        }
        let mut start = 0;
        for segment in whole.split('/') {
            let word = Word { text: segment, column: path.column_at(start) };
            start += segment.len() + 1;
            self.take_segment(word, to, start > whole.len())?;
        }
        Ok(())
    }

    fn take_segment(
        &mut self,
        segment: Word<'_>,
        to: &str,
        is_last: bool,
    ) -> Result<(), LineFault> {
        if let Some(name) = segment.text.strip_prefix(':').filter(|name| is_one_name(name, to)) {
            self.name(segment, name)?;
            self.path.push(RedirectPart::Capture);
            return Ok(());
        }
        let mut pieces = Vec::new();
        let mut start = 0;
        while let Some(special) = next_special(segment.text, start, to) {
            push_text(&mut pieces, segment, start..special.at)?;
            let word = segment.from(special.at);
            match special.name {
                Some(name) => self.name(word, name)?,
                None if self.names.iter().any(|known| known == SPLAT) => {
                    return Err(LineFault::new(word.column, "at most one * in a path")
                        .advise("use placeholders such as :name for the others"));
                }
                None => self.name(word, SPLAT)?,
            }
            pieces.push(special.name.map_or(SegmentPiece::Star, |_| SegmentPiece::Capture));
            start = special.at + 1 + special.name.map_or(0, str::len);
        }
        push_text(&mut pieces, segment, start..segment.text.len())?;
        self.path.push(part_of(&pieces, segment, is_last)?);
        Ok(())
    }

    fn take_parameter(&mut self, word: Word<'_>) -> Result<(), LineFault> {
        let Some((key, value)) = word.text.split_once('=').filter(|(key, _)| !key.is_empty())
        else {
            return Err(LineFault::new(word.column, "key=value, or a target that begins with /")
                .advise("words between the path and the target are parameters of the query"));
        };
        let decoded_key = query_decoded(Word { text: key, ..word })?;
        if self.query.iter().any(|(known, _)| **known == *decoded_key) {
            let advice = format!("the rule has {key} twice");
            return Err(LineFault::new(word.column, "another parameter").advise(advice));
        }
        let value = match value.strip_prefix(':') {
            Some(name) => {
                self.name(word.from(key.len() + 1), name)?;
                QueryValue::Capture
            }
            None => QueryValue::Is(query_decoded(word.from(key.len() + 1))?.into()),
        };
        self.query.push((decoded_key.into(), value));
        Ok(())
    }

    /// Names the next capture.
    fn name(&mut self, word: Word<'_>, name: &str) -> Result<(), LineFault> {
        if name.is_empty() || !name.bytes().all(is_name_byte) {
            let expected = "a placeholder such as :name, of letters, digits, - and _";
            return Err(LineFault::new(word.column, expected));
        }
        if self.names.iter().any(|known| known == name) {
            let advice = format!("the rule has the placeholder :{name} twice");
            return Err(LineFault::new(word.column, "another name").advise(advice));
        }
        if self.names.len() == RULE_CAPTURES_MAX {
            let expected = format!("at most {RULE_CAPTURES_MAX} placeholders in a rule");
            return Err(LineFault::new(word.column, expected));
        }
        self.names.push(name.to_owned());
        Ok(())
    }
}

/// A piece of a segment.
#[derive(PartialEq, Eq)]
enum SegmentPiece {
    Literal(Vec<u8>),
    Capture,
    Star,
}

/// A place in a segment that is no text.
struct Special<'t> {
    at: usize,
    /// The name of a placeholder; `None` for a `*`.
    name: Option<&'t str>,
}

/// Returns the part of a path that a segment is.
fn part_of(
    pieces: &[SegmentPiece],
    segment: Word<'_>,
    is_last: bool,
) -> Result<RedirectPart, LineFault> {
    match pieces {
        // A request has no segments of dots any more when it is looked up.
        [] => {
            let advice = "no request has empty segments, . or .. in its path";
            return Err(LineFault::new(segment.column, "a name between the slashes").advise(advice));
        }
        [SegmentPiece::Literal(text)] => return Ok(RedirectPart::Literal(text.as_slice().into())),
        [SegmentPiece::Star] if is_last => return Ok(RedirectPart::Rest(Box::default())),
        [SegmentPiece::Literal(text), SegmentPiece::Star] if is_last => {
            return Ok(RedirectPart::Rest(text.as_slice().into()));
        }
        _ => {}
    }
    let parts: Vec<SegmentPart<'_>> = pieces
        .iter()
        .map(|piece| match piece {
            SegmentPiece::Literal(text) => SegmentPart::Literal(text),
            SegmentPiece::Capture => SegmentPart::Capture,
            SegmentPiece::Star => SegmentPart::Star,
        })
        .collect();
    let encoded = SegmentPattern::encode(&parts);
    let encoded = encoded.map_err(|_| {
        LineFault::new(segment.column, "a shorter segment").advise("or one with fewer placeholders")
    })?;
    Ok(RedirectPart::Mixed(encoded.into()))
}

/// Adds a text of a segment, decoded, unless it is empty.
fn push_text(
    pieces: &mut Vec<SegmentPiece>,
    segment: Word<'_>,
    range: std::ops::Range<usize>,
) -> Result<(), LineFault> {
    let is_whole = range.len() == segment.text.len();
    let column = segment.column_at(range.start);
    let text = segment.text.get(range).unwrap_or_default();
    let decoded = decoded(Word { text, column })?;
    let is_no_name = is_whole && matches!(decoded.as_slice(), b"." | b"..");
    if !decoded.is_empty() && !is_no_name {
        pieces.push(SegmentPiece::Literal(decoded));
    }
    Ok(())
}

/// Returns the first `*` or placeholder of a segment from a place on.
///
/// A colon begins a placeholder at the front of a segment, after another placeholder, and after any
/// character that is no letter or digit: `/p-:id`. After a letter it does if the target names it:
/// `/v:version /:version`, but not `/File:Name /files`.
fn next_special<'t>(segment: &'t str, from: usize, to: &str) -> Option<Special<'t>> {
    let bytes = segment.as_bytes();
    (from..bytes.len()).find_map(|at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let stands_apart = at == from || !before.is_some_and(u8::is_ascii_alphanumeric);
        match bytes.get(at) {
            Some(b'*') => Some(Special { at, name: None }),
            Some(b':') => {
                let behind = segment.get(at + 1..).unwrap_or_default();
                let is_end = |byte: u8| !byte.is_ascii_alphanumeric() && byte != b'_';
                let end = behind.bytes().position(is_end).unwrap_or(behind.len());
                let name = behind.get(..end).unwrap_or_default();
                let begins = at == 0 || (!name.is_empty() && (stands_apart || names(to, name)));
                begins.then_some(Special { at, name: Some(name) })
            }
            _ => None,
        }
    })
}

/// Returns whether the text after the colon of a segment is one name. A `-` may be part of it,
/// unless the target names the part before that: `/:year-:month`, `/:id-x /:id`.
fn is_one_name(name: &str, to: &str) -> bool {
    let short = name.split('-').next().unwrap_or_default();
    let is_short = short.len() < name.len() && !names(to, name) && names(to, short);
    !name.is_empty() && name.bytes().all(is_name_byte) && !is_short
}

/// Returns whether a target has a placeholder of that name.
fn names(to: &str, name: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    to.match_indices(':').any(|(colon, _)| {
        let behind = to.get(colon + 1..).unwrap_or_default();
        behind.strip_prefix(name).is_some_and(is_end)
    })
}

/// Returns whether a byte may be part of the name of a placeholder.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Returns a host as it is compared: lower case, without its port.
fn host_pattern(authority: &str) -> Option<Box<[u8]>> {
    let (any, name) = match authority.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", authority),
    };
    if name.contains('*') {
        return None;
    }
    let host = [any.as_bytes(), &host_of(name)?].concat();
    (host.len() <= RULE_HOST_MAX_BYTES).then(|| host.into())
}
