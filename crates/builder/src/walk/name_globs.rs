//! Patterns of file names and of paths, as the options have them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::BuildError;
use crate::walk::file_kinds_by_name::path_and_name;

#[cfg(any(test, fuzzing))]
pub(crate) mod oracle;

/// Patterns of files: one without a slash is held against names, one with a slash against paths.
pub struct Globs {
    by_name: GlobPatterns,
    by_path: GlobPatterns,
}

/// Patterns of one kind.
struct GlobPatterns {
    set: GlobSet,
    /// The patterns as they were given, in the order of the set, and whether they have matched
    /// anything.
    given: Vec<(String, AtomicBool)>,
}

impl GlobPatterns {
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
        let wrong = |message| BuildError::Glob { option, message };
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
        let none = || GlobPatterns { set: GlobSet::empty(), given: Vec::new() };
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

fn set_of(patterns: Vec<(String, Glob)>) -> Result<GlobPatterns, String> {
    let mut set = GlobSetBuilder::new();
    let mut given = Vec::new();
    for (pattern, glob) in patterns {
        set.add(glob);
        given.push((pattern, AtomicBool::new(false)));
    }
    let set = set.build().map_err(|error| error.to_string())?;
    Ok(GlobPatterns { set, given })
}
