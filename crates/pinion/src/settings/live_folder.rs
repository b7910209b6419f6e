//! A folder whose files are read for each request, as `live` of a site or `--live` names it.

use crate::directives::Kind;
use crate::server::live_files::limits::LIVE_FOLDERS_MAX;
use std::fmt;
use std::path::{Path, PathBuf};

/// A folder of live files, and the path that they have in URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveFolder {
    /// Its location.
    pub(crate) at: LiveFolderLocation,
    /// The decoded path of the folder in URLs, without a slash at its end; empty for the root.
    pub(crate) url_path: String,
}

/// The location of a folder of live files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LiveFolderLocation {
    /// Below the folder of the site, by its path there; empty for the folder of the site.
    InSite(String),
    /// Anywhere.
    Elsewhere(PathBuf),
}

impl LiveFolder {
    /// Reads `media`, `.` or `/media=/srv/app/media`.
    ///
    /// # Errors
    /// The fault of the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{text:?} {why}: {}", Kind::LiveFolder.bounds()));
        if let Some((path, folder)) = text.split_once('=').filter(|(path, _)| path.starts_with('/'))
        {
            if folder.is_empty() || folder.contains('\0') {
                return wrong("names no folder");
            }
            if path.bytes().any(|byte| matches!(byte, b'%' | b'?' | b'#' | b'*')) {
                return wrong(
                    "has a path with %, ?, # or *, and a path is written without escapes",
                );
            }
            let Some(path) = clean(path.trim_start_matches('/')) else {
                return wrong("has a path with an empty, dot or hidden segment");
            };
            let url_path = if path.is_empty() { String::new() } else { format!("/{path}") };
            let at = LiveFolderLocation::Elsewhere(folder.into());
            return Ok(Self { at, url_path });
        }
        let folder = match text {
            "." | "/" | "./" => "",
            text if text.starts_with('/') => {
                return wrong("is no folder of the site; say which path it has in URLs");
            }
            text => text.strip_prefix("./").unwrap_or(text),
        };
        if text.is_empty() {
            return wrong("names no folder");
        }
        let Some(folder) = clean(folder) else {
            return wrong("has an empty, dot or hidden segment");
        };
        let url_path = if folder.is_empty() { String::new() } else { format!("/{folder}") };
        Ok(Self { at: LiveFolderLocation::InSite(folder.to_owned()), url_path })
    }
}

/// Returns a path without the slash at its end; `None` if it has a segment that no file of a site
/// has.
fn clean(path: &str) -> Option<&str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_segment = |segment: &str| {
        let is_hidden = segment.starts_with('.') && segment != ".well-known";
        !segment.is_empty()
            && !is_hidden
            && segment.bytes().all(|byte| byte != b'\\' && !byte.is_ascii_control())
    };
    (path.is_empty() || path.split('/').all(is_segment)).then_some(path)
}

/// Reads all folders of a site.
///
/// # Errors
/// The fault of one of them.
pub(crate) fn live_folders<'t>(
    texts: impl Iterator<Item = &'t str>,
) -> Result<Vec<LiveFolder>, String> {
    let mut folders: Vec<LiveFolder> = Vec::new();
    for text in texts {
        let folder = LiveFolder::parse(text)?;
        if folders.iter().any(|other| other.url_path == folder.url_path) {
            return Err(format!("{text:?}: its path in URLs has a live folder already"));
        }
        folders.push(folder);
        if folders.len() > LIVE_FOLDERS_MAX {
            return Err(format!("a site can have {LIVE_FOLDERS_MAX} live folders; remove some"));
        }
    }
    Ok(folders)
}

impl LiveFolderLocation {
    /// Returns the path of the folder in that of the site, if it is named so.
    pub(crate) fn in_site(&self) -> Option<&str> {
        match self {
            Self::InSite(path) => Some(path),
            Self::Elsewhere(_) => None,
        }
    }

    /// Returns its path, if `site` is the folder of the site.
    pub(crate) fn path(&self, site: &Path) -> PathBuf {
        match self {
            Self::InSite(path) if path.is_empty() => site.to_owned(),
            Self::InSite(path) => site.join(path),
            Self::Elsewhere(path) => path.clone(),
        }
    }
}

/// Writes it as in the configuration.
impl fmt::Display for LiveFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            LiveFolderLocation::InSite(path) if path.is_empty() => f.write_str("."),
            LiveFolderLocation::InSite(path) => f.write_str(path),
            LiveFolderLocation::Elsewhere(path) if self.url_path.is_empty() => {
                write!(f, "/={}", path.display())
            }
            LiveFolderLocation::Elsewhere(path) => {
                write!(f, "{}={}", self.url_path, path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, String)> {
        let LiveFolder { at, url_path } = LiveFolder::parse(text).ok()?;
        Some((url_path, at.path(Path::new("site")).display().to_string()))
    }

    #[test]
    fn a_folder_of_the_site_has_its_path() {
        for (text, url_path, path) in [
            ("media", "/media", "site/media"),
            ("./media/", "/media", "site/media"),
            ("wp-content/uploads", "/wp-content/uploads", "site/wp-content/uploads"),
            (".well-known", "/.well-known", "site/.well-known"),
            ("a=b", "/a=b", "site/a=b"),
            (".", "", "site"),
            ("/", "", "site"),
            ("/media=/srv/app/media", "/media", "/srv/app/media"),
            ("/a/b/=up=loads", "/a/b", "up=loads"),
            ("/=/srv", "", "/srv"),
        ] {
            assert_eq!(read(text), Some((url_path.to_owned(), path.to_owned())), "{text}");
        }
    }

    #[test]
    fn paths_outside_the_site_and_hidden_ones_are_refused() {
        for text in [
            "",
            "..",
            "a/..",
            "a//b",
            "a/./b",
            "/srv/media",
            ".git",
            "a/.env",
            "a\\b",
            "a\n",
            "/media=",
            "/a//b=x",
            "/../x=y",
            "/%61=x",
            "/a?=x",
            "/.git=x",
            "//",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_path_has_one_folder() {
        assert!(live_folders(["a", "/b=c"].into_iter()).is_ok());
        let twice = live_folders(["a", "/a/=c"].into_iter());
        assert!(twice.is_err_and(|error| error.contains("already")));
        let texts: Vec<String> = (0..=LIVE_FOLDERS_MAX).map(|n| n.to_string()).collect();
        assert!(live_folders(texts.iter().map(String::as_str)).is_err());
    }
}
