//! The `pinion` program: reads the command line, runs the verb it asks for, and turns a failure
//! into one line and an exit code. This file is the table of contents; its input is a command line,
//! its output an exit code.
//!
//! | Module | Contents |
//! |---|---|
//! | `program`, `failure` | a run, from command line to exit code; the reasons why a verb failed |
//! | `directives` | the table with a row for every flag and every key of a configuration file |
//! | `command_line`, `config` | the readers of the command line and of a configuration file |
//! | `written` | written settings |
//! | `values` | the reader of each kind of value |
//! | `settings` | typed settings |
//! | `verbs` | the commands of the program, one file for each verb |
//! | `build_options` | the flags about content, as the crate `build` takes them |
//! | `plan` | the plan of a server, before any start |
//! | `source` | the source that `pinion serve` serves |
//! | `server` | a running server, which connects the other crates |
//! | `control`, `explain` | the control socket; the explanation of a response |
//! | `archive_file`, `regular_file` | an archive on the disk; files that are read as a whole |
//! | `script_file` | Lua on the disk or in an archive, as the program that workers run |
//! | `releases`, `state` | a release folder; the folder for files that the server makes and keeps |
//! | `certificate_files` | a certificate and its key |
//! | `self_signed` | the certificate that the server makes |
//! | `address`, `network` | the forms of a listening address; networks of IP addresses |
//! | `notes`, `path_warnings` | notes about names in a folder; warnings about paths of a server |
//! | `fallback_rule` | the rules of an archive that respond to every path |
//! | `access_log`, `calendar` | the access log; times in the formats of logs and listings |
//! | `log_lines`, `panics` | lines of a server that are no errors; panics of a server |
//! | `document` | the JSON document of a failed run |
//! | `listed_entry` | an entry of an archive as verbs show it |
//! | `terminal` | colours, columns and sizes of output |
//! | `progress` | the progress bar of a long verb |
//! | `manual` | the manual pages, as roff, made from the directive table |
//! | `fuzzing` | the function for a fuzz target |

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
mod listed_entry;
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
