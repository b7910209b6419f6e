//! Checks the files, folders and programs that the keys of a site name, and then its content.

use super::content_checks::{Said, examine_archive, examine_folder};
use super::fault::{ConfigFault, TextPlace};
use super::server_plan_builder::ConfiguredSite;
use super::tables::TableSection;
use crate::archive_file::ArchiveFile;
use crate::build_options;
use crate::catch_all_rule;
use crate::failure::{Failure, without_number};
use crate::lua_program_loader;
use crate::served_source::ServedSource;
use crate::server::live_files::LiveFiles;
use crate::server::php::php_pools;
use crate::server::python::interpreter;
use crate::settings::BuildSettings;
use pinion_builder::{Globs, Options};
use pinion_lua::shared_site_state::ScriptSite;
use std::fs;
use std::io;
use std::path::Path;

/// Adds the faults in the keys of a site; returns the faults in its files, or the warnings and
/// notes about them.
pub(super) fn examine(
    site: &ConfiguredSite,
    add: &mut impl FnMut(TextPlace, String),
) -> Result<Said, Vec<ConfigFault>> {
    examine_live(site, add);
    let ConfiguredSite { planned, section } = site;
    let at_path = section.place_of("path");
    let reason = |failure: Failure| failure.reason().unwrap_or_default();
    let allowance = planned.settings.lua.allowance;
    for (folder, place) in planned.settings.lua_folders.iter().zip(section.places_of("lua-folder"))
    {
        if let Err(failure) = lua_program_loader::folders(std::slice::from_ref(folder)) {
            add(place, reason(failure));
        }
    }
    examine_access(site, add);
    let folder = match &planned.source {
        ServedSource::Archive(_) | ServedSource::Releases(_) => {
            let archive = planned.source.file().unwrap_or_default();
            leaves_something(site, &archive, add);
            return Ok(examine_archive(&archive, allowance).unwrap_or_else(|failure| {
                add(at_path, format!("path: {}", reason(failure)));
                Said::default()
            }));
        }
        ServedSource::Upstream(_) => return Ok(Said::default()),
        ServedSource::Script(script) => {
            return Ok(
                match lua_program_loader::proven(script, allowance, &ScriptSite::default()) {
                    Ok(proven) => Said { warnings: proven.warnings, ..Said::default() },
                    Err(failure) => {
                        add(at_path, format!("path: {}", reason(failure)));
                        Said::default()
                    }
                },
            );
        }
        ServedSource::Folder(folder) => folder,
    };
    if let Err(error) = fs::read_dir(folder) {
        let shown = folder.display();
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => "; let the user that runs Pinion read and enter it",
            _ => "",
        };
        let error = without_number(&error.to_string());
        add(at_path, format!("path: {shown} cannot be read: {error}{advice}"));
        return Ok(Said::default());
    }
    let content = &planned.settings.content;
    // Both report all of their faults.
    let keys_are_right =
        examine_globs(content, section, add) & examine_rules_files(content, section, add);
    match build_options::options(content, Options::serving) {
        Ok(options) if keys_are_right => examine_files(site, folder, &options),
        Ok(_) => Ok(Said::default()),
        Err(failure) => {
            add(section.place, reason(failure));
            Ok(Said::default())
        }
    }
}

/// Adds the faults in the live folders of a site.
fn examine_live(site: &ConfiguredSite, add: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let in_folder = match &planned.source {
        ServedSource::Folder(folder) => Some(folder.as_path()),
        _ => None,
    };
    for (folder, place) in planned.settings.live.iter().zip(section.places_of("live")) {
        if let Err(why) = LiveFiles::check(folder, in_folder) {
            add(place, format!("live: {why}"));
        }
    }
}

/// Adds the faults in the files of secrets and of certificate authorities.
fn examine_access(site: &ConfiguredSite, add: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let access = &planned.settings.script_access;
    let reason = |failure: Failure| failure.reason().unwrap_or_default();
    for (secret, place) in access.secrets().iter().zip(section.places_of("secret")) {
        if let Err(failure) = secret.read() {
            add(place, reason(failure));
        }
    }
    if let Err(failure) = access.trust() {
        add(section.place_of("fetch-ca"), reason(failure));
    }
    examine_php(site, add);
    examine_python(site, add);
}

/// Adds the requirements of the Python applications of a site that this machine lacks.
fn examine_python(site: &ConfiguredSite, add: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    for mount in planned.settings.mounts.python() {
        let settings = &mount.settings;
        let found = interpreter::find(settings.python.as_deref(), &settings.folder);
        if let Err(error) = found {
            add(section.place, format!("{}: {error}", settings.application));
        }
    }
}

/// Adds the requirements of the PHP of a site that this machine lacks.
fn examine_php(site: &ConfiguredSite, add: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let php = planned.settings.php.as_ref();
    if let Some(Err((row, wrong))) = php.map(php_pools::check) {
        add(section.place_of(row), format!("{row}: {wrong}"));
    }
}

/// Adds the faults of the keys that name files of rules and of fields; returns whether there are
/// none.
fn examine_rules_files(
    content: &BuildSettings,
    section: &TableSection,
    add: &mut impl FnMut(TextPlace, String),
) -> bool {
    let mut keys_are_right = true;
    for (key, files) in [("rules", &content.rules), ("fields", &content.fields)] {
        for (file, place) in files.iter().zip(section.places_of(key)) {
            let wrong = match fs::metadata(file) {
                Ok(metadata) if metadata.is_file() => continue,
                Ok(_) => "is not a file".to_owned(),
                Err(error) => format!("cannot be read: {}", without_number(&error.to_string())),
            };
            add(place, format!("{key}: {} {wrong}", file.display()));
            keys_are_right = false;
        }
    }
    keys_are_right
}

/// Looks at the files of a site. Its PHP scripts are run, unless they are left out on purpose.
fn examine_files(
    site: &ConfiguredSite,
    folder: &Path,
    options: &Options,
) -> Result<Said, Vec<ConfigFault>> {
    let settings = &site.planned.settings;
    let leaves_out_scripts = site.section.low.given("no-php");
    let mounts = if leaves_out_scripts { None } else { settings.planned_mounts() };
    examine_folder(folder, options, settings.lua.allowance, mounts.as_ref())
}

/// Checks that the rules of an archive leave something for the mount `/` of a site.
fn leaves_something(
    site: &ConfiguredSite,
    archive: &Path,
    add: &mut impl FnMut(TextPlace, String),
) {
    // An archive that cannot be opened is reported when its content is checked.
    if site.planned.settings.mounts.has_root_mount()
        && let Ok(file) = ArchiveFile::open(archive)
        && let Err(failure) = catch_all_rule::check(&file.view(), archive)
    {
        let reason = failure.reason().unwrap_or_default();
        add(site.section.place_of("path"), format!("path: {reason}"));
    }
}

/// Adds the faults in the patterns of a site; returns whether there are none.
fn examine_globs(
    content: &BuildSettings,
    section: &TableSection,
    add: &mut impl FnMut(TextPlace, String),
) -> bool {
    let mut are_right = true;
    let globs = [
        ("exclude", &content.exclude),
        ("include", &content.include),
        ("immutable", &content.immutable),
    ];
    for (key, globs) in globs {
        for (glob, place) in globs.iter().zip(section.places_of(key)) {
            if let Err(error) = Globs::new(std::slice::from_ref(glob)) {
                add(place, format!("{key}: {error}"));
                are_right = false;
            }
        }
    }
    are_right
}
