//! Reads a configuration file (`pinion.toml`): from its text to the plan of a server.
//!
//! | Module | Step |
//! |---|---|
//! | [`fault`] | a fault, with file, line and column |
//! | [`syntax_errors`] | errors of the TOML parser → the right form to write; pure |
//! | [`tables`] | text → tables of texts, each checked by its row of the directive table; pure |
//! | [`unknown_names`] | messages about tables and keys that do not exist; pure |
//! | [`table_conflicts`] | contradictions between tables; pure |
//! | [`mount_checks`] | the mounts of a site, each alone and all together |
//! | [`server_plan_builder`] | file and flags → a [`ServerPlan`](crate::plan::ServerPlan) |
//! | [`preflight_check`] | a look at everything that the file names |
//! | [`site_path_checks`] | the files, folders and programs that the keys of a site name |
//! | [`site_content_checks`] | the content of a site: a folder or an archive |
//! | [`access_log_conflicts`] | access logs that contradict each other |
//! | [`live_folder_symlinks`] | links in folders that are read for each request |
//! | [`password_file_checks`] | files with the passwords of users |
//! | [`name_suggestion`] | the name that was meant |
//!
//! Everything that is wrong is found in one go: no step ends at the first fault.

mod access_log_conflicts;
mod fault;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_properties;
mod live_folder_symlinks;
mod mount_checks;
pub(crate) mod name_suggestion;
mod password_file_checks;
mod preflight_check;
mod server_plan_builder;
mod site_content_checks;
mod site_path_checks;
mod syntax_errors;
mod table_conflicts;
mod tables;
mod unknown_names;

pub(crate) use access_log_conflicts::real_path;
pub(crate) use fault::{ConfigFault, TextPlace};
pub(crate) use preflight_check::examine;
pub(crate) use server_plan_builder::{load, parse};
pub(crate) use site_content_checks::{CheckNotes, examine_archive, examine_folder, of_code};
