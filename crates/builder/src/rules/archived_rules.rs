//! The rules files that an archive keeps, read again: which line a stored rule comes from.

use std::collections::BTreeMap;

use pinion_archive::{EntryKind, Rule, Rules};

use super::headers::{self, FieldRule, HeaderChange};
use super::redirects::{self, Redirect};
use super::rules_files::{Deepest, folder_and_name};
use super::{as_new_rule, path_matching};
use crate::walk::file_kinds_by_name::{RulesFile, rules_file};
use crate::walk::found_files::relative;

/// The rules of the files that an archive keeps. Lines that are wrong are left out, as in a build
/// with `--lax-rules`.
#[derive(Debug, Default)]
pub struct KeptRules {
    /// Rules of `_redirects`, in the order in which they are tried.
    redirects: Vec<Redirect>,
    /// Rules of `_headers`, in the order in which they apply.
    fields: Vec<FieldRule>,
}

/// A line of `_headers` that is about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLine {
    /// Its line, from 1.
    pub line: usize,
    /// The name of the field, as it is written.
    pub name: String,
    /// The value, with its placeholders filled in; `None` for a line that removes the field.
    pub value: Option<String>,
}

impl KeptRules {
    /// Parses files by their keys, such as `/docs/_redirects`. Keys of other files are ignored.
    #[must_use]
    pub fn parse<'t>(files: impl IntoIterator<Item = (&'t [u8], &'t [u8])>) -> KeptRules {
        let (mut by_folder, mut fields) = (BTreeMap::new(), Vec::new());
        for (key, text) in files {
            let (folder, name) = folder_and_name(key);
            let file = relative(key);
            match rules_file(name) {
                Some(RulesFile::Headers) if folder == b"/" => {
                    fields.extend(headers::parse_lines(&file, text).0.rules);
                }
                Some(RulesFile::Redirects) => {
                    let rules = redirects::parse_lines(&file, folder, text).0;
                    by_folder.entry(Deepest::of(folder)).or_insert(rules);
                }
                Some(RulesFile::Headers) | None => {}
            }
        }
        KeptRules { redirects: by_folder.into_values().flatten().collect(), fields }
    }

    /// Returns whether there are no rules of `_redirects`.
    #[must_use]
    pub fn has_no_redirects(&self) -> bool {
        self.redirects.is_empty()
    }

    /// Returns the first rule that responds to every path with content of the site.
    #[must_use]
    pub fn rewrite_of_everything(&self) -> Option<&Redirect> {
        self.redirects.iter().find(|line| line.rewrites_everything())
    }

    /// Returns the line of a rule of an archive that keeps these files; `None` if it comes from
    /// none of them.
    ///
    /// A stored rule has the position of its line among the lines that were stored, so equal lines
    /// can be distinguished.
    #[must_use]
    pub fn line_of(&self, rules: &Rules, number: u32) -> Option<&Redirect> {
        let mut lines = self.redirects.iter();
        let mut found = None;
        for rule in rules.iter().take(number as usize + 1) {
            found = lines.find(|line| is_stored_as(line, &rule));
            found?;
        }
        found
    }

    /// Returns the line that a redirect or a rewrite for one path comes from, which was stored as
    /// an entry: `None` if it comes from none of the files.
    #[must_use]
    pub fn line_of_entry(
        &self,
        path: &[u8],
        (kind, status, target): (EntryKind, u16, &[u8]),
    ) -> Option<&Redirect> {
        let is_redirect = kind == EntryKind::Redirect;
        self.redirects.iter().find(|line| {
            line.status == status
                && line.is_redirect() == is_redirect
                && line.is_unconditional()
                && line.only_target() == Some(target)
                && path_matching::matches(&line.path, path)
        })
    }

    /// Returns the lines of `_headers` about every path, in the order in which they apply: those of
    /// a response to a request whose path is not known.
    #[must_use]
    pub fn fields_everywhere(&self) -> Vec<FieldLine> {
        let is_everywhere = |rule: &&FieldRule| rule.pattern.covers_folder(b"/");
        let lines = self.fields.iter().filter(is_everywhere).flat_map(|rule| {
            rule.changes.iter().zip(&rule.change_lines).filter_map(|(change, &line)| {
                let value = match change {
                    // The capture of a placeholder is not known either.
                    HeaderChange::Set { value, .. } if rule.pattern.is_used_in(value) => {
                        return None;
                    }
                    HeaderChange::Set { value, .. } => Some(value.clone()),
                    HeaderChange::Remove { .. } => None,
                };
                Some(FieldLine { line, name: change.name().to_owned(), value })
            })
        });
        lines.collect()
    }

    /// Returns the lines of `_headers` about a path, which is decoded, in the order in which they
    /// apply. `sent` is the path that a rewrite leads to, whose lines apply as well.
    #[must_use]
    pub fn fields_about(&self, path: &[u8], sent: Option<&[u8]>) -> Vec<FieldLine> {
        let mut lines = Vec::new();
        for rule in &self.fields {
            let captured = rule.pattern.captured(path);
            let captured = captured.or_else(|| rule.pattern.captured(sent?));
            let Some(captured) = captured else { continue };
            for (change, &line) in rule.changes.iter().zip(&rule.change_lines) {
                let value = match change {
                    HeaderChange::Set { value, .. } => Some(rule.pattern.filled(value, &captured)),
                    HeaderChange::Remove { .. } => None,
                };
                lines.push(FieldLine { line, name: change.name().to_owned(), value });
            }
        }
        lines
    }
}

/// Returns whether a build stores a line as this rule.
fn is_stored_as(line: &Redirect, rule: &Rule<'_>) -> bool {
    as_new_rule(line, |new| {
        (new.force, new.status, new.host) == (rule.is_forced(), rule.status(), rule.host())
            && new.path.iter().copied().eq(rule.path())
            && new.query.iter().copied().eq(rule.query())
            && new.target.iter().copied().eq(rule.target())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(files: &[(&str, &str)]) -> KeptRules {
        KeptRules::parse(files.iter().map(|(key, text)| (key.as_bytes(), text.as_bytes())))
    }

    fn line_of_entry(kept: &KeptRules, path: &str, status: u16, target: &str) -> Option<usize> {
        let kind =
            if status < 400 && status != 200 { EntryKind::Redirect } else { EntryKind::Rewrite };
        let said = (kind, status, target.as_bytes());
        kept.line_of_entry(path.as_bytes(), said).map(|line| line.line)
    }

    #[test]
    fn entries_are_traced_to_the_line_with_their_path_and_target() {
        let redirects = "# old\n/a /b\n/a/ /c 302\n/p /x.html 200\n/a key=1 /d\nwrong\n/x/* /b\n";
        let kept = kept(&[("/_redirects", redirects), ("/index.html", "/a /b")]);
        for (path, status, target, line) in [
            ("/a", 301, "/b", Some(2)),
            ("/a/", 301, "/b", Some(2)),
            ("/a", 302, "/c", Some(3)),
            ("/p", 200, "/x.html", Some(4)),
            ("/a", 301, "/d", None),
            ("/x/y", 301, "/b", Some(7)),
            ("/q", 301, "/b", None),
        ] {
            assert_eq!(line_of_entry(&kept, path, status, target), line, "{path} {target}");
        }
    }

    #[test]
    fn rules_of_deeper_folders_take_precedence() {
        let kept = kept(&[("/_redirects", "/d/a /b"), ("/d/_redirects", "\n./a /b")]);
        let said = (EntryKind::Redirect, 301, &b"/b"[..]);
        let line = kept.line_of_entry(b"/d/a", said).expect("a line");
        assert_eq!((line.file.to_str(), line.line), (Some("d/_redirects"), 2));
    }

    #[test]
    fn lines_of_fields_have_their_own_numbers() {
        let headers = "/*\n  X-A: 1\n\n  ! X-B\n/a/:name\n  X-C: :name\n/b\n  X-D: 1\n";
        let kept = kept(&[("/_headers", headers), ("/d/_headers", "/*\n  X-E: 1")]);
        let shown = |path: &str, sent: Option<&str>| {
            let lines = kept.fields_about(path.as_bytes(), sent.map(str::as_bytes));
            let shown = |line: FieldLine| {
                format!("{} {} {}", line.line, line.name, line.value.as_deref().unwrap_or("-"))
            };
            lines.into_iter().map(shown).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(shown("/a/x", None), "2 X-A 1, 4 X-B -, 6 X-C x");
        assert_eq!(shown("/z", Some("/b")), "2 X-A 1, 4 X-B -, 8 X-D 1");
        let everywhere: Vec<usize> =
            kept.fields_everywhere().iter().map(|line| line.line).collect();
        assert_eq!(everywhere, [2, 4]);
    }
}
