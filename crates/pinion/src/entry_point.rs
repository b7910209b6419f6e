//! A run of the program, from command line to exit code.

use crate::command_line::{self, ParsedCommand};
use crate::failure::Failure;
use crate::json_failure_document::KnownMembers;
use crate::panics;
use crate::settings::Settings;
use crate::verbs;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program. `arguments` are those of the command line, its own name first.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    // A fault in a command line may be found before its flags are read.
    let mut known = command_line::names_json(&arguments).then(KnownMembers::default);
    match try_run(&arguments, &mut known) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(known) = known {
                known.write(&failure);
            }
            failure.report()
        }
    }
}

fn try_run(arguments: &[OsString], known: &mut Option<KnownMembers>) -> Result<(), Failure> {
    let low = match command_line::parse(arguments.iter().cloned())? {
        ParsedCommand::Run(low) => low,
        ParsedCommand::Help(page) => return page.print().map_err(Failure::from),
    };
    let settings = Settings::from_low(&low)?;
    *known = KnownMembers::about(&settings);
    match settings {
        Settings::Build(build) => verbs::build::run(&build),
        Settings::Cat(cat) => verbs::cat::run(&cat),
        Settings::Check(check) => verbs::check::run(&check),
        Settings::Completions { shell } => verbs::completions::run(&shell),
        Settings::Control(control) => verbs::control::run(&control),
        Settings::Diff(diff) => verbs::diff::run(&diff),
        Settings::Extract(extract) => verbs::extract::run(&extract),
        Settings::Import(import) => verbs::import::run(&import),
        Settings::Inspect(look) => verbs::inspect::run(&look),
        Settings::Ls(look) => verbs::ls::run(&look),
        Settings::Man { page } => verbs::man::run(page.as_deref()),
        Settings::Publish(publish) => verbs::publish::run(&publish),
        Settings::Releases(releases) => verbs::releases::run(&releases),
        Settings::Rollback(rollback) => verbs::rollback::run(&rollback),
        Settings::Run(run) => {
            panics::log_as_lines();
            verbs::run::run(run)
        }
        Settings::Serve(serve) => {
            panics::log_as_lines();
            verbs::serve::run(*serve)
        }
        Settings::Store(serve) => {
            panics::log_as_lines();
            verbs::store::run(*serve)
        }
        Settings::Verify(look) => verbs::verify::run(&look),
        Settings::Version { sbom, json } => verbs::version::run(sbom, json),
        Settings::Why(why) => verbs::why::run(why),
    }
}
