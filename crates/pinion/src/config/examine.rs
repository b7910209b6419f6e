//! A look at everything that a file names, without starting anything: what a start would stumble
//! over, all of it at once.

use super::fault::{Fault, Place};
use super::load::{Loaded, LoadedSite};
use crate::address::Address;
use crate::archive_file::ArchiveFile;
use crate::build_options;
use crate::failure::{Failure, without_number};
use crate::settings::LogTarget;
use crate::source::Source;
use pinion_build::Names;
use std::fs;
use std::path::Path;

/// Adds what is wrong with what `loaded` names; `path` is its file.
pub(crate) fn examine(loaded: &mut Loaded, path: &Path) {
    let mut found = Vec::new();
    let mut add = |place: Place, message: String| found.push(Fault::at(path, place, message));
    for site in &loaded.sites {
        examine_site(site, &mut add);
    }
    for listener in &loaded.listeners {
        let text = listener.low.values("listen").next().and_then(|text| text.to_str());
        if let Some(Ok(Address::Unix(socket))) = text.map(Address::parse)
            && let Some(wrong) = no_folder(&socket)
        {
            add(listener.place_of("listen"), format!("address: {wrong}"));
        }
    }
    if let (Some(server), Some(serve)) = (&loaded.server, &loaded.serve)
        && let Some(LogTarget::File(log)) = &serve.access_log
    {
        let wrong = match log.is_dir() {
            true => Some(format!("{} is a folder", log.display())),
            false => no_folder(log),
        };
        if let Some(wrong) = wrong {
            add(server.place_of("access-log"), format!("access: {wrong}"));
        }
    }
    loaded.faults.extend(found);
    loaded.faults.sort_by_key(|fault| fault.place);
}

fn examine_site(site: &LoadedSite, add: &mut impl FnMut(Place, String)) {
    let LoadedSite { planned, section } = site;
    let at_path = section.place_of("path");
    let reason = |failure: Failure| failure.reason().unwrap_or_default();
    match &planned.source {
        Source::Archive(_) | Source::Releases(_) => {
            let archive = planned.source.archive().unwrap_or_default();
            if let Err(failure) = ArchiveFile::open(&archive) {
                add(at_path, format!("path: {}", reason(failure)));
            }
        }
        Source::Folder(folder) => {
            if let Err(error) = fs::read_dir(folder) {
                let shown = folder.display();
                let error = without_number(&error.to_string());
                add(at_path, format!("path: {shown} cannot be read: {error}"));
            }
            let globs = planned.settings.content.exclude.iter();
            for (glob, place) in globs.zip(section.places_of("exclude")) {
                if let Err(error) = Names::new(std::slice::from_ref(glob)) {
                    add(place, format!("exclude: {error}"));
                }
            }
            let options =
                build_options::options(&planned.settings.content, pinion_build::Options::serving);
            if let Err(failure) = options {
                add(section.place, reason(failure));
            }
        }
    }
}

/// Why a file cannot be made there, if it cannot.
fn no_folder(file: &Path) -> Option<String> {
    let folder = file.parent().filter(|folder| *folder != Path::new(""))?;
    (!folder.is_dir()).then(|| format!("there is no folder {}", folder.display()))
}
