//! The plan of a new process: everything that it needs to execute a program, in the form that
//! system calls take. It is made before the fork, so that the new process allocates no memory.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::{Gid, Uid};

use crate::cgi_variables::variables;
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
    pub(crate) nice: Option<PreparedNice>,
    pub(crate) resource_limits: Vec<(Resource, Rlimit)>,
}

/// A nice value in the two forms that the kernel takes.
#[derive(Debug)]
pub(crate) struct PreparedNice {
    pub(crate) value: i32,
    pub(crate) text: String,
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
            nice: start
                .nice
                .map(|nice| PreparedNice { value: nice.into(), text: nice.to_string() }),
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

/// The CGI script of one start, in the form of system calls.
#[derive(Debug)]
pub(crate) struct PreparedScript {
    path: CString,
    parent: Option<CString>,
    name: CString,
}

impl PreparedScript {
    /// Prepares the script with a path below the folder of a row. Returns `None` if the path has a
    /// NUL byte, which no decoded request has.
    pub(crate) fn new(start: &PreparedStart, path: &[u8]) -> Option<Self> {
        let folder = start.program.to_bytes();
        let folder = folder.strip_suffix(b"/").unwrap_or(folder);
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = match slash {
            Some(slash) => (Some(&path[..slash]), &path[slash + 1..]),
            None => (None, path),
        };
        Some(Self {
            path: CString::new([folder, path].join(&b'/')).ok()?,
            parent: match parent {
                Some(parent) => Some(CString::new(parent).ok()?),
                None => None,
            },
            name: CString::new(name).ok()?,
        })
    }

    /// Returns the absolute path of the script, inside of the root directory of the row.
    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    /// Returns the path of the folder of the script, below the folder of the row; `None` if the
    /// script is directly in the folder of the row.
    pub(crate) fn parent(&self) -> Option<&CStr> {
        self.parent.as_deref()
    }

    /// Returns the name of the script in its folder.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }
}

/// The arguments and the environment of one start, with the lists of pointers that execve(2) takes.
#[derive(Debug)]
pub(crate) struct ExecVectors<'p> {
    /// The texts that the pointers refer to, besides those of the row and of a request.
    _arguments: Vec<CString>,
    _marker: CString,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    _row: PhantomData<&'p PreparedStart>,
}

impl<'p> ExecVectors<'p> {
    /// Assembles the vectors of a start: the arguments of the row and those of the worker, the
    /// marker of this start and the environment of the row. Returns `None` if an argument has a NUL
    /// byte, which no decoded request has.
    pub(crate) fn new(start: &'p PreparedStart, arguments: &[&[u8]], marker: u64) -> Option<Self> {
        let arguments: Vec<CString> =
            arguments.iter().map(|text| CString::new(*text).ok()).collect::<Option<_>>()?;
        let marker = CString::new(marker_variable(marker)).ok()?;
        let fixed = start.arguments.iter().chain(&arguments).map(|text| text.as_ptr());
        let argv = [start.program.as_ptr()].into_iter().chain(fixed).chain([ptr::null()]).collect();
        // The marker comes first, because only the beginning of a long environment is searched for
        // it.
        let variables = [&marker].into_iter().chain(&start.environment).map(|text| text.as_ptr());
        let envp = variables.chain([ptr::null()]).collect();
        Some(Self { _arguments: arguments, _marker: marker, argv, envp, _row: PhantomData })
    }

    /// Replaces the program of the row by a script with variables of a worker. A variable that the
    /// row has as well is left out, so that the value of the row wins. Each variable of `block`
    /// ends with a NUL byte.
    pub(crate) fn set_script(
        &mut self,
        start: &PreparedStart,
        script: &'p PreparedScript,
        block: &'p [u8],
    ) {
        self.argv[0] = script.path.as_ptr();
        self.envp.pop();
        for (name, variable) in variables(block) {
            let has_name = |fixed: &CString| {
                fixed.as_bytes().get(..=name.len()) == variable.get(..=name.len())
            };
            if variable.last() == Some(&0) && !start.environment.iter().any(has_name) {
                self.envp.push(variable.as_ptr().cast());
            }
        }
        self.envp.push(ptr::null());
    }

    /// Returns pointers to the arguments, the last one null. They are valid as long as this value
    /// lives.
    pub(crate) fn argv(&self) -> &[*const c_char] {
        &self.argv
    }

    /// Returns pointers to the variables of the environment, the last one null. They are valid as
    /// long as this value lives.
    pub(crate) fn envp(&self) -> &[*const c_char] {
        &self.envp
    }
}

/// Returns the variable by which the descendants of a start are recognised.
pub(crate) fn marker_variable(marker: u64) -> String {
    format!("{MARKER}={marker:016x}")
}

/// The plan of a new process.
#[derive(Debug)]
pub(crate) struct ExecPlan<'p> {
    pub(crate) start: &'p PreparedStart,
    /// The script that is executed in place of the program.
    pub(crate) script: Option<&'p PreparedScript>,
    pub(crate) vectors: &'p ExecVectors<'p>,
    pub(crate) stdin: BorrowedFd<'p>,
    pub(crate) stdout: BorrowedFd<'p>,
    pub(crate) stderr: BorrowedFd<'p>,
    /// The file that becomes descriptor 3, if there is one.
    pub(crate) file: Option<BorrowedFd<'p>>,
    /// Whether the spawner waits for the end of the execution. Otherwise the execution may still go
    /// on after the point from which on it cannot fail, for example while descriptors are closed.
    pub(crate) is_awaited: bool,
    /// The process ID of the spawner. The new process exits if this is not its parent any more.
    pub(crate) spawner: Pid,
}
