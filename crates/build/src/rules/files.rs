//! Which rules files there are, and in what order they count.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pinion_archive::limits::RULES_MAX;
use rustix::io::Errno;

use super::headers::{self, FieldRules};
use super::redirects::{self, Redirect};
use super::{RuleError, Rules};
use crate::error::{BuildError, Problem, Reason};
use crate::limits::RULES_FILE_MAX_BYTES;
use crate::names::{RulesFile, rules_file};
use crate::source::Source;
use crate::summary::{RuleDoubt, Warning};
use crate::walk::{FileId, file_or_folder, id_of, relative};

/// Reads one file after the other, and remembers what is wrong.
pub(super) struct Reader<'s> {
    source: &'s Path,
    rules: Rules,
    /// Those of each folder.
    by_folder: BTreeMap<Deepest, Vec<Redirect>>,
    /// Patterns of fields in all files, with and without fields.
    patterns: usize,
    /// Files that were read.
    known: Vec<FileId>,
    errors: Vec<RuleError>,
    problems: Vec<Problem>,
}

/// A folder, before all that are less deep.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Deepest(Reverse<usize>, Box<[u8]>);

impl Deepest {
    fn of(folder: &[u8]) -> Deepest {
        Deepest(Reverse(folder.iter().filter(|&&byte| byte == b'/').count()), folder.into())
    }
}

impl<'s> Reader<'s> {
    /// For the folder `source`.
    pub(super) fn new(source: &'s Path) -> Reader<'s> {
        Reader {
            source,
            rules: Rules::default(),
            by_folder: BTreeMap::new(),
            patterns: 0,
            known: Vec::new(),
            errors: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Reads a file of the folder.
    pub(super) fn read_own(&mut self, key: &[u8]) {
        let file = relative(key);
        let (folder, name) = folder_and_name(key);
        let is_headers = rules_file(name) == Some(RulesFile::Headers);
        if is_headers && folder != b"/" {
            self.rules.warnings.push(Warning::HeadersBelowRoot(file));
            return;
        }
        let path = self.source.join(&file);
        let Some(text) = self.read(&path, &file) else { return };
        self.known.extend(id_of(&path));
        if is_headers {
            self.take_fields(&file, &text);
        } else {
            let place = Deepest::of(folder);
            if self.by_folder.contains_key(&place) {
                self.errors.push(whole(&file, "no second file beside _redirects"));
                return;
            }
            let found = self.redirects(&file, folder, &text);
            self.by_folder.insert(place, found);
        }
        self.rules.files.insert(key.into(), text);
    }

    /// Reads a file that the options name: it continues the one of its kind at the root.
    pub(super) fn read_further(&mut self, path: &Path, kind: RulesFile) {
        let file = told_apart(path);
        if let Err(reason) = is_file(path) {
            self.problems.push(Problem { path: file, reason });
            return;
        }
        let Some(text) = self.read(path, &file) else { return };
        let id = id_of(path);
        if id.is_some_and(|id| self.known.contains(&id)) {
            self.errors.push(whole(&file, "another file: this one is read already"));
            return;
        }
        self.known.extend(id);
        match kind {
            RulesFile::Headers => self.take_fields(&file, &text),
            RulesFile::Redirects => {
                let found = self.redirects(&file, b"/", &text);
                self.by_folder.entry(Deepest::of(b"/")).or_default().extend(found);
            }
        }
        self.keep(&file, kind, &text);
    }

    /// Adds the text to what the archive keeps of the file at the root.
    fn keep(&mut self, file: &Path, kind: RulesFile, text: &[u8]) {
        let is_it = |key: &[u8]| {
            let (folder, name) = folder_and_name(key);
            folder == b"/" && rules_file(name) == Some(kind)
        };
        let known = self.rules.files.keys().find(|key| is_it(key)).cloned();
        let key = known.unwrap_or_else(|| format!("/{}", kind.name()).into_bytes().into());
        let kept = self.rules.files.entry(key).or_default();
        if kept.last().is_some_and(|&last| last != b'\n') {
            kept.push(b'\n');
        }
        kept.extend_from_slice(text);
        if kept.len() as u64 > RULES_FILE_MAX_BYTES {
            let expected = format!(
                "at most {RULES_FILE_MAX_BYTES} bytes in all files of this kind, which are kept \
                 as one"
            );
            self.errors.push(whole(file, &expected));
        }
    }

    /// All of it, in its order.
    pub(super) fn finish(self) -> Result<Rules, BuildError> {
        let Reader { mut rules, by_folder, mut errors, problems, .. } = self;
        rules.redirects = by_folder.into_values().flatten().collect();
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
        Ok(rules)
    }

    fn take_fields(&mut self, file: &Path, text: &[u8]) {
        let FieldRules { rules, elsewhere, empty } = match headers::parse(file, text) {
            Ok(found) => found,
            Err(found) => return self.errors.extend(found),
        };
        let fitted = self.patterns <= RULES_MAX;
        self.patterns += rules.len() + empty.len();
        if fitted && self.patterns > RULES_MAX {
            self.errors.push(whole(file, &format!("at most {RULES_MAX} patterns in all files")));
        }
        self.rules.fields.extend(rules);
        let warning = |line: usize, doubt| Warning::Rule { file: PathBuf::from(file), line, doubt };
        let elsewhere = elsewhere.iter().map(|&line| warning(line, RuleDoubt::OtherHost));
        let empty = empty.iter().map(|&line| warning(line, RuleDoubt::NoFields));
        self.rules.warnings.extend(elsewhere.chain(empty));
    }

    fn redirects(&mut self, file: &Path, folder: &[u8], text: &[u8]) -> Vec<Redirect> {
        redirects::parse(file, folder, text).unwrap_or_else(|found| {
            self.errors.extend(found);
            Vec::new()
        })
    }

    /// What is at `path`; none when that cannot be told, which is noted of `file`.
    fn read(&mut self, path: &Path, file: &Path) -> Option<Vec<u8>> {
        match content(path) {
            Ok(Some(text)) => return Some(text),
            Ok(None) => {
                let expected = format!("a file of at most {RULES_FILE_MAX_BYTES} bytes");
                self.errors.push(whole(file, &expected));
            }
            Err(reason) => self.problems.push(Problem { path: file.to_owned(), reason }),
        }
        None
    }
}

/// A path that no message shows as if it were below the source: `rules` becomes `./rules`.
fn told_apart(path: &Path) -> PathBuf {
    match path.components().next() {
        Some(Component::Normal(_)) => Path::new(".").join(path),
        _ => path.to_owned(),
    }
}

/// What the walk has seen to for the files of the folder.
fn is_file(path: &Path) -> Result<(), Reason> {
    let metadata = fs::metadata(path).map_err(Reason::Unreadable)?;
    match file_or_folder(metadata)?.is_dir() {
        true => Err(Reason::Unreadable(Errno::ISDIR.into())),
        false => Ok(()),
    }
}

/// The content of a rules file; none when it is too long to be one.
fn content(path: &Path) -> Result<Option<Vec<u8>>, Reason> {
    let open = Source::open(path)?;
    if open.stamp().bytes > RULES_FILE_MAX_BYTES {
        return Ok(None);
    }
    open.read().map(Some)
}

/// An error about a file as a whole.
fn whole(file: &Path, expected: &str) -> RuleError {
    RuleError { file: file.to_owned(), line: 1, column: 1, expected: expected.to_owned() }
}

/// A key cut behind its last slash.
fn folder_and_name(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at(key.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}
