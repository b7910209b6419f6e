//! Reads a configuration file (`pinion.toml`): from its text to the plan of a server.
//!
//! | Module | Step |
//! |---|---|
//! | [`fault`] | a fault, with file, line and column |
//! | [`syntax`] | errors of the TOML parser → the right form to write; pure |
//! | [`tables`] | text → tables of texts, each checked by its row of the directive table; pure |
//! | [`clash`] | contradictions between tables; pure |
//! | [`mounts`] | the mounts of a site, each alone and all together |
//! | [`mod@load`] | file and flags → the parts of a [`ServerPlan`](crate::plan::ServerPlan) |
//! | [`mod@examine`] | a look at everything that the file names |
//! | [`access_logs`] | access logs that contradict each other |
//! | [`live_links`] | links in folders that are read for each request |
//! | [`password_files`] | files with the passwords of users |
//! | [`nearest`] | the name that was meant |
//!
//! Everything that is wrong is found in one go: no step ends at the first fault.

mod access_logs;
mod clash;
mod examine;
mod fault;
mod live_links;
mod load;
mod mounts;
pub(crate) mod nearest;
#[cfg(any(test, fuzzing))]
pub(crate) mod oracle;
mod password_files;
mod syntax;
mod tables;

pub(crate) use access_logs::real_path;
pub(crate) use examine::{Said, examine, examine_archive, examine_folder, of_code};
pub(crate) use fault::{ConfigFault, TextPlace};
pub(crate) use load::{load, parse};
