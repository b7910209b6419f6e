//! The program as a user runs it: its output, its exit statuses and its responses.

mod archives;
mod building;
mod checking;
mod command_line;
mod configuration;
mod diff;
mod examples;
mod extract;
mod flags;
mod folder;
mod help;
mod import;
mod json;
mod program;
mod server;
mod serving;
