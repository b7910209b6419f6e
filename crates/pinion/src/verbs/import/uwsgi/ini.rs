//! The dialect of ini files that uWSGI reads: a line is `name = value` without quotes or escapes,
//! a name may be there several times, and `%` begins a placeholder.

use super::super::configuration_draft::{DraftTable, named};
use super::super::limits::SECTION_DEPTH_MAX;
use super::options::{OptionUse, option_use};
use super::placeholders::{Missing, Placeholders};
use std::collections::BTreeSet;
use std::path::Path;

/// The section that is read unless another one is named.
const SECTION: &str = "uwsgi";

/// An option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IniOption {
    pub(super) name: String,
    /// The value with its placeholders replaced.
    pub(super) value: String,
    /// The number of the line, from 1.
    pub(super) line: usize,
}

/// The words that begin a part that applies under a condition or several times, and the words that
/// end it.
const BLOCK_STARTS: [&str; 2] = ["for-", "if-"];
const BLOCK_ENDS: [&str; 4] = ["endfor", "endif", "end-for", "end-if"];

/// A section of the file, with its options as they are written.
struct IniSection {
    name: String,
    line: usize,
    options: Vec<IniOption>,
}

/// Returns the options of a section, `[uwsgi]` if none is named. Notes about unreadable parts are
/// added to `notes`.
///
/// # Errors
/// The file has a zero byte, so it is another kind of file, or it does not have the section.
pub(super) fn options(
    text: &str,
    file: &Path,
    section: Option<&str>,
    notes: &mut DraftTable,
) -> Result<Vec<IniOption>, String> {
    if let Some(line) = text.split('\n').position(|line| line.contains('\0')) {
        return Err(format!("has a zero byte in line {}", line + 1));
    }
    let raw = raw_options(text, file, section.unwrap_or(SECTION), notes)?;
    let mut placeholders = Placeholders::of(file, section);
    for IniOption { name, value, .. } in &raw {
        placeholders.later(name, value);
    }
    let used = placeholders_used(&raw);
    let mut options = Vec::new();
    for IniOption { name, value, line } in raw {
        let how = option_use(&name);
        let value = match placeholders.replace(&value) {
            Ok(replaced) => {
                if value.contains("%k") {
                    let message = format!("{name}: %k is the number of cores of this machine");
                    notes.leave_out(line.to_string(), message);
                }
                replaced
            }
            // An option that is not carried over needs no value.
            Err(Missing { .. }) if matches!(how, OptionUse::NotNeeded | OptionUse::LeftOut(_)) => {
                value
            }
            Err(Missing { why, rest }) => {
                notes.leave_out(line.to_string(), format!("{}: {why}", named(&name)));
                let Some(value) = rest else { continue };
                value
            }
        };
        let set = ["set", "set-placeholder", "set-ph"].contains(&name.as_str());
        if let Some((name, value)) = value.split_once('=').filter(|_| set) {
            placeholders.insert(name, value);
            continue;
        }
        placeholders.insert(&name, &value);
        // A name that only placeholders use is no option.
        let is_variable = used.contains(&name) && how == OptionUse::Unknown;
        if !is_variable {
            options.push(IniOption { name, value, line });
        }
    }
    Ok(options)
}

/// Returns the options of a section as they are written, those of other sections of the file in the
/// place of the `ini = :NAME` that names them.
fn raw_options(
    text: &str,
    file: &Path,
    section: &str,
    notes: &mut DraftTable,
) -> Result<Vec<IniOption>, String> {
    let sections = sections(text, notes);
    if !sections.iter().any(|known| known.name == section) {
        return Err(format!("has no section [{}]", named(section)));
    }
    let mut read = BTreeSet::new();
    let mut options = Vec::new();
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    of_section(&sections, section, &file, 0, &mut options, &mut read);
    for IniSection { name, line, .. } in sections.iter().filter(|known| !read.contains(&known.name))
    {
        let message = format!(
            "the section [{0}] was not carried; import it with pinion import {1}:{0}",
            named(name),
            named(&file)
        );
        notes.leave_out(line.to_string(), message);
    }
    Ok(options)
}

/// Adds the options of a section, with those of the sections that it names.
fn of_section(
    sections: &[IniSection],
    name: &str,
    file: &str,
    depth: usize,
    options: &mut Vec<IniOption>,
    read: &mut BTreeSet<String>,
) {
    read.insert(name.to_owned());
    let own = sections.iter().filter(|section| section.name == name);
    for option in own.flat_map(|section| &section.options) {
        let other = option.value.rsplit_once(':').filter(|(of, _)| {
            ["ini", "include", "inherit"].contains(&option.name.as_str())
                && (of.is_empty() || *of == file)
        });
        let other = other.map(|(_, other)| if other.is_empty() { SECTION } else { other });
        // A section that names itself is read once: it would have no end.
        match other.filter(|other| sections.iter().any(|section| section.name == *other)) {
            Some(other) if depth < SECTION_DEPTH_MAX && !read.contains(other) => {
                of_section(sections, other, file, depth + 1, options, read);
            }
            Some(other) if read.contains(other) => {}
            _ => options.push(option.clone()),
        }
    }
}

/// Reads all sections; lines before the first one belong to none.
fn sections(text: &str, notes: &mut DraftTable) -> Vec<IniSection> {
    let (mut sections, mut block): (Vec<IniSection>, bool) = (Vec::new(), false);
    for (number, line) in text.split('\n').enumerate() {
        let line = line.trim_matches([' ', '\t', '\r']);
        let at = number + 1;
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            // The last character is taken for the bracket, in any case.
            let mut name = name.chars();
            name.next_back();
            let name = name.as_str().to_owned();
            sections.push(IniSection { name, line: at, options: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let name = name.trim_end_matches([' ', '\t', '\r']);
        let value = value.trim_start_matches([' ', '\t', '\r']);
        if BLOCK_ENDS.contains(&name) {
            block = false;
            continue;
        }
        if name == "for" || BLOCK_STARTS.iter().any(|start| name.starts_with(start)) {
            block = true;
            let message = format!("{name} = {} to its end was not carried", named(value));
            notes.leave_out(at.to_string(), message);
        }
        if !block {
            let (name, value) = (name.to_owned(), value.to_owned());
            section.options.push(IniOption { name, value, line: at });
        }
    }
    sections
}

/// Returns the names in all `%(name)`.
fn placeholders_used(options: &[IniOption]) -> BTreeSet<String> {
    let parts = options.iter().flat_map(|option| option.value.split("%(").skip(1));
    parts.filter_map(|part| Some(part.split_once(')')?.0.to_owned())).collect()
}
