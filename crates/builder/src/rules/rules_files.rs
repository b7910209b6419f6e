//! Finds the rules files, and the order in which they count.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pinion_archive::limits::RULES_MAX;
use rustix::io::Errno;

use super::headers::{self, FieldRules};
use super::redirects::{self, Redirect};
use super::{RuleError, Rules};
use crate::error::{BuildError, FileProblem, Reason};
use crate::limits::RULES_FILE_MAX_BYTES;
use crate::rule_warning::RuleWarning;
use crate::walk::consistent_file_read::OpenSource;
use crate::walk::file_kinds_by_name::{RulesFile, rules_file};
use crate::walk::file_metadata::{FileId, file_or_folder};
use crate::walk::found_files::relative;
use crate::warning::Warning;

/// Takes one file after the other, and collects the errors.
pub(super) struct RulesCollector<'s> {
    source: &'s Path,
    /// The prefix of keys, below the source.
    content: &'s str,
    /// The files that the walk has left out of the site.
    left_out: &'s [FileId],
    rules: Rules,
    /// The redirects of each folder.
    by_folder: BTreeMap<Deepest, Vec<Redirect>>,
    /// Patterns of fields in all files, with and without fields.
    patterns: usize,
    /// Files that were taken.
    known: Vec<FileId>,
    errors: Vec<RuleError>,
    problems: Vec<FileProblem>,
}

/// A folder, before all that are less deep.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deepest(Reverse<usize>, Box<[u8]>);

impl Deepest {
    pub(super) fn of(folder: &[u8]) -> Deepest {
        Deepest(Reverse(folder.iter().filter(|&&byte| byte == b'/').count()), folder.into())
    }
}

impl<'s> RulesCollector<'s> {
    /// Makes a collector for keys below the folder `content` of the folder `source`, which was
    /// walked without the files of `left_out`.
    pub(super) fn new(
        source: &'s Path,
        content: &'s str,
        left_out: &'s [FileId],
    ) -> RulesCollector<'s> {
        RulesCollector {
            source,
            content,
            left_out,
            rules: Rules::default(),
            by_folder: BTreeMap::new(),
            patterns: 0,
            known: Vec::new(),
            errors: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Takes a file of the folder.
    pub(super) fn take_from_folder(&mut self, key: &[u8]) {
        let file = Path::new(self.content).join(relative(key));
        let (folder, name) = folder_and_name(key);
        let is_headers = rules_file(name) == Some(RulesFile::Headers);
        if is_headers && folder != b"/" {
            self.rules.warnings.push(Warning::HeadersBelowRoot(file));
            return;
        }
        let Some((id, text)) = self.content_of(&self.source.join(&file), &file) else { return };
        self.known.push(id);
        if is_headers {
            self.take_fields(&file, &text);
        } else {
            let place = Deepest::of(folder);
            if self.by_folder.contains_key(&place) {
                let expected = "no second file beside _redirects; move its lines there";
                self.errors.push(whole(&file, expected));
                return;
            }
            let found = self.redirects(&file, folder, &text);
            self.by_folder.insert(place, found);
        }
        self.rules.files.insert(key.into(), text);
    }

    /// Takes a file that the options name: it continues the one of its kind at the root.
    pub(super) fn take_named(&mut self, path: &Path, kind: RulesFile) {
        let file = marked_as_outside(path);
        if let Err(reason) = check_is_file(path) {
            self.problems.push(FileProblem { path: file, reason });
            return;
        }
        let Some((id, text)) = self.content_of(path, &file) else { return };
        // The walk left out the one that had this path before: this one may be published.
        if !self.left_out.contains(&id) {
            self.problems.push(FileProblem { path: file, reason: Reason::Changed });
            return;
        }
        if self.known.contains(&id) {
            self.errors.push(whole(&file, "another file: this one is read already; name it once"));
            return;
        }
        self.known.push(id);
        match kind {
            RulesFile::Headers => self.take_fields(&file, &text),
            RulesFile::Redirects => {
                let found = self.redirects(&file, b"/", &text);
                self.by_folder.entry(Deepest::of(b"/")).or_default().extend(found);
            }
        }
        self.keep(&file, kind, &text);
    }

    /// Adds the text to the copy of the file at the root that the archive keeps.
    fn keep(&mut self, file: &Path, kind: RulesFile, text: &[u8]) {
        let is_match = |key: &[u8]| {
            let (folder, name) = folder_and_name(key);
            folder == b"/" && rules_file(name) == Some(kind)
        };
        let known = self.rules.files.keys().find(|key| is_match(key)).cloned();
        let key = known.unwrap_or_else(|| format!("/{}", kind.name()).into_bytes().into());
        let kept = self.rules.files.entry(key).or_default();
        let needs_break = kept.last().is_some_and(|&last| last != b'\n');
        if (kept.len() + usize::from(needs_break) + text.len()) as u64 > RULES_FILE_MAX_BYTES {
            let expected =
                format!("at most {RULES_FILE_MAX_BYTES} bytes in all files of this kind together");
            self.errors.push(whole(file, &expected));
            return;
        }
        if needs_break {
            kept.push(b'\n');
        }
        kept.extend_from_slice(text);
    }

    /// Returns all rules, in their order; wrong lines are left out if `lax`.
    pub(super) fn finish(self, lax: bool) -> Result<Rules, BuildError> {
        let RulesCollector { mut rules, by_folder, mut errors, problems, .. } = self;
        rules.redirects = by_folder.into_values().flatten().collect();
        if rules.redirects.len() > RULES_MAX
            && let Some(last) = rules.redirects.last()
        {
            errors.push(whole(&last.file, &format!("at most {RULES_MAX} rules in all files")));
        }
        if !problems.is_empty() {
            return Err(BuildError::UnreadRules(problems));
        }
        errors.sort();
        rules.redirects.truncate(RULES_MAX);
        rules.fields.truncate(RULES_MAX);
        if lax {
            rules.warnings.extend(errors.into_iter().map(left_out));
        } else if !errors.is_empty() {
            return Err(BuildError::Rules(errors));
        }
        Ok(rules)
    }

    fn take_fields(&mut self, file: &Path, text: &[u8]) {
        let (found, errors) = headers::parse_lines(file, text);
        self.errors.extend(errors);
        let FieldRules { rules, other_hosts, empty } = found;
        let repeated: Vec<(usize, RuleWarning)> = headers::second_values(&rules);
        let fitted = self.patterns <= RULES_MAX;
        self.patterns += rules.len() + empty.len();
        if fitted && self.patterns > RULES_MAX {
            self.errors.push(whole(file, &format!("at most {RULES_MAX} patterns in all files")));
        }
        self.rules.fields.extend(rules);
        let warning = |line: usize, kind| {
            let file = PathBuf::from(file);
            Warning::Rule { file, line, column: 1, kind }
        };
        let other_hosts = other_hosts.iter().map(|&line| warning(line, RuleWarning::OtherHost));
        let empty = empty.iter().map(|&line| warning(line, RuleWarning::NoFields));
        let repeated = repeated.into_iter().map(|(line, kind)| warning(line, kind));
        self.rules.warnings.extend(other_hosts.chain(empty).chain(repeated));
    }

    fn redirects(&mut self, file: &Path, folder: &[u8], text: &[u8]) -> Vec<Redirect> {
        let (rules, errors) = redirects::parse_lines(file, folder, text);
        self.errors.extend(errors);
        rules
    }

    /// Returns the file at `path` and its content; `None` when it cannot be read, which is recorded
    /// for `file`.
    fn content_of(&mut self, path: &Path, file: &Path) -> Option<(FileId, Vec<u8>)> {
        match content(path) {
            Ok(Some(found)) => return Some(found),
            Ok(None) => {
                let expected = format!("a file of at most {RULES_FILE_MAX_BYTES} bytes");
                self.errors.push(whole(file, &expected));
            }
            Err(reason) => self.problems.push(FileProblem { path: file.to_owned(), reason }),
        }
        None
    }
}

/// Returns the warning about a line that is left out.
pub(super) fn left_out(error: RuleError) -> Warning {
    let RuleError { file, line, column, expected } = error;
    Warning::Rule { file, line, column, kind: RuleWarning::LeftOut { expected } }
}

/// Returns a path that no message shows as if it were below the source: `rules` becomes `./rules`.
/// The way back is [`path_on_disk`].
fn marked_as_outside(path: &Path) -> PathBuf {
    match path.components().next() {
        Some(Component::Normal(_)) => Path::new(".").join(path),
        _ => path.to_owned(),
    }
}

/// Returns the path on disk of the file of a [`FileProblem`], [`RuleError`] or [`Warning`]: a path
/// relative to the built folder is joined with `source`.
pub fn path_on_disk(source: &Path, reported: &Path) -> PathBuf {
    match reported.components().next() {
        Some(Component::Normal(_)) => source.join(reported),
        _ => reported.to_owned(),
    }
}

/// Checks that the path is a file, as the walk does for the files of the folder.
fn check_is_file(path: &Path) -> Result<(), Reason> {
    let metadata = fs::metadata(path).map_err(Reason::Unreadable)?;
    if file_or_folder(metadata)?.is_dir() {
        Err(Reason::Unreadable(Errno::ISDIR.into()))
    } else {
        Ok(())
    }
}

/// Returns a rules file and its content; `None` when it is too long to be one.
fn content(path: &Path) -> Result<Option<(FileId, Vec<u8>)>, Reason> {
    let open = OpenSource::open(path)?;
    let stamp = open.stamp();
    if stamp.bytes > RULES_FILE_MAX_BYTES {
        return Ok(None);
    }
    Ok(Some(((stamp.device, stamp.inode), open.read()?)))
}

/// Returns an error about a file as a whole.
fn whole(file: &Path, expected: &str) -> RuleError {
    RuleError { file: file.to_owned(), line: 1, column: 1, expected: expected.to_owned() }
}

/// Returns a key cut after its last slash.
pub(super) fn folder_and_name(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at(key.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_named_rules_files_map_back_to_the_disk() {
        let source = Path::new("site");
        for (named, same) in [
            ("rules", "./rules"),
            ("./rules", "./rules"),
            ("../rules", "../rules"),
            ("/etc/rules", "/etc/rules"),
        ] {
            assert_eq!(path_on_disk(source, &marked_as_outside(Path::new(named))), Path::new(same));
        }
        assert_eq!(path_on_disk(source, Path::new("b/_redirects")), Path::new("site/b/_redirects"));
    }

    /// An editor renames a new file over the old one, which the walk has left out of the site.
    #[test]
    fn a_rules_file_created_after_the_walk_is_an_error() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let mut files = RulesCollector::new(Path::new("site"), "", &[]);
        files.take_named(&path, RulesFile::Redirects);
        let Err(BuildError::UnreadRules(problems)) = files.finish(false) else { panic!("read") };
        let [FileProblem { reason: Reason::Changed, .. }] = &*problems else {
            panic!("{problems:?}")
        };
    }
}
