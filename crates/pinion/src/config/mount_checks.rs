//! Checks the mounts of a site, each alone and all together.

use super::fault::{ConfigFault, TextPlace};
use super::server_plan_builder::ConfiguredSite;
use super::tables::TableSection;
use crate::directive_value_parsers::mount_values;
use crate::directives::config_file_tables::Table;
use crate::path_warnings;
use crate::server::mounts::{MountPath, Mounts};
use crate::settings;
use std::path::Path;

/// Returns all faults of this kind in a site. Files that its mounts name are read.
pub(super) fn find(site: &TableSection, file: &Path) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    let mut known: Vec<(MountPath, TextPlace)> = Vec::new();
    let short = site.low.values("proxy").filter_map(|text| text.to_str());
    for (text, place) in short.zip(site.places_of("proxy")) {
        if let Ok((path, _)) = mount_values::proxy_mount(text) {
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
        if !has_wrong_servers(section)
            && let Err(fault) = settings::mount(&section.low)
        {
            let place = section.places_of(fault.row).nth(fault.value);
            faults.push(ConfigFault::at(file, place.unwrap_or(section.place), fault.to_string()));
        }
    }
    let root = known.iter().find(|(path, _)| path.to_string() == "/");
    if let Some((_, TextPlace { line, .. })) = root
        && site.is_written("single-page")
    {
        let message = format!(
            "single-page: the page responds to every path and leaves nothing for the mount / in \
             line {line}; leave it out, or give the mount another path"
        );
        faults.push(ConfigFault::at(file, site.place_of("single-page"), message));
    }
    faults
}

/// Returns whether the servers of a mount of a site could not be read, which was reported then.
pub(super) fn have_wrong_servers(site: &TableSection) -> bool {
    site.tables(Table::Mount).iter().any(has_wrong_servers)
}

fn has_wrong_servers(mount: &TableSection) -> bool {
    settings::SERVER_ROWS.iter().any(|row| mount.is_written(row) && !mount.low.given(row))
}

/// Warns about the folders of `no-exec` of a site that do not exist.
pub(super) fn missing_no_exec(site: &ConfiguredSite) -> Vec<(TextPlace, &'static str, String)> {
    let ConfiguredSite { planned, section } = site;
    let has_no_exec = |table: &&TableSection| table.is_written("mount-no-exec");
    let table = section.tables(Table::Mount).iter().find(has_no_exec);
    let place = match table {
        Some(table) => table.place_of("mount-no-exec"),
        None => section.place_of("no-exec"),
    };
    let mounts = planned.settings.planned_mounts();
    let warnings = mounts.iter().flat_map(Mounts::all).flat_map(path_warnings::of_no_exec);
    warnings.map(|warning| (place, "no-exec", warning)).collect()
}

/// Adds a path, and a fault if it has a mount already.
fn add(
    key: &str,
    path: MountPath,
    place: TextPlace,
    known: &mut Vec<(MountPath, TextPlace)>,
    file: &Path,
    faults: &mut Vec<ConfigFault>,
) {
    match known.iter().find(|(other, _)| *other == path) {
        Some((_, TextPlace { line, .. })) => {
            let message = format!(
                "{key}: {path} is forwarded by line {line} already; name several servers in one \
                 list, or give another path"
            );
            faults.push(ConfigFault::at(file, place, message));
        }
        None => known.push((path, place)),
    }
}

#[cfg(test)]
mod tests;
