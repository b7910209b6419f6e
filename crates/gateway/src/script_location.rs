//! Finds the script of a folder that responds to a path: `SCRIPT_NAME` and `PATH_INFO` (RFC 3875
//! §4.1.5, §4.1.13).
//!
//! A path names a script only if it can be read in one way: no encoded slash, no empty segment, no
//! backslash, no control character, no name that begins with a dot. The script is a regular file
//! below the folder when the request comes; links are not followed. So nothing that a client has
//! uploaded under another name is run, such as `/photo.jpg/x.php`.

use std::io;
use std::path::{Path, PathBuf};

use pinion_http::request_target::decode_path;
use pinion_jobs::confined_folders::FileKind;
use pinion_jobs::folder_root::{FolderRoot, kind_below};

use crate::path_prefix::PathPrefix;

/// The scripts of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFolder {
    /// The folder of the whole site: `/a/b.php` is the file `a/b.php` below it.
    pub root: PathBuf,
    /// The folder as the application sees it, without a slash at its end.
    pub application_root: Box<[u8]>,
    /// The path of the mount.
    pub mount: PathPrefix,
    /// The extension of scripts, such as `.php`.
    pub extension: Box<str>,
    /// The script that responds to a folder, such as `index.php`.
    pub index: Box<str>,
    /// Whether the index of the mount responds to paths that no script responds to.
    pub has_front_controller: bool,
    /// Folders below the root in which no scripts are run, without slashes around.
    pub no_exec: Vec<Box<[u8]>>,
}

/// The file or script that responds to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptLocation {
    /// A script.
    Script(LocatedScript),
    /// The path is that of a folder with an index, without the slash at its end.
    MissingSlash,
    /// Nothing.
    NotFound,
}

/// A script and the rest of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedScript {
    /// `SCRIPT_NAME`: the path of the script, with a slash at its front.
    pub name: Vec<u8>,
    /// `PATH_INFO`: the rest of the path of the request after the script; empty or with a slash at
    /// its front.
    pub path_info: Vec<u8>,
}

impl ScriptFolder {
    /// Returns the file or script that responds to a path, as the client has sent it, with the
    /// files that are there now.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn locate(&self, path: &[u8]) -> io::Result<ScriptLocation> {
        let located = self.locate_among(path, |path| kind_below(&self.root, path).ok());
        if located == ScriptLocation::NotFound {
            FolderRoot::open(&self.root)?;
        }
        Ok(located)
    }

    /// Returns the path of a script as the application sees it: `SCRIPT_FILENAME`.
    #[must_use]
    pub fn filename(&self, script: &LocatedScript) -> Vec<u8> {
        [&*self.application_root, &*script.name].concat()
    }

    /// Returns whether a path, as the client has sent it, has a name with the extension of scripts.
    /// Such a path is never that of a file that is sent as it is.
    #[must_use]
    pub fn covers(&self, path: &[u8]) -> bool {
        let mut scratch = Vec::new();
        let Ok(path) = decode_path(path, &mut scratch) else { return false };
        path.split(|byte| *byte == b'/').any(|segment| self.is_script_name(segment))
    }

    fn is_script_name(&self, segment: &[u8]) -> bool {
        segment.len() > self.extension.len() && segment.ends_with(self.extension.as_bytes())
    }

    /// Returns the file or script that responds to a path. `kind` returns the kind of file at a
    /// path below the root, without a slash at its front.
    fn locate_among(
        &self,
        path: &[u8],
        kind: impl Fn(&[u8]) -> Option<FileKind>,
    ) -> ScriptLocation {
        let mut scratch = Vec::new();
        let path = decode_path(path, &mut scratch).unwrap_or_default();
        let is_script = |name: &[u8]| {
            name.strip_prefix(b"/").is_some_and(|name| kind(name) == Some(FileKind::File))
        };
        if is_unambiguous(path) {
            if let Some(end) = self.script_end(path) {
                let (name, path_info) = path.split_at_checked(end).unwrap_or((path, b""));
                if self.is_no_exec(name) {
                    return ScriptLocation::NotFound;
                }
                if is_script(name) {
                    return script(name, path_info);
                }
            } else if !self.is_no_exec(path) {
                let is_whole = path.ends_with(b"/");
                let slash: &[u8] = if is_whole { b"" } else { b"/" };
                let index = [path, slash, self.index.as_bytes()].concat();
                match (is_script(&index), is_whole) {
                    (true, true) => return script(&index, b""),
                    (true, false) => return ScriptLocation::MissingSlash,
                    (false, _) => {}
                }
            }
        }
        let front = [self.mount.as_str(), "/", &self.index].concat().into_bytes();
        if self.has_front_controller && !self.is_no_exec(&front) && is_script(&front) {
            return script(&front, b"");
        }
        ScriptLocation::NotFound
    }

    /// Returns where the first segment with the extension of scripts ends.
    fn script_end(&self, path: &[u8]) -> Option<usize> {
        let mut end = 0;
        path.split(|byte| *byte == b'/').find_map(|segment| {
            end += segment.len();
            let found = self.is_script_name(segment).then_some(end);
            end += 1;
            found
        })
    }

    /// Returns the folder of [`Self::no_exec`] that a path, as the client has sent it, is in.
    #[must_use]
    pub fn no_exec_folder(&self, path: &[u8]) -> Option<&[u8]> {
        let mut scratch = Vec::new();
        self.no_exec_of(decode_path(path, &mut scratch).ok()?)
    }

    /// Returns whether a path is that of a folder in which no scripts are run, or below one.
    fn is_no_exec(&self, path: &[u8]) -> bool {
        self.no_exec_of(path).is_some()
    }

    fn no_exec_of(&self, path: &[u8]) -> Option<&[u8]> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let is_in = |folder: &&[u8]| {
            path.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        self.no_exec.iter().map(|folder| &**folder).find(is_in)
    }
}

fn script(name: &[u8], path_info: &[u8]) -> ScriptLocation {
    ScriptLocation::Script(LocatedScript { name: name.to_vec(), path_info: path_info.to_vec() })
}

/// Returns whether a decoded path means the same for everything that reads it.
fn is_unambiguous(path: &[u8]) -> bool {
    let Some(names) = path.strip_prefix(b"/") else { return false };
    let names = names.strip_suffix(b"/").unwrap_or(names);
    let is_plain = |segment: &[u8]| !matches!(segment, [] | [b'.', ..]);
    let is_forbidden = |byte: &u8| byte.is_ascii_control() || *byte == b'\\';
    (names.is_empty() || names.split(|byte| *byte == b'/').all(is_plain))
        && !path.iter().any(is_forbidden)
}

/// Returns the path of the folder of a site as an application sees it, without a slash at its end.
#[must_use]
pub fn application_root(path: &Path) -> Box<[u8]> {
    let mut bytes = path.as_os_str().as_encoded_bytes();
    while let Some(front) = bytes.strip_suffix(b"/") {
        bytes = front;
    }
    bytes.into()
}

#[cfg(test)]
mod tests;
