//! The kinds of files that their names show: rules files, code, files that editors leave behind.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pinion_template::file_name::{Kind, kind};

use crate::temporary_file::draft_of;

/// A file with rules for the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RulesFile {
    /// `_redirects`
    Redirects,
    /// `_headers`
    Headers,
}

impl RulesFile {
    /// Returns the name of such a file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RulesFile::Redirects => "_redirects",
            RulesFile::Headers => "_headers",
        }
    }
}

/// Returns the kind of rules file with exactly this name.
pub(crate) fn rules_file(name: &[u8]) -> Option<RulesFile> {
    match name {
        b"_redirects" | b"_redirects.txt" => Some(RulesFile::Redirects),
        b"_headers" => Some(RulesFile::Headers),
        _ => None,
    }
}

/// Exact names that are left out.
const SKIP_NAMES: [&[u8]; 2] = [b"Thumbs.db", b".DS_Store"];
/// Endings that are left out.
const SKIP_SUFFIXES: [&[u8]; 5] = [b"~", b".log", b".tmp", b".temp", b".lock"];
/// The one hidden name that is part of a site (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";
/// Exact names that are never resources.
const SPECIAL_NAMES: [&[u8]; 4] = [b"_redirects", b"_redirects.txt", b"_headers", b"pinion.toml"];
/// Parts of names that are never resources.
const SPECIAL_INFIXES: [&[u8]; 2] = [b".dyn.", b".priv."];
/// An ending that is never a resource.
const SPECIAL_SUFFIX: &[u8] = b".lua";

/// Endings of the sources of scripts that other servers run, such as PHP-FPM: a reader finds
/// passwords and mistakes in them.
const SCRIPT_SUFFIXES: [&[u8]; 6] = [b".php", b".phtml", b".phar", b".phps", b".cgi", b".fcgi"];
/// Words that people and editors append to the name of a script that they copy.
const COPY_WORDS: [&[u8]; 8] =
    [b"bak", b"backup", b"copy", b"dist", b"old", b"orig", b"save", b"swp"];

/// Returns the texts that patterns are matched against: the path below the source, and its last
/// name.
pub(crate) fn path_and_name(key: &[u8]) -> (&[u8], &[u8]) {
    let path = key.get(1..).unwrap_or_default();
    (path, path.rsplit(|&byte| byte == b'/').next().unwrap_or_default())
}

/// Returns whether a name is special, without regard to case: a secret must not become public
/// because its name was shouted. Folders too: nothing below them becomes a resource.
pub(crate) fn is_special(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    SPECIAL_NAMES.contains(&name.as_slice())
        || name.ends_with(SPECIAL_SUFFIX)
        || SPECIAL_INFIXES.iter().any(|&infix| contains(&name, infix))
}

/// Returns whether a file with this name is code, if its site is dynamic. As for special names,
/// case does not matter, but hidden files and leftovers are no code.
pub(crate) fn is_code(name: &[u8]) -> bool {
    kind(name).is_some_and(|kind| kind != Kind::Copy) && !is_leftover(name)
}

/// Returns whether code of this name is a page with Lua in it.
pub(crate) fn is_page(name: &[u8]) -> bool {
    is_code(name) && kind(name) == Some(Kind::Page)
}

/// Returns whether code of this name is a script.
pub(crate) fn is_script(name: &[u8]) -> bool {
    is_code(name) && kind(name) == Some(Kind::Script)
}

/// Returns whether a file may have, by its name, the text of code, and is none.
pub(crate) fn is_copy_of_code(name: &[u8]) -> bool {
    kind(name) == Some(Kind::Copy)
}

/// Returns whether a name is that of a hidden file, or of a file that editors and systems leave
/// behind.
pub(crate) fn is_leftover(name: &[u8]) -> bool {
    (name.first() == Some(&b'.') && name != WELL_KNOWN)
        || is_autosave(name)
        || SKIP_NAMES.contains(&name)
        || SKIP_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Returns whether a name is that of a script that another server runs, or of a copy of one
/// (`config.php.bak`). Without regard to case, as scripts may come from systems without it.
#[must_use]
pub fn is_script_source(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_script = |name: &[u8]| SCRIPT_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    let word = name.rsplit(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_number = word.iter().all(u8::is_ascii_digit);
    let front = name.strip_suffix(word).and_then(|front| front.split_last());
    let is_copy = (is_number || COPY_WORDS.contains(&word))
        && front.is_some_and(|(_, front)| is_script(front));
    // `.php5` is PHP, too.
    let version = name.split_last().filter(|(last, _)| last.is_ascii_digit());
    is_script(version.map_or(&name, |(_, front)| front)) || is_copy
}

/// Returns whether a file has a name that Emacs gives to files that it saves automatically:
/// `#name#`.
fn is_autosave(name: &[u8]) -> bool {
    name.len() > 1 && name.starts_with(b"#") && name.ends_with(b"#")
}

pub(crate) fn is_draft(name: &[u8]) -> bool {
    draft_of(OsStr::from_bytes(name)).is_some()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
