//! Decisions by name before anything is read: left out, never a resource, or taken.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinion_template::file_name::MAIN;

use crate::error::BuildError;
use crate::legacy_80s_server::is_page_below_static;
use crate::options::Options;
use crate::path_aliases;
use crate::walk::file_kinds_by_name::{
    is_code, is_draft, is_leftover, is_page, is_script_source, is_special, path_and_name,
    rules_file,
};
use crate::walk::name_globs::{Globs, glob_of};

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

/// The names that a build leaves out: the fixed rules, and the patterns of its options.
pub struct NameFilter {
    exclude: Globs,
    include: Globs,
    /// The keys of folders that are read for each request, as in
    /// [`Options::live`](crate::Options::live); empty for the source itself.
    live: Vec<Box<[u8]>>,
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
        let is_page = || path_aliases::is_page_for_others(key);
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
