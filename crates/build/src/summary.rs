//! The result of a build, in plain values: the binary prints them or makes JSON of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinion_archive::Digest;

use crate::codings::CodingLevel;
use crate::error::{FileProblem, ShownPath};
use crate::limits::FINGERPRINT_EXAMPLES;
use crate::report::BuildReport;
use crate::rules::in_place;
use crate::site_layout::PublishGuard;
use crate::walk::file_names::RulesFile;
use crate::walk::found_files::relative;

/// The result of a build. Paths are relative to the source; lists are sorted by path.
#[derive(Debug, Default)]
pub struct Summary {
    /// Files that became resources.
    pub files: u64,
    /// Folders entered, the source included.
    pub folders: u64,
    /// Bytes of those files.
    pub source_bytes: u64,
    /// Paths at which the archive responds, aliases included.
    pub entries: u64,
    /// The number of index (`/dir/`) and clean (`/name`) URLs among them.
    pub aliases: u64,
    /// Folders that respond with a listing.
    pub listings: u64,
    /// Pages in place of the built-in pages of errors.
    pub error_pages: u64,
    /// Directories with a page for missing resources.
    pub not_found_pages: u64,
    /// Assets of earlier releases that were carried over.
    pub previous_assets: u64,
    /// Their bytes as stored, in all codings.
    pub previous_bytes: u64,
    /// Rules of `_redirects` files.
    pub redirect_rules: u64,
    /// The number of these rules that a request may have to be compared with one by one.
    pub walked_rules: u64,
    /// Patterns of `_headers`.
    pub field_rules: u64,
    /// Length of the archive.
    pub archive_bytes: u64,
    /// The digest of the archive: two builds with the same one gave the same bytes.
    pub digest: Digest,
    /// Files whose content another file has too.
    pub repeated_files: u64,
    /// Bytes that did not have to be stored again, in any coding.
    pub repeated_bytes: u64,
    /// Files that were not read, since they have not changed since the last build.
    pub unread_files: u64,
    /// Codings that older archives had, those that did not pay included.
    pub reused_codings: u64,
    /// One per coding and level: the default ones first, then those of the overrides.
    pub codings: Vec<CodingSummary>,
    /// Files that stayed outside the archive.
    pub external_files: u64,
    /// Left out by the skip rules or an exclude pattern; a folder stands for all below it.
    pub skipped: Vec<PathBuf>,
    /// Of these, the paths that the options leave out: the author knows about them.
    pub excluded: Vec<PathBuf>,
    /// Never resources: rules, and scripts and private files of a static site.
    pub special: Vec<PathBuf>,
    /// The properties that the site keeps from now on.
    pub guard: PublishGuard,
    /// The code of a dynamic site, which is kept and never sent.
    pub code: Vec<PathBuf>,
    /// Files whose names change with their content: clients keep them and do not ask again.
    pub fingerprinted: Fingerprinted,
    /// Files that do not respond to a URL they could have, because another one comes first.
    pub shadowed: Vec<Shadowed>,
    /// Warnings for the author.
    pub warnings: Vec<Warning>,
    /// The files that were left out, when it was asked to keep going.
    pub problems: Vec<FileProblem>,
    /// The files that took longest to encode, slowest first.
    pub slowest: Vec<Slow>,
    /// The report of where the bytes are, when that was asked for.
    pub report: Option<BuildReport>,
    /// The time that all of it took, except the wait until the archive was safe on the disk.
    pub elapsed: Duration,
}

/// Files whose names change with their content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprinted {
    /// Their number.
    pub files: u64,
    /// The first of them.
    pub examples: Vec<PathBuf>,
}

impl Fingerprinted {
    /// Counts the decisions for files with these keys, which begin at `content` below the source.
    pub(crate) fn of(content: &str, decided: &[bool], keys: &[&[u8]]) -> Fingerprinted {
        let found = keys.iter().zip(decided).filter_map(|(key, is_one)| is_one.then_some(*key));
        let path = |key: &[u8]| Path::new(content).join(relative(key));
        let examples = found.clone().take(FINGERPRINT_EXAMPLES).map(path).collect();
        Fingerprinted { files: found.count() as u64, examples }
    }
}

/// The result of one coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingSummary {
    /// The encoder, and its level.
    pub choice: CodingLevel,
    /// Different contents that are stored in it.
    pub bodies: u64,
    /// Their bytes before.
    pub identity_bytes: u64,
    /// Their bytes as stored.
    pub stored_bytes: u64,
}

impl CodingSummary {
    /// Returns empty summaries, one for each coding.
    pub(crate) fn none_of(codings: Vec<CodingLevel>) -> Vec<CodingSummary> {
        let none = |choice| CodingSummary { choice, bodies: 0, identity_bytes: 0, stored_bytes: 0 };
        codings.into_iter().map(none).collect()
    }
}

/// A URL to which two files could have responded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shadowed {
    /// The URL's path, decoded: `/dir/` or `/dir/name`.
    pub url: PathBuf,
    /// The file that does not respond to it.
    pub file: PathBuf,
    /// The file that does.
    pub by: PathBuf,
}

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
        /// The file; [`in_place`](crate::in_place) returns its path.
        file: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// The column, in characters from 1.
        column: usize,
        /// The kind of doubt.
        doubt: RuleWarning,
    },
}

/// The reason why a rule has another effect than it seems to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleWarning {
    /// It never applies: a rule before it applies to all that it is about.
    Covered {
        /// That rule's file.
        file: PathBuf,
        /// The line of that rule.
        line: usize,
    },
    /// It never applies: its path is a file's.
    FileFirst,
    /// The content that it is to send is not in the site.
    Missing,
    /// Its target leads back to it, directly or by other redirects.
    Around,
    /// Its pattern names a host.
    OtherHost,
    /// It never applies: the site does not respond for its host.
    ForeignHost,
    /// It is wrong, and the build was asked to leave such lines out.
    LeftOut {
        /// The expected text; follows the word "expected".
        expected: String,
    },
    /// It has no fields.
    NoFields,
    /// Its target ends in a `!`, which has its meaning after a status alone.
    ForceInTarget {
        /// The status of the rule.
        status: u16,
    },
    /// Its target has a `*`, which has its meaning in the path alone.
    StarInTarget,
    /// It has a placeholder or a pattern as another server writes it.
    ForeignMark {
        /// The text as written.
        mark: String,
        /// Whether it is in the target, and not in the path.
        is_in_target: bool,
    },
    /// It gives a second value of a field that may have one.
    SecondValue {
        /// The name of the field.
        name: String,
        /// The line of the pattern that gives the first value.
        first: usize,
    },
}

/// A file and how long its codings took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The file.
    pub path: PathBuf,
    /// Time on one core.
    pub encoding: Duration,
}

impl fmt::Display for Shadowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, file, by) = (ShownPath(&self.url), ShownPath(&self.file), ShownPath(&self.by));
        write!(f, "{url} is served from {by}, not from {file}")
    }
}

/// Writes why a file is left out whose name has a part of the names of code.
fn named_as_code(path: &Path) -> &'static str {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let extension = name.rsplit_once(".dyn.").map_or("", |(_, extension)| extension);
    // `photo.dyn.jpg`, not `page.dyn.html.bak`.
    match !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => {
            "left out: `.dyn.` in its name marks a page, and a page ends in a text type such as \
             .html; rename it without `.dyn.` to publish it as a file"
        }
        false => "left out: its name is that of a copy of code; rename it to publish it",
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, what) = match self {
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
            Warning::Rule { file, line, column, doubt } => {
                write!(f, "{}:{line}:{column}: ", ShownPath(file))?;
                return doubt.tell(f, file);
            }
        };
        write!(f, "{}: {what}", ShownPath(path))
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
    let what = if is_published { "published as a file" } else { "never served" };
    let (path, name) = (ShownPath(path), kind.name());
    write!(f, "{path}: {what}, its rules are not read; rename it to {name}")
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
        let Warning::Rule { file, line, column, doubt } = self else { return None };
        let doubt = match doubt {
            RuleWarning::Covered { file: by, line } if by != file => {
                RuleWarning::Covered { file: in_place(source, by), line: *line }
            }
            RuleWarning::Covered { line, .. } => {
                RuleWarning::Covered { file: in_place(source, file), line: *line }
            }
            doubt => doubt.clone(),
        };
        let file = in_place(source, file);
        Some(Warning::Rule { file, line: *line, column: *column, doubt }.to_string())
    }
}

impl RuleWarning {
    /// Returns whether the place of a warning is the target of the rule, and not its beginning.
    pub(crate) fn is_about_target(&self) -> bool {
        matches!(self, RuleWarning::Missing | RuleWarning::Around)
    }

    fn tell(&self, f: &mut fmt::Formatter<'_>, path: &Path) -> fmt::Result {
        match self {
            RuleWarning::LeftOut { expected } => {
                write!(f, "skipped by --lax-rules: expected {expected}")
            }
            RuleWarning::Covered { file, line } if file == path => {
                write!(f, "never applies: line {line} matches all its requests first")
            }
            RuleWarning::Covered { file, line } => {
                write!(
                    f,
                    "never applies: {}:{line} matches all its requests first",
                    ShownPath(file)
                )
            }
            RuleWarning::FileFirst => f.write_str(
                "never applies: the site has a file at this path, which wins; a ! after the \
                 status, as in 301!, forces the rule",
            ),
            RuleWarning::Missing => {
                f.write_str("the target is not in the site, so the response is 404; correct it")
            }
            RuleWarning::ForeignHost => {
                f.write_str("never applies: its host is not one of the hosts of the site")
            }
            RuleWarning::Around => f.write_str(
                "redirects in a circle: its target leads back to this rule, and browsers give up",
            ),
            RuleWarning::OtherHost => f.write_str(
                "left out: patterns with a host are not supported; give that host a [[site]] with \
                 `fields`",
            ),
            RuleWarning::NoFields => {
                f.write_str("has no headers below it, and does not share those of the next pattern")
            }
            RuleWarning::ForceInTarget { status } => write!(
                f,
                "the ! is part of the target here; to force the rule, write it after the status, \
                 as in {status}!"
            ),
            RuleWarning::StarInTarget => f.write_str(
                "the * of the target is sent as it is; write :splat for what the * of the path \
                 stands for",
            ),
            RuleWarning::ForeignMark { mark, is_in_target: true } => write!(
                f,
                "{mark} is ordinary text in a target; write :splat for what the * of the path \
                 stands for, or :name for a placeholder of the path"
            ),
            RuleWarning::ForeignMark { mark, is_in_target: false } => write!(
                f,
                "{mark} is ordinary text in a path; write * for the rest of a path (:splat in the \
                 target), or :name for one segment"
            ),
            RuleWarning::SecondValue { name, first } => write!(
                f,
                "the pattern in line {first} gives {name} to the same paths, and browsers do not \
                 accept two values; write `! {name}` above the second one to replace the first"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_a_type_is_told_from_a_copy_of_code() {
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
