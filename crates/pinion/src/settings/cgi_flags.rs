//! CGI scripts that flags name: each flag `--cgi` is a mount with the keys of a configuration file.

use super::mount::mount;
use super::row;
use crate::directives::Kind;
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::server::mounts::{Mount, MountPath};
use std::ffi::OsStr;
use std::path::{PathBuf, absolute};

/// The scripts of a flag, and the path that they respond to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScriptFolderFlag {
    path: String,
    folder: PathBuf,
}

impl ScriptFolderFlag {
    /// Reads `/srv/cgi-bin`, whose path is the name of the folder, or `/run=/srv/scripts`.
    ///
    /// # Errors
    /// A phrase that names the fault.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{text:?} {why}: {}", Kind::ScriptFolder.bounds()));
        let (path, folder) = match text.split_once('=') {
            Some((path, folder)) if path.starts_with('/') => (Some(path), folder),
            _ => (None, text),
        };
        let folder = match absolute(folder) {
            Ok(absolute) if !folder.is_empty() => absolute,
            _ => return wrong("names no folder"),
        };
        let path = match path {
            Some(path) => MountPath::parse(path)?.to_string(),
            None => {
                let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
                if name.is_empty() || !name.bytes().all(is_plain) {
                    return wrong("has no name that is a path; write the path before it");
                }
                format!("/{name}")
            }
        };
        Ok(Self { path, folder })
    }

    /// Returns its mount, with the values of the other flags about it.
    fn mount(self, low: &Low) -> Result<Mount, Failure> {
        let mut written = Low::new(low.verb);
        written.set("mount-path", vec![self.path.into()]);
        written.set("mount-cgi", vec![self.folder.into()]);
        if let Some(user) = low.values("cgi-user").next() {
            written.set("mount-cgi-user", vec![user.to_owned()]);
        }
        if let Some(root) = super::path(low, "cgi-chroot")? {
            let root = absolute(&root).map_err(|error| {
                Failure::usage(format!("--cgi-chroot: {}: {error}", root.display()))
            })?;
            written.set("mount-cgi-chroot", vec![root.into()]);
        }
        // The keys have the names of the flags.
        mount(&written).map_err(|fault| Failure::usage(format!("--{fault}")))
    }
}

/// Returns the mounts of the scripts that flags name.
///
/// # Errors
/// [`Failure::Usage`]: a flag is wrong, or has no effect.
pub(super) fn cgi_mounts(low: &Low) -> Result<Vec<Mount>, Failure> {
    let mut others = ["cgi-user", "cgi-chroot"].into_iter();
    if !low.given("cgi")
        && let Some(flag) = others.find(|flag| low.given(flag))
    {
        return Err(Failure::usage(format!("--{flag} has no effect without --cgi; add it")));
    }
    let read = |text| super::read(row("cgi"), text, ScriptFolderFlag::parse)?.mount(low);
    low.values("cgi").map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_folder_is_the_path() {
        let parsed = |text: &str| {
            let flag = ScriptFolderFlag::parse(text).expect(text);
            (flag.path, flag.folder)
        };
        let pair = |path: &str, folder: &str| (path.to_owned(), PathBuf::from(folder));
        assert_eq!(parsed("/srv/cgi-bin"), pair("/cgi-bin", "/srv/cgi-bin"));
        assert_eq!(parsed("/srv/cgi-bin/"), pair("/cgi-bin", "/srv/cgi-bin/"));
        assert_eq!(parsed("/run=/srv/a b"), pair("/run", "/srv/a b"));
        assert_eq!(parsed("/=/srv/a"), pair("/", "/srv/a"));
        let (path, folder) = parsed("scripts");
        assert!(path == "/scripts" && folder.is_absolute() && folder.ends_with("scripts"));
        for wrong in ["", "/run=", "..", "/", "/srv/a b", "/srv/a%62", "/a b=/srv", "/a?b=/srv"] {
            assert!(ScriptFolderFlag::parse(wrong).is_err(), "{wrong}");
        }
    }
}
