//! Finds the CGI script that responds to a path: `SCRIPT_NAME` and `PATH_INFO` (RFC 3875 §4.1.5,
//! §4.1.13).
//!
//! The script is the first file that the segments of a path lead to, from the folder of scripts on;
//! the rest of the path is for the script. A path with an encoded slash, an empty segment, a
//! backslash, a control character or a name that begins with a dot before the end of the script
//! leads nowhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use pinion_jobs::confined_folders::FileKind;
use pinion_jobs::folder_root::FolderRoot;
use pinion_programs::is_script_path;

use super::cgi_failure::CgiFailure;
use super::cgi_scripts::CgiScripts;
use super::script_variables::ScriptTarget;
use crate::fastcgi_scgi_variables::percent_decoded;
use crate::request_forwarding::has_dot_segment;

/// Returns the path of the script that responds to a path, as the client has sent it, for messages,
/// and its `PATH_INFO`.
///
/// # Errors
/// No script responds.
pub fn located_script(scripts: &CgiScripts, path: &[u8]) -> Result<(String, Vec<u8>), CgiFailure> {
    let ScriptTarget { path, path_info, .. } = script_target(scripts, path)?;
    let file = scripts.folder.join(OsStr::from_bytes(&path));
    Ok((file.display().to_string(), path_info))
}

/// Returns the script that responds to a path, as the client has sent it.
///
/// # Errors
/// No script responds.
pub(super) fn script_target(scripts: &CgiScripts, path: &[u8]) -> Result<ScriptTarget, CgiFailure> {
    if has_dot_segment(path) {
        return Err(CgiFailure::Path);
    }
    let raw = scripts.mount.rest(path).ok_or(CgiFailure::NoScript)?;
    let rest = percent_decoded(raw).ok_or(CgiFailure::Path)?;
    let mount = percent_decoded(scripts.mount.as_str().as_bytes()).ok_or(CgiFailure::Path)?;
    if let Some(script) = &scripts.script {
        return Ok(ScriptTarget { path: script.to_vec(), name: mount, path_info: rest });
    }
    let root = FolderRoot::open(&scripts.folder).map_err(|error| CgiFailure::Folder {
        folder: scripts.folder.display().to_string().into(),
        error: error.to_string().into(),
    })?;
    let found = find_script(&without_encoded_slashes(raw), |path| root.kind(path).ok());
    let FoundScript { path, path_info } = found.ok_or(CgiFailure::NoScript)?;
    let name = [&*mount, &path].join(&b'/');
    // The rest of the path may have encoded slashes.
    let path_info = rest.get(rest.len() - path_info.len()..).unwrap_or_default().to_vec();
    Ok(ScriptTarget { path, name, path_info })
}

/// Decodes a path, with a NUL byte in the place of each encoded slash: no name of a script has one.
fn without_encoded_slashes(path: &[u8]) -> Vec<u8> {
    let parts = path.split(|byte| *byte == b'/').map(|segment| {
        let decoded = percent_decoded(segment).unwrap_or_default();
        decoded.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect::<Vec<u8>>()
    });
    parts.collect::<Vec<_>>().join(&b'/')
}

/// A script and the rest of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FoundScript {
    /// Its path below the folder.
    path: Vec<u8>,
    /// The rest of the path after it; empty or with a slash at its front.
    path_info: Vec<u8>,
}

/// Returns the script for the rest of a decoded path after the path of the mount. `kind` returns
/// the kind of file at a path below the folder.
fn find_script(rest: &[u8], kind: impl Fn(&[u8]) -> Option<FileKind>) -> Option<FoundScript> {
    let path = rest.strip_prefix(b"/")?;
    let mut end = 0;
    loop {
        let segment_end = path.get(end..)?.iter().position(|byte| *byte == b'/');
        let segment_end = segment_end.map_or(path.len(), |at| end + at);
        let (name, path_info) = path.split_at_checked(segment_end)?;
        if !is_plain(name.get(end..)?) || !is_script_path(name) {
            return None;
        }
        match kind(name)? {
            FileKind::File => {
                return Some(FoundScript { path: name.to_vec(), path_info: path_info.to_vec() });
            }
            FileKind::Folder => end = segment_end + 1,
            FileKind::Other => return None,
        }
    }
}

/// Returns whether a name of a file or folder means the same for everything that reads it, and is
/// not hidden.
fn is_plain(name: &[u8]) -> bool {
    let is_forbidden = |byte: &u8| byte.is_ascii_control() || *byte == b'\\';
    !name.starts_with(b".") && !name.iter().any(is_forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(path: &[u8]) -> Option<FileKind> {
        match path {
            b"a.cgi" | b"dir/b" | b".hidden" | b"dir/.x" => Some(FileKind::File),
            b"dir" => Some(FileKind::Folder),
            b"socket" => Some(FileKind::Other),
            _ => None,
        }
    }

    #[test]
    fn the_first_file_of_a_path_is_the_script() {
        for (path, expected) in [
            ("/a.cgi", Some(("a.cgi", ""))),
            ("/a.cgi/", Some(("a.cgi", "/"))),
            ("/a.cgi/x//../y", Some(("a.cgi", "/x//../y"))),
            ("/dir/b", Some(("dir/b", ""))),
            ("/dir/b/c", Some(("dir/b", "/c"))),
            ("/dir", None),
            ("/dir/", None),
            ("", None),
            ("/", None),
            ("//a.cgi", None),
            ("/dir//b", None),
            ("/./a.cgi", None),
            ("/dir/../a.cgi", None),
            ("/none/a.cgi", None),
            ("/socket", None),
            ("/socket/x", None),
            ("/.hidden", None),
            ("/dir/.x", None),
            ("/dir\\b", None),
            ("/a.cgi\0", None),
        ] {
            let found = find_script(path.as_bytes(), kind);
            let shown = |text: Vec<u8>| String::from_utf8(text).expect("text");
            let found = found.map(|found| (shown(found.path), shown(found.path_info)));
            let expected = expected.map(|(path, info)| (path.to_owned(), info.to_owned()));
            assert_eq!(found, expected, "{path}");
        }
    }
}
