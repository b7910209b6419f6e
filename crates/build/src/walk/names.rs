//! Decisions by name before anything is read: left out, never a resource, or taken.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use pinion_template::name::{Kind, MAIN, kind};

use crate::compat_80s::is_page_below_static;
use crate::draft_file::draft_of;
use crate::error::BuildError;
use crate::options::Options;
use crate::url_plan;

#[cfg(any(test, fuzzing))]
pub(crate) mod oracle;
#[cfg(test)]
mod tests;

/// The decision about a file or folder with a certain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileVerdict {
    /// The file or folder is used.
    Take,
    /// Left out without a word: editors' and systems' leftovers, hidden files, excluded ones.
    Skip,
    /// It is for the server's own use; never a resource.
    Special,
}

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

/// The names that a build leaves out: the fixed rules, and the patterns of its options.
pub struct NameFilter {
    exclude: Globs,
    include: Globs,
    /// The keys of folders that are read for each request, as in
    /// [`Options::live`](crate::Options::live); empty for the source itself.
    live: Vec<Box<[u8]>>,
}

/// Patterns of files: one without a slash is held against names, one with a slash against paths.
pub struct Globs {
    by_name: Patterns,
    by_path: Patterns,
}

/// Patterns of one kind.
struct Patterns {
    set: GlobSet,
    /// The patterns as they were given, in the order of the set, and whether they have matched
    /// anything.
    given: Vec<(String, AtomicBool)>,
}

impl Patterns {
    fn is_match(&self, bytes: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(bytes));
        if !self.set.is_match(path) {
            return false;
        }
        for (_, used) in self.set.matches(path).iter().filter_map(|&rank| self.given.get(rank)) {
            used.store(true, Ordering::Relaxed);
        }
        true
    }
}

impl Globs {
    /// # Errors
    /// [`BuildError::Glob`] for a pattern that is none.
    pub fn new(patterns: &[String]) -> Result<Globs, BuildError> {
        Globs::of("exclude", patterns)
    }

    /// Works like [`Globs::new`], for the patterns of an option: an error names it.
    pub(crate) fn of(option: &'static str, patterns: &[String]) -> Result<Globs, BuildError> {
        let wrong = |what| BuildError::Glob { option, what };
        let (mut by_name, mut by_path) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let glob = glob_of(pattern).map_err(wrong)?;
            let patterns = if is_of_paths(pattern) { &mut by_path } else { &mut by_name };
            patterns.push((pattern.clone(), glob));
        }
        let [by_name, by_path] = [by_name, by_path].map(set_of);
        Ok(Globs { by_name: by_name.map_err(wrong)?, by_path: by_path.map_err(wrong)? })
    }

    /// Returns a set without patterns.
    pub(crate) fn none() -> Globs {
        let none = || Patterns { set: GlobSet::empty(), given: Vec::new() };
        Globs { by_name: none(), by_path: none() }
    }

    /// Returns whether one of them matches the file at `key`, a path with a slash in front.
    pub(crate) fn is_match(&self, key: &[u8]) -> bool {
        let (path, name) = path_and_name(key);
        let by_name = self.by_name.is_match(name);
        self.by_path.is_match(path) || by_name
    }

    /// Returns the patterns that have matched nothing so far, as they were given.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &str> {
        let given = self.by_name.given.iter().chain(&self.by_path.given);
        let unused = given.filter(|(_, used)| !used.load(Ordering::Relaxed));
        unused.map(|(pattern, _)| pattern.as_str())
    }
}

impl NameFilter {
    /// Returns the names with these patterns, as in [`Options::exclude`](crate::Options::exclude)
    /// and [`Options::include`](crate::Options::include).
    ///
    /// # Errors
    /// [`BuildError::Glob`] for a pattern that is none.
    pub fn new(exclude: &[String], include: &[String]) -> Result<NameFilter, BuildError> {
        let (exclude, include) = (Globs::of("exclude", exclude)?, Globs::of("include", include)?);
        Ok(NameFilter { exclude, include, live: Vec::new() })
    }

    /// Returns the names of a build.
    pub(crate) fn of(options: &Options) -> Result<NameFilter, BuildError> {
        let names = NameFilter::new(&options.exclude, &options.include)?;
        Ok(names.without_live(&options.live))
    }

    /// Leaves out folders that are read for each request, as in
    /// [`Options::live`](crate::Options::live).
    #[must_use]
    pub fn without_live(self, folders: &[String]) -> NameFilter {
        let key = |folder: &String| match folder.as_str() {
            "" => Box::default(),
            path => format!("/{path}").into_bytes().into(),
        };
        NameFilter { live: folders.iter().map(key).collect(), ..self }
    }

    /// Returns the fixed rules, and patterns of [`Options::include`](crate::Options::include).
    /// Invalid ones are left out.
    pub(crate) fn including(patterns: &[String]) -> NameFilter {
        let are_good = |pattern: &&String| glob_of(pattern).is_ok();
        let patterns: Vec<String> = patterns.iter().filter(are_good).cloned().collect();
        let include = Globs::of("include", &patterns).unwrap_or_else(|_| Globs::none());
        NameFilter { exclude: Globs::none(), include, live: Vec::new() }
    }

    /// Returns whether the options leave out the file at `key`: a pattern of
    /// [`Options::exclude`](crate::Options::exclude), or because it is read for each request.
    pub(crate) fn excludes(&self, key: &[u8]) -> bool {
        self.exclude.is_match(key) || self.is_live(key)
    }

    /// Returns whether a pattern of [`Options::include`](crate::Options::include) publishes the
    /// file at `path`, below the source.
    pub fn includes(&self, path: &Path) -> bool {
        self.include.is_match(&[b"/", path.as_os_str().as_bytes()].concat())
    }

    /// Returns whether the file at `key` is no part of an archive because it is read for each
    /// request. Of a source that is read so as a whole, pages for errors are part of the archive as
    /// well.
    fn is_live(&self, key: &[u8]) -> bool {
        let is_page = || url_plan::is_page_for_others(key);
        let covers = |live: &[u8]| if live.is_empty() { !is_page() } else { live == key };
        self.live.iter().any(|live| covers(live))
    }

    /// Returns the patterns that have left nothing out so far, as they were given.
    pub(crate) fn unused_excludes(&self) -> impl Iterator<Item = &str> {
        self.exclude.unused()
    }

    /// Returns the patterns that have published nothing so far, as they were given.
    pub(crate) fn unused_includes(&self) -> impl Iterator<Item = &str> {
        self.include.unused()
    }

    /// Returns whether something at `path`, below the source, can be part of the site: by its own
    /// name and by those of the folders it lies in.
    pub fn may_be_part(&self, path: &Path) -> bool {
        self.all(path, |verdict, _, _| verdict == FileVerdict::Take)
    }

    /// Returns whether a build depends on something at `path`: it can be part of the site, has
    /// rules, or is code. Of code a static site depends only on files that would make it a dynamic
    /// one.
    pub(crate) fn may_matter(&self, path: &Path, is_dynamic: bool) -> bool {
        self.all(path, |verdict, key, is_last| {
            let (_, name) = path_and_name(key);
            let is_read = is_dynamic || is_page(name) || key == MAIN.as_bytes();
            let is_code = is_code(name) || is_dynamic && is_page_below_static(key);
            match verdict {
                FileVerdict::Take => true,
                FileVerdict::Special => {
                    rules_file(name).is_some() || (is_last && is_code && is_read)
                }
                FileVerdict::Skip => false,
            }
        })
    }

    /// Returns whether `holds` for the verdict about each component of a path, given its position,
    /// with a slash in front, and whether it is the last.
    fn all(&self, path: &Path, holds: impl Fn(FileVerdict, &[u8], bool) -> bool) -> bool {
        let mut key = Vec::new();
        let mut names = path.iter().map(OsStr::as_bytes).peekable();
        while let Some(name) = names.next() {
            key.push(b'/');
            key.extend_from_slice(name);
            if !holds(self.judge(&key, name), &key, names.peek().is_none()) {
                return false;
            }
        }
        true
    }

    /// Decides about a file: `key` is the path below the source with a slash in front; `name` is
    /// its last component.
    pub(crate) fn judge(&self, key: &[u8], name: &[u8]) -> FileVerdict {
        if self.exclude.is_match(key) {
            return FileVerdict::Skip;
        }
        if is_special(name) {
            return FileVerdict::Special;
        }
        if self.is_live(key) {
            return FileVerdict::Skip;
        }
        // A draft is gone when its build has ended.
        let is_left_out = (is_leftover(name) || is_script_source(name))
            && (is_draft(name) || !self.include.is_match(key));
        if is_left_out { FileVerdict::Skip } else { FileVerdict::Take }
    }
}

/// Returns the texts that patterns are matched against: the path below the source, and its last
/// name.
pub(crate) fn path_and_name(key: &[u8]) -> (&[u8], &[u8]) {
    let path = key.get(1..).unwrap_or_default();
    (path, path.rsplit(|&byte| byte == b'/').next().unwrap_or_default())
}

/// Returns whether a pattern is held against paths; else against names, at any depth.
pub(crate) fn is_of_paths(pattern: &str) -> bool {
    pattern.strip_suffix('/').unwrap_or(pattern).contains('/')
}

/// Returns the matcher of a pattern, or its fault.
pub(crate) fn glob_of(pattern: &str) -> Result<Glob, String> {
    let trimmed = pattern.strip_suffix('/').unwrap_or(pattern);
    // A shell completes `./drafts`; it means the same as `/drafts`.
    let below = trimmed.strip_prefix('.').filter(|rest| rest.starts_with('/'));
    let below = below.unwrap_or(trimmed);
    GlobBuilder::new(below.strip_prefix('/').unwrap_or(below))
        .literal_separator(true)
        .build()
        .map_err(|error| format!("{pattern:?} is not a pattern: {}", error.kind()))
}

fn set_of(patterns: Vec<(String, Glob)>) -> Result<Patterns, String> {
    let mut set = GlobSetBuilder::new();
    let mut given = Vec::new();
    for (pattern, glob) in patterns {
        set.add(glob);
        given.push((pattern, AtomicBool::new(false)));
    }
    let set = set.build().map_err(|error| error.to_string())?;
    Ok(Patterns { set, given })
}

/// Returns whether a name is special, without regard to case: a secret must not become public
/// because its name was shouted. Folders too: nothing below them becomes a resource.
fn is_special(name: &[u8]) -> bool {
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

fn is_draft(name: &[u8]) -> bool {
    draft_of(OsStr::from_bytes(name)).is_some()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
