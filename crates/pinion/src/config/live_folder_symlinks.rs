//! Finds symbolic links in folders that are read for each request. They are not followed, so that
//! their targets are missing without a line in the log.

use super::server_plan_builder::ConfiguredSite;
use crate::build_notes::some;
use crate::served_source::ServedSource;
use crate::settings::LiveFolderLocation;
use crate::terminal::counted;
use std::fs;
use std::path::{Path, PathBuf};

/// Most files and folders that are looked at for links: those of a large application. Of more, a
/// look would take longer than a person waits.
const LOOKED_AT_MAX: usize = 100_000;

/// Warns about the links in the live folders of a site, and in the folder of its PHP scripts.
pub(super) fn warnings(site: &ConfiguredSite) -> Vec<String> {
    let settings = &site.planned.settings;
    let in_site = match &site.planned.source {
        ServedSource::Folder(folder) => Some(folder),
        _ => None,
    };
    let live = settings.live.iter().filter_map(|folder| match &folder.at {
        LiveFolderLocation::InSite(path) if path.is_empty() => in_site.cloned(),
        LiveFolderLocation::InSite(path) => Some(in_site?.join(path)),
        LiveFolderLocation::Elsewhere(path) => Some(path.clone()),
    });
    let scripts = settings.php.is_some().then_some(in_site).flatten().cloned();
    let mut folders: Vec<PathBuf> = live.chain(scripts).collect();
    folders.sort_unstable();
    folders.dedup();
    // A folder comes before all that are in it.
    let mut tops: Vec<PathBuf> = Vec::new();
    for folder in folders {
        if !tops.iter().any(|top| folder.starts_with(top)) {
            tops.push(folder);
        }
    }
    tops.iter().filter_map(|folder| warning(folder)).collect()
}

fn warning(folder: &Path) -> Option<String> {
    let links = links(folder);
    let count = counted(links.len() as u64, "symbolic link");
    let named = some(&links.iter().collect::<Vec<_>>());
    let shown = folder.display();
    (!links.is_empty()).then(|| format!("{shown}: {count} not followed: {named}"))
}

/// Returns the paths of links below a folder, sorted.
fn links(folder: &Path) -> Vec<PathBuf> {
    let (mut links, mut folders, mut left) = (Vec::new(), vec![folder.to_owned()], LOOKED_AT_MAX);
    while let Some(next) = folders.pop() {
        // A folder that cannot be read is reported elsewhere.
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            let Some(fewer) = left.checked_sub(1) else { break };
            left = fewer;
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => {
                    let path = entry.path();
                    links.push(path.strip_prefix(folder).unwrap_or(&path).to_owned());
                }
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => {}
            }
        }
    }
    links.sort_unstable();
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_counted_and_the_first_are_named() {
        let folder = std::env::temp_dir().join(format!("pinion-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b")).expect("made");
        fs::write(folder.join("a/file"), "").expect("written");
        assert_eq!(warning(&folder), None);
        symlink("..", folder.join("a/b/up")).expect("a link");
        symlink("a/file", folder.join("to-file")).expect("a link");
        let expected =
            format!("{}: 2 symbolic links not followed: a/b/up, to-file", folder.display());
        assert_eq!(warning(&folder), Some(expected));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
