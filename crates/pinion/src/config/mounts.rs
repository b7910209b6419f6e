//! What is wrong with the mounts of a site, each alone and all together.

use super::fault::{Fault, Place};
use super::tables::Section;
use crate::directives::file::Table;
use crate::server::mounts::MountPath;
use crate::settings;
use crate::values;
use std::path::Path;

/// Everything of this kind that is wrong with a site. Files that its mounts name are read.
pub(super) fn find(site: &Section, file: &Path) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut known: Vec<(MountPath, Place)> = Vec::new();
    let short = site.low.values("proxy").filter_map(|text| text.to_str());
    for (text, place) in short.zip(site.places_of("proxy")) {
        if let Ok((path, _)) = values::proxy_mount(text) {
            add("proxy", path, place, &mut known, file, &mut faults);
        }
    }
    for section in site.tables(Table::Mount) {
        let text = section.low.values("mount-path").next().and_then(|text| text.to_str());
        // A path that is wrong was reported where it was read.
        if text.is_some() || !section.is_written("mount-path") {
            let path = MountPath::parse(text.unwrap_or("/"));
            let place = section.place_of("mount-path");
            if let Ok(path) = path {
                add("path", path, place, &mut known, file, &mut faults);
            }
        }
        // So were servers that are wrong.
        let rows = settings::SERVER_ROWS;
        let is_wrong = rows.iter().any(|row| section.is_written(row) && !section.low.given(row));
        if !is_wrong && let Err(fault) = settings::mount(&section.low) {
            let place = section.places_of(fault.row).nth(fault.value);
            faults.push(Fault::at(file, place.unwrap_or(section.place), fault.to_string()));
        }
    }
    let root = known.iter().find(|(path, _)| path.to_string() == "/");
    if let Some((_, Place { line, .. })) = root
        && site.is_written("single-page")
    {
        let message = format!(
            "single-page: the page responds to every path and leaves nothing for the mount / in \
             line {line}; leave it out, or give the mount another path"
        );
        faults.push(Fault::at(file, site.place_of("single-page"), message));
    }
    faults
}

/// A path has one mount.
fn add(
    key: &str,
    path: MountPath,
    place: Place,
    known: &mut Vec<(MountPath, Place)>,
    file: &Path,
    faults: &mut Vec<Fault>,
) {
    match known.iter().find(|(other, _)| *other == path) {
        Some((_, Place { line, .. })) => {
            let message = format!(
                "{key}: {path} is forwarded by line {line} already; name several servers in one \
                 list, or give another path"
            );
            faults.push(Fault::at(file, place, message));
        }
        None => known.push((path, place)),
    }
}

#[cfg(test)]
mod tests;
