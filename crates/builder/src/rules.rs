//! Rules files: `_redirects`, at the root and in folders, and `_headers`, at the root.
//!
//! | Module | Does |
//! |---|---|
//! | `rules_files` | which files there are, and the order in which they count |
//! | `source_lines` | bytes → lines and words that know their place; [`RuleError`] |
//! | [`redirects`] | `_redirects` → [`redirects::Redirect`]s |
//! | `redirect_condition`, `redirect_target`, `percent_escapes` | the parts of such a line |
//! | `foreign_redirect_syntax` | lines of other servers → the right form to write |
//! | `path_matching` | which paths a redirect is about |
//! | `redirect_loops` | whether following it ever ends |
//! | `compile_redirects`, `site_paths` | redirects and paths of a site → entries, marks, rules |
//! | [`headers`], [`header_pattern`] | `_headers` → [`headers::FieldRule`]s |
//! | [`archived_rules`] | the files that an archive keeps → the lines that its rules come from |
//! | `field_changes` | field rules and a path → the fields of its response |
//!
//! The meaning of the lines is in docs/rules.md. Two parsers of other projects are the measure of
//! ours; tests hold them against each other (crates/builder/tests/rules/).

pub mod archived_rules;
mod compile_redirects;
mod field_changes;
mod foreign_redirect_syntax;
pub mod header_pattern;
pub mod headers;
mod host_names;
mod path_matching;
mod percent_escapes;
mod redirect_condition;
mod redirect_loops;
mod redirect_target;
pub mod redirects;
mod rules_files;
mod site_paths;
mod source_lines;

use std::collections::BTreeMap;
use std::path::Path;

use pinion_archive::{
    NewFieldChange, NewFieldRule, NewRule, PathPart, QueryValue as NewQueryValue,
    TargetPart as NewTargetPart, ValuePart,
};

use crate::error::BuildError;
use crate::options::Options;
use crate::path_aliases::UrlPlan;
use crate::rule_warning::RuleWarning;
use crate::walk::file_kinds_by_name::RulesFile;
use crate::walk::file_metadata::FileId;
use crate::walk::found_files::relative;
use crate::warning::Warning;

pub(crate) use compile_redirects::{CompiledRedirects, EntryVerdict, RedirectWarning};
pub(crate) use field_changes::{Changes, ChangesId, FieldList};
pub(crate) use redirect_loops::leads_to_itself;
pub(crate) use site_paths::SitePaths;
pub use source_lines::RuleError;

pub use rules_files::path_on_disk;

use compile_redirects::{is_of_folder, of_whole_folders};
use headers::{FieldRule, HeaderChange};
use redirect_loops::RedirectCircles;
use redirects::{ForeignMark, QueryValue, Redirect, RedirectPart, TargetPart};
use rules_files::{RulesCollector, left_out};

/// The content of the rules files of a site.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The redirects, in the order they are tried: those of deeper folders first.
    pub(crate) redirects: Vec<Redirect>,
    /// The rules for fields, in the order they apply.
    pub(crate) fields: Vec<FieldRule>,
    pub(crate) warnings: Vec<Warning>,
    /// The files themselves, by their keys: the archive keeps them, so that it can become the
    /// folder again.
    pub(crate) files: BTreeMap<Box<[u8]>, Vec<u8>>,
}

impl Rules {
    /// Reads the files with these keys below the folder `content` of the source, sorted, and those
    /// that the options name. `left_out` are files that are no part of the site, among them the
    /// files that the options name.
    ///
    /// # Errors
    /// [`BuildError::UnreadRules`] for files that cannot be read, [`BuildError::Rules`] with all
    /// that is wrong in the others.
    pub(crate) fn read(
        source: &Path,
        content: &'static str,
        keys: &[Box<[u8]>],
        options: &Options,
        left_out: &[FileId],
    ) -> Result<Rules, BuildError> {
        let mut files = RulesCollector::new(source, content, left_out);
        for key in keys {
            files.take_from_folder(key);
        }
        for file in &options.rules {
            files.take_named(file, RulesFile::Redirects);
        }
        for file in &options.fields {
            files.take_named(file, RulesFile::Headers);
        }
        files.finish(options.lax_rules)
    }

    /// Checks the redirects and the paths of the site together. Those that lead to themselves are
    /// left out if `lax`.
    ///
    /// # Errors
    /// [`BuildError::Rules`]: redirects that lead to themselves.
    pub(crate) fn check(&mut self, site: &SitePaths<'_>, lax: bool) -> Result<(), BuildError> {
        let mut circles = CompiledRedirects::new(&self.redirects).circles(site);
        // One pass finds all of them: those that are found do not keep others from being found.
        while lax && !circles.certain.is_empty() {
            let loops = self.without(&circles.certain);
            self.warnings.extend(loops.iter().map(|rule| left_out(loop_error(rule))));
            circles = CompiledRedirects::new(&self.redirects).circles(site);
        }
        let compiled = CompiledRedirects::new(&self.redirects);
        let RedirectCircles { certain, around } = circles;
        let mut warnings = compiled.place(site).warnings;
        warnings.extend(around.into_iter().map(|number| (number, RedirectWarning::Around)));
        warnings.sort_by_key(|&(number, _)| number);
        let loops = certain.iter().filter_map(|&number| self.redirects.get(number));
        let mut errors: Vec<RuleError> = loops.map(loop_error).collect();
        if !errors.is_empty() {
            errors.sort();
            return Err(BuildError::Rules(errors));
        }
        let marks = self.redirects.iter().filter_map(|rule| misplaced_mark(rule, site));
        self.warnings.extend(marks);
        for (number, kind) in warnings {
            let Some(rule) = self.redirects.get(number) else { continue };
            let kind = match kind {
                RedirectWarning::FileFirst => RuleWarning::FileFirst,
                RedirectWarning::Missing => RuleWarning::Missing,
                RedirectWarning::Around => RuleWarning::Around,
                RedirectWarning::ForeignHost => RuleWarning::ForeignHost,
                RedirectWarning::Covered(earlier) => match self.redirects.get(earlier) {
                    Some(by) => RuleWarning::Covered { file: by.file.to_path_buf(), line: by.line },
                    None => continue,
                },
            };
            let column = if kind.is_about_target() { rule.target_column } else { 1 };
            let (file, line) = (rule.file.to_path_buf(), rule.line);
            self.warnings.push(Warning::Rule { file, line, column, kind });
        }
        Ok(())
    }

    /// Looks for rules that rewrite every path, which leave nothing for another server. They are
    /// left out if `lax`.
    ///
    /// # Errors
    /// [`BuildError::Rules`]: there are some.
    pub(crate) fn check_rewrites_of_everything(&mut self, lax: bool) -> Result<(), BuildError> {
        let numbered = self.redirects.iter().enumerate();
        let wrong = numbered.filter(|(_, rule)| rule.rewrites_everything());
        let wrong: Vec<usize> = wrong.map(|(number, _)| number).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let errors = self.without(&wrong);
        let errors = errors.iter().map(rewrite_of_everything);
        if lax {
            self.warnings.extend(errors.map(left_out));
            return Ok(());
        }
        Err(BuildError::Rules(errors.collect()))
    }

    /// Takes rules out, by their sorted numbers.
    fn without(&mut self, numbers: &[usize]) -> Vec<Redirect> {
        let (lost, kept) = std::mem::take(&mut self.redirects)
            .into_iter()
            .enumerate()
            .partition::<Vec<_>, _>(|(number, _)| numbers.binary_search(number).is_ok());
        self.redirects = kept.into_iter().map(|(_, rule)| rule).collect();
        lost.into_iter().map(|(_, rule)| rule).collect()
    }

    /// Looks for pages that respond only for missing resources, and that no request ever reaches.
    /// `content` is where keys begin, below the source.
    pub(crate) fn check_fallbacks(
        &mut self,
        content: &str,
        keys: &[&[u8]],
        plan: &UrlPlan<'_>,
        site: &SitePaths<'_>,
    ) {
        let rules = of_whole_folders(&self.redirects, site);
        for fallback in plan.fallbacks.iter().filter(|fallback| plan.is_hidden(fallback.file)) {
            let rule = rules.iter().find(|rule| is_of_folder(rule, fallback.folder));
            if let (Some(rule), Some(key)) = (rule, keys.get(fallback.file)) {
                let (file, line) = (rule.file.to_path_buf(), rule.line);
                let page = Path::new(content).join(relative(key));
                self.warnings.push(Warning::CoveredFallback { page, file, line });
            }
        }
    }
}

/// Warns about a `!` or a `*` that is part of a target, where it has no meaning, and about a
/// placeholder of another server. A file of the site may have one in its name.
fn misplaced_mark(rule: &Redirect, site: &SitePaths<'_>) -> Option<Warning> {
    if rule.only_target().is_some_and(|target| site.sends(target)) {
        return None;
    }
    let has_star = |part: &TargetPart| match part {
        TargetPart::Literal(text) => text.contains(&b'*'),
        TargetPart::Capture(_) => false,
    };
    let (column, kind) = match (rule.target.last(), &rule.foreign_mark) {
        (Some(TargetPart::Literal(text)), _) if text.ends_with(b"!") => {
            (rule.target_column, RuleWarning::ForceInTarget { status: rule.status })
        }
        (_, Some(ForeignMark { column, text, is_in_target })) => {
            let (mark, is_in_target) = (text.clone(), *is_in_target);
            (*column, RuleWarning::ForeignMark { mark, is_in_target })
        }
        _ if rule.target.iter().any(has_star) => (rule.target_column, RuleWarning::StarInTarget),
        _ => return None,
    };
    Some(Warning::Rule { file: rule.file.to_path_buf(), line: rule.line, column, kind })
}

/// Returns the error of a rule that rewrites every path where another server is to respond.
fn rewrite_of_everything(rule: &Redirect) -> RuleError {
    RuleError {
        file: rule.file.to_path_buf(),
        line: rule.line,
        column: 1,
        expected: "a rule for some paths: this one responds to every path and leaves nothing for \
                   the server of the mount /; remove the line, or give the mount another path"
            .to_owned(),
    }
}

/// Returns the error of a redirect that leads to itself.
fn loop_error(rule: &Redirect) -> RuleError {
    let without_slash = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
    let is_other_slash = rule.only_target().zip(rule.only_path()).is_some_and(|(target, path)| {
        target != path && without_slash(target) == without_slash(&path)
    });
    let reason = if is_other_slash {
        "; a trailing slash makes no difference in a rule: remove the line"
    } else if rule.target_host.is_some() {
        "; rules apply to http and https alike: remove the line, and redirect http with \
         --redirect-http"
    } else {
        "; remove the line, or correct the target"
    };
    RuleError {
        file: rule.file.to_path_buf(),
        line: rule.line,
        column: rule.target_column,
        expected: format!("another target: this one leads back to the same rule{reason}"),
    }
}

/// Passes a rule for fields to `write` in the form of an archive. A media type and a coding are
/// those of a file, and not of a response in its place: a rule that says nothing else is left out.
pub(crate) fn as_new_field_rule<R>(
    rule: &FieldRule,
    write: impl FnOnce(&NewFieldRule<'_>) -> R,
) -> Option<R> {
    let of_file = ["content-type", "content-encoding"];
    let is_of_file = |change: &&HeaderChange| {
        of_file.iter().any(|name| change.name().eq_ignore_ascii_case(name))
    };
    let changes: Vec<(&str, Option<Vec<ValuePart<'_>>>)> = rule
        .changes
        .iter()
        .filter(|change| !is_of_file(change))
        .map(|change| match change {
            HeaderChange::Set { name, value } => (name.as_str(), Some(rule.pattern.parts(value))),
            HeaderChange::Remove { name } => (name.as_str(), None),
        })
        .collect();
    let changes: Vec<NewFieldChange<'_>> = changes
        .iter()
        .map(|(name, value)| NewFieldChange { name: name.as_bytes(), value: value.as_deref() })
        .collect();
    if changes.is_empty() {
        return None;
    }
    Some(write(&NewFieldRule { pattern: rule.pattern.pattern(), changes: &changes }))
}

/// Passes a rule to `write` in the form of an archive.
pub fn as_new_rule<R>(rule: &Redirect, write: impl FnOnce(&NewRule<'_>) -> R) -> R {
    let path: Vec<PathPart<'_>> = rule.path.iter().map(RedirectPart::stored).collect();
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
