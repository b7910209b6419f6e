//! Counts the content of a site, for the lines of a start and of a reload.

use crate::terminal::counted;
use pinion_archive::Archive;

/// The size of a site: its paths, and the files it was built from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContentCount {
    /// URL paths: a file may have several, such as `/` and `/index.html`.
    pub(super) paths: u64,
    /// Files that the site was built from; `None` if the archive does not say it.
    files: Option<u64>,
}

impl ContentCount {
    /// Counts the content of an archive.
    pub(crate) fn of(archive: &Archive<'_>) -> Self {
        let mut facts = archive.meta().into_iter().flatten();
        let files = facts.find(|(key, _)| *key == "files");
        let files = files.and_then(|(_, files)| files.parse().ok());
        Self { paths: archive.layout().entry_count(), files }
    }

    /// Returns the number of files, or that of paths.
    pub(super) fn in_words(self) -> String {
        match self.files {
            Some(files) => counted(files, "file"),
            None => counted(self.paths, "path"),
        }
    }

    /// Returns how much is in a site: files, files of code, or both. A site that has only pages or
    /// a script has no files.
    pub(crate) fn in_words_with_code(self, code: u64) -> String {
        let code_files = format!("{} of code", counted(code, "file"));
        match (self.paths, code) {
            (_, 0) => self.in_words(),
            (0, _) => code_files,
            _ => format!("{}, {code_files}", self.in_words()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_with_only_code_is_described_without_files() {
        for (paths, files, code, expected) in [
            (0, Some(0), 0, "0 files"),
            (3, Some(1), 0, "1 file"),
            (0, Some(0), 1, "1 file of code"),
            (9, Some(3), 2, "3 files, 2 files of code"),
            (9, None, 0, "9 paths"),
            (1, None, 1, "1 path, 1 file of code"),
        ] {
            let content = ContentCount { paths, files };
            assert_eq!(content.in_words_with_code(code), expected, "{content:?}");
        }
    }
}
