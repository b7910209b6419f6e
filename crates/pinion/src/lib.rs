//! The `pinion` program: reads the command line, runs the verb it asks for, and turns a failure
//! into one line and an exit code. This file is the table of contents; its input is a command line,
//! its output an exit code.
//!
//! | Module | Contents |
//! |---|---|
//! | `entry_point`, `failure` | from command line to exit code; reasons why a verb failed |
//! | `directives` | the table with a row for every flag and every key of a configuration file |
//! | `command_line`, `config` | the readers of the command line and of a configuration file |
//! | `raw_settings` | written settings |
//! | `directive_value_parsers` | the reader of each kind of value |
//! | `settings` | typed settings |
//! | `verbs` | the commands of the program, one file for each verb |
//! | `build_options` | the flags about content, as the crate `build` takes them |
//! | `plan` | the plan of a server, before any start |
//! | `served_source` | the source that `pinion serve` serves |
//! | `server` | a running server, which connects the other crates |
//! | `control`, `explain` | the control socket; the explanation of a response |
//! | `archive_file`, `regular_file` | an archive on the disk; files that are read as a whole |
//! | `lua_program_loader` | Lua on the disk or in an archive, as the program that workers run |
//! | `releases`, `state_folder` | a release folder; the folder of files that the server keeps |
//! | `certificate_files` | a certificate and its key |
//! | `self_signed` | the certificate that the server makes |
//! | `listen_address`, `cidr_network` | forms of a listening address; networks of IP addresses |
//! | `build_notes`, `path_warnings` | notes about names in a folder; warnings about paths |
//! | `catch_all_rule` | the rules of an archive that respond to every path |
//! | `access_log`, `timestamp_format` | the access log; times in the formats of logs and listings |
//! | `warnings_and_notes`, `panics` | lines of a server that are no errors; panics of a server |
//! | `json_failure_document` | the JSON document of a failed run |
//! | `listed_entry` | an entry of an archive as verbs show it |
//! | `terminal` | colours, columns and sizes of output |
//! | `progress` | the progress bar of a long verb |
//! | `manual` | the manual pages, as roff, made from the directive table |
//! | `fuzzing` | the function for a fuzz target |

#![forbid(unsafe_code)]

mod access_log;
mod archive_file;
mod build_notes;
mod build_options;
mod catch_all_rule;
mod certificate_files;
mod cidr_network;
mod command_line;
mod config;
mod control;
mod directive_value_parsers;
mod directives;
mod entry_point;
mod explain;
mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
mod json_failure_document;
mod listed_entry;
mod listen_address;
mod lua_program_loader;
mod manual;
mod panics;
mod path_warnings;
mod plan;
mod progress;
mod raw_settings;
mod regular_file;
mod releases;
mod self_signed;
mod served_source;
mod server;
mod settings;
mod state_folder;
mod terminal;
mod timestamp_format;
mod verbs;
mod warnings_and_notes;

pub use entry_point::run;
