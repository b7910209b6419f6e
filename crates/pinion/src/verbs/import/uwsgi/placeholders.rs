//! Placeholders in values: `%n` for a part of the name of the file, `%(name)` for the value of
//! another option.

use super::super::limits::EXPANDED_MAX_BYTES;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::thread;

/// The known placeholders when a line is read.
pub(super) struct Placeholders {
    /// `%n` and others of one letter.
    letters: BTreeMap<char, String>,
    /// `%(name)`: the options before.
    named: BTreeMap<String, String>,
    /// `%(name)`: all options with a plain value, also those that come later.
    later: BTreeMap<String, String>,
}

/// Why a value could not be replaced.
pub(super) struct Missing {
    /// A phrase that follows the name of the option.
    pub(super) why: String,
    /// A value that can be used in spite of it.
    pub(super) rest: Option<String>,
}

impl Missing {
    fn new(why: String) -> Self {
        Self { why, rest: None }
    }
}

/// Letters that only uWSGI knows when it starts, and their meanings.
const UNKNOWN: [(char, &str); 17] = [
    ('u', "the number of the user that starts uWSGI"),
    ('U', "the name of the user that starts uWSGI"),
    ('g', "the number of the group that starts uWSGI"),
    ('G', "the name of the group that starts uWSGI"),
    ('h', "the name of the machine"),
    ('v', "the folder where uWSGI is started"),
    ('o', "the file as it was given to uWSGI"),
    ('O', "the file as it was given to uWSGI"),
    ('t', "the time of the start"),
    ('T', "the time of the start"),
    ('V', "the version of uWSGI"),
    ('b', "the program of uWSGI"),
    ('i', "the inode of the file"),
    ('I', "the inode of the file"),
    ('j', "a digest of the path of the file"),
    ('J', "a digest of the path of the file"),
    ('[', "the beginning of a colour in a terminal"),
];

impl Placeholders {
    /// Returns the placeholders of the path of a file, and of the section that was asked for.
    pub(super) fn of(file: &Path, section: Option<&str>) -> Self {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let folder = file.parent().unwrap_or(Path::new("/"));
        let shown = folder.to_string_lossy();
        let mut letters = BTreeMap::new();
        // Capital letters are about the first file, which is the only one here.
        for (small, capital, value) in [
            ('p', 'P', file.to_string_lossy().into_owned()),
            ('s', 'S', text(file.file_name())),
            ('n', 'N', text(file.file_stem())),
            ('e', 'E', text(file.extension())),
            ('c', 'C', text(folder.file_name())),
            ('d', 'D', format!("{}/", shown.trim_end_matches('/'))),
            ('x', 'X', section.unwrap_or_default().to_owned()),
        ] {
            letters.insert(capital, value.clone());
            letters.insert(small, value);
        }
        let parts = folder.components().filter(|part| matches!(part, Component::Normal(_)));
        let mut parts = parts.map(|part| part.as_os_str().to_string_lossy().into_owned());
        for digit in '0'..='9' {
            letters.insert(digit, parts.next().unwrap_or_default());
        }
        letters.insert('%', "%".to_owned());
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        letters.insert('k', cores.to_string());
        Self { letters, named: BTreeMap::new(), later: BTreeMap::new() }
    }

    /// Adds an option that has been read.
    pub(super) fn insert(&mut self, name: &str, value: &str) {
        self.named.insert(name.to_owned(), value.to_owned());
    }

    /// Adds an option that may be read later. The first one of a name counts.
    pub(super) fn later(&mut self, name: &str, value: &str) {
        if !value.contains(['%', '$', '@']) {
            self.later.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }

    /// Replaces the placeholders of a value.
    ///
    /// # Errors
    /// One is not known here, or the value is too long.
    pub(super) fn replace(&self, value: &str) -> Result<String, Missing> {
        for (open, source) in [("$(", "variables of the environment"), ("@(", "contents of files")]
        {
            if value.contains(open) {
                return Err(Missing::new(format!("{source} were not carried: write the value")));
            }
        }
        let mut replaced = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once('%') {
            replaced.push_str(before);
            if after.is_empty() {
                replaced.push('%');
                let why =
                    "uWSGI takes the next line for a part of this value, since it ends in %; \
                           here it ends there"
                        .to_owned();
                return Err(Missing { why, rest: Some(replaced) });
            }
            let (text, behind) = self.value(after)?;
            replaced.push_str(text);
            rest = behind;
            if replaced.len() > EXPANDED_MAX_BYTES {
                break;
            }
        }
        replaced.push_str(rest);
        if replaced.len() > EXPANDED_MAX_BYTES {
            Err(Missing::new(format!(
                "is longer than {EXPANDED_MAX_BYTES} bytes, and was not carried"
            )))
        } else {
            Ok(replaced)
        }
    }

    /// Returns the value of the placeholder that a text begins with, and the rest of the text.
    fn value<'v>(&'v self, after: &'v str) -> Result<(&'v str, &'v str), Missing> {
        if let Some((name, behind)) = after.strip_prefix('(').and_then(|rest| rest.split_once(')'))
        {
            let value = self.named.get(name).or_else(|| self.later.get(name));
            let value = value.ok_or_else(|| {
                Missing::new(format!(
                    "the placeholder %({}) was not carried: there is no option of that name with \
                     a plain value; write the value",
                    super::super::configuration_draft::named(name)
                ))
            })?;
            return Ok((value, behind));
        }
        let letter = after.chars().next().unwrap_or('%');
        let behind = &after[letter.len_utf8()..];
        if let Some(value) = self.letters.get(&letter) {
            return Ok((value, behind));
        }
        let meaning = UNKNOWN.iter().find(|(known, _)| *known == letter);
        Err(Missing::new(match meaning {
            Some((_, meaning)) => {
                format!("the placeholder %{letter} was not carried: it is {meaning}; write it")
            }
            None => format!(
                "the placeholder %{letter} was not carried: uWSGI has none of that letter; for a \
                 percent sign write %%"
            ),
        }))
    }
}
