//! A folder whose files applications have the server send, as `send-files` names it.

use super::mount::{MountFault, texts};
use crate::directives::Kind;
use crate::raw_settings::Low;
use crate::server::sendfile_folders::SentFolders;
use std::fmt;
use std::fs;
use std::path::{PathBuf, absolute};

/// Folders with files that the applications of one mount have sent: the path of each file is
/// compared with all of them.
const SENT_FOLDERS_MAX: usize = 64;

/// A folder with files that are sent when an application names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentFolder {
    /// The decoded path that leads to it in `X-Accel-Redirect`; `None` if only `X-Sendfile` does.
    pub(crate) url_path: Option<String>,
    /// Its path: an absolute path.
    pub(crate) path: PathBuf,
}

impl SentFolder {
    /// Reads `/srv/files` or `/protected=/srv/files`.
    ///
    /// # Errors
    /// The fault of the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{text:?} {why}: {}", Kind::SentFolder.bounds()));
        let (url_path, path) = match text.split_once('=') {
            Some((url_path, path)) if url_path.starts_with('/') => (Some(url_path), path),
            _ => (None, text),
        };
        if path.is_empty() || path.contains('\0') {
            return wrong("names no folder");
        }
        if let Some(url_path) = url_path {
            if url_path.bytes().any(|byte| matches!(byte, b'%' | b'?' | b'#' | b'*')) {
                return wrong(
                    "has a path with %, ?, # or *, and a path is written without escapes",
                );
            }
            let below = url_path.trim_matches('/');
            if !below.is_empty() && below.split('/').any(|name| matches!(name, "" | "." | "..")) {
                return wrong("has a path with an empty or dot segment");
            }
        }
        let path = absolute(path).map_err(|error| format!("{text:?}: {error}"))?;
        let url_path = url_path.map(|path| format!("/{}", path.trim_matches('/')));
        Ok(Self { url_path, path })
    }
}

/// Returns the folders with the files that the applications of a mount have sent; `None` if
/// responses name no files.
///
/// # Errors
/// One is wrong.
pub(super) fn sent_folders(low: &Low) -> Result<Option<SentFolders>, MountFault> {
    let row = "mount-send-files";
    let mut folders: Vec<SentFolder> = Vec::new();
    for (value, text) in texts(low, row).enumerate() {
        let wrong = |message: String| MountFault { value, ..MountFault::new(row, message) };
        let folder = SentFolder::parse(text).map_err(wrong)?;
        let is_same = |other: &SentFolder| match &folder.url_path {
            Some(url_path) => other.url_path.as_ref() == Some(url_path),
            None => *other == folder,
        };
        if folders.iter().any(is_same) {
            return Err(wrong(format!("{text:?} is given twice; leave one out")));
        }
        if folders.len() == SENT_FOLDERS_MAX {
            let message = format!("a mount can have {SENT_FOLDERS_MAX} folders; remove some");
            return Err(wrong(message));
        }
        let shown = folder.path.display();
        match fs::metadata(&folder.path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(wrong(format!("{shown} is not a folder"))),
            Err(error) => return Err(wrong(format!("{shown}: {error}"))),
        }
        folders.push(folder);
    }
    Ok((!folders.is_empty()).then(|| SentFolders::new(folders)))
}

/// Writes it as in the configuration.
impl fmt::Display for SentFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.url_path {
            Some(url_path) => write!(f, "{url_path}={}", self.path.display()),
            None => self.path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_may_have_a_path_in_urls() {
        for (text, url_path, path) in [
            ("/srv/files", None, "/srv/files"),
            ("/protected=/srv/files", Some("/protected"), "/srv/files"),
            ("/a/b/=/srv/a=b", Some("/a/b"), "/srv/a=b"),
            ("/=/srv", Some("/"), "/srv"),
        ] {
            let folder = SentFolder::parse(text).expect(text);
            assert_eq!(folder.url_path.as_deref(), url_path, "{text}");
            assert_eq!(folder.path.to_str(), Some(path), "{text}");
        }
        let folder = SentFolder::parse("files").expect("a folder");
        assert!(folder.path.is_absolute() && folder.path.ends_with("files"));
        for text in ["", "/a=", "/a//b=/srv", "/../a=/srv", "/%61=/srv", "/a?=/srv", "/*=/srv"] {
            assert!(SentFolder::parse(text).is_err(), "{text}");
        }
    }
}
