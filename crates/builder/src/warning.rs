//! Warnings for the author of a site, and their texts.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::ShownPath;
use crate::rule_warning::RuleWarning;
use crate::rules::path_on_disk;
use crate::walk::file_kinds_by_name::RulesFile;

/// Something that did not stop the build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    /// A file that begins as an archive does, and became a resource: left behind by an earlier
    /// build, most likely.
    Archive(PathBuf),
    /// A file that a page comes before: the page responds to the URL that would be the file's.
    BehindPage {
        /// The file.
        file: PathBuf,
        /// The page.
        page: PathBuf,
    },
    /// Named as code, in the folder of a dynamic site that holds files alone; it is left out.
    CodeAmongFiles(PathBuf),
    /// A page below a folder `static/`, where a site of 80s has files alone.
    PageBelowStatic(PathBuf),
    /// Its name has `.dyn.` or `.lua` in it, and is none of a page or a script; it is left out.
    CopyOfCode(PathBuf),
    /// A tag of another language in a page, such as `<?php`, which clients get as it is.
    StrayTag {
        /// The file.
        file: PathBuf,
        /// Its line, from 1.
        line: u32,
        /// The beginning of the tag.
        tag: String,
        /// The text to write in place of it.
        instead: &'static str,
    },
    /// A link to a folder that holds the link; it was not followed.
    FolderLoop(PathBuf),
    /// Modified in the future; its resource has no `Last-Modified`.
    FromTheFuture(PathBuf),
    /// Larger than [`HELD_MAX_BYTES`](crate::limits::HELD_MAX_BYTES); stored without codings.
    TooLargeToEncode(PathBuf),
    /// Not in the coding that a rule gives it; its resource is the file as it is.
    NotInCoding(PathBuf),
    /// One of [`Options::reuse_from`](crate::Options::reuse_from) that nothing is taken from,
    /// and why.
    NotReused(PathBuf, String),
    /// The file of fingerprints could not be written: the next build reads every file.
    StatCacheNotWritten,
    /// A main script in the content, where another one lies beside it: only that one is run.
    SecondMain(PathBuf),
    /// A pattern of [`Options::codings_for`](crate::Options::codings_for) that no file has its
    /// codings from: misspelt, most likely, or a later one always wins.
    UnusedCodings(PathBuf),
    /// An exclude pattern that has left nothing out: misspelt, most likely.
    UnusedExclude(PathBuf),
    /// An include pattern that is an exclude pattern too.
    IncludeExcluded(PathBuf),
    /// A value of [`Options::cache_control`](crate::Options::cache_control) with a number where a
    /// directive should be.
    CacheControlNumber {
        /// The value.
        value: String,
        /// The number.
        number: String,
    },
    /// An include pattern that has published nothing: misspelt, most likely.
    UnusedInclude(PathBuf),
    /// A pattern of [`Options::immutable`](crate::Options::immutable) that no file has matched:
    /// misspelt, most likely.
    UnusedImmutable(PathBuf),
    /// A pattern of [`Earlier::also`](crate::Earlier::also) that no file of an earlier archive has
    /// matched: misspelt, most likely.
    UnusedPrevious(PathBuf),
    /// A page for missing resources, too many levels below the root; it is not used as one.
    NotFoundTooDeep(PathBuf),
    /// A page of an error of more than
    /// [`ERROR_PAGE_MAX_BYTES`](pinion_archive::limits::ERROR_PAGE_MAX_BYTES); the built-in page is
    /// sent.
    ErrorPageTooLarge(PathBuf),
    /// A page of an error whose status the server never sends.
    ErrorPageUnused(PathBuf),
    /// A page for missing resources in a folder that has another one, which comes first.
    SecondFallback {
        /// The page.
        page: PathBuf,
        /// The one that comes first.
        by: PathBuf,
    },
    /// A page for missing resources that is never sent: a rule responds for its whole folder.
    CoveredFallback {
        /// The page.
        page: PathBuf,
        /// The rule's file.
        file: PathBuf,
        /// The line of the rule.
        line: usize,
    },
    /// A `_headers` below the root, where none is read.
    HeadersBelowRoot(PathBuf),
    /// A file at the root whose name is almost that of a file of rules; no rules are read from it.
    MisnamedRules {
        /// The file.
        path: PathBuf,
        /// The kind of rules file that was most likely meant.
        kind: RulesFile,
        /// Whether clients get it.
        is_published: bool,
    },
    /// The folder has neither a file to publish nor a rule nor code.
    NoFiles,
    /// A rule that has another effect than it seems to have.
    Rule {
        /// The file; [`path_on_disk`] returns its path.
        file: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// The column, in characters from 1.
        column: usize,
        /// The kind of warning.
        kind: RuleWarning,
    },
}

/// Writes why a file is left out whose name has a part of the names of code.
fn named_as_code(path: &Path) -> &'static str {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let extension = name.rsplit_once(".dyn.").map_or("", |(_, extension)| extension);
    // `photo.dyn.jpg`, not `page.dyn.html.bak`.
    if !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        "left out: `.dyn.` in its name marks a page, and a page ends in a text type such as \
             .html; rename it without `.dyn.` to publish it as a file"
    } else {
        "left out: its name is that of a copy of code; rename it to publish it"
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, message) = match self {
            Warning::NotReused(path, why) => {
                return write!(f, "{}: nothing is reused from it: {why}", ShownPath(path));
            }
            Warning::StatCacheNotWritten => return f.write_str(STAT_CACHE_NOT_WRITTEN),
            Warning::UnusedCodings(pattern) => return unused(f, "codings-for", pattern, CODINGS),
            Warning::UnusedExclude(pattern) => return unused(f, "exclude", pattern, EXCLUDED),
            Warning::UnusedImmutable(pattern) => return unused(f, "immutable", pattern, NO_FILE),
            Warning::IncludeExcluded(pattern) => return excluded(f, pattern),
            Warning::CacheControlNumber { value, number } => return no_directive(f, value, number),
            Warning::UnusedInclude(pattern) => return unused(f, "include", pattern, INCLUDED),
            Warning::UnusedPrevious(pattern) => return unused(f, "previous-for", pattern, KEPT),
            Warning::NotInCoding(path) => {
                (path, "not compressed as its Content-Encoding in _headers says, sent unchanged")
            }
            Warning::Archive(path) => (path, "an archive is published; --exclude leaves it out"),
            Warning::BehindPage { file, page } => return behind_page(f, file, page),
            Warning::CodeAmongFiles(path) => {
                (path, "left out: it is named as code, and static/ is for files only; move it")
            }
            Warning::PageBelowStatic(path) => {
                (path, "run as a page although it is below static/; --compat 80s makes it a file")
            }
            Warning::CopyOfCode(path) => (path, named_as_code(path)),
            Warning::StrayTag { file, line, tag, instead } => {
                return stray_tag(f, file, *line, tag, instead);
            }
            Warning::SecondMain(path) => {
                (path, "not run: the main.lua beside public_html is the one of the site")
            }
            Warning::FolderLoop(path) => {
                (path, "not followed: a symbolic link to a folder that contains it")
            }
            Warning::FromTheFuture(path) => {
                (path, "sent without Last-Modified: it was modified in the future")
            }
            Warning::TooLargeToEncode(path) => {
                (path, "stored uncompressed: it is larger than 128 MiB")
            }
            Warning::NotFoundTooDeep(path) => {
                (path, "not used for missing pages: it is more than 63 folders deep")
            }
            Warning::ErrorPageTooLarge(path) => {
                (path, "not used: a page for errors may have at most 32 KiB")
            }
            Warning::ErrorPageUnused(path) => {
                (path, "not used: the server sends no response with this status")
            }
            Warning::SecondFallback { page, by } => return second_page(f, page, by),
            Warning::CoveredFallback { page, file, line } => {
                let (page, file) = (ShownPath(page), ShownPath(file));
                return write!(f, "{page}: not used: the rule {file}:{line} matches first");
            }
            Warning::HeadersBelowRoot(path) => {
                (path, "not read: move its lines to the _headers at the root of the site")
            }
            Warning::MisnamedRules { path, kind, is_published } => {
                return misnamed(f, path, *kind, *is_published);
            }
            Warning::NoFiles => return f.write_str(NO_FILES),
            Warning::Rule { file, line, column, kind } => {
                write!(f, "{}:{line}:{column}: ", ShownPath(file))?;
                return kind.write(f, file);
            }
        };
        write!(f, "{}: {message}", ShownPath(path))
    }
}

/// Writes the warning about a file whose clean URL is that of a page.
fn behind_page(f: &mut fmt::Formatter<'_>, file: &Path, page: &Path) -> fmt::Result {
    let (file, page) = (ShownPath(file), ShownPath(page));
    write!(f, "{file}: its clean URL is taken by the page {page}")
}

/// Writes the warning about a tag of another language in a page.
fn stray_tag(
    f: &mut fmt::Formatter<'_>,
    file: &Path,
    line: u32,
    tag: &str,
    instead: &str,
) -> fmt::Result {
    let file = ShownPath(file);
    write!(f, "{file}:{line}: `{tag}` is not a tag of Pinion and is sent as text; {instead}")
}

/// The messages about a whole build.
const NO_FILES: &str = "there is no file to publish; every request gets 404";
const STAT_CACHE_NOT_WRITTEN: &str = "cannot write the file of fingerprints beside the archive \
                                      (.NAME.stat); the next build reads every file";

/// Reasons why patterns of `--codings-for`, `--exclude`, `--include`, `--previous-for` and
/// `--immutable` have no effect.
const CODINGS: &str =
    "no file gets these codings; check the spelling, and later patterns, which win";
const EXCLUDED: &str = "nothing matches, so nothing is left out; check its spelling and case";
const INCLUDED: &str = "no file that is left out by default matches; check its spelling and case";
const KEPT: &str = "no file of an earlier archive matches; check its spelling and case";
const NO_FILE: &str = "no file matches; check its spelling and case";

/// Writes the warning about a file that has almost the name of a rules file.
fn misnamed(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    kind: RulesFile,
    is_published: bool,
) -> fmt::Result {
    let effect = if is_published { "published as a file" } else { "never served" };
    let (path, name) = (ShownPath(path), kind.name());
    write!(f, "{path}: {effect}, its rules are not read; rename it to {name}")
}

/// Writes the warning about a page of an error that another page comes before.
fn second_page(f: &mut fmt::Formatter<'_>, page: &Path, by: &Path) -> fmt::Result {
    write!(f, "{}: not used: {} is the page for the same errors", ShownPath(page), ShownPath(by))
}

/// Writes the warning about a pattern that is left out although it is to be published.
fn excluded(f: &mut fmt::Formatter<'_>, pattern: &Path) -> fmt::Result {
    let pattern = ShownPath(pattern);
    write!(f, "--include {pattern}: --exclude {pattern} wins over it; remove one of them")
}

/// Writes the warning about a number where `--cache-control` needs a directive.
fn no_directive(f: &mut fmt::Formatter<'_>, value: &str, number: &str) -> fmt::Result {
    let advice = format_args!("did you mean max-age={number}?");
    write!(f, "--cache-control {value}: {number} is not a directive; {advice}")
}

/// Writes a pattern of a flag that has no effect, why, and the advice.
fn unused(f: &mut fmt::Formatter<'_>, flag: &str, pattern: &Path, why: &str) -> fmt::Result {
    write!(f, "--{flag} {}: {why}", ShownPath(pattern))
}

impl Warning {
    /// Returns the line about a rule with its file where it lies below `source`, as errors have it;
    /// `None` for any other warning.
    #[must_use]
    pub fn of_rule(&self, source: &Path) -> Option<String> {
        let Warning::Rule { file, line, column, kind } = self else { return None };
        let kind = match kind {
            RuleWarning::Covered { file: by, line } if by != file => {
                RuleWarning::Covered { file: path_on_disk(source, by), line: *line }
            }
            RuleWarning::Covered { line, .. } => {
                RuleWarning::Covered { file: path_on_disk(source, file), line: *line }
            }
            kind => kind.clone(),
        };
        let file = path_on_disk(source, file);
        Some(Warning::Rule { file, line: *line, column: *column, kind }.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_a_type_is_distinguished_from_a_copy_of_code() {
        for (path, words) in [
            ("photo.dyn.jpg", "a page ends in a text type"),
            ("a/x.DYN.php", "a page ends in a text type"),
            ("x.dyn.html.bak", "that of a copy of code"),
            ("x.dyn.html-old", "that of a copy of code"),
            ("main.lua.bak", "that of a copy of code"),
        ] {
            let line = Warning::CopyOfCode(path.into()).to_string();
            assert!(line.contains(words), "{line}");
        }
    }

    /// A newcomer learns which flag it is about, which pattern of it, and what to look at.
    #[test]
    fn a_pattern_without_effect_is_named_with_its_flag() {
        for (flag, warning) in [
            ("codings-for", Warning::UnusedCodings("*.x".into())),
            ("exclude", Warning::UnusedExclude("*.x".into())),
            ("immutable", Warning::UnusedImmutable("*.x".into())),
            ("include", Warning::UnusedInclude("*.x".into())),
            ("previous-for", Warning::UnusedPrevious("*.x".into())),
        ] {
            let line = warning.to_string();
            assert!(line.starts_with(&format!("--{flag} *.x: no")), "{line}");
            assert!(line.contains("spelling"), "{line}");
        }
    }

    #[test]
    fn a_pattern_that_is_included_and_excluded_names_the_winner() {
        let line = Warning::IncludeExcluded("a.log".into()).to_string();
        assert_eq!(line, "--include a.log: --exclude a.log wins over it; remove one of them");
    }

    /// The numbers in the texts are those of the limits.
    #[test]
    fn a_warning_about_a_limit_has_its_number() {
        use pinion_archive::limits::{ERROR_PAGE_MAX_BYTES, FALLBACK_DEPTH_MAX};
        const MIB: u64 = 1 << 20;
        let decoding = crate::error::Reason::TooLargeToDecode.to_string();
        let held = format!("larger than {} MiB", crate::limits::HELD_MAX_BYTES / MIB);
        for (line, number) in [
            (Warning::ErrorPageTooLarge("a".into()).to_string(), ERROR_PAGE_MAX_BYTES / 1024),
            (Warning::NotFoundTooDeep("a".into()).to_string(), FALLBACK_DEPTH_MAX as u64),
        ] {
            assert!(line.contains(&number.to_string()), "{line}");
        }
        for line in [Warning::TooLargeToEncode("a".into()).to_string(), decoding] {
            assert!(line.contains(&held), "{line}");
        }
    }
}
