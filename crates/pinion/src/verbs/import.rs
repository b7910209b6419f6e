//! `pinion import FILE`: what another server had becomes ours.
//!
//! | Module | Converts |
//! |---|---|
//! | [`archive`] | an archive of kawipiko (`.cdb`) → an archive |
//! | [`configuration`] | the configuration of another server → `pinion.toml` |
//! | [`unit`] | the configuration of NGINX Unit (`.json`); pure |
//! | [`uwsgi`] | that of uWSGI (`.ini`); pure |
//! | [`draft`] | the file that is being made of it, with what could not be carried; pure |
//! | [`json_document`] | JSON with comments; pure |

mod archive;
mod configuration;
mod draft;
mod json_document;
mod limits;
#[cfg(any(test, fuzzing))]
pub(crate) mod oracle;
#[cfg(test)]
mod tests;
mod unit;
mod uwsgi;

use crate::failure::Failure;
use crate::settings::Import;

/// Converts a file of another server: which kind it is, its name says.
pub(crate) fn run(import: &Import) -> Result<(), Failure> {
    if import.is_configuration() { configuration::run(import) } else { archive::run(import) }
}
