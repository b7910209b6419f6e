//! Reads the rules files of a site and checks them against its paths.

use std::path::Path;

use crate::error::BuildError;
use crate::options::Options;
use crate::path_aliases;
use crate::rules::{Rules, SitePaths};
use crate::walk::file_metadata::FileId;
use crate::walk::found_files::FoundFiles;

/// Reads the rules files and checks them against the paths of the files found: before anything is
/// encoded, which takes its time.
pub(crate) fn read_rules(
    source: &Path,
    options: &Options,
    found: &FoundFiles,
    left_out: &[FileId],
) -> Result<Rules, BuildError> {
    let mut rules = Rules::read(source, found.content, &found.rules, options, left_out)?;
    let keys = || found.files.iter().map(|file| &*file.key);
    if let Some(page) = &options.single_page
        && !keys().any(|key| key == path_aliases::of_path(page))
    {
        return Err(BuildError::SinglePage(page.clone()));
    }
    if !rules.redirects.is_empty() {
        let keys: Vec<&[u8]> = keys().collect();
        let plan = path_aliases::plan(&keys, options.conventions(&rules));
        let site = SitePaths::of(&keys, &plan, options);
        if options.has_fallback_server {
            rules.check_rewrites_of_everything(options.lax_rules)?;
        }
        rules.check(&site, options.lax_rules)?;
        rules.check_fallbacks(found.content, &keys, &plan, &site);
    }
    Ok(rules)
}
