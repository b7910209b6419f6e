//! Finds the switches that a build of an imported site needs: kawipiko's archiver can leave out
//! index and short paths too.

use pinion_archive::{Archive, Damage, Scratch};

use crate::extract::entry_paths::is_page;
use crate::extract::headers_file::{DifferenceReason, EntryResponses};
use crate::path_aliases::{FAVICON, FAVICON_FILES, clean_url, index_url};

/// The further names of files.
#[derive(Default)]
pub(super) struct BuildSwitches {
    scratch: Scratch,
    index: ConventionNames,
    clean: ConventionNames,
}

/// The names of one convention.
#[derive(Default)]
struct ConventionNames {
    /// Whether the archive has one of them.
    some: bool,
    /// The names that it lacks.
    missing: Vec<Vec<u8>>,
}

impl BuildSwitches {
    /// Records the names that a build gives a file.
    pub(super) fn take(&mut self, archive: &Archive<'_>, file: &[u8]) -> Result<(), Damage> {
        for (found, url) in [(&mut self.index, index_url(file)), (&mut self.clean, clean_url(file))]
        {
            let Some((url, _)) = url else { continue };
            if !archive.load(url, &mut self.scratch)? {
                found.missing.push(url.to_vec());
            } else if let Some(entry) = self.scratch.entry() {
                // A file of its own says nothing about further names of others.
                found.some |= is_page(&entry) && entry.target().is_some();
            }
        }
        Ok(())
    }

    /// Returns the flags, with a dash in front of each. Names that no flag prevents are noted.
    pub(super) fn finish(
        mut self,
        archive: &Archive<'_>,
        responses: &mut EntryResponses,
    ) -> Result<Vec<String>, Damage> {
        let mut flags = Vec::new();
        for (found, flag) in [(&self.index, "--no-index"), (&self.clean, "--no-clean-urls")] {
            if !found.some && !found.missing.is_empty() {
                flags.push(flag.to_owned());
            } else {
                found.missing.iter().for_each(|url| {
                    responses.differs(url, false, DifferenceReason::Added);
                });
            }
        }
        if !archive.redirects_slashes() {
            flags.push("--no-slash-redirects".to_owned());
        }
        if !archive.load(FAVICON, &mut self.scratch)? {
            for icon in FAVICON_FILES {
                if archive.load(icon, &mut self.scratch)? {
                    responses.differs(FAVICON, false, DifferenceReason::Added);
                    break;
                }
            }
        }
        Ok(flags)
    }
}
