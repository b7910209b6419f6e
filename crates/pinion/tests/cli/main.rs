//! The program as a user runs it: its output, its exit statuses and its responses.

mod archives;
mod building;
mod checking;
mod configuration;
mod diff;
mod exit_codes;
mod extract;
mod help;
mod help_examples;
mod import;
mod json;
mod pinion_runner;
mod refused_flag_values;
mod server;
mod serving;
mod temporary_folder;
