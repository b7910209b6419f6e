//! A run of the program, from command line to exit code.

use crate::command_line::{self, Asked};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::verbs;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program. `arguments` are those of the command line, its own name first.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match try_run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn try_run(arguments: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let low = match command_line::parse(arguments)? {
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
