//! Rules files: `_redirects`, at the root and in folders, and `_headers`, at the root.
//!
//! | Module | Does |
//! |---|---|
//! | `text` | bytes → lines and words that know their place; [`RuleError`] |
//! | [`redirects`], `pattern`, `target`, `decode` | `_redirects` → [`redirects::Redirect`]s |
//! | `matching`, `loops` | which paths a redirect is about, and whether it ever ends |
//! | `compile` | redirects and the paths of a site → entries, marks, rules to be walked |
//! | [`headers`], [`glob`] | `_headers` → [`headers::FieldRule`]s |
//! | `changes` | field rules and a path → the fields of its answer |
//!
//! What the lines mean is in docs/rules.md. Two parsers of others are the measure of ours; tests
//! hold them against each other (crates/build/tests/rules/).

mod changes;
mod compile;
mod decode;
pub mod glob;
pub mod headers;
mod loops;
mod matching;
mod pattern;
pub mod redirects;
mod target;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pinion_archive::limits::RULES_MAX;
use pinion_archive::{NewRule, PathPart, QueryValue as NewQueryValue, TargetPart as NewTargetPart};

use crate::error::{BuildError, Problem, Reason};
use crate::limits::RULES_FILE_MAX_BYTES;
use crate::names::{RulesFile, rules_file};
use crate::source::Source;
use crate::summary::{RuleDoubt, Warning};
use crate::walk::relative;

pub(crate) use changes::{Changes, ChangesId, FieldList};
pub(crate) use compile::{Compiled, Doubt, Site, Verdict};
pub use text::RuleError;

use headers::FieldRules;
use redirects::{Part, QueryValue, Redirect, TargetPart};

/// What the rules files of a folder say.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// In the order they are tried: those of deeper folders first.
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) fields: FieldRules,
    pub(crate) warnings: Vec<Warning>,
    /// The files themselves, with their keys: the archive keeps them, so that it can become the
    /// folder again.
    pub(crate) files: Vec<(Box<[u8]>, Vec<u8>)>,
}

impl Rules {
    /// Reads the files with these keys, sorted.
    ///
    /// # Errors
    /// [`BuildError::Problems`] for files that cannot be read, [`BuildError::Rules`] with all that
    /// is wrong in the others.
    pub(crate) fn read(source: &Path, keys: &[Box<[u8]>]) -> Result<Rules, BuildError> {
        let (mut rules, mut errors, mut problems) = (Rules::default(), Vec::new(), Vec::new());
        let mut by_depth: BTreeMap<_, Vec<Redirect>> = BTreeMap::new();
        for key in keys {
            let file = relative(key);
            let (folder, name) = folder_and_name(key);
            let kind = rules_file(name);
            if kind == Some(RulesFile::Headers) && folder != b"/" {
                rules.warnings.push(Warning::HeadersBelowRoot(file));
                continue;
            }
            let text = match read(source, &file) {
                Ok(Ok(text)) => text,
                Ok(Err(error)) => {
                    errors.push(error);
                    continue;
                }
                Err(reason) => {
                    problems.push(Problem { path: file, reason });
                    continue;
                }
            };
            if kind == Some(RulesFile::Headers) {
                match headers::parse(&file, &text) {
                    Ok(found) => rules.fields = found,
                    Err(found) => errors.extend(found),
                }
                rules.files.push((key.clone(), text));
                continue;
            }
            let depth = std::cmp::Reverse(folder.iter().filter(|&&byte| byte == b'/').count());
            if by_depth.contains_key(&(depth, folder)) {
                errors.push(whole(&file, "no second file beside _redirects"));
                continue;
            }
            let found = redirects::parse(&file, folder, &text).unwrap_or_else(|found| {
                errors.extend(found);
                Vec::new()
            });
            by_depth.insert((depth, folder), found);
            rules.files.push((key.clone(), text));
        }
        rules.redirects = by_depth.into_values().flatten().collect();
        if rules.redirects.len() > RULES_MAX
            && let Some(last) = rules.redirects.last()
        {
            errors.push(whole(&last.file, &format!("at most {RULES_MAX} rules in all files")));
        }
        if !problems.is_empty() {
            return Err(BuildError::Problems(problems));
        }
        if !errors.is_empty() {
            errors.sort();
            return Err(BuildError::Rules(errors));
        }
        rules.warn_about_fields();
        Ok(rules)
    }

    /// Looks at the redirects and the paths of the site together.
    ///
    /// # Errors
    /// [`BuildError::Rules`]: redirects that lead to themselves.
    pub(crate) fn check(&mut self, site: &Site<'_>) -> Result<(), BuildError> {
        let placed = Compiled::new(&self.redirects).place(site);
        let error = |rule: &Redirect| RuleError {
            file: rule.file.to_path_buf(),
            line: rule.line,
            column: rule.target_column,
            expected: "another target: this one leads back to the rule".to_owned(),
        };
        let loops = placed.loops.iter().filter_map(|&number| self.redirects.get(number));
        let mut errors: Vec<RuleError> = loops.map(error).collect();
        if !errors.is_empty() {
            errors.sort();
            return Err(BuildError::Rules(errors));
        }
        for (number, doubt) in placed.doubts {
            let Some(rule) = self.redirects.get(number) else { continue };
            let doubt = match doubt {
                Doubt::FileFirst => RuleDoubt::FileFirst,
                Doubt::Missing => RuleDoubt::Missing,
                Doubt::Covered(earlier) => match self.redirects.get(earlier) {
                    Some(by) => RuleDoubt::Covered { file: by.file.to_path_buf(), line: by.line },
                    None => continue,
                },
            };
            let (file, line) = (rule.file.to_path_buf(), rule.line);
            self.warnings.push(Warning::Rule { file, line, doubt });
        }
        Ok(())
    }

    fn warn_about_fields(&mut self) {
        let file = PathBuf::from(RulesFile::HEADERS);
        let warning = |line: usize, doubt| Warning::Rule { file: file.clone(), line, doubt };
        let FieldRules { elsewhere, empty, .. } = &self.fields;
        let elsewhere = elsewhere.iter().map(|&line| warning(line, RuleDoubt::OtherHost));
        let empty = empty.iter().map(|&line| warning(line, RuleDoubt::NoFields));
        self.warnings.extend(elsewhere.chain(empty));
    }
}

/// A rule as an archive takes it, given to `write`.
pub fn as_new_rule<R>(rule: &Redirect, write: impl FnOnce(&NewRule<'_>) -> R) -> R {
    let path: Vec<PathPart<'_>> = rule
        .path
        .iter()
        .map(|part| match part {
            Part::Literal(segment) => PathPart::Literal(segment),
            Part::Capture => PathPart::Capture,
            Part::Rest(prefix) => PathPart::Rest { prefix },
        })
        .collect();
    let query: Vec<(&[u8], NewQueryValue<'_>)> = rule
        .query
        .iter()
        .map(|(key, value)| match value {
            QueryValue::Is(value) => (&**key, NewQueryValue::Is(value)),
            QueryValue::Capture => (&**key, NewQueryValue::Capture),
        })
        .collect();
    let target: Vec<NewTargetPart<'_>> = rule
        .target
        .iter()
        .map(|part| match part {
            TargetPart::Literal(text) => NewTargetPart::Literal(text),
            TargetPart::Capture(number) => NewTargetPart::Capture(*number),
        })
        .collect();
    let Redirect { force, status, keeps_query, .. } = *rule;
    let host = rule.host.as_deref();
    let (path, query, target) = (&*path, &*query, &*target);
    write(&NewRule { force, status, host, path, query, target, keeps_query })
}

/// The content of a rules file; the inner error is about the rules in it.
fn read(source: &Path, file: &Path) -> Result<Result<Vec<u8>, RuleError>, Reason> {
    let open = Source::open(&source.join(file))?;
    if open.stamp().bytes > RULES_FILE_MAX_BYTES {
        let expected = format!("a file of at most {RULES_FILE_MAX_BYTES} bytes");
        return Ok(Err(whole(file, &expected)));
    }
    open.read().map(Ok)
}

/// An error about a file as a whole.
fn whole(file: &Path, expected: &str) -> RuleError {
    RuleError { file: file.to_owned(), line: 1, column: 1, expected: expected.to_owned() }
}

/// A key cut behind its last slash.
fn folder_and_name(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at(key.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}
