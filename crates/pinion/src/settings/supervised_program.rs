//! A program that the server keeps running, as its `[[program]]` says.

use super::{number, row};
use crate::directive_value_parsers;
use crate::failure::without_number;
use crate::raw_settings::Low;
use pinion_spawner::accounts::{AccountError, Accounts};
use pinion_spawner::start_table::{Identity, ProgramKind, ProgramStart, ResourceLimit, StartTable};
use pinion_spawner::table_check::{StartError, TableError};
use rustix::process::{Resource, Signal, getegid, geteuid};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::{env, fmt};

/// The search path of programs, without the folders in the server's own environment.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A fault in the settings of a program.
#[derive(Debug)]
pub(crate) struct ProgramFault {
    /// The row of the directive table that it is about.
    pub(crate) row: &'static str,
    /// The key and its fault.
    pub(crate) message: String,
    /// Whether the program is right, and this process lacks the privilege to start it.
    pub(crate) is_privilege: bool,
}

/// Reads the settings of a program whose name and command are there. Names of users and groups are
/// looked up; [`check_program_files`] looks at the files.
///
/// # Errors
/// The key that is wrong.
pub(crate) fn supervised_program(
    low: &Low,
    accounts: &Accounts,
) -> Result<ProgramStart, ProgramFault> {
    let text = |name: &str| low.values(name).next().and_then(OsStr::to_str);
    let mut command = low.values("program-command").map(OsStr::to_owned);
    let program = command.next().unwrap_or_default();
    if !Path::new(&program).is_absolute() {
        let shown = program.display();
        let message = format!("{shown:?} is not an absolute path, such as /usr/bin/node");
        return Err(ProgramFault::new("program-command", message));
    }
    let chroot = text("program-chroot").map(Into::into);
    let identity = identity(low, accounts)?;
    let home = text("program-user").and_then(|user| accounts.home(user));
    let start = ProgramStart {
        kind: ProgramKind::Supervised,
        arguments: command.collect(),
        environment: variables(low, home, chroot.is_some()),
        identity,
        working_directory: text("program-directory").unwrap_or("/").into(),
        nice: text("program-nice").and_then(|text| directive_value_parsers::nice(text).ok()),
        resource_limits: resource_limits(low)?,
        stop_signal: signal(text("program-stop-signal")),
        grace_ms: of_number(low, "program-stop-timeout")?.unwrap_or(0_u32) * 1000,
        chroot,
        ..ProgramStart::new(text("program-name").unwrap_or_default(), program)
    };
    match (StartTable { starts: vec![start.clone()] }).check() {
        Ok(()) => Ok(start),
        Err(error) => Err(ProgramFault::of_check(&start, error)),
    }
}

/// Checks that the files of a program are there. If they are not, its start fails and is tried
/// again until they are, so it is no reason to stop the server or to refuse other settings.
///
/// # Errors
/// The key that names the file that cannot be used.
pub(crate) fn check_program_files(start: &ProgramStart) -> Result<(), ProgramFault> {
    let checked = start.check_files();
    checked.map_err(|error| ProgramFault::new(row_of(start, &error), error))
}

/// Returns the variables that every program has.
pub(crate) fn default_variables(has_root: bool) -> Vec<(OsString, OsString)> {
    let mut variables = vec![("PATH".into(), PATH.into()), ("LANG".into(), "C.UTF-8".into())];
    // Where files can be written that nothing else sees (PrivateTmp= of systemd). In another root
    // directory the path leads elsewhere.
    let folder = env::var_os("TMPDIR").filter(|_| !has_root);
    variables.extend(folder.map(|folder| ("TMPDIR".into(), folder)));
    variables
}

/// Returns the environment of a program: the default variables, those of its user, given by its
/// name and home directory, and the configured ones, which replace the others.
fn variables(low: &Low, home: Option<(&str, &str)>, has_root: bool) -> Vec<(OsString, OsString)> {
    let mut variables = default_variables(has_root);
    if let Some((name, home)) = home {
        let of_user = [("HOME", home), ("USER", name), ("LOGNAME", name)];
        variables.extend(of_user.map(|(name, value)| (name.into(), value.into())));
    }
    let written = low.values("program-environment").filter_map(OsStr::to_str);
    for (name, value) in written.filter_map(|text| directive_value_parsers::variable(text).ok()) {
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), value.into()));
    }
    variables
}

fn identity(low: &Low, accounts: &Accounts) -> Result<Option<Identity>, ProgramFault> {
    let text = |name: &str| low.values(name).next().and_then(OsStr::to_str);
    let (user, group) = (text("program-user"), text("program-group"));
    let groups: Vec<&str> = low.values("program-groups").filter_map(OsStr::to_str).collect();
    if user.is_none() && group.is_none() && groups.is_empty() {
        return Ok(None);
    }
    let own = (geteuid().as_raw().to_string(), getegid().as_raw().to_string());
    let group = group.or(user.is_none().then_some(&own.1));
    let identity = accounts.identity(user.unwrap_or(&own.0), group);
    let mut identity = identity.map_err(|error| ProgramFault::of_account(&error))?;
    if !groups.is_empty() {
        let gids = groups.into_iter().map(|group| accounts.gid(group));
        let gids: Result<Vec<u32>, AccountError> = gids.collect();
        let gids = gids.map_err(|error| ProgramFault::new("program-groups", error))?;
        identity.groups = [vec![identity.gid], gids].concat();
        identity.groups.sort_unstable();
        identity.groups.dedup();
    }
    Ok(Some(identity))
}

fn resource_limits(low: &Low) -> Result<Vec<ResourceLimit>, ProgramFault> {
    let memory = low.values("program-limit-memory").next().and_then(OsStr::to_str);
    let memory = memory.and_then(|text| directive_value_parsers::size(text).ok());
    let limits = [
        (Resource::Nofile, of_number(low, "program-limit-open-files")?),
        (Resource::Data, memory),
        (Resource::Nproc, of_number(low, "program-limit-processes")?),
        (Resource::Cpu, of_number(low, "program-limit-cpu-seconds")?),
    ];
    let limit = |(resource, value): (Resource, Option<u64>)| {
        value.map(|value| ResourceLimit { resource, soft: Some(value), hard: Some(value) })
    };
    Ok(limits.into_iter().filter_map(limit).collect())
}

/// Returns a number, or the default of its row.
fn of_number<N: TryFrom<u64>>(low: &Low, name: &'static str) -> Result<Option<N>, ProgramFault> {
    number(low, name)
        .map_err(|failure| ProgramFault::new(name, failure.reason().unwrap_or_default()))
}

/// Returns the signal of a name that the directive table allows; without one, the default.
fn signal(name: Option<&str>) -> Signal {
    match name {
        Some("SIGINT") => Signal::INT,
        Some("SIGQUIT") => Signal::QUIT,
        Some("SIGHUP") => Signal::HUP,
        Some("SIGUSR1") => Signal::USR1,
        Some("SIGUSR2") => Signal::USR2,
        Some("SIGABRT") => Signal::ABORT,
        Some("SIGKILL") => Signal::KILL,
        _ => Signal::TERM,
    }
}

impl ProgramFault {
    fn new(row_name: &'static str, message: impl fmt::Display) -> Self {
        let key = row(row_name).file.map_or(row_name, |key| key.name);
        let message = format!("{key}: {}", without_number(&message.to_string()));
        Self { row: row_name, message, is_privilege: false }
    }

    fn of_account(error: &AccountError) -> Self {
        let name = match error {
            AccountError::UnknownGroup(_) => "program-group",
            _ => "program-user",
        };
        Self::new(name, error)
    }

    fn of_check(start: &ProgramStart, error: TableError) -> Self {
        let TableError::Start { error, .. } = error else {
            return Self::new("program-name", error);
        };
        let is_privilege = matches!(error, StartError::Privilege { .. });
        Self { is_privilege, ..Self::new(row_of(start, &error), error) }
    }
}

/// Returns the row of the directive table that an error is about.
fn row_of(start: &ProgramStart, error: &StartError) -> &'static str {
    match error {
        StartError::Name => "program-name",
        StartError::NotAbsolute(path)
        | StartError::NoPath(path)
        | StartError::Missing { path, .. }
        | StartError::NotAFile(path)
        | StartError::NotExecutable(path)
        | StartError::NotADirectory(path) => {
            if Some(path) == start.chroot.as_ref() {
                "program-chroot"
            } else if *path == start.program {
                "program-command"
            } else {
                "program-directory"
            }
        }
        StartError::TooMany { elements: "variables", .. }
        | StartError::TooLarge(_)
        | StartError::Variable(_)
        | StartError::DuplicateVariable(_)
        | StartError::Marker => "program-environment",
        StartError::TooMany { elements: "supplementary groups", .. } => "program-groups",
        StartError::TooMany { .. } | StartError::Argument(_) => "program-command",
        StartError::Nice | StartError::Privilege { capability: "CAP_SYS_NICE", .. } => {
            "program-nice"
        }
        StartError::SoftAboveHard(_)
        | StartError::DuplicateLimit(_)
        | StartError::Privilege { capability: "CAP_SYS_RESOURCE", .. } => {
            "program-limit-open-files"
        }
        StartError::Privilege { capability: "CAP_SYS_CHROOT", .. } => "program-chroot",
        StartError::NoIdentity
        | StartError::Privilege { .. }
        | StartError::CgiAsRoot
        | StartError::CgiScript(_)
        | StartError::CgiVariable(_) => "program-user",
        StartError::StopSignal(_) => "program-stop-signal",
        StartError::Grace(_) => "program-stop-timeout",
    }
}

#[cfg(test)]
mod tests;
