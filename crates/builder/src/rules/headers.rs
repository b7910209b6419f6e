//! `_headers`: a pattern line, and below it the fields of the responses it is about.
//!
//! Lines fall apart as in npm's `@netlify/headers-parser`; lines that this parser drops silently
//! are an error here. docs/rules.md has the list.

use std::path::Path;

use pinion_archive::is_written_by_server;
use pinion_archive::limits::RULES_MAX;
use pinion_http::content_coding::Coding;
use pinion_http::grammar::{is_token, is_value_byte};

use super::header_pattern::HeaderPattern;
use super::source_lines::{LineFault, RuleError, Word, lines, trimmed};
use crate::rule_warning::RuleWarning;

/// A pattern and its lines.
#[derive(Clone, Debug)]
pub struct FieldRule {
    /// Its line, from 1.
    pub line: usize,
    /// The paths that it is about.
    pub pattern: HeaderPattern,
    /// Its changes, in the order of the file.
    pub changes: Vec<HeaderChange>,
    /// The line of each change, from 1.
    pub change_lines: Vec<usize>,
}

/// The change of a line to the fields of a response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HeaderChange {
    /// `Name: value`: sets the field. If earlier lines have set it, the value is joined to theirs.
    /// Names are equal without regard to case.
    Set {
        /// The name as it is written.
        name: String,
        /// May have placeholders of the pattern.
        value: String,
    },
    /// `! Name`: removes the earlier values.
    Remove {
        /// The name as it is written.
        name: String,
    },
}

impl HeaderChange {
    /// Returns the name of the field, as it is written.
    pub(crate) fn name(&self) -> &str {
        match self {
            HeaderChange::Set { name, .. } | HeaderChange::Remove { name } => name,
        }
    }
}

/// The rules of a file.
#[derive(Debug, Default)]
pub struct FieldRules {
    /// The rules, in their order.
    pub rules: Vec<FieldRule>,
    /// Lines whose pattern names a host: it is never one of this site.
    pub other_hosts: Vec<usize>,
    /// Lines of patterns without a field below.
    pub empty: Vec<usize>,
}

/// Reads the file.
///
/// # Errors
/// Everything that is wrong, in the order of the file.
pub fn parse(file: &Path, text: &[u8]) -> Result<FieldRules, Vec<RuleError>> {
    let (found, errors) = parse_lines(file, text);
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

/// Reads a file like [`parse`]: returns the rules of the right lines, and the errors in the others.
pub(super) fn parse_lines(file: &Path, text: &[u8]) -> (FieldRules, Vec<RuleError>) {
    let (mut found, mut errors) = (FieldRules::default(), Vec::new());
    let mut position = LinePosition::Start;
    for (number, line) in lines(text) {
        let line_begins_pattern = line.as_ref().is_ok_and(|line| line.text.starts_with('/'));
        let read = line.and_then(|line| {
            let read = HeaderLine::parse(line)
                .and_then(|parsed| position.add_line(&mut found, number, line, parsed));
            read.map_err(|fault| fault.quoting_rest(line))
        });
        if let Err(fault) = read {
            errors.push(fault.at(file, number));
            position.on_invalid_line(line_begins_pattern);
        }
        if found.rules.len() > RULES_MAX {
            let fault = LineFault::new(1, format!("at most {RULES_MAX} patterns"));
            errors.push(fault.advise("combine patterns with *").at(file, number));
            break;
        }
    }
    found.empty.extend(found.rules.iter().filter(|rule| rule.changes.is_empty()).map(|r| r.line));
    found.rules.retain(|rule| !rule.changes.is_empty());
    (found, errors)
}

/// Fields of which browsers take one value alone: with two they ignore the field, or refuse the
/// response.
const SINGLE_VALUED: [&str; 2] = ["access-control-allow-origin", "x-frame-options"];

/// Returns the lines of patterns that give a path the second value of a field which may have one.
pub(super) fn second_values(rules: &[FieldRule]) -> Vec<(usize, RuleWarning)> {
    SINGLE_VALUED.iter().flat_map(|name| second_values_of(name, rules)).collect()
}

/// Returns the same for one field.
fn second_values_of(field: &str, rules: &[FieldRule]) -> Vec<(usize, RuleWarning)> {
    let (mut found, mut earlier_rules): (Vec<_>, Vec<&FieldRule>) = (Vec::new(), Vec::new());
    let changes = rules.iter().flat_map(|rule| rule.changes.iter().map(move |one| (rule, one)));
    for (rule, change) in changes.filter(|(_, one)| one.name().eq_ignore_ascii_case(field)) {
        let HeaderChange::Set { name, .. } = change else {
            // The paths for which it removes values are not compared.
            earlier_rules.clear();
            continue;
        };
        let earlier =
            earlier_rules.iter().find(|earlier| overlaps(&earlier.pattern, &rule.pattern));
        if let Some(earlier) = earlier {
            let (name, first) = (name.clone(), earlier.line);
            found.push((rule.line, RuleWarning::SecondValue { name, first }));
        }
        earlier_rules.push(rule);
    }
    found
}

/// Returns whether two patterns certainly have paths in common: they are the same, or one is for
/// every path.
fn overlaps(one: &HeaderPattern, other: &HeaderPattern) -> bool {
    one == other || [one, other].iter().any(|pattern| pattern.covers_folder(b"/"))
}

/// The lines above a line: they decide which pattern its field belongs to.
enum LinePosition {
    /// Before the first pattern.
    Start,
    /// Below the pattern of the last rule.
    Rule,
    /// Below a pattern that is left out.
    LeftOut,
}

impl LinePosition {
    /// Adds the content of a line, which has that number.
    fn add_line(
        &mut self,
        found: &mut FieldRules,
        number: usize,
        line: Word<'_>,
        parsed: HeaderLine,
    ) -> Result<(), LineFault> {
        match parsed {
            HeaderLine::Path(pattern) => self.begin_pattern(found, number, Some(pattern)),
            HeaderLine::Host => self.begin_pattern(found, number, None),
            HeaderLine::Change(change) => return self.add_change(found, (number, line), change),
        }
        Ok(())
    }

    fn begin_pattern(
        &mut self,
        found: &mut FieldRules,
        line: usize,
        pattern: Option<HeaderPattern>,
    ) {
        match pattern {
            Some(pattern) => {
                found.rules.push(FieldRule {
                    line,
                    pattern,
                    changes: Vec::new(),
                    change_lines: Vec::new(),
                });
                *self = LinePosition::Rule;
            }
            None => {
                found.other_hosts.push(line);
                *self = LinePosition::LeftOut;
            }
        }
    }

    fn add_change(
        &self,
        found: &mut FieldRules,
        (number, line): (usize, Word<'_>),
        change: HeaderChange,
    ) -> Result<(), LineFault> {
        match (self, found.rules.last_mut()) {
            (LinePosition::Rule, Some(rule)) => {
                rule.changes.push(change);
                rule.change_lines.push(number);
            }
            (LinePosition::LeftOut, _) => {}
            _ => {
                return Err(
                    LineFault::new(line.column, "a path before the headers").advise(PATTERN_FIRST)
                );
            }
        }
        Ok(())
    }

    /// Reports a wrong pattern once; its fields are not reported too, and do not belong to the
    /// pattern before it.
    fn on_invalid_line(&mut self, is_pattern: bool) {
        if is_pattern || matches!(self, LinePosition::Start) {
            *self = LinePosition::LeftOut;
        }
    }
}

enum HeaderLine {
    Path(HeaderPattern),
    Host,
    Change(HeaderChange),
}

impl HeaderLine {
    fn parse(line: Word<'_>) -> Result<HeaderLine, LineFault> {
        if line.text.starts_with('/') {
            return HeaderPattern::parse(line).map(HeaderLine::Path);
        }
        if line.text.starts_with("http://") || line.text.starts_with("https://") {
            return Ok(HeaderLine::Host);
        }
        if let Some(rest) = line.text.strip_prefix('!') {
            let name = trimmed(line.from(line.text.len() - rest.len()));
            return field_name(name).map(|name| HeaderLine::Change(HeaderChange::Remove { name }));
        }
        let Some((before, _)) = line.text.split_once(':') else {
            return Err(
                LineFault::new(line.column, "a path, Name: value, or ! Name").advise(LINE_FORMS)
            );
        };
        let name = trimmed(Word { text: before, ..line });
        let value = trimmed(line.from(before.len() + 1));
        let name = field_name(name)?;
        if value.text.is_empty() {
            let fault = LineFault::new(value.column, "a value");
            return Err(fault.advise("`! Name` removes a header"));
        }
        if let Some(at) = value.text.bytes().position(|byte| !is_value_byte(byte)) {
            let fault = LineFault::new(value.column_at(at), "no control character in a value");
            return Err(fault.advise("remove it"));
        }
        if name.eq_ignore_ascii_case("content-type") && !value.text.contains('/') {
            return Err(LineFault::new(value.column, "a media type such as text/html"));
        }
        if name.eq_ignore_ascii_case("content-encoding") && content_coding(value.text).is_none() {
            let fault = LineFault::new(value.column, "br, gzip, zstd or identity");
            let advice = "Content-Encoding says how the files of the folder are compressed";
            return Err(fault.advise(advice));
        }
        Ok(HeaderLine::Change(HeaderChange::Set { name, value: value.text.to_owned() }))
    }
}

/// Why headers come after a path.
const PATTERN_FIRST: &str = "write a pattern such as /* on a line above";

/// The forms of a line.
const LINE_FORMS: &str = "a path begins with /, and ! removes a header";

/// Fields that the build or a flag decides, and the advice; beside the fields that the server
/// writes itself.
const SET_ELSEWHERE: [(&str, &str); 3] = [
    ("accept-ranges", "the server sends it where range requests are possible"),
    (
        "basic-auth",
        "passwords in _headers are not supported: check them in a Lua handler or in a proxy in \
         front",
    ),
    ("server", "pinion serve --server-name sets it"),
];

/// Returns the coding that a `Content-Encoding` names. It says how files lie in the folder, not how
/// they are sent: that is decided for each request.
pub(crate) fn content_coding(value: &str) -> Option<Coding> {
    Coding::from_token(value.as_bytes())
}

/// Quotes the name alone: the value of `Basic-Auth` is a password, which does not belong into logs.
fn another_header(name: Word<'_>) -> LineFault {
    LineFault::new(name.column, "another header").quoting(name.text)
}

fn field_name(word: Word<'_>) -> Result<String, LineFault> {
    if !is_token(word.text.as_bytes()) {
        return Err(LineFault::new(word.column, "a header name of letters, digits and -"));
    }
    let set_elsewhere = SET_ELSEWHERE.iter().find(|(name, _)| word.text.eq_ignore_ascii_case(name));
    if let Some((_, advice)) = set_elsewhere {
        return Err(another_header(word).advise(*advice));
    }
    if is_written_by_server(word.text.as_bytes()) {
        let advice = format!("the server sets {} itself: remove the line", word.text);
        return Err(another_header(word).advise(advice));
    }
    Ok(word.text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<FieldRules, Vec<RuleError>> {
        parse(Path::new("_headers"), text.as_bytes())
    }

    fn shown(text: &str) -> Vec<String> {
        let found = read(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
        let rules = found.rules.iter().flat_map(|rule| {
            rule.changes.iter().map(move |change| match change {
                HeaderChange::Set { name, value } => format!("{} {name}={value}", rule.line),
                HeaderChange::Remove { name } => format!("{} !{name}", rule.line),
            })
        });
        rules.collect()
    }

    #[test]
    fn fields_belong_to_the_pattern_above() {
        let text = "/*\n  X-A : b:c # d\n\n# no\n! X-B\n/b\nX-A: a ,b\n\tX-C:d";
        assert_eq!(shown(text), ["1 X-A=b:c # d", "1 !X-B", "6 X-A=a ,b", "6 X-C=d"]);
    }

    #[test]
    fn header_rules_of_other_hosts_and_empty_rules_are_skipped() {
        let found = read("https://a.pages.dev/*\n X-Robots-Tag: noindex\n/a\n/b\n X: y").unwrap();
        assert_eq!((found.other_hosts, found.empty, found.rules.len()), (vec![1], vec![3], 1));
    }

    #[test]
    fn second_values_are_found_for_overlapping_paths() {
        let (frame, origin) = ("X-Frame-Options: DENY", "Access-Control-Allow-Origin: *");
        for (text, expected) in [
            (format!("/a\n {frame}\n {frame}"), vec![(1, 1)]),
            (format!("/*\n {frame}\n/a\n {frame}"), vec![(3, 1)]),
            (format!("/a\n {origin}\n/b\n X: y\n/*\n {origin}"), vec![(5, 1)]),
            (format!("/a/:b\n {origin}\n/a/:b\n {origin}"), vec![(3, 1)]),
            (format!("/*\n {frame}\n/a\n ! X-Frame-Options\n {frame}"), vec![]),
            (format!("/a\n {frame}\n/b\n {frame}"), vec![]),
            (format!("/*\n {frame}\n/a\n {origin}"), vec![]),
            ("/*\n X-A: 1\n/a\n X-A: 2".to_owned(), vec![]),
        ] {
            let found = second_values(&read(&text).unwrap().rules);
            let lines = found.iter().map(|(line, kind)| match kind {
                RuleWarning::SecondValue { first, .. } => (*line, *first),
                other => panic!("{other:?}"),
            });
            assert_eq!(lines.collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn every_error_in_headers_has_its_line_and_column() {
        for (text, expected) in [
            ("X: y", "_headers:1:1: expected a path before the headers, found \"X: y\"; write"),
            ("/a\n  x", "_headers:2:3: expected a path, Name: value, or ! Name"),
            ("/a\n  : x", "_headers:2:3: expected a header name"),
            ("/a\n  X Y: x", "_headers:2:3: expected a header name"),
            ("/a\n  X:", "_headers:2:5: expected a value"),
            ("/a\n  X: a\u{1}b", "_headers:2:7: expected no control character"),
            ("/a\n  ! ", "_headers:2:4: expected a header name"),
            ("/a\n  ETag: 1", "_headers:2:3: expected another header, found \"ETag\"; the server"),
            ("/a\n  ! Content-Length", "_headers:2:5: expected another header"),
            (
                "/a\n  Basic-Auth: a:b",
                "_headers:2:3: expected another header, found \"Basic-Auth\"; passwords",
            ),
            ("/a\n  Content-Encoding: deflate", "_headers:2:21: expected br, gzip, zstd or"),
            ("/a\n  Content-Type: html", "_headers:2:17: expected a media type"),
            ("/a?b\n  X: y", "_headers:1:3: expected a path without ?"),
            ("/a\n  X: y\n/%zz\n  Z: a", "_headers:3:2: expected two hexadecimal digits"),
        ] {
            let errors = read(text).expect_err(text);
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors[0].to_string().starts_with(expected), "{text}: {}", errors[0]);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_with_a_position(
            text in "([/:*.a#!= \n-]|https://|X: y\n){0,60}",
        ) {
            let lines = text.split('\n').count();
            match read(&text) {
                Ok(found) => prop_assert!(found.rules.iter().all(|rule| !rule.changes.is_empty())),
                Err(errors) => for error in errors {
                    prop_assert!((1..=lines).contains(&error.line));
                    let line = text.split('\n').nth(error.line - 1).unwrap();
                    prop_assert!((1..=line.chars().count() + 1).contains(&error.column));
                },
            }
        }
    }
}
