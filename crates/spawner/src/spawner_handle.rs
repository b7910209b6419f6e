//! The server's side: it forks the spawner, connects workers to it, replaces the table, and cleans
//! up when the spawner has died.
//!
//! # When the spawner dies
//!
//! Its control connection and those of the workers are closed then. The spawner cannot be forked
//! again, because the server has threads by now. The server goes on without programs: static sites
//! are served, and requests that need a program get the status 503 until the server is restarted.
//! The server calls [`Spawner::kill_descendants`] so that no program is left, and reports the state
//! to the service manager.
//!
//! # When the server dies
//!
//! The spawner kills all programs with their descendants, and ends. If both are killed at the same
//! moment, the kernel kills the main process of each program (`PR_SET_PDEATHSIG`). Processes that
//! have detached themselves are then left to the service manager, which kills the cgroup of the
//! service.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper,
    wait, waitpid,
};

use crate::cgroups::CgroupTree;
use crate::control_codec::{CONTROL_REPLY_BYTES, ControlReply, ControlRequest};
use crate::descendants::children_of_all_threads;
use crate::event_loop;
use crate::fork_exec::fork_main;
use crate::limits::{CONTROL_TIMEOUT_MS, KILL_WAIT_MS};
use crate::seqpacket_socket::{record_sockets, send_record};
use crate::start_table::StartTable;
use crate::table_check::TableError;
use crate::table_codec::encode_start;
use crate::worker_connection::SpawnerConnection;

/// A spawner that was forked from this process.
#[derive(Debug)]
pub struct Spawner {
    pid: Pid,
    control: Arc<OwnedFd>,
    /// The table that is in use, and its generation.
    table: StartTable,
    generation: u32,
    /// The generation of the table that was sent last. The spawner may use this table even if its
    /// answer has not arrived in time.
    sent_generation: u32,
    is_reaped: bool,
    /// The number of the signal that has ended the spawner.
    signal: Option<i32>,
    cgroups: Option<CgroupTree>,
}

/// Connects workers to a spawner. Clones share the control connection.
#[derive(Clone, Debug)]
pub struct WorkerConnector {
    control: Arc<OwnedFd>,
}

/// Whether programs get cgroups of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupUse {
    /// Programs get cgroups if a part of the tree was delegated to the server.
    IfDelegated,
    /// Programs never get cgroups.
    Never,
}

/// The reason why the spawner could not be forked.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The table is invalid.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The spawner has ended at once, after it has logged the reason.
    #[error("the process that starts programs has ended; the line before says why")]
    NotReady,
    /// A system call has failed.
    #[error("cannot start the process that starts programs: cannot {operation}: {error}")]
    System {
        /// The failed operation, as the message names it.
        operation: &'static str,
        /// The error of the system.
        error: io::Error,
    },
}

/// The reason why a request to the spawner has failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The table is invalid.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The spawner does not accept the table, and has logged the reason.
    #[error("the spawner has refused the programs; the line before says why")]
    Refused,
    /// The spawner has not answered in time.
    #[error("the spawner has not answered in {CONTROL_TIMEOUT_MS} ms")]
    Timeout,
    /// The spawner has not read earlier requests yet. Try again later.
    #[error("the spawner is busy")]
    Busy,
    /// The spawner has ended.
    #[error("the spawner has ended: restart the server")]
    Gone,
    /// The process has too many open descriptors.
    #[error("cannot open a socket: {0}")]
    Socket(io::Error),
}

impl Spawner {
    /// Forks the spawner. This process must have no other thread, and the thread that calls this
    /// must live as long as the process: the spawner ends with it. The table is checked before the
    /// fork.
    ///
    /// The memory of this process stays in the memory of the spawner, so the spawner must be forked
    /// before keys and sites are loaded. This process becomes a child subreaper, for
    /// [`Self::kill_descendants`]; it must have no other children.
    ///
    /// `started` is called in the spawner once it has started, and may free memory that only the
    /// start needs.
    ///
    /// # Errors
    /// The table is invalid, or the system allows no further process.
    pub fn fork(table: &StartTable, cgroups: CgroupUse, started: fn()) -> Result<Self, ForkError> {
        table.check()?;
        let system = |operation| move |error| ForkError::System { operation, error };
        let list = "read the list of its children";
        children_of_all_threads().map_err(system(list))?;
        let (control, spawner_control) =
            record_sockets().map_err(|error| system("open sockets")(error.into()))?;
        let server = getpid();
        set_child_subreaper(Some(server))
            .map_err(|error| system("become a subreaper")(error.into()))?;
        let tree = match cgroups {
            CgroupUse::IfDelegated => CgroupTree::create(),
            CgroupUse::Never => None,
        };
        let mut spawner_control = Some(spawner_control);
        let pid = fork_main(|| match spawner_control.take() {
            Some(control) => event_loop::run(table, control, server, tree.as_ref(), started),
            None => unreachable!("the new process runs this once"),
        });
        let pid = match pid {
            Ok(pid) => pid,
            Err(error) => {
                tree.iter().for_each(CgroupTree::remove);
                return Err(system("create a process")(error));
            }
        };
        // This process sees the end of the control connection only if it holds no copy of the
        // spawner's socket.
        drop(spawner_control);
        let spawner = Self {
            pid,
            control: Arc::new(control),
            table: table.clone(),
            generation: 1,
            sent_generation: 1,
            is_reaped: false,
            signal: None,
            cgroups: tree,
        };
        match spawner.receive_reply(Duration::from_millis(CONTROL_TIMEOUT_MS)) {
            Ok(ControlReply::Ready) => Ok(spawner),
            _ => {
                // No program was started yet, so no process can be left.
                let _ = spawner.kill_descendants();
                Err(ForkError::NotReady)
            }
        }
    }

    /// Returns the process ID of the spawner.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the generation of the table, which start requests contain.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the connector for workers.
    pub fn connector(&self) -> WorkerConnector {
        WorkerConnector { control: Arc::clone(&self.control) }
    }

    /// Returns a new connection for a worker, as [`WorkerConnector::connect`] does.
    ///
    /// # Errors
    /// The errors are those of [`WorkerConnector::connect`].
    pub fn connect(&self) -> Result<SpawnerConnection, ControlError> {
        self.connector().connect()
    }

    /// Replaces the table and returns the generation of the new one. Programs that run go on.
    /// Requests with the previous generation are still served, older ones are not. A row that the
    /// table in use has with the same number is not checked again: its program may have been
    /// removed. This function blocks for [`CONTROL_TIMEOUT_MS`] at most.
    ///
    /// # Errors
    /// The table is invalid, and the previous one stays in use. Or the spawner has ended.
    pub fn replace_table(&mut self, table: &StartTable) -> Result<u32, ControlError> {
        table.check_changes(&self.table)?;
        self.sent_generation = self.sent_generation.wrapping_add(1);
        let (generation, previous) = (self.sent_generation, self.generation);
        let starts = u16::try_from(table.starts.len()).unwrap_or(u16::MAX);
        self.send(ControlRequest::BeginTable { generation, previous, starts }, &[])?;
        for (number, start) in (0..).zip(&table.starts) {
            if self.table.starts.get(usize::from(number)) == Some(start) {
                self.send(ControlRequest::KeepStart { number }, &[])?;
            } else {
                // A table that was checked can always be encoded.
                let start = encode_start(start).unwrap_or_default();
                self.send(ControlRequest::AddStart { start: &start }, &[])?;
            }
        }
        self.send(ControlRequest::UseTable, &[])?;
        let until = Instant::now() + Duration::from_millis(CONTROL_TIMEOUT_MS);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.receive_reply(left)? {
                ControlReply::TableInUse { generation: of } if of == generation => {
                    (self.table, self.generation) = (table.clone(), generation);
                    return Ok(generation);
                }
                ControlReply::TableRefused { generation: of } if of == generation => {
                    return Err(ControlError::Refused);
                }
                // This is the late answer to an earlier table.
                ControlReply::TableInUse { .. } | ControlReply::TableRefused { .. } => {}
                ControlReply::Ready => return Err(ControlError::Gone),
            }
        }
    }

    /// Returns whether the spawner has ended. To be notified, poll its descriptor
    /// ([`AsFd::as_fd`]) for `POLLHUP`.
    pub fn has_ended(&mut self) -> bool {
        if !self.is_reaped {
            match waitpid(Some(self.pid), WaitOptions::NOHANG) {
                Ok(None) => return false,
                Ok(Some((_, status))) => self.signal = status.terminating_signal(),
                // Another part of this process has reaped the spawner.
                Err(_) => {}
            }
            self.is_reaped = true;
        }
        true
    }

    /// Waits until a spawner that has closed its control connection has ended, for
    /// [`KILL_WAIT_MS`] at most. Returns the number of the signal that has ended it, if one has.
    pub fn ending_signal(&mut self) -> Option<i32> {
        if !self.has_ended() {
            wait_for_process(self.pid, Duration::from_millis(KILL_WAIT_MS));
            self.has_ended();
        }
        self.signal
    }

    /// Stops all programs, each with its stop signal and its grace period, and waits until the
    /// spawner has ended, for `timeout` at most. After that time the spawner and all remaining
    /// processes are killed.
    ///
    /// # Errors
    /// Some processes cannot be killed.
    pub fn stop(mut self, timeout: Duration) -> Result<(), Survivors> {
        // If the spawner has ended, only the cleanup below is needed.
        let _ = self.send(ControlRequest::Stop, &[]);
        let until = Instant::now() + timeout;
        while !self.has_ended() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            wait_for_process(self.pid, left);
        }
        self.kill_descendants()
    }

    /// Kills the spawner, if it has not ended, and all processes that it has left behind. These are
    /// children of this process, which is a child subreaper. This function waits for
    /// [`KILL_WAIT_MS`] at most.
    ///
    /// # Errors
    /// Some processes cannot be killed, because they wait for a device, or because they belong to
    /// another user and this process has dropped its privileges.
    pub fn kill_descendants(mut self) -> Result<(), Survivors> {
        let until = Instant::now() + Duration::from_millis(KILL_WAIT_MS);
        if !self.has_ended() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        loop {
            while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
            let children = children_of_all_threads().unwrap_or_default();
            self.cgroups.iter().for_each(CgroupTree::kill);
            if children.is_empty() {
                self.cgroups.iter().for_each(CgroupTree::remove);
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Survivors(children));
            }
            for child in &children {
                let _ = kill_process(*child, Signal::KILL);
            }
            wait_for_process(children[0], until.saturating_duration_since(Instant::now()));
        }
    }

    fn send(
        &self,
        request: ControlRequest<'_>,
        sockets: &[BorrowedFd<'_>],
    ) -> Result<(), ControlError> {
        let until = Instant::now() + Duration::from_millis(CONTROL_TIMEOUT_MS);
        let bytes = request.encode();
        loop {
            match send_once(&self.control, &bytes, sockets) {
                Err(ControlError::Busy) => {}
                sent => return sent,
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ControlError::Timeout);
            }
            let mut polled = [PollFd::new(&self.control, PollFlags::OUT)];
            let _ = poll(&mut polled, Some(&timespec(left)));
        }
    }

    fn receive_reply(&self, timeout: Duration) -> Result<ControlReply, ControlError> {
        let mut polled = [PollFd::new(&self.control, PollFlags::IN)];
        match poll(&mut polled, Some(&timespec(timeout))) {
            Ok(0) | Err(_) => return Err(ControlError::Timeout),
            Ok(_) => {}
        }
        let mut bytes = [0; CONTROL_REPLY_BYTES];
        match recv(&self.control, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, CONTROL_REPLY_BYTES)) => ControlReply::decode(bytes).ok_or(ControlError::Gone),
            _ => Err(ControlError::Gone),
        }
    }
}

impl WorkerConnector {
    /// Returns a new connection for a worker. This function never waits, not even while a table is
    /// being replaced or the spawner hangs.
    ///
    /// # Errors
    /// The spawner has ended or is busy, or there are too many descriptors.
    pub fn connect(&self) -> Result<SpawnerConnection, ControlError> {
        let socket = |error: Errno| ControlError::Socket(error.into());
        let (worker, spawner) = record_sockets().map_err(socket)?;
        let connection = SpawnerConnection::new(worker).map_err(ControlError::Socket)?;
        send_once(&self.control, &ControlRequest::Connect.encode(), &[spawner.as_fd()])?;
        Ok(connection)
    }

    /// Returns whether the spawner has ended. It never waits.
    pub fn has_ended(&self) -> bool {
        self.is_closed(Some(&timespec(Duration::ZERO)))
    }

    /// Waits until the spawner has ended.
    pub fn wait_for_end(&self) {
        while !self.is_closed(None) {}
    }

    fn is_closed(&self, timeout: Option<&Timespec>) -> bool {
        let mut polled = [PollFd::new(&self.control, PollFlags::empty())];
        poll(&mut polled, timeout).is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }
}

/// Sends a record on the control connection if the socket has space for it now.
fn send_once(
    control: &OwnedFd,
    bytes: &[u8],
    sockets: &[BorrowedFd<'_>],
) -> Result<(), ControlError> {
    match send_record(control, bytes, sockets) {
        Ok(()) => Ok(()),
        // ETOOMANYREFS means that too many descriptors are in flight (unix(7)).
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS) => {
            Err(ControlError::Busy)
        }
        Err(_) => Err(ControlError::Gone),
    }
}

impl AsFd for Spawner {
    /// Returns the control connection, for polling only. It is closed when the spawner ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

/// Processes that could not be killed.
#[derive(Debug)]
pub struct Survivors(pub Vec<Pid>);

impl fmt::Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these processes of programs could not be killed:")?;
        self.0.iter().try_for_each(|pid| write!(f, " {}", pid.as_raw_nonzero()))
    }
}

impl std::error::Error for Survivors {}

/// Waits until a child of this process has ended, for `timeout` at most. Other threads may handle
/// the signals of this process, so this function does not wait for SIGCHLD.
fn wait_for_process(pid: Pid, timeout: Duration) {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => {
            let mut polled = [PollFd::new(&process, PollFlags::IN)];
            // After an error the caller checks the process again.
            let _ = poll(&mut polled, Some(&timespec(timeout)));
        }
        // A system call filter may refuse the call.
        Err(_) => std::thread::sleep(timeout.min(Duration::from_millis(1))),
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
