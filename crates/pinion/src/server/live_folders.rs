//! The folders of live files of a site, opened when the site is loaded.

use super::access::rules::published_password_file;
use super::live_files::{LiveFileSettings, LiveFiles};
use super::mounts::Mounts;
use crate::build_options;
use crate::failure::Failure;
use crate::settings::{BuildSettings, LiveFolder, LiveFolderLocation};
use anyhow::anyhow;
use pinion_archive::Archive;
use pinion_builder::{CONTENT_FOLDER, NameFilter, REVALIDATED, SiteLayout};
use std::path::Path;

/// The inputs of the live folders of a site.
pub(crate) struct LiveSite<'s> {
    /// The folder of the site; `None` if it has none.
    pub(crate) folder: Option<&'s Path>,
    /// The layout with which the folder is served.
    pub(crate) layout: SiteLayout,
    pub(crate) content: &'s BuildSettings,
    pub(crate) mounts: &'s Mounts,
    /// The files with the passwords of the site.
    pub(crate) password_files: &'s [&'s Path],
}

/// Opens the live folders of a site; `None` if it has none.
///
/// # Errors
/// The error in one of them.
pub(crate) fn open(
    folders: &[LiveFolder],
    site: &LiveSite<'_>,
    archive: &Archive<'_>,
) -> Result<Option<LiveFiles>, Failure> {
    let LiveSite { content, mounts, .. } = site;
    if folders.is_empty() {
        return Ok(None);
    }
    let folders: Vec<LiveFolder> =
        folders.iter().map(|one| site.placed(one)).collect::<Result<_, _>>()?;
    let names =
        NameFilter::new(&content.exclude, &content.include).map_err(build_options::failure)?;
    let cache_control = content.cache_control.as_deref().unwrap_or(REVALIDATED).to_owned();
    let settings = LiveFileSettings {
        cache_control: Some(cache_control).filter(|_| !content.no_cache_control),
        serves_index: !content.no_index,
        redirects_slashes: archive.redirects_slashes(),
    };
    let opened = LiveFiles::open(&folders, site.folder, names, mounts.extensions(), settings);
    Ok(Some(opened.map_err(|why| anyhow!(why))?))
}

impl LiveSite<'_> {
    /// Returns a folder with its path in URLs, which in a dynamic site begins after the folder of
    /// its content.
    ///
    /// # Errors
    /// The site cannot have that live folder.
    fn placed(&self, folder: &LiveFolder) -> Result<LiveFolder, Failure> {
        let path = match &folder.at {
            LiveFolderLocation::Elsewhere(path) => {
                let mut files = self.password_files.iter();
                let published = files.find(|file| published_password_file(path, file).is_some());
                return match published {
                    Some(file) => Err(anyhow!(
                        "password-file: {} is below the live folder {folder}, which publishes it; \
                         move it",
                        file.display()
                    )
                    .into()),
                    None => Ok(folder.clone()),
                };
            }
            LiveFolderLocation::InSite(path) => path,
        };
        let below_content = match self.layout {
            SiteLayout::Static => return Ok(folder.clone()),
            SiteLayout::Dynamic => Some(path.as_str()),
            SiteLayout::DynamicBeside if path.is_empty() => Some(""),
            SiteLayout::DynamicBeside => {
                let rest = path.strip_prefix(CONTENT_FOLDER);
                rest.and_then(
                    |rest| if rest.is_empty() { Some("") } else { rest.strip_prefix('/') },
                )
            }
        };
        match below_content {
            Some("") => Err(anyhow!(
                "the site has Lua code, so its whole folder cannot be live; name the folders whose \
                 files change"
            )
            .into()),
            Some(below) => Ok(LiveFolder { url_path: format!("/{below}"), ..folder.clone() }),
            None => Err(anyhow!(
                "the live folder {folder} lies beside {CONTENT_FOLDER}, which has the files of the \
                 site; name {CONTENT_FOLDER}/{folder}, or give its path in URLs, as in \
                 /media=/srv/app/media"
            )
            .into()),
        }
    }
}

/// Returns the live folders that are named by their own paths and lie in the folder of the site, by
/// their paths below it: a build leaves them out, too.
pub(crate) fn named_elsewhere(folders: &[LiveFolder], site: &Path) -> Vec<String> {
    let Ok(site) = site.canonicalize() else { return Vec::new() };
    let below = |folder: &LiveFolder| match &folder.at {
        LiveFolderLocation::InSite(_) => None,
        LiveFolderLocation::Elsewhere(path) => {
            let real = path.canonicalize().ok()?;
            let below = real.strip_prefix(&site).ok()?.to_str()?.to_owned();
            Some(below).filter(|below| !below.is_empty())
        }
    };
    folders.iter().filter_map(below).collect()
}
