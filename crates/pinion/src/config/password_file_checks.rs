//! Files with the passwords of users that the tables of a site name.

use super::fault::{ConfigFault, TextPlace};
use super::server_plan_builder::ConfiguredSite;
use crate::directives::config_file_tables::Table;
use crate::server::access::password_file::PasswordFile;
use crate::server::access::rules::published_password_file;
use std::path::Path;

/// Reads the password files of all sites. An error with one is added to the key that names it, and
/// the faults in the file itself to `below`, once. Returns warnings.
pub(super) fn examine(
    sites: &[ConfiguredSite],
    add: &mut dyn FnMut(TextPlace, String),
    below: &mut Vec<ConfigFault>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for site in sites {
        let folder = site.planned.source.path();
        for section in site.section.tables(Table::Access) {
            let Some(file) = section.low.values("access-password-file").next() else { continue };
            let (file, place) = (Path::new(file), section.place_of("access-password-file"));
            let mut add = |message: &str| add(place, format!("password-file: {message}"));
            if let Some(wrong) = published_password_file(folder, file) {
                add(&wrong);
            }
            match PasswordFile::read(file) {
                Ok(users) => warnings.extend(users.warning(file)),
                Err(faults) => {
                    let shown = file.display();
                    match faults.as_slice() {
                        [ConfigFault { place: None, message, .. }] => {
                            add(&format!("{shown} {message}"));
                        }
                        _ => add(&format!("{shown} has {} faults", faults.len())),
                    }
                    let is_new =
                        |fault: &ConfigFault| fault.place.is_some() && !below.contains(fault);
                    let new: Vec<ConfigFault> = faults.into_iter().filter(is_new).collect();
                    below.extend(new);
                }
            }
        }
    }
    warnings
}
