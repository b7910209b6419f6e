//! The program as a user meets it: what it prints, what it exits with, what it serves.

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
