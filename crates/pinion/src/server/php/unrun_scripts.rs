//! PHP scripts of a folder that nothing runs.

use crate::server::mounts::Mounts;
use std::path::{Path, PathBuf};

/// Returns the first PHP script of a folder that no mount runs. Its source is not part of the site
/// in any case, but its path would have no response. Both lists are sorted: the files that a build
/// leaves out, and those of them that were excluded on purpose.
pub(crate) fn first_unrun<'p>(
    skipped: &'p [PathBuf],
    excluded: &[PathBuf],
    mounts: &Mounts,
) -> Option<&'p Path> {
    let is_php = |path: &&PathBuf| path.extension().is_some_and(|found| found == "php");
    let is_excluded = |path: &&PathBuf| excluded.binary_search(path).is_ok();
    let is_run = |path: &&PathBuf| mounts.any_responds_to(&url_path(path));
    let mut scripts = skipped.iter().filter(is_php).filter(|path| !is_excluded(path));
    scripts.find(|path| !is_run(path)).map(PathBuf::as_path)
}

/// Returns whether the source of a script is not sent because a mount runs it.
pub(crate) fn is_run(path: &Path, mounts: &Mounts) -> bool {
    mounts.mount_before_files(&url_path(path)).is_some()
}

/// The reason why a folder with such a script is not served, and the advice.
pub(crate) const UNRUN: &str = "is a PHP script, and nothing runs it: run PHP with --php-fpm PATH \
                                (in a file php = true) or a mount with root, or leave scripts out \
                                with --no-php (php = false)";

fn url_path(path: &Path) -> Vec<u8> {
    [b"/", path.as_os_str().as_encoded_bytes()].concat()
}
