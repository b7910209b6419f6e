//! The lists of codings, and the list that each file is tried in.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::GlobMatcher;

use crate::coding_options::{CodingLevel, CodingsFor};
use crate::error::BuildError;
use crate::options::Options;
use crate::walk::file_kinds_by_name::path_and_name;
use crate::walk::name_globs::{glob_of, is_of_paths};

/// The number of a list of codings; 0 is that of the files that no override names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CodingListId(u16);

impl CodingListId {
    pub(crate) const DEFAULT: CodingListId = CodingListId(0);
}

/// The lists of a build.
pub(crate) struct CodingRules<'a> {
    default: &'a [CodingLevel],
    overrides: Vec<CodingOverride<'a>>,
}

struct CodingOverride<'a> {
    given: &'a CodingsFor,
    glob: GlobMatcher,
    of_paths: bool,
    used: AtomicBool,
}

impl<'a> CodingRules<'a> {
    /// # Errors
    /// [`BuildError::Glob`] for a pattern that is none.
    pub(crate) fn new(options: &'a Options) -> Result<CodingRules<'a>, BuildError> {
        let wrong = |message| BuildError::Glob { option: "codings-for", message };
        let overrides = options.codings_for.iter().map(|given| {
            Ok(CodingOverride {
                given,
                glob: glob_of(&given.glob).map_err(wrong)?.compile_matcher(),
                of_paths: is_of_paths(&given.glob),
                used: AtomicBool::new(false),
            })
        });
        let overrides: Vec<_> = overrides.collect::<Result<_, BuildError>>()?;
        if u16::try_from(overrides.len() + 1).is_err() {
            return Err(wrong(format!("more than {} patterns", u16::MAX)));
        }
        Ok(CodingRules { default: &options.codings, overrides })
    }

    /// Returns the list of a file: that of the last override that names it.
    pub(crate) fn of(&self, key: &[u8]) -> CodingListId {
        let (path, name) = path_and_name(key);
        let matches = |rule: &CodingOverride<'_>| {
            let text = if rule.of_paths { path } else { name };
            rule.glob.is_match(Path::new(OsStr::from_bytes(text)))
        };
        match self.overrides.iter().rposition(matches) {
            Some(place) => {
                if let Some(rule) = self.overrides.get(place) {
                    rule.used.store(true, Ordering::Relaxed);
                }
                CodingListId(place as u16 + 1)
            }
            None => CodingListId::DEFAULT,
        }
    }

    pub(crate) fn codings(&self, list: CodingListId) -> &'a [CodingLevel] {
        match usize::from(list.0).checked_sub(1) {
            None => self.default,
            Some(place) => {
                self.overrides.get(place).map_or(&[], |rule| rule.given.codings.as_slice())
            }
        }
    }

    /// Returns every coding of any list, those of the default first, each but once.
    pub(crate) fn all(&self) -> Vec<CodingLevel> {
        let others = self.overrides.iter().flat_map(|rule| &rule.given.codings);
        let mut all = Vec::new();
        for &choice in self.default.iter().chain(others) {
            if !all.contains(&choice) {
                all.push(choice);
            }
        }
        all
    }

    /// Returns the most forms that one file can have: the content itself, and each of its codings.
    pub(crate) fn most_forms(&self) -> usize {
        let lengths = self.overrides.iter().map(|rule| rule.given.codings.len());
        1 + lengths.chain([self.default.len()]).max().unwrap_or_default()
    }

    /// Returns the patterns that no file has had a list from, as they were given.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &str> {
        let unused = self.overrides.iter().filter(|rule| !rule.used.load(Ordering::Relaxed));
        unused.map(|rule| rule.given.glob.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding_options::CodingEffort;

    #[test]
    fn the_last_matching_override_applies() {
        let rules = ["*.svg=br:11", "art/**=gzip", "art/*.bin=identity", "*.gone=br"];
        let codings_for: Vec<CodingsFor> =
            rules.iter().map(|rule| CodingsFor::parse(rule, CodingEffort::Best).unwrap()).collect();
        let options = Options { codings_for, ..Options::new(0) };
        let lists = CodingRules::new(&options).unwrap();
        for (key, expected) in [
            ("/a.svg", "br:11"),
            ("/b/c.svg", "br:11"),
            ("/art/a.svg", "gzip:6"),
            ("/art/x.bin", "identity"),
            ("/art/deep/x.bin", "gzip:6"),
            ("/x.bin", "gzip:6,br:6"),
        ] {
            let codings = lists.codings(lists.of(key.as_bytes()));
            assert_eq!(crate::coding_options::list(codings), expected, "{key}");
        }
        assert_eq!(lists.unused().collect::<Vec<_>>(), ["*.gone"]);
        assert_eq!(crate::coding_options::list(&lists.all()), "gzip:6,br:6,br:11");
        assert_eq!(lists.most_forms(), 3);
    }
}
