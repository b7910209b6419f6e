//! `pinion import FILE`: converts the configuration or the archive of another server to ours.
//!
//! | Module | Converts |
//! |---|---|
//! | [`kawipiko_archive`] | an archive of kawipiko (`.cdb`) → an archive |
//! | [`configuration`] | the configuration of another server → `pinion.toml` |
//! | [`nginx_unit`] | the configuration of NGINX Unit (`.json`); pure |
//! | [`uwsgi`] | that of uWSGI (`.ini`); pure |
//! | [`configuration_draft`] | the file that is made of it, with notes about lost parts; pure |
//! | [`json_document`] | JSON with comments; pure |

mod configuration;
mod configuration_draft;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_properties;
mod json_document;
mod kawipiko_archive;
mod limits;
mod nginx_unit;
#[cfg(test)]
mod tests;
mod uwsgi;

use crate::failure::Failure;
use crate::settings::Import;

/// Ends of the names of files in other forms that uWSGI reads.
const OTHER_FORMS: [&str; 3] = ["yaml", "yml", "xml"];

/// Converts a file of another server: which kind it is, its name says.
pub(crate) fn run(import: &Import) -> Result<(), Failure> {
    let extension = import.file.extension().and_then(|extension| extension.to_str());
    if extension.is_some_and(|extension| OTHER_FORMS.contains(&extension)) {
        return Err(Failure::usage(format!(
            "{}: configurations of uWSGI in YAML and XML are not read; write it as uwsgi.ini",
            import.file.display()
        )));
    }
    if import.is_configuration() {
        configuration::run(import)
    } else {
        kawipiko_archive::run(import)
    }
}
