//! A server with a spawner and the connection of one worker.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pinion_spawner::reply::{REPLY_BYTES, ReplyReader, SpawnerReply};
use pinion_spawner::spawner_handle::{CgroupUse, Spawner};
use pinion_spawner::start_table::{ProgramStart, StartTable};
use pinion_spawner::worker_connection::{SpawnerConnection, stream_sockets};
use pinion_spawner::worker_request::StartRequest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use crate::process_observer::{self, wait_until};

/// The file for standard error of this process, and with it for the log of the spawner.
static LOG: OnceLock<PathBuf> = OnceLock::new();

/// Returns a variable that all programs of this process have.
pub(crate) fn tag() -> (String, String) {
    ("TEST_TAG".to_owned(), std::process::id().to_string())
}

/// Processes of programs of this test that have not ended.
pub(crate) fn survivors() -> Vec<i32> {
    let (name, value) = tag();
    process_observer::tagged(&format!("{name}={value}"))
}

/// A server with a spawner.
pub(crate) struct Server {
    pub(crate) spawner: Spawner,
    pub(crate) worker: Worker,
    rows: BTreeMap<String, u16>,
}

/// The connection of a worker.
pub(crate) struct Worker {
    pub(crate) connection: SpawnerConnection,
    reader: OwnedFd,
    stream: ReplyReader,
    replies: VecDeque<SpawnerReply>,
}

/// Returns a row for a shell that gets its script as an argument, as most tests use it.
pub(crate) fn shell() -> ProgramStart {
    let mut start = row("sh", "/bin/sh");
    start.arguments = vec!["-c".into()];
    start.allows_arguments = true;
    start
}

/// Returns a row for a program with the tag of this test and a path for commands.
pub(crate) fn row(name: &str, program: &str) -> ProgramStart {
    let mut start = ProgramStart::new(name, program);
    let (tag, value) = tag();
    start.environment = vec![("PATH".into(), "/usr/bin:/bin".into()), (tag.into(), value.into())];
    // The time is short enough to wait for, and long enough for a program that obeys.
    start.grace_ms = 100;
    start
}

impl Server {
    /// Starts a spawner for a shell.
    pub(crate) fn new() -> Self {
        Self::with(vec![shell()])
    }

    /// Starts a spawner for some programs, in cgroups if the system allows them.
    pub(crate) fn with(starts: Vec<ProgramStart>) -> Self {
        Self::in_cgroups(starts, CgroupUse::IfDelegated)
    }

    pub(crate) fn in_cgroups(starts: Vec<ProgramStart>, cgroups: CgroupUse) -> Self {
        redirect_log();
        let rows = rows(&starts);
        let spawner = Spawner::fork(&StartTable { starts }, cgroups, || ()).expect("a spawner");
        let worker = Worker::connect(&spawner);
        Self { spawner, worker, rows }
    }

    /// Replaces the table.
    pub(crate) fn replace(&mut self, starts: Vec<ProgramStart>) {
        let new_rows = rows(&starts);
        self.spawner.replace_table(&StartTable { starts }).expect("a new table");
        self.rows = new_rows;
    }

    /// Returns the process ID of the spawner.
    pub(crate) fn pid(&self) -> Pid {
        self.spawner.pid()
    }

    /// Makes a request for a program of the table.
    pub(crate) fn request<'a>(
        &self,
        id: u64,
        name: &str,
        arguments: &'a [&str],
    ) -> StartRequest<'a> {
        StartRequest {
            id,
            start: self.rows[name],
            generation: self.spawner.generation(),
            arguments: arguments.iter().map(|text| text.as_bytes()).collect(),
            script: None,
        }
    }

    /// Requests the start of a program and returns the other end of its standard input and output.
    pub(crate) fn start(&self, id: u64, name: &str, arguments: &[&str]) -> UnixStream {
        self.worker.start(self.request(id, name, arguments))
    }

    /// Requests the start of a shell with a script.
    pub(crate) fn shell(&self, id: u64, script: &str) -> UnixStream {
        self.start(id, "sh", &[script])
    }

    /// Runs a script to its end and returns its standard output.
    pub(crate) fn output(&mut self, id: u64, name: &str, arguments: &[&str]) -> String {
        let mut stream = self.start(id, name, arguments);
        self.worker.started(id);
        let mut output = String::new();
        stream.read_to_string(&mut output).expect("text");
        assert_eq!(self.worker.reply(), SpawnerReply::Exited { id, status: 0 }, "{output}");
        output
    }

    /// Checks that the spawner does its work.
    pub(crate) fn assert_works(&mut self) {
        assert_eq!(self.output(u64::MAX, "sh", &["echo works"]), "works\n");
    }
}

fn rows(starts: &[ProgramStart]) -> BTreeMap<String, u16> {
    starts.iter().map(|start| start.name.clone()).zip(0..).collect()
}

impl Worker {
    pub(crate) fn connect(spawner: &Spawner) -> Self {
        let connection = spawner.connect().expect("a connection");
        let reader = connection.reader().expect("a descriptor");
        Self { connection, reader, stream: ReplyReader::default(), replies: VecDeque::new() }
    }

    pub(crate) fn start(&self, request: StartRequest<'_>) -> UnixStream {
        let (own, program) = stream_sockets().expect("sockets");
        self.connection.start(request, program.as_fd(), None).expect("sent");
        let stream = UnixStream::from(own);
        stream.set_nonblocking(false).expect("a socket");
        stream
    }

    /// Waits for the next reply.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> SpawnerReply {
        self.try_reply().expect("the connection is open")
    }

    /// Waits for the next reply, and returns `None` at the end of the connection.
    #[track_caller]
    pub(crate) fn try_reply(&mut self) -> Option<SpawnerReply> {
        while self.replies.is_empty() {
            let mut polled = [PollFd::new(&self.reader, PollFlags::IN)];
            let ready = poll(&mut polled, Some(&Timespec { tv_sec: 60, tv_nsec: 0 }));
            assert_eq!(ready, Ok(1), "no answer has come");
            let mut bytes = [0; 4 * REPLY_BYTES];
            let read = rustix::io::read(&self.reader, &mut bytes).unwrap_or(0);
            if read == 0 {
                return None;
            }
            let replies = &mut self.replies;
            self.stream.feed(&bytes[..read], |reply| {
                replies.push_back(reply.expect("an answer"));
            });
        }
        self.replies.pop_front()
    }

    /// Waits for the reply that a program was started, and returns its process.
    #[track_caller]
    pub(crate) fn started(&mut self, expected: u64) -> i32 {
        match self.reply() {
            SpawnerReply::Started { id, pid } if id == expected => {
                i32::try_from(pid).expect("a process")
            }
            other => panic!("{expected} was not started: {other:?}"),
        }
    }

    /// Waits until some programs were started, in any order, and returns their processes.
    #[track_caller]
    pub(crate) fn all_started(&mut self, count: usize) -> BTreeMap<u64, i32> {
        let mut started = BTreeMap::new();
        while started.len() < count {
            match self.reply() {
                SpawnerReply::Started { id, pid } => {
                    started.insert(id, i32::try_from(pid).expect("a process"));
                }
                other => panic!("no start: {other:?}"),
            }
        }
        started
    }

    /// Waits for the ends of some programs, in any order, leaving their starts out.
    #[track_caller]
    pub(crate) fn ends(&mut self, count: usize) -> BTreeMap<u64, SpawnerReply> {
        let mut ends = BTreeMap::new();
        while ends.len() < count {
            let reply = self.reply();
            if !matches!(reply, SpawnerReply::Started { .. }) {
                assert_eq!(ends.insert(reply.id(), reply), None, "two ends of one program");
            }
        }
        ends
    }
}

/// Sends standard error of this process to a file from now on.
pub(crate) fn redirect_log() {
    LOG.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("pinion-spawner-{}", std::process::id()));
        let file = File::options().append(true).create(true).open(&path).expect("a file");
        redirect_standard_error(file.as_raw_fd());
        path
    });
}

/// Sends standard error of this process to the file again.
pub(crate) fn restore_log() {
    let path = LOG.get().expect("the log was redirected");
    let file = File::options().append(true).open(path).expect("the log");
    redirect_standard_error(file.as_raw_fd());
}

/// Makes a descriptor standard error of this process.
pub(crate) fn redirect_standard_error(descriptor: i32) {
    // SAFETY: the call takes numbers; standard error is owned by nothing.
    let redirected = unsafe { libc::dup2(descriptor, libc::STDERR_FILENO) };
    assert_eq!(redirected, libc::STDERR_FILENO);
}

/// Returns the log of the spawner.
pub(crate) fn log() -> String {
    LOG.get().map_or_else(String::new, |path| fs::read_to_string(path).expect("the log"))
}

/// Waits for a text in the log.
#[track_caller]
pub(crate) fn wait_for_log(text: &str) {
    wait_until(text, || log().contains(text));
}

/// Prints standard error of a failed test.
pub(crate) fn print_log(name: &str) {
    println!("--- {name}\n{}", log());
    std::io::stdout().flush().expect("standard output");
}

/// Removes the log of a test that was passed.
pub(crate) fn remove_log() {
    if let Some(path) = LOG.get() {
        fs::remove_file(path).expect("the log");
    }
}

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("pinion-spawner-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that fails shows its own error.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns whether this process is root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").expect("/proc").uid() == 0
}

/// A pause in which something could happen that must not.
pub(crate) const MOMENT: Duration = Duration::from_millis(20);
