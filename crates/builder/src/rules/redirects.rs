//! `_redirects`: a line each for a rule, `from [query…] [to] [status[!]]`.
//!
//! Lines fall into words as in npm's `@netlify/redirect-parser`; text that this parser accepts and
//! the server could only ignore is an error here. docs/rules.md has the list.

use std::path::Path;
use std::sync::Arc;

use pinion_archive::limits::{RULES_MAX, TARGET_MAX_BYTES};
use pinion_archive::{PathPart, SegmentPattern};

use super::foreign_redirect_syntax;
use super::redirect_condition::RulePattern;
use super::redirect_target::{Captures, RuleTarget};
use super::source_lines::{LineFault, RuleError, Word, lines, words};

#[cfg(test)]
mod tests;

/// A rule. Captures are numbered in their order: those of the path first, then those of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The file it stands in, below the source.
    pub file: Arc<Path>,
    /// Its line, from 1.
    pub line: usize,
    /// Comes before the files of the site.
    pub force: bool,
    /// 200, a redirect's 3xx, or the 4xx or 5xx that the body of the target is sent with.
    pub status: u16,
    /// Lower case, without port; may begin with `*.`. None: any.
    pub host: Option<Box<[u8]>>,
    /// The path, decoded, a part for each segment.
    pub path: Vec<RedirectPart>,
    /// The parameters that the query must have, decoded.
    pub query: Vec<(Box<[u8]>, QueryValue)>,
    /// The target: a URI reference ready for a field, or the key of the content that is sent.
    pub target: Vec<TargetPart>,
    /// Whether the query of the request is carried over.
    pub keeps_query: bool,
    /// The host of a target that is a URL, lower case, without port.
    pub(crate) target_host: Option<Box<[u8]>>,
    /// The position of the target in its line.
    pub(crate) target_column: usize,
    /// A placeholder as other servers write it, which means nothing here.
    pub(crate) foreign_mark: Option<ForeignMark>,
}

/// Text of a rule that is a placeholder or a pattern of another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignMark {
    /// Its column, in characters, from 1.
    pub(crate) column: usize,
    /// The text as written.
    pub(crate) text: String,
    /// Whether it is a part of the target, and not of the path.
    pub(crate) is_in_target: bool,
}

/// A piece of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedirectPart {
    /// This segment.
    Literal(Box<[u8]>),
    /// Any one segment that is not empty.
    Capture,
    /// A segment of texts and placeholders, as an archive stores it.
    Mixed(Box<[u8]>),
    /// All that follows and begins so; with an empty prefix also nothing. The last part.
    Rest(Box<[u8]>),
}

/// The required value of a query parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryValue {
    /// This.
    Is(Box<[u8]>),
    /// Anything.
    Capture,
}

/// A piece of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPart {
    /// These bytes.
    Literal(Box<[u8]>),
    /// The capture of that number.
    Capture(u8),
}

impl RedirectPart {
    /// Returns the part as an archive has it.
    pub(crate) fn stored(&self) -> PathPart<'_> {
        match self {
            RedirectPart::Literal(segment) => PathPart::Literal(segment),
            RedirectPart::Capture => PathPart::Capture,
            RedirectPart::Mixed(encoded) => PathPart::Mixed(SegmentPattern::of(encoded)),
            RedirectPart::Rest(prefix) => PathPart::Rest { prefix },
        }
    }
}

impl Redirect {
    /// Returns whether it sends a `Location`, not a body.
    pub(crate) fn is_redirect(&self) -> bool {
        (300..400).contains(&self.status)
    }

    /// Returns whether it responds to every path with content of the site.
    pub fn rewrites_everything(&self) -> bool {
        let is_every_path =
            matches!(&*self.path, [RedirectPart::Rest(prefix)] if prefix.is_empty());
        is_every_path && self.status == 200 && self.is_unconditional()
    }

    /// Returns whether only the path decides if it matches.
    pub(crate) fn is_unconditional(&self) -> bool {
        self.host.is_none() && self.query.is_empty()
    }

    /// Returns the one path it is about, without a slash at its end.
    pub(crate) fn only_path(&self) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        for part in &self.path {
            let RedirectPart::Literal(segment) = part else { return None };
            path.push(b'/');
            path.extend_from_slice(segment);
        }
        Some(if path.is_empty() { vec![b'/'] } else { path })
    }

    /// Returns the target if nothing in it is captured.
    pub(crate) fn only_target(&self) -> Option<&[u8]> {
        match self.target.as_slice() {
            [TargetPart::Literal(target)] => Some(target),
            _ => None,
        }
    }
}

/// Reads a file. `folder` is where it lies, `/` or `/docs/`: its relative rules are about paths
/// below it, and in any folder but the root there are no others.
///
/// # Errors
/// Everything that is wrong, in the order of the file.
pub fn parse(file: &Path, folder: &[u8], text: &[u8]) -> Result<Vec<Redirect>, Vec<RuleError>> {
    let (rules, errors) = parse_lines(file, folder, text);
    if errors.is_empty() { Ok(rules) } else { Err(errors) }
}

/// Reads a file like [`parse`]: returns the rules of the right lines, and the errors in the others.
pub(super) fn parse_lines(
    file: &Path,
    folder: &[u8],
    text: &[u8],
) -> (Vec<Redirect>, Vec<RuleError>) {
    let (mut rules, mut errors) = (Vec::new(), Vec::new());
    let shared: Arc<Path> = file.into();
    for (number, line) in lines(text) {
        let read = |line| {
            let rule = rule(folder, line);
            rule.map_err(|fault| {
                foreign_redirect_syntax::fault(line).unwrap_or(fault).quoting_word(line)
            })
        };
        match line.and_then(read) {
            Ok(rule) => rules.push(Redirect { file: Arc::clone(&shared), line: number, ..rule }),
            Err(fault) => errors.push(fault.at(file, number)),
        }
        if rules.len() > RULES_MAX {
            let fault = LineFault::new(1, format!("at most {RULES_MAX} rules"));
            let fault = fault.advise("combine rules with * or placeholders such as :name");
            errors.push(fault.at(file, number));
            break;
        }
    }
    (rules, errors)
}

/// A line whose words are assigned to their roles.
struct RedirectWords<'t> {
    from: Word<'t>,
    query: Vec<Word<'t>>,
    to: Option<Word<'t>>,
    status: Option<Word<'t>>,
    conditions: Vec<Word<'t>>,
    /// Behind the last word.
    end: usize,
}

/// Reads a line; which one it is, is for the caller to say.
fn rule(folder: &[u8], text: Word<'_>) -> Result<Redirect, LineFault> {
    let RedirectWords { from, query, to, status, conditions, end } = RedirectWords::of(text)?;
    let source = RulePattern::parse(folder, from, &query, to.map_or("", |to| to.text))?;
    let (status, force) = status.map_or(Ok((301, false)), parse_status)?;
    if let Some(condition) = conditions.first() {
        return Err(refused(*condition, Some(status)));
    }
    let captures = Captures(&source.names);
    let target = match to {
        Some(to) => RuleTarget::parse(folder, to, status, &captures)?,
        // Netlify calls these forward rules.
        None if status == 200 && source.ends_with_rest() => RuleTarget::same_as(&source),
        None => return Err(no_target(end)),
    };
    let literal = |part: &TargetPart| match part {
        TargetPart::Literal(text) => text.len(),
        TargetPart::Capture(_) => 0,
    };
    let target_column = to.map_or(from.column, |to| to.column);
    if target.parts.iter().map(literal).sum::<usize>() > TARGET_MAX_BYTES {
        let expected = format!("a target of at most {TARGET_MAX_BYTES} bytes, percent-encoded");
        return Err(LineFault::new(target_column, expected));
    }
    let in_target = to.and_then(|to| foreign_redirect_syntax::mark(to, true));
    Ok(Redirect {
        foreign_mark: in_target.or_else(|| foreign_redirect_syntax::mark(from, false)),
        file: Path::new("").into(),
        line: 0,
        force,
        status,
        host: source.host,
        path: source.path,
        query: source.query,
        keeps_query: target.keeps_query,
        target: target.parts,
        target_host: target.host,
        target_column,
    })
}

impl<'t> RedirectWords<'t> {
    fn of(line: Word<'t>) -> Result<RedirectWords<'t>, LineFault> {
        let mut words = words(line);
        let comment = words.iter().position(|word| word.text.starts_with('#'));
        words.truncate(comment.unwrap_or(words.len()));
        let [from, rest @ ..] = words.as_slice() else {
            return Err(LineFault::new(line.column, "a path"));
        };
        let (from, end) = (*from, words.last().unwrap_or(from).end());
        let Some(first) = rest.first() else {
            return Err(no_target(end));
        };
        let (query, to, behind) = if is_number(first.text) {
            (Vec::new(), None, rest)
        } else {
            let Some(at) = rest.iter().position(|word| is_target(word.text)) else {
                let expected = "a target that begins with /, ./, http:// or https://";
                let fault = LineFault::new(first.column, expected);
                return Err(if begins_with_host(first.text) {
                    fault.advise(format!("write https://{}", first.text))
                } else {
                    fault.advise(LINE)
                });
            };
            let (query, behind) = rest.split_at(at);
            let (to, behind) = behind.split_first().unzip();
            (query.to_vec(), to.copied(), behind.unwrap_or_default())
        };
        let (status, conditions) = behind.split_first().unzip();
        let conditions = conditions.unwrap_or_default().to_vec();
        Ok(RedirectWords { from, query, to, status: status.copied(), conditions, end })
    }
}

/// The form of a line.
const LINE: &str = "write `/old /new`, and a status such as 301 after it if you need one";

fn no_target(end: usize) -> LineFault {
    LineFault::new(end, "a target: a path or a URL").advise(LINE)
}

/// Returns whether JavaScript's `parseInt` finds a number in a word: decides only that the word is
/// meant as a status.
fn is_number(word: &str) -> bool {
    word.strip_prefix(['+', '-']).unwrap_or(word).starts_with(|c: char| c.is_ascii_digit())
}

fn is_target(word: &str) -> bool {
    ["/", "./", "http://", "https://"].iter().any(|begin| word.starts_with(begin))
}

fn parse_status(word: Word<'_>) -> Result<(u16, bool), LineFault> {
    let (digits, force) = match word.text.strip_suffix('!') {
        Some(digits) => (digits, true),
        None => (word.text, false),
    };
    let status = (digits.len() == 3).then(|| digits.parse::<u16>().ok()).flatten();
    match status {
        Some(status @ (200 | 301 | 302 | 303 | 307 | 308 | 400..=599)) => Ok((status, force)),
        _ if is_number(word.text) => {
            Err(LineFault::new(word.column, "a status: 200, 301, 302, 303, 307, 308, 4xx or 5xx")
                .advise("a ! after it, as in 301!, lets the rule win over a file"))
        }
        _ => Err(refused(word, None)),
    }
}

/// The reason why a line with a condition is refused, and the advice.
const NO_CONDITIONS: &str = "conditions are not supported, and without it the rule would apply to \
                             every visitor: remove the line, or decide in a Lua handler, which \
                             can read headers and cookies";

/// Returns whether a word is a URL without its scheme: `example.org/x`.
fn begins_with_host(word: &str) -> bool {
    let host = word.split('/').next().unwrap_or_default();
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    // The name of a file has a dot too.
    let is_file = !word.contains('/') && matches!(last, "html" | "htm" | "php" | "txt" | "md");
    host.contains('.') && host.split('.').all(is_label) && !is_file
}

/// Returns the error about a word after the target that is no status, or one after that `status`.
fn refused(word: Word<'_>, status: Option<u16>) -> LineFault {
    let name = word.text.split('=').next().unwrap_or_default().to_ascii_lowercase();
    match name.as_str() {
        "country" | "language" | "role" | "cookie" | "sign" | "signed" => {
            LineFault::new(word.column, "no condition").advise(NO_CONDITIONS)
        }
        "permanent" => LineFault::new(word.column, "a status as a number").advise("write 301"),
        "temporary" | "temp" => {
            LineFault::new(word.column, "a status as a number").advise("write 302")
        }
        "force" | "!" => {
            let fault = LineFault::new(word.column, end_of_line(status));
            let status = status.unwrap_or(301);
            fault.advise(format!("to win over a file, write {status}!"))
        }
        name if name.starts_with('[') => {
            let fault = LineFault::new(word.column, end_of_line(status));
            fault.advise("flags in brackets are of Apache; remove them")
        }
        _ => LineFault::new(word.column, end_of_line(status)),
    }
}

/// Returns the text that is expected after the target, or after the status if there is one.
fn end_of_line(status: Option<u16>) -> &'static str {
    match status {
        Some(_) => "the end of the line after the status",
        None => "a status such as 301, or the end of the line",
    }
}
