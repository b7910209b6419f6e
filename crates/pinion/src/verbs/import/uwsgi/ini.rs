//! The dialect of ini files that uWSGI reads: a line is `name = value` without quotes or escapes,
//! a name may be there several times, and `%` begins a placeholder.

use super::super::draft::{DraftTable, named};
use super::super::limits::EXPANDED_MAX_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// An option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IniOption {
    pub(super) name: String,
    /// With its placeholders replaced.
    pub(super) value: String,
    /// From 1.
    pub(super) line: usize,
}

/// What begins a part that applies under a condition or several times, and what ends it.
const BLOCK_ENDS: [&str; 2] = ["endfor", "endif"];

/// Returns the options of the section `[uwsgi]`. What cannot be read is added to `notes`.
///
/// # Errors
/// The file has a zero byte, so it is another kind of file.
pub(super) fn options(
    text: &str,
    file: &Path,
    notes: &mut DraftTable,
) -> Result<Vec<IniOption>, String> {
    if let Some(line) = text.split('\n').position(|line| line.contains('\0')) {
        return Err(format!("has a zero byte in line {}", line + 1));
    }
    let raw = raw_options(text, notes);
    let mut placeholders = Placeholders::of(file);
    let used = placeholders_used(&raw);
    let mut options = Vec::new();
    for IniOption { name, value, line } in raw {
        let value = match placeholders.replace(&value) {
            Ok(value) => value,
            Err(why) => {
                notes.leave_out(line.to_string(), format!("{}: {why}", named(&name)));
                continue;
            }
        };
        let set = ["set", "set-placeholder", "set-ph"].contains(&name.as_str());
        if let Some((name, value)) = value.split_once('=').filter(|_| set) {
            placeholders.named.insert(name.to_owned(), value.to_owned());
            continue;
        }
        placeholders.named.insert(name.clone(), value.clone());
        // A name that only placeholders use is no option.
        let is_variable = used.contains(&name)
            && matches!(super::options::option_use(&name), super::OptionUse::Unknown);
        if !is_variable {
            options.push(IniOption { name, value, line });
        }
    }
    Ok(options)
}

/// Returns the options as they are written.
fn raw_options(text: &str, notes: &mut DraftTable) -> Vec<IniOption> {
    let (mut options, mut section, mut block) = (Vec::new(), String::new(), false);
    for (number, line) in text.split('\n').enumerate() {
        let line = line.trim_matches([' ', '\t', '\r']);
        let at = number + 1;
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            // The last character is taken for the bracket, whatever it is.
            let mut name = name.chars();
            name.next_back();
            name.as_str().clone_into(&mut section);
            if section != "uwsgi" {
                let message = format!("the section {} was not carried", named(line));
                notes.leave_out(at.to_string(), message);
            }
            continue;
        }
        if section != "uwsgi" {
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let name = name.trim_end_matches([' ', '\t', '\r']);
        let value = value.trim_start_matches([' ', '\t', '\r']);
        if BLOCK_ENDS.contains(&name) {
            block = false;
            continue;
        }
        if name == "for" || name.starts_with("if-") {
            block = true;
            let message = format!("{name} = {} to its end was not carried", named(value));
            notes.leave_out(at.to_string(), message);
        }
        if !block {
            options.push(IniOption { name: name.to_owned(), value: value.to_owned(), line: at });
        }
    }
    options
}

/// Returns the names in all `%(name)`.
fn placeholders_used(options: &[IniOption]) -> BTreeSet<String> {
    let parts = options.iter().flat_map(|option| option.value.split("%(").skip(1));
    parts.filter_map(|part| Some(part.split_once(')')?.0.to_owned())).collect()
}

struct Placeholders {
    /// `%n` and others of one letter.
    letters: BTreeMap<char, String>,
    /// `%(name)`: the options before.
    named: BTreeMap<String, String>,
}

impl Placeholders {
    /// Those that the path of a file says.
    fn of(file: &Path) -> Self {
        let text = |part: Option<&std::ffi::OsStr>| {
            part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let folder = file.parent().unwrap_or(Path::new("/"));
        let shown = folder.to_string_lossy();
        let letters = BTreeMap::from([
            ('p', file.to_string_lossy().into_owned()),
            ('s', text(file.file_name())),
            ('n', text(file.file_stem())),
            ('e', text(file.extension())),
            ('c', text(folder.file_name())),
            ('d', format!("{}/", shown.trim_end_matches('/'))),
            ('%', "%".to_owned()),
        ]);
        Self { letters, named: BTreeMap::new() }
    }

    /// Replaces the placeholders of a value.
    ///
    /// # Errors
    /// A phrase: one is not known here, or the value is too long.
    fn replace(&self, value: &str) -> Result<String, String> {
        for (open, what) in [("$(", "variables of the environment"), ("@(", "contents of files")] {
            if value.contains(open) {
                return Err(format!("{what} were not carried: write the value"));
            }
        }
        let mut replaced = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once('%') {
            replaced.push_str(before);
            let (text, behind) = match after.strip_prefix('(').and_then(|rest| rest.split_once(')'))
            {
                Some((name, behind)) => (self.named.get(name), behind),
                None => {
                    let mut letters = after.chars();
                    let letter = letters.next();
                    (letter.and_then(|letter| self.letters.get(&letter)), letters.as_str())
                }
            };
            let Some(text) = text else {
                let shown: String = after.chars().take(12).collect();
                return Err(format!("the placeholder %{shown} was not carried: write the value"));
            };
            replaced.push_str(text);
            rest = behind;
            if replaced.len() > EXPANDED_MAX_BYTES {
                break;
            }
        }
        replaced.push_str(rest);
        match replaced.len() > EXPANDED_MAX_BYTES {
            true => Err(format!("is longer than {EXPANDED_MAX_BYTES} bytes, and was not carried")),
            false => Ok(replaced),
        }
    }
}
