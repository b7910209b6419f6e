//! Everything that a new process needs to execute a program, as the system calls want it. It is
//! made before the fork, so that the new process allocates nothing.

use std::ffi::{CString, OsStr, c_char};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::{Gid, Uid};

use crate::start_table::{MARKER, ProgramStart};

/// A row of the table in the form of system calls, made once for each row.
#[derive(Debug)]
pub(crate) struct PreparedStart {
    pub(crate) program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    pub(crate) identity: Option<PreparedIdentity>,
    pub(crate) chroot: Option<CString>,
    pub(crate) working_directory: CString,
    pub(crate) nice: Option<i32>,
    pub(crate) resource_limits: Vec<(Resource, Rlimit)>,
}

/// User and groups in the form of system calls.
#[derive(Debug)]
pub(crate) struct PreparedIdentity {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    pub(crate) groups: Vec<Gid>,
}

impl PreparedStart {
    /// Prepares a row. Returns `None` if a text has a NUL byte, which `StartTable::check` excludes.
    pub(crate) fn of(start: &ProgramStart) -> Option<Self> {
        let variable = |(name, value): &(_, _)| {
            let (name, value): (&std::ffi::OsString, &std::ffi::OsString) = (name, value);
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
        };
        let identity = start.identity.as_ref().filter(|identity| !identity.is_own());
        Some(Self {
            program: text(start.program.as_os_str())?,
            arguments: start.arguments.iter().map(|text_| text(text_)).collect::<Option<_>>()?,
            environment: start.environment.iter().map(variable).collect::<Option<_>>()?,
            identity: identity.map(|identity| PreparedIdentity {
                uid: Uid::from_raw(identity.uid),
                gid: Gid::from_raw(identity.gid),
                groups: identity.groups.iter().copied().map(Gid::from_raw).collect(),
            }),
            chroot: match &start.chroot {
                Some(chroot) => Some(text(chroot.as_os_str())?),
                None => None,
            },
            working_directory: text(start.working_directory.as_os_str())?,
            nice: start.nice.map(i32::from),
            resource_limits: start
                .resource_limits
                .iter()
                .map(|limit| (limit.resource, Rlimit { current: limit.soft, maximum: limit.hard }))
                .collect(),
        })
    }
}

fn text(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

/// The arguments and the environment of one start, with the lists of pointers that execve(2) takes.
#[derive(Debug)]
pub(crate) struct ExecVectors<'p> {
    /// What the pointers point to, besides texts of the row.
    _arguments: Vec<CString>,
    _marker: CString,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    _start: &'p PreparedStart,
}

impl<'p> ExecVectors<'p> {
    /// Puts the vectors of a start together: the arguments of the row and those of the worker, the
    /// environment of the row and the marker of this start. Returns `None` if an argument has a NUL
    /// byte, which no decoded request has.
    pub(crate) fn new(start: &'p PreparedStart, arguments: &[&[u8]], marker: u64) -> Option<Self> {
        let arguments: Vec<CString> =
            arguments.iter().map(|text| CString::new(*text).ok()).collect::<Option<_>>()?;
        let marker = CString::new(marker_variable(marker)).ok()?;
        let fixed = start.arguments.iter().chain(&arguments).map(|text| text.as_ptr());
        let argv = [start.program.as_ptr()].into_iter().chain(fixed).chain([ptr::null()]).collect();
        let variables = start.environment.iter().chain([&marker]).map(|text| text.as_ptr());
        let envp = variables.chain([ptr::null()]).collect();
        Some(Self { _arguments: arguments, _marker: marker, argv, envp, _start: start })
    }

    /// Pointers to the arguments, the last one null. They are valid as long as this value.
    pub(crate) fn argv(&self) -> &[*const c_char] {
        &self.argv
    }

    /// Pointers to the variables of the environment, the last one null. They are valid as long as
    /// this value.
    pub(crate) fn envp(&self) -> &[*const c_char] {
        &self.envp
    }
}

/// Returns the variable by which the descendants of a start are recognised.
pub(crate) fn marker_variable(marker: u64) -> String {
    format!("{MARKER}={marker:016x}")
}

/// What a new process does.
#[derive(Debug)]
pub(crate) struct ExecPlan<'p> {
    pub(crate) start: &'p PreparedStart,
    pub(crate) vectors: &'p ExecVectors<'p>,
    pub(crate) stdin: BorrowedFd<'p>,
    pub(crate) stdout: BorrowedFd<'p>,
    pub(crate) stderr: BorrowedFd<'p>,
    /// The write end of a pipe on which a failure is reported. It is closed on execution.
    pub(crate) failure: BorrowedFd<'p>,
    /// The spawner; the new process ends when it is not its parent any more.
    pub(crate) spawner: Pid,
}
