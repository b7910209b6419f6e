//! Finds paths of a server that can be used and were most likely not meant: reported at a start and
//! by `pinion check`.

use crate::config::real_path;
use crate::failure::without_number;
use crate::served_source::ServedSource;
use crate::server::mounts::Mount;
use crate::settings::LogTarget;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The default of `no-exec`.
const WORDPRESS_UPLOADS: &str = "wp-content/uploads";

/// The folder of the content, where code lies beside it.
const CONTENT_FOLDER: &str = "public_html";

/// Returns why an ACME client cannot write challenges below this folder; `None` if it can.
pub(crate) fn of_acme_webroot(folder: &Path) -> Option<String> {
    let shown = folder.display();
    match folder.metadata() {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => Some(format!("{shown} is a file; give the folder that the ACME client writes to")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("the folder {shown} does not exist; create it for the ACME client"))
        }
        Err(error) => {
            let why = without_number(&error.to_string());
            Some(format!("cannot read the folder {shown}: {why}"))
        }
    }
}

/// Returns a warning for each folder of `no-exec` of a mount that does not exist. That of WordPress
/// is made with the first upload, so it is none of them.
pub(crate) fn of_no_exec(mount: &Mount) -> Vec<String> {
    let Some(scripts) = mount.scripts() else { return Vec::new() };
    let root = &scripts.root;
    let folders = scripts.no_exec.iter().map(|folder| OsStr::from_bytes(folder));
    let is_missing = |folder: &&OsStr| *folder != WORDPRESS_UPLOADS && !root.join(folder).is_dir();
    let warning = |folder: &OsStr| {
        let (folder, root) = (folder.display(), root.display());
        format!(
            "there is no folder {folder} in {root}; scripts in a folder of another name are run"
        )
    };
    folders.filter(is_missing).map(warning).collect()
}

/// Returns the warning about an access log that is in the folder of a site, where clients may read
/// it; `None` if it is elsewhere.
pub(crate) fn of_log<'s>(
    log: &LogTarget,
    mut sites: impl Iterator<Item = &'s ServedSource>,
) -> Option<String> {
    let LogTarget::File(_) = log else { return None };
    let real = real_path(log);
    let holds_log =
        |site: &&ServedSource| published(site).is_some_and(|folder| real.starts_with(folder));
    let site = sites.find(holds_log)?.path().display();
    Some(format!(
        "the access log {log} is in the folder of the site {site}, where clients may read it; \
         write it to another folder"
    ))
}

/// Returns the folder whose files a site publishes, without links; `None` without a folder.
fn published(site: &ServedSource) -> Option<PathBuf> {
    let ServedSource::Folder(folder) = site else { return None };
    let content = folder.join(CONTENT_FOLDER);
    let folder = if content.is_dir() { &content } else { folder };
    folder.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_log_within_a_published_folder_is_reported() {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("pinion-path-warnings-{id}"));
        for name in ["a/logs", "b/public_html", "b/logs"] {
            fs::create_dir_all(folder.join(name)).expect("made");
        }
        let sites = ["a", "b"].map(|name| ServedSource::Folder(folder.join(name)));
        let warned = |log: &str| of_log(&LogTarget::File(folder.join(log)), sites.iter());
        for (log, is_in_site) in [
            ("a/x.txt", true),
            ("a/logs/x.log", true),
            ("b/public_html/x", true),
            ("b/logs/x", false),
            ("x.log", false),
        ] {
            assert_eq!(warned(log).is_some(), is_in_site, "{log}");
        }
        assert_eq!(of_log(&LogTarget::Stdout, sites.iter()), None);
        let archive = [ServedSource::Archive(folder.join("a"))];
        let log = LogTarget::File(folder.join("a/x"));
        assert_eq!(of_log(&log, archive.iter()), None);
        fs::write(folder.join("file"), "").expect("written");
        let webroot = |name: &str| of_acme_webroot(&folder.join(name)).unwrap_or_default();
        assert_eq!(webroot("a"), "");
        assert!(webroot("file").ends_with(
            "file is a file; give the folder that the ACME client \
                                            writes to"
        ));
        assert!(webroot("none").ends_with("none does not exist; create it for the ACME client"));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
