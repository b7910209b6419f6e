//! The table of programs that the spawner may start.

use std::ffi::OsString;
use std::path::PathBuf;

use rustix::process::{Resource, Signal, getegid, geteuid, getgroups};
use rustix::thread::Gid;

/// The table of programs that may be started. A worker names a row by its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartTable {
    /// The rows of the table.
    pub starts: Vec<ProgramStart>,
}

/// A row of the table: a program and everything that it is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStart {
    /// The name of the program in the log: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The absolute path of the program, inside of `chroot` if there is one. It is also the first
    /// element of `argv`. For [`ProgramKind::Cgi`] it is the folder of the scripts.
    pub program: PathBuf,
    /// The kind of the program: it decides who starts the program, and its standard input and
    /// output.
    pub kind: ProgramKind,
    /// The arguments of every start.
    pub arguments: Vec<OsString>,
    /// Whether a worker may add arguments behind these.
    pub allows_arguments: bool,
    /// The whole environment; nothing is inherited. The spawner adds [`MARKER`].
    pub environment: Vec<(OsString, OsString)>,
    /// The user and the groups of the program. `None` keeps those of the spawner.
    pub identity: Option<Identity>,
    /// The root directory of the program, an absolute path.
    pub chroot: Option<PathBuf>,
    /// The working directory, an absolute path, inside of `chroot` if there is one. A CGI script
    /// has the folder that it is in instead (RFC 3875 §7.2).
    pub working_directory: PathBuf,
    /// The nice value, -20 to 19. `None` keeps that of the spawner.
    pub nice: Option<i8>,
    /// Resource limits. All others are those of the spawner.
    pub resource_limits: Vec<ResourceLimit>,
    /// The signal that asks the program to stop.
    pub stop_signal: Signal,
    /// The time from the stop signal to SIGKILL, in milliseconds.
    pub grace_ms: u32,
    /// The only CGI script of the folder that workers may start, by its name; `None` allows all
    /// that are in the folder or below it.
    pub cgi_script: Option<OsString>,
    /// Names of variables that a worker may set for a CGI script besides
    /// [those of CGI](crate::cgi_variables::is_cgi_variable).
    pub cgi_variables: Vec<OsString>,
    /// Whether CGI scripts may run as root.
    pub cgi_as_root: bool,
}

/// The kind of a program, which decides who starts it, and its standard input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// A program that a worker starts on demand. Standard input and output are sockets of the
    /// worker.
    OnDemand,
    /// A program that the server keeps running. Standard input is `/dev/null`, or a socket that
    /// comes with the request, such as one from which the program accepts connections; a file that
    /// comes with the socket becomes descriptor 3. Standard output goes to the log, as standard
    /// error does. The spawner does not log the end of the program: the server does, together with
    /// the time of the restart.
    Supervised,
    /// A folder of CGI scripts. For a request, a worker starts one of the scripts by CGI/1.1 (RFC
    /// 3875). The worker names the script and most of its environment. Standard output is a socket
    /// of the worker. Standard input is another one, or `/dev/null` if the request came with only
    /// one socket. The spawner does not log why a script could not be executed, or which signal has
    /// ended it: the worker does, together with the request.
    Cgi,
}

impl ProgramKind {
    /// Returns whether the spawner reports a successful start to the worker. For a script it does
    /// not, because the worker needs no report before the output.
    pub(crate) fn is_answered_at_start(self) -> bool {
        self != Self::Cgi
    }
}

/// The variable in the environment of each program by which its descendants are recognised. Its
/// value is a random number, so that a program of another user cannot claim them.
pub const MARKER: &str = "PINION_START";

/// User and groups of a process, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
    /// The supplementary groups; nothing is inherited.
    pub groups: Vec<u32>,
}

/// A resource limit (getrlimit(2)). `None` means unlimited (`RLIM_INFINITY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The limited resource, which has its own unit: bytes, seconds or a number.
    pub resource: Resource,
    /// The soft limit.
    pub soft: Option<u64>,
    /// The hard limit, not below the soft one.
    pub hard: Option<u64>,
}

/// The resources that a table may limit.
pub const RESOURCES: [Resource; 16] = [
    Resource::Cpu,
    Resource::Fsize,
    Resource::Data,
    Resource::Stack,
    Resource::Core,
    Resource::Rss,
    Resource::Nproc,
    Resource::Nofile,
    Resource::Memlock,
    Resource::As,
    Resource::Locks,
    Resource::Sigpending,
    Resource::Msgqueue,
    Resource::Nice,
    Resource::Rtprio,
    Resource::Rttime,
];

impl Identity {
    /// Returns whether this process has the identity already, so that nothing has to be set.
    pub fn is_own(&self) -> bool {
        let sorted = |groups: &mut Vec<u32>| {
            groups.push(self.gid);
            groups.sort_unstable();
            groups.dedup();
        };
        let Ok(own) = getgroups() else { return false };
        let mut own: Vec<u32> = own.into_iter().map(Gid::as_raw).collect();
        let mut groups = self.groups.clone();
        sorted(&mut own);
        sorted(&mut groups);
        let is_own_user = (self.uid, self.gid) == (geteuid().as_raw(), getegid().as_raw());
        is_own_user && groups == own
    }
}

impl ProgramStart {
    /// Returns a row for a program that workers start, without arguments, environment or limits,
    /// that is run as the user of the spawner in `/` and stopped by SIGTERM within ten seconds.
    pub fn new(name: &str, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            kind: ProgramKind::OnDemand,
            arguments: Vec::new(),
            allows_arguments: false,
            environment: Vec::new(),
            identity: None,
            chroot: None,
            working_directory: PathBuf::from("/"),
            nice: None,
            resource_limits: Vec::new(),
            stop_signal: Signal::TERM,
            grace_ms: 10_000,
            cgi_script: None,
            cgi_variables: Vec::new(),
            cgi_as_root: false,
        }
    }
}
