//! The status of a server: the document of `pinion status --json`, whose members are a promise
//! (docs/reference/json.md).

use crate::terminal::{count, size};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A server at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// The process.
    pub(crate) pid: u32,
    /// The version of the program.
    pub(crate) version: String,
    pub(crate) state: State,
    /// The start time, RFC 3339, UTC.
    pub(crate) started: String,
    pub(crate) uptime_seconds: u64,
    /// The configuration file; null for a server that has only flags.
    pub(crate) configuration: Option<String>,
    /// Why the last reload that was asked for failed; null if it did not.
    pub(crate) last_reload_error: Option<String>,
    /// The listeners as they are printed at the start.
    pub(crate) listeners: Vec<String>,
    pub(crate) workers: Workers,
    pub(crate) connections: Connections,
    pub(crate) requests: Requests,
    /// Null before the first request.
    pub(crate) latency: Option<Latency>,
    pub(crate) memory: ProcessMemory,
    /// The sites, in the order of the configuration.
    pub(crate) sites: Vec<SiteStatus>,
    /// Null for a server that starts no programs.
    pub(crate) programs: Option<Programs>,
    /// The Python applications that the server runs.
    pub(crate) python: Vec<PythonApplication>,
    /// Null for a server without a store.
    pub(crate) store: Option<StoreUse>,
    /// The certificates that are served.
    pub(crate) certificates: Vec<Certificate>,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    #[default]
    Serving,
    /// It takes no new connections, and ends with the last one, however long that takes.
    Draining,
    /// Draining within the time of `--grace`.
    Stopping,
}

/// The threads that serve requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Workers {
    pub(crate) count: u64,
    /// `epoll` or `io_uring`.
    pub(crate) io: String,
}

/// The connections of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Connections {
    pub(crate) open: u64,
    pub(crate) max: u64,
}

/// Since the start, by the class of the status of their responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Requests {
    pub(crate) total: u64,
    pub(crate) status_2xx: u64,
    pub(crate) status_3xx: u64,
    pub(crate) status_4xx: u64,
    pub(crate) status_5xx: u64,
    /// Bytes of the content of all responses.
    pub(crate) content_bytes: u64,
}

/// Microseconds until a response was complete, at most an eighth too many: from the moment when the
/// kernel reported the request to a worker, for scripts from the end of its head. Of many requests
/// at the same time a part is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Latency {
    pub(crate) p50_micros: u64,
    pub(crate) p90_micros: u64,
    pub(crate) p99_micros: u64,
    pub(crate) max_micros: u64,
}

/// The memory use of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProcessMemory {
    /// Now, with the pages of archives that are in memory.
    pub(crate) resident_bytes: u64,
    /// The most that it takes beside the files of the sites.
    pub(crate) bound_bytes: u64,
}

/// The content of the store, in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoreUse {
    /// The memory of all keys and values.
    pub(crate) memory_bytes: u64,
    /// The most that they may occupy; 0 without a limit.
    pub(crate) max_bytes: u64,
    /// The policy that removes keys when the store is full, the value of `--store-eviction`.
    pub(crate) eviction: String,
}

/// A site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SiteStatus {
    /// Empty for every host that no other site names.
    pub(crate) hosts: Vec<String>,
    /// The folder, archive, release folder or script.
    pub(crate) source: String,
    /// Whether changes are served without a reload.
    pub(crate) live: bool,
    /// The digest of the archive that is served.
    pub(crate) digest: String,
    /// The number of versions it has had: 1 until the first reload that succeeds.
    pub(crate) generation: u64,
    /// Its URL paths.
    pub(crate) paths: u64,
    /// Its files of code.
    pub(crate) code_files: u64,
    /// Why the last reload failed, after which the previous version is served; null if it did not.
    pub(crate) error: Option<String>,
    /// The servers that requests are forwarded to, in the order in which mounts are tried.
    pub(crate) upstreams: Vec<Upstream>,
}

/// A server that requests are forwarded to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Upstream {
    /// The path of the mount.
    pub(crate) mount: String,
    /// Its URL.
    pub(crate) url: String,
    pub(crate) state: UpstreamState,
    /// Requests that have not ended.
    pub(crate) requests: u64,
}

/// Whether a server is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UpstreamState {
    #[default]
    Up,
    /// Health checks have failed.
    Down,
    /// Requests have failed, and none has succeeded since then.
    LeftOut,
}

/// Child processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Programs {
    /// The process that starts programs; null when it has ended, after which no program starts.
    pub(crate) spawner_pid: Option<u32>,
    /// The programs of the configuration, in its order; then programs that were removed from it and
    /// have not stopped yet.
    pub(crate) supervised: Vec<SupervisedProgram>,
    /// The child processes that run now.
    pub(crate) children: Vec<Child>,
}

/// A program that the server keeps running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SupervisedProgram {
    pub(crate) name: String,
    pub(crate) state: ProgramState,
    /// Since when it is in this state, RFC 3339, UTC.
    pub(crate) since: String,
    /// Its process; null if it has none.
    pub(crate) pid: Option<u32>,
    /// The number of restarts since it was started with its settings.
    pub(crate) restarts: u64,
    /// Milliseconds until it is started; null unless it waits for that.
    pub(crate) restart_in_ms: Option<u64>,
    /// How it has ended last, or why it could not be started; null if neither has happened.
    pub(crate) last_end: Option<String>,
}

/// The state of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProgramState {
    /// It was asked for and was not executed yet.
    Starting,
    Running,
    /// It has ended and is started again later.
    Waiting,
    /// It was asked to stop, because its settings have changed or it was removed.
    Stopping,
    /// It is not started any more.
    #[default]
    Stopped,
}

/// One child process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Child {
    pub(crate) pid: u32,
    /// The name of its program, as the kernel has it.
    pub(crate) name: String,
}

/// A Python application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PythonApplication {
    /// The application as it was named: `app:app`.
    pub(crate) name: String,
    pub(crate) folder: String,
    /// Requests that wait for a process.
    pub(crate) waiting: u64,
    pub(crate) memory: PythonMemory,
    pub(crate) processes: Vec<PythonProcess>,
}

/// The memory of those processes of a Python application that get requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PythonMemory {
    /// Their number.
    pub(crate) processes: u64,
    /// The number of processes that there should be.
    pub(crate) max_processes: u64,
    /// The memory that they use. Memory that several share counts once, where the kernel reports
    /// it.
    pub(crate) used_bytes: u64,
    /// The memory of the machine or of the control group.
    pub(crate) usable_bytes: u64,
    /// The memory that they may use before they are replaced; null without a limit.
    pub(crate) max_bytes: Option<u64>,
}

impl fmt::Display for PythonMemory {
    /// Writes `1 process, 9.20 MiB of 3.80 GiB in use, at most 512 MiB (python-max-memory)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_words = |processes: u64| match processes {
            1 => "1 process".to_owned(),
            processes => format!("{} processes", count(processes)),
        };
        let (processes, used) = (in_words(self.processes), size(self.used_bytes));
        write!(f, "{processes}, {used} of {} in use, at most ", size(self.usable_bytes))?;
        match self.max_bytes {
            Some(bytes) => write!(f, "{} (python-max-memory)", size(bytes)),
            None => write!(f, "{} of any size", in_words(self.max_processes)),
        }
    }
}

/// A process of a Python application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PythonProcess {
    /// The name of its program.
    pub(crate) name: String,
    /// Null if it does not run.
    pub(crate) pid: Option<u32>,
    pub(crate) state: PythonState,
    /// Requests that it has.
    pub(crate) requests: u64,
    /// Requests that it has had.
    pub(crate) served: u64,
    /// Its memory; null if it does not run.
    pub(crate) resident_bytes: Option<u64>,
}

/// The state of a process of a Python application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PythonState {
    /// It loads the application, and gets no requests yet.
    Starting,
    /// It gets requests.
    InUse,
    /// It was replaced by another one, and finishes its requests.
    Retired,
    /// It was asked to stop.
    #[default]
    Stopping,
}

/// A certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Certificate {
    pub(crate) file: String,
    /// Hosts that it is for.
    pub(crate) names: Vec<String>,
    /// RFC 3339, UTC.
    pub(crate) not_after: String,
    /// Whole days until then; negative when it has expired.
    pub(crate) days_left: i64,
}
