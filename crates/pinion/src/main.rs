//! The `pinion` program: reads the command line, runs the verb it asks for, and turns a failure
//! into one line and an exit code. This file is the table of contents.

#![forbid(unsafe_code)]

mod access_log;
mod address;
mod archive_file;
mod build_options;
mod calendar;
mod command_line;
mod directives;
mod failure;
mod listing;
mod progress;
mod server;
mod settings;
mod source;
mod terminal;
mod values;
mod verbs;

use command_line::Asked;
use failure::Failure;
use settings::Settings;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run() -> Result<(), Failure> {
    let low = match command_line::parse(std::env::args_os())? {
        Asked::Run(low) => low,
        Asked::Help(page) => return page.print().map_err(Failure::from),
    };
    match Settings::from_low(&low)? {
        Settings::Build(build) => verbs::build::run(&build),
        Settings::Cat(cat) => verbs::cat::run(&cat),
        Settings::Inspect(look) => verbs::inspect::run(&look),
        Settings::Ls(look) => verbs::ls::run(&look),
        Settings::Serve(serve) => verbs::serve::run(*serve),
        Settings::Verify(look) => verbs::verify::run(&look),
        Settings::Version { json } => verbs::version::run(json),
    }
}
