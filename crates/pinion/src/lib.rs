//! The `pinion` program: reads the command line, runs the verb it asks for, and turns a failure
//! into one line and an exit code. This file is the table of contents; its input is a command line,
//! its output an exit code.

#![forbid(unsafe_code)]

mod access_log;
mod address;
mod archive_file;
mod build_options;
mod calendar;
mod certificate_files;
mod command_line;
mod config;
mod control;
mod directives;
mod document;
mod explain;
mod failure;
mod fallback_rule;
#[cfg(fuzzing)]
pub mod fuzzing;
mod listing;
mod log_lines;
mod manual;
mod network;
mod notes;
mod panics;
mod path_warnings;
mod plan;
mod program;
mod progress;
mod regular_file;
mod releases;
mod script_file;
mod self_signed;
mod server;
mod settings;
mod source;
mod state;
mod terminal;
mod values;
mod verbs;
mod written;

pub use program::run;
