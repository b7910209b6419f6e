//! Checks tables of programs. The server checks a table before it uses it, and the spawner checks
//! it again with its own privileges.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self as rfs, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Signal, geteuid, getpriority_process, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::limits::{
    ARGUMENTS_MAX, CGI_NAMES_MAX, ENVIRONMENT_MAX, GRACE_MAX_MS, GROUPS_MAX, NAME_MAX_BYTES,
    PATH_MAX_BYTES, START_MAX_BYTES, STARTS_MAX, TABLE_MAX_BYTES,
};
use crate::start_table::{Identity, MARKER, ProgramKind, ProgramStart, ResourceLimit, StartTable};
use crate::table_codec::encode_start;
use crate::worker_request::is_script_path;

/// The error of an invalid table, with the name of the row.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// There are too many rows.
    #[error("{0} programs are too many: at most {STARTS_MAX}")]
    TooManyStarts(usize),
    /// The rows together are too large.
    #[error("the programs take {0} bytes, at most {TABLE_MAX_BYTES}: shorten their environments")]
    TooLarge(usize),
    /// Two rows have the same name.
    #[error("there are two programs with the name `{0}`: rename one")]
    DuplicateName(String),
    /// One row is invalid.
    #[error("program `{name}`: {error}")]
    Start {
        /// The name of the row.
        name: String,
        /// The error of the row.
        error: StartError,
    },
}

/// The error of an invalid row of a table.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The name is empty, too long, or has characters that are not allowed.
    #[error("a name has 1 to {NAME_MAX_BYTES} letters, digits, `-`, `_` or `.`")]
    Name,
    /// A path does not begin with a slash.
    #[error("{} is not an absolute path: begin it with /, such as /usr/bin/env", .0.display())]
    NotAbsolute(PathBuf),
    /// A path is too long or has a NUL byte.
    #[error("{} is no path: it has a NUL byte or more than {PATH_MAX_BYTES} bytes", .0.display())]
    NoPath(PathBuf),
    /// A file or directory cannot be opened.
    #[error("cannot open {}: {error}", .path.display())]
    Missing {
        /// The path, inside of the root directory of the program.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The program is a directory or a device.
    #[error("{} is not a file: name the program itself", .0.display())]
    NotAFile(PathBuf),
    /// The program is not executable.
    #[error("{} is not executable: run `chmod +x` for it", .0.display())]
    NotExecutable(PathBuf),
    /// The root directory or the working directory is not a directory.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// A list has more elements than its limit.
    #[error("{count} {elements} are too many: at most {max}")]
    TooMany {
        /// The kind of the elements, as the message names it.
        elements: &'static str,
        /// The number of elements.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The row is too large.
    #[error("it takes {0} bytes, at most {START_MAX_BYTES}: shorten arguments or environment")]
    TooLarge(usize),
    /// An argument has a NUL byte.
    #[error("argument {0} has a NUL byte")]
    Argument(usize),
    /// A variable of the environment has no name, `=` in its name, or a NUL byte.
    #[error("the environment has a variable that cannot be set: {0:?}")]
    Variable(String),
    /// The environment has a variable twice.
    #[error("the environment has `{0}` twice")]
    DuplicateVariable(String),
    /// The environment has the variable that the spawner sets.
    #[error("the environment has `{MARKER}`, which the server sets: remove it")]
    Marker,
    /// The name of the only script has a slash or is not a valid file name.
    #[error("{0:?} is not the name of a script in the folder")]
    CgiScript(String),
    /// A worker may not be allowed to set the variable.
    #[error("requests cannot set the variable {0:?}")]
    CgiVariable(String),
    /// CGI scripts would run as root.
    #[error("CGI scripts would run as root: name a user for them")]
    CgiAsRoot,
    /// The nice value is outside of its range.
    #[error("a nice value is -20 to 19")]
    Nice,
    /// A soft limit is above its hard limit.
    #[error("the soft limit {0:?} is above the hard limit")]
    SoftAboveHard(rustix::process::Resource),
    /// A resource is limited twice.
    #[error("the limit {0:?} is set twice")]
    DuplicateLimit(rustix::process::Resource),
    /// The signal is not one that stops a program.
    #[error("{0:?} does not stop a program: use SIGTERM, SIGINT or SIGQUIT")]
    StopSignal(Signal),
    /// The grace period is too long.
    #[error("a grace period of {0} ms is too long: at most {GRACE_MAX_MS} ms")]
    Grace(u32),
    /// The number of a user or group is the one that means "no change" in the interfaces of the
    /// kernel.
    #[error("{} is no user or group", u32::MAX)]
    NoIdentity,
    /// The server lacks the privilege for a setting of the row.
    #[error("{setting} needs {capability}: start the server as root or with this capability")]
    Privilege {
        /// The setting, as the message names it.
        setting: &'static str,
        /// The capability that allows it (capabilities(7)).
        capability: &'static str,
    },
}

impl StartTable {
    /// Checks the table with the privileges of this process: names and sizes, and whether the
    /// process may change user, root directory, nice value and limits as the rows require. Programs
    /// that workers start must exist, and so must the folders of CGI scripts. Supervised ones need
    /// not, because their starts are tried again: see [`ProgramStart::check_files`].
    ///
    /// # Errors
    /// The first error that was found.
    pub fn check(&self) -> Result<(), TableError> {
        self.check_changes(&StartTable::default())
    }

    /// Checks the table as [`Self::check`] does, but not the rows that the table in use has with
    /// the same number: they were checked when they were new, and their programs may have been
    /// removed since.
    ///
    /// # Errors
    /// The first error that was found.
    pub fn check_changes(&self, in_use: &StartTable) -> Result<(), TableError> {
        let mut rows = Vec::new();
        for (number, start) in self.starts.iter().enumerate().take(STARTS_MAX) {
            let is_kept = in_use.starts.get(number) == Some(start);
            let bytes = if is_kept { encoded_bytes(start) } else { check_row(start)? };
            rows.push((&*start.name, bytes));
        }
        check_together(self.starts.len(), rows.into_iter())
    }
}

/// Checks the table as a whole: the number of rows, their names, and their sizes in bytes.
///
/// # Errors
/// There are too many rows, they are too large together, or two rows have the same name.
pub(crate) fn check_together<'r>(
    count: usize,
    rows: impl Iterator<Item = (&'r str, usize)>,
) -> Result<(), TableError> {
    if count > STARTS_MAX {
        return Err(TableError::TooManyStarts(count));
    }
    let (mut names, mut bytes) = (Vec::new(), 0_usize);
    for (name, row_bytes) in rows {
        if names.contains(&name) {
            return Err(TableError::DuplicateName(name.to_owned()));
        }
        names.push(name);
        bytes = bytes.saturating_add(row_bytes);
    }
    if bytes > TABLE_MAX_BYTES {
        return Err(TableError::TooLarge(bytes));
    }
    Ok(())
}

/// Checks a row and returns its size in bytes.
///
/// # Errors
/// The first error that was found.
pub(crate) fn check_row(start: &ProgramStart) -> Result<usize, TableError> {
    check_start(start).map_err(|error| TableError::Start { name: start.name.clone(), error })
}

/// Returns the size of a row in bytes.
pub(crate) fn encoded_bytes(start: &ProgramStart) -> usize {
    encode_start(start).map_or(usize::MAX, |bytes| bytes.len())
}

fn check_start(start: &ProgramStart) -> Result<usize, StartError> {
    check_name(&start.name)?;
    check_arguments(start)?;
    check_environment(start)?;
    let bytes = encoded_bytes(start);
    if bytes > START_MAX_BYTES {
        return Err(StartError::TooLarge(bytes));
    }
    check_process(start)?;
    if let Some(identity) = &start.identity {
        check_identity(identity)?;
    }
    check_paths(start)?;
    if start.kind == ProgramKind::Cgi {
        check_cgi(start)?;
    }
    if start.kind != ProgramKind::Supervised {
        start.check_files()?;
    }
    Ok(bytes)
}

fn check_name(name: &str) -> Result<(), StartError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(is_allowed);
    if is_name { Ok(()) } else { Err(StartError::Name) }
}

fn check_arguments(start: &ProgramStart) -> Result<(), StartError> {
    at_most("arguments", start.arguments.len(), ARGUMENTS_MAX)?;
    match start.arguments.iter().position(|argument| has_nul(argument)) {
        Some(number) => Err(StartError::Argument(number + 1)),
        None => Ok(()),
    }
}

fn check_environment(start: &ProgramStart) -> Result<(), StartError> {
    at_most("variables", start.environment.len(), ENVIRONMENT_MAX)?;
    for (number, (name, value)) in start.environment.iter().enumerate() {
        let shown = || name.to_string_lossy().into_owned();
        if name.is_empty() || name.as_bytes().contains(&b'=') || has_nul(name) || has_nul(value) {
            return Err(StartError::Variable(shown()));
        }
        if name == MARKER {
            return Err(StartError::Marker);
        }
        if start.environment[..number].iter().any(|(other, _)| other == name) {
            return Err(StartError::DuplicateVariable(shown()));
        }
    }
    Ok(())
}

/// Checks the settings that only CGI scripts have: their user, and the variables of workers.
fn check_cgi(start: &ProgramStart) -> Result<(), StartError> {
    let uid = start.identity.as_ref().map_or_else(|| geteuid().as_raw(), |identity| identity.uid);
    if uid == 0 && !start.cgi_as_root {
        return Err(StartError::CgiAsRoot);
    }
    if let Some(name) = &start.cgi_script
        && (name.as_bytes().contains(&b'/') || !is_script_path(name.as_bytes()))
    {
        return Err(StartError::CgiScript(name.to_string_lossy().into_owned()));
    }
    at_most("variables of requests", start.cgi_variables.len(), CGI_NAMES_MAX)?;
    let is_wrong = |name: &&OsString| {
        name.is_empty() || name.as_bytes().contains(&b'=') || has_nul(name) || *name == MARKER
    };
    match start.cgi_variables.iter().find(is_wrong) {
        Some(name) => Err(StartError::CgiVariable(name.to_string_lossy().into_owned())),
        None => Ok(()),
    }
}

/// Checks nice value, limits, stop signal and grace period.
fn check_process(start: &ProgramStart) -> Result<(), StartError> {
    if let Some(nice) = start.nice {
        if !(-20..=19).contains(&nice) {
            return Err(StartError::Nice);
        }
        // RLIMIT_NICE of this process may allow some lower nice values without the capability, but
        // few systems set it.
        if getpriority_process(None).is_ok_and(|own| i32::from(nice) < own) {
            needs(
                CapabilitySet::SYS_NICE,
                "a nice value below that of the server",
                "CAP_SYS_NICE",
            )?;
        }
    }
    for (number, limit) in start.resource_limits.iter().enumerate() {
        check_limit(limit)?;
        let before = &start.resource_limits[..number];
        if before.iter().any(|other| other.resource == limit.resource) {
            return Err(StartError::DuplicateLimit(limit.resource));
        }
    }
    let ignored = [Signal::CHILD, Signal::CONT, Signal::STOP, Signal::TSTP, Signal::TTIN];
    let ignored_too = [Signal::TTOU, Signal::URG, Signal::WINCH];
    if ignored.contains(&start.stop_signal) || ignored_too.contains(&start.stop_signal) {
        return Err(StartError::StopSignal(start.stop_signal));
    }
    if start.grace_ms > GRACE_MAX_MS {
        return Err(StartError::Grace(start.grace_ms));
    }
    Ok(())
}

fn check_limit(limit: &ResourceLimit) -> Result<(), StartError> {
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    if number(limit.soft) > number(limit.hard) {
        return Err(StartError::SoftAboveHard(limit.resource));
    }
    if number(limit.hard) > number(getrlimit(limit.resource).maximum) {
        needs(CapabilitySet::SYS_RESOURCE, "a higher hard limit", "CAP_SYS_RESOURCE")?;
    }
    Ok(())
}

fn check_identity(identity: &Identity) -> Result<(), StartError> {
    at_most("supplementary groups", identity.groups.len(), GROUPS_MAX)?;
    let all = [identity.uid, identity.gid].into_iter().chain(identity.groups.iter().copied());
    if all.into_iter().any(|number| number == u32::MAX) {
        return Err(StartError::NoIdentity);
    }
    if identity.is_own() {
        return Ok(());
    }
    // Setting the supplementary groups needs the capability even if they stay the same.
    needs(CapabilitySet::SETGID, "another user or group", "CAP_SETGID")?;
    if identity.uid != geteuid().as_raw() {
        needs(CapabilitySet::SETUID, "another user", "CAP_SETUID")?;
        needs(CapabilitySet::KILL, "to stop a program of another user", "CAP_KILL")?;
    }
    Ok(())
}

/// Checks the paths of a row without access to the file system.
fn check_paths(start: &ProgramStart) -> Result<(), StartError> {
    for path in [&start.program, &start.working_directory].into_iter().chain(&start.chroot) {
        if !path.is_absolute() {
            return Err(StartError::NotAbsolute(path.clone()));
        }
        if path.as_os_str().len() > PATH_MAX_BYTES || has_nul(path.as_os_str()) {
            return Err(StartError::NoPath(path.clone()));
        }
    }
    if start.chroot.is_some() {
        needs(CapabilitySet::SYS_CHROOT, "a root directory", "CAP_SYS_CHROOT")?;
    }
    Ok(())
}

impl ProgramStart {
    /// Checks that the program and its directories exist and have the right types, as the program
    /// will see them: below its root directory. A path that this process may not access counts as
    /// valid if the program runs as another user, who may have access; otherwise the start will
    /// report the error.
    ///
    /// # Errors
    /// The first error that was found.
    pub fn check_files(&self) -> Result<(), StartError> {
        let is_other_user = self.identity.as_ref().is_some_and(|identity| !identity.is_own());
        match look_at_files(self) {
            Err(StartError::Missing { error, .. })
                if is_other_user && error.kind() == io::ErrorKind::PermissionDenied =>
            {
                Ok(())
            }
            checked => checked,
        }
    }
}

fn look_at_files(start: &ProgramStart) -> Result<(), StartError> {
    let root = start.chroot.as_deref().unwrap_or(Path::new("/"));
    let missing = |path: &Path, error: Errno| StartError::Missing {
        path: path.to_owned(),
        error: error.into(),
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root_directory = match rfs::openat(CWD, root, directory, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOTDIR) => return Err(StartError::NotADirectory(root.to_owned())),
        Err(error) => return Err(missing(root, error)),
    };
    let open = |path: &Path| match open_below(&root_directory, path) {
        Ok(opened) => Ok(opened),
        Err(error) => Err(missing(path, error)),
    };
    let kind = |opened: &OwnedFd, path: &Path| match rfs::fstat(opened) {
        Ok(stat) => Ok((FileType::from_raw_mode(stat.st_mode), stat.st_mode)),
        Err(error) => Err(missing(path, error)),
    };
    let (found, mode) = kind(&open(&start.program)?, &start.program)?;
    if start.kind == ProgramKind::Cgi {
        // Scripts come and go, and each has its own working directory.
        let is_folder = found == FileType::Directory;
        let error = || StartError::NotADirectory(start.program.clone());
        return if is_folder { Ok(()) } else { Err(error()) };
    }
    if found != FileType::RegularFile {
        return Err(StartError::NotAFile(start.program.clone()));
    }
    let execute = Mode::XUSR | Mode::XGRP | Mode::XOTH;
    if !Mode::from_raw_mode(mode).intersects(execute) {
        return Err(StartError::NotExecutable(start.program.clone()));
    }
    let (found, _) = kind(&open(&start.working_directory)?, &start.working_directory)?;
    if found != FileType::Directory {
        return Err(StartError::NotADirectory(start.working_directory.clone()));
    }
    Ok(())
}

/// Opens a path with `root` as the root directory, also for symbolic links (openat2(2)).
fn open_below(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rfs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
}

fn needs(
    wanted: CapabilitySet,
    setting: &'static str,
    capability: &'static str,
) -> Result<(), StartError> {
    let has = capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted));
    if has { Ok(()) } else { Err(StartError::Privilege { setting, capability }) }
}

fn at_most(elements: &'static str, count: usize, max: usize) -> Result<(), StartError> {
    if count > max { Err(StartError::TooMany { elements, count, max }) } else { Ok(()) }
}

fn has_nul(text: &OsStr) -> bool {
    text.as_bytes().contains(&0)
}

#[cfg(test)]
mod tests;
