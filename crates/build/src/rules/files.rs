//! Which rules files there are, and in what order they count.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

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
use crate::walk::{file_or_folder, relative};

/// Reads one file after the other, and remembers what is wrong.
pub(super) struct Reader<'s> {
    source: &'s Path,
    rules: Rules,
    /// Those of each folder.
    by_folder: BTreeMap<Deepest, Vec<Redirect>>,
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
            errors: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// A file of the folder.
    pub(super) fn of_folder(&mut self, key: &[u8]) {
        let file = relative(key);
        let (folder, name) = folder_and_name(key);
        let is_headers = rules_file(name) == Some(RulesFile::Headers);
        if is_headers && folder != b"/" {
            self.rules.warnings.push(Warning::HeadersBelowRoot(file));
            return;
        }
        let Some(text) = self.text(&file) else { return };
        if is_headers {
            self.headers(&file, &text);
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

    /// A file beside the folder: it continues the one of its kind at the root.
    pub(super) fn beside(&mut self, file: &Path, kind: RulesFile) {
        if let Err(reason) = is_file(file) {
            self.problems.push(Problem { path: file.to_owned(), reason });
            return;
        }
        let Some(text) = self.text(file) else { return };
        match kind {
            RulesFile::Headers => self.headers(file, &text),
            RulesFile::Redirects => {
                let found = self.redirects(file, b"/", &text);
                self.by_folder.entry(Deepest::of(b"/")).or_default().extend(found);
            }
        }
        let is_it = |key: &[u8]| {
            let (folder, name) = folder_and_name(key);
            folder == b"/" && rules_file(name) == Some(kind)
        };
        let known = self.rules.files.keys().find(|key| is_it(key)).cloned();
        let key = known.unwrap_or_else(|| format!("/{}", kind.name()).into_bytes().into());
        let whole_text = self.rules.files.entry(key).or_default();
        if whole_text.last().is_some_and(|&last| last != b'\n') {
            whole_text.push(b'\n');
        }
        whole_text.extend_from_slice(&text);
        if whole_text.len() as u64 > RULES_FILE_MAX_BYTES {
            let expected = format!(
                "at most {RULES_FILE_MAX_BYTES} bytes, together with the {} of the folder",
                kind.name()
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

    fn headers(&mut self, file: &Path, text: &[u8]) {
        let FieldRules { rules, elsewhere, empty } = match headers::parse(file, text) {
            Ok(found) => found,
            Err(found) => return self.errors.extend(found),
        };
        self.rules.fields.extend(rules);
        if self.rules.fields.len() > RULES_MAX {
            self.errors.push(whole(file, &format!("at most {RULES_MAX} patterns in all files")));
        }
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

    /// What a file holds; none when that cannot be told.
    fn text(&mut self, file: &Path) -> Option<Vec<u8>> {
        match read(&self.source.join(file)) {
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

/// What the walk has seen to for the files of the folder.
fn is_file(path: &Path) -> Result<(), Reason> {
    let metadata = fs::metadata(path).map_err(Reason::Unreadable)?;
    match file_or_folder(metadata)?.is_dir() {
        true => Err(Reason::Unreadable(Errno::ISDIR.into())),
        false => Ok(()),
    }
}

/// The content of a rules file; none when it is too long to be one.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Reason> {
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
