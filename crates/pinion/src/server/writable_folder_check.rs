//! Keeps the folders that scripts write to apart from the folder that is served: uploads of
//! visitors must not become a part of the site, and least of all code.

use crate::build_options;
use crate::failure::Failure;
use crate::settings::BuildSettings;
use pinion_builder::{NameFilter, SiteLayout};
use pinion_jobs::confined_folders::FolderAt;
use std::path::{Path, PathBuf};

/// Refuses folders that scripts may write to and that a build of `site` reads; the site has these
/// links, below it, and is built as `content` says.
///
/// # Errors
/// [`Failure::Usage`] that names the first one and says where else it can be.
pub(super) fn check(
    site: &Path,
    content: &BuildSettings,
    folders: &[FolderAt],
    links: &[PathBuf],
) -> Result<(), Failure> {
    let mut written = folders.iter().filter(|folder| !folder.is_read_only).peekable();
    if written.peek().is_none() {
        return Ok(());
    }
    let names =
        NameFilter::new(&content.exclude, &content.include).map_err(build_options::failure)?;
    let names = names.without_live(&content.live);
    // One that is gone holds nothing.
    let Ok(real_site) = site.canonicalize() else { return Ok(()) };
    let targets: Vec<PathBuf> =
        links.iter().filter_map(|link| site.join(link).canonicalize().ok()).collect();
    for folder in written {
        let Ok(real) = folder.path.canonicalize() else { continue };
        let is_read = real.strip_prefix(&real_site).is_ok_and(|below| {
            names.may_matter_to(SiteLayout::Dynamic, &below.join("file"), || false)
        });
        let is_led_to = |target: &PathBuf| real.starts_with(target) || target.starts_with(&real);
        if is_read || real_site.starts_with(&real) || targets.iter().any(is_led_to) {
            let (name, path, site) = (&folder.name, folder.path.display(), site.display());
            return Err(Failure::usage(format!(
                "--lua-folder {name}={path}: what scripts write there would become a part of the \
                 site {site}, code too; name a folder beside the site, or leave it out of the site \
                 with --exclude"
            )));
        }
    }
    Ok(())
}
