//! Checks the files, folders and programs that the keys of a site name, and then its content.

use super::fault::{ConfigFault, TextPlace};
use super::server_plan_builder::ConfiguredSite;
use super::site_content_checks::{CheckNotes, examine_archive, examine_folder};
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

/// Reports the faults of the keys of a site. Returns the warnings and notes about its files.
///
/// # Errors
/// The faults in the files. `Ok` does not mean that the keys are valid.
pub(super) fn check_site(
    site: &ConfiguredSite,
    report: &mut impl FnMut(TextPlace, String),
) -> Result<CheckNotes, Vec<ConfigFault>> {
    check_live_folders(site, report);
    let ConfiguredSite { planned, section } = site;
    let at_path = section.place_of("path");
    let reason = |failure: Failure| failure.reason().unwrap_or_default();
    let quotas = planned.settings.lua.allowance;
    for (folder, place) in planned.settings.lua_folders.iter().zip(section.places_of("lua-folder"))
    {
        if let Err(failure) = lua_program_loader::folders(std::slice::from_ref(folder)) {
            report(place, reason(failure));
        }
    }
    check_script_access(site, report);
    check_php(site, report);
    check_python(site, report);
    let folder = match &planned.source {
        ServedSource::Archive(_) | ServedSource::Releases(_) => {
            let archive = planned.source.file().unwrap_or_default();
            check_catch_all_rule(site, &archive, report);
            return Ok(examine_archive(&archive, quotas).unwrap_or_else(|failure| {
                report(at_path, format!("path: {}", reason(failure)));
                CheckNotes::default()
            }));
        }
        ServedSource::Upstream(_) => return Ok(CheckNotes::default()),
        ServedSource::Script(script) => {
            return Ok(match lua_program_loader::proven(script, quotas, &ScriptSite::default()) {
                Ok(proven) => CheckNotes { warnings: proven.warnings, ..CheckNotes::default() },
                Err(failure) => {
                    report(at_path, format!("path: {}", reason(failure)));
                    CheckNotes::default()
                }
            });
        }
        ServedSource::Folder(folder) => folder,
    };
    if let Err(error) = fs::read_dir(folder) {
        let shown = folder.display();
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "; give the user that runs Pinion read and execute permission"
            }
            _ => "",
        };
        let error = without_number(&error.to_string());
        report(at_path, format!("path: {shown} cannot be read: {error}{advice}"));
        return Ok(CheckNotes::default());
    }
    let content = &planned.settings.content;
    // `&` in place of `&&`: both checks report all of their faults.
    let are_keys_valid =
        check_globs(content, section, report) & check_rules_files(content, section, report);
    match build_options::options(content, Options::serving) {
        Ok(options) if are_keys_valid => check_folder(site, folder, &options),
        Ok(_) => Ok(CheckNotes::default()),
        Err(failure) => {
            report(section.place, reason(failure));
            Ok(CheckNotes::default())
        }
    }
}

/// Reports faults in the live folders of a site.
fn check_live_folders(site: &ConfiguredSite, report: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let in_folder = match &planned.source {
        ServedSource::Folder(folder) => Some(folder.as_path()),
        _ => None,
    };
    for (folder, place) in planned.settings.live.iter().zip(section.places_of("live")) {
        if let Err(why) = LiveFiles::check(folder, in_folder) {
            report(place, format!("live: {why}"));
        }
    }
}

/// Reports faults in the files of secrets and of certificate authorities.
fn check_script_access(site: &ConfiguredSite, report: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let access = &planned.settings.script_access;
    let reason = |failure: Failure| failure.reason().unwrap_or_default();
    for (secret, place) in access.secrets().iter().zip(section.places_of("secret")) {
        if let Err(failure) = secret.read() {
            report(place, reason(failure));
        }
    }
    if let Err(failure) = access.trust() {
        report(section.place_of("fetch-ca"), reason(failure));
    }
}

/// Reports that there is no Python interpreter for the applications of a site.
fn check_python(site: &ConfiguredSite, report: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    for mount in planned.settings.mounts.python() {
        let settings = &mount.settings;
        let found = interpreter::find(settings.python.as_deref(), &settings.folder);
        if let Err(error) = found {
            report(section.place, format!("{}: {error}", settings.application));
        }
    }
}

/// Reports that the PHP of a site cannot be started on this machine.
fn check_php(site: &ConfiguredSite, report: &mut impl FnMut(TextPlace, String)) {
    let ConfiguredSite { planned, section } = site;
    let php = planned.settings.php.as_ref();
    if let Some(Err((row, wrong))) = php.map(php_pools::check) {
        report(section.place_of(row), format!("{row}: {wrong}"));
    }
}

/// Reports faults in the keys that name files of rules and of fields. Returns whether there are
/// none.
fn check_rules_files(
    content: &BuildSettings,
    section: &TableSection,
    report: &mut impl FnMut(TextPlace, String),
) -> bool {
    let mut are_keys_valid = true;
    for (key, files) in [("rules", &content.rules), ("fields", &content.fields)] {
        for (file, place) in files.iter().zip(section.places_of(key)) {
            let wrong = match fs::metadata(file) {
                Ok(metadata) if metadata.is_file() => continue,
                Ok(_) => "is not a file".to_owned(),
                Err(error) => format!("cannot be read: {}", without_number(&error.to_string())),
            };
            report(place, format!("{key}: {} {wrong}", file.display()));
            are_keys_valid = false;
        }
    }
    are_keys_valid
}

/// Checks the files of the folder of a site. With `php = false` PHP scripts are files that the site
/// does not run, so the mounts are not considered.
fn check_folder(
    site: &ConfiguredSite,
    folder: &Path,
    options: &Options,
) -> Result<CheckNotes, Vec<ConfigFault>> {
    let settings = &site.planned.settings;
    let leaves_out_scripts = site.section.low.given("no-php");
    let mounts = if leaves_out_scripts { None } else { settings.planned_mounts() };
    examine_folder(folder, options, settings.lua.allowance, mounts.as_ref())
}

/// Reports a rule of an archive that leaves no requests for the mount `/` of a site.
fn check_catch_all_rule(
    site: &ConfiguredSite,
    archive: &Path,
    report: &mut impl FnMut(TextPlace, String),
) {
    // An archive that cannot be opened is reported when its content is checked.
    if site.planned.settings.mounts.has_root_mount()
        && let Ok(file) = ArchiveFile::open(archive)
        && let Err(failure) = catch_all_rule::check(&file.view(), archive)
    {
        let reason = failure.reason().unwrap_or_default();
        report(site.section.place_of("path"), format!("path: {reason}"));
    }
}

/// Reports faults in the patterns of a site. Returns whether there are none.
fn check_globs(
    content: &BuildSettings,
    section: &TableSection,
    report: &mut impl FnMut(TextPlace, String),
) -> bool {
    let mut are_valid = true;
    let globs = [
        ("exclude", &content.exclude),
        ("include", &content.include),
        ("immutable", &content.immutable),
    ];
    for (key, globs) in globs {
        for (glob, place) in globs.iter().zip(section.places_of(key)) {
            if let Err(error) = Globs::new(std::slice::from_ref(glob)) {
                report(place, format!("{key}: {error}"));
                are_valid = false;
            }
        }
    }
    are_valid
}
