//! The event loop of the spawner: it waits for the server, workers, signals and pipes, and handles
//! their events. It has one thread and never blocks on anything else.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, chdir, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
    setsid,
};

use crate::cgi_variables::{is_cgi_variable, variables};
use crate::cgroups::{CgroupTree, Cgroups};
use crate::control_codec::ControlReply;
use crate::descendants::ChildrenList;
use crate::exec_plan::PreparedStart;
use crate::fork_exec::{SharedStack, exit, try_clone_into};
use crate::limits::{KILL_WAIT_MS, RECORD_MAX_BYTES};
use crate::nonblocking_log::LogOutput;
use crate::process_state::{drain_signals, keep_only, open_random, set_title, take_signals};
use crate::program::{ProgramState, SpawnedProgram};
use crate::server_requests::ComingTable;
use crate::start_table::{ProgramKind, ProgramStart, StartTable};
use crate::table_check::encoded_bytes;
use crate::worker_requests::Worker;

/// The state of the spawner.
pub(crate) struct EventLoop {
    pub(crate) began: Instant,
    pub(crate) pid: Pid,
    pub(crate) server: Pid,
    /// The control connection; `None` once the server has closed it.
    pub(crate) control: Option<OwnedFd>,
    signals: OwnedFd,
    pub(crate) random: File,
    /// `/dev/null`, the standard input of programs that have none.
    pub(crate) null: Rc<File>,
    pub(crate) children: ChildrenList,
    pub(crate) cgroups: Option<Cgroups>,
    pub(crate) log: LogOutput,
    pub(crate) table: LiveTable,
    /// The previous table, for requests that were sent before their sender knew the new one.
    pub(crate) previous: Option<LiveTable>,
    /// The new table while it is incomplete.
    pub(crate) coming: Option<ComingTable>,
    pub(crate) workers: BTreeMap<u64, Worker>,
    pub(crate) programs: BTreeMap<u64, SpawnedProgram>,
    pub(crate) next_serial: u64,
    /// Orphans that had no environment at their last check.
    pub(crate) suspects: Vec<Pid>,
    /// The time of the next check of orphans, in milliseconds.
    pub(crate) look_at_ms: Option<u64>,
    /// Orphans that were killed or have exited, and are not reaped yet. When they are reaped, their
    /// children are examined.
    pub(crate) killed_orphans: Vec<Pid>,
    pub(crate) end: End,
    /// The buffer for records and for standard error of programs. It is allocated once, because the
    /// kernel copies memory that is written after a fork.
    pub(crate) buffer: Vec<u8>,
    pub(crate) stack: SharedStack,
}

/// A table in use, with its prepared rows.
#[derive(Debug)]
pub(crate) struct LiveTable {
    pub(crate) generation: u32,
    pub(crate) starts: Vec<Rc<LiveStart>>,
}

/// A prepared row of a table in use.
#[derive(Debug)]
pub(crate) struct LiveStart {
    pub(crate) name: Rc<str>,
    pub(crate) kind: ProgramKind,
    /// The size of the row in its encoded form, in bytes.
    pub(crate) encoded_bytes: usize,
    pub(crate) allows_arguments: bool,
    pub(crate) stop_signal: Signal,
    pub(crate) grace_ms: u32,
    /// The only script that a worker may name.
    cgi_script: Option<OsString>,
    /// The names of variables that a worker may set besides those of CGI.
    cgi_variables: Vec<OsString>,
    pub(crate) prepared: PreparedStart,
}

/// Whether the spawner is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    No,
    /// All programs were sent their stop signals.
    Stopping,
    /// All processes were sent SIGKILL. At this time the spawner ends, even if processes are left.
    Killing {
        until_ms: u64,
    },
}

#[derive(Clone, Copy, Debug)]
enum EventSource {
    Control,
    Signals,
    Worker(u64),
    Failure(u64),
    Stderr(u64),
}

/// Runs the spawner in a process that was just forked.
pub(crate) fn run(
    table: &StartTable,
    control: OwnedFd,
    server: Pid,
    cgroups: Option<&CgroupTree>,
    started: fn(),
) -> Infallible {
    match EventLoop::new(table, control, server, cgroups) {
        Ok(mut event_loop) => {
            started();
            event_loop.run()
        }
        Err(error) => {
            LogOutput::open().notice(0, &format!("spawner: cannot start: {error}"));
            exit(1)
        }
    }
}

impl EventLoop {
    fn new(
        table: &StartTable,
        control: OwnedFd,
        server: Pid,
        cgroups: Option<&CgroupTree>,
    ) -> io::Result<Self> {
        // In a session of its own, the spawner does not get the interrupt key of the terminal: it
        // must end with the server, and not before.
        setsid()?;
        // This must come before any descriptor is opened that stays open.
        let control = keep_only(control)?;
        let signals = take_signals(&[libc::SIGCHLD, libc::SIGTERM])?;
        set_parent_process_death_signal(Some(Signal::TERM))?;
        set_child_subreaper(Some(getpid()))?;
        set_title();
        chdir("/")?;
        let mut event_loop = Self {
            began: Instant::now(),
            pid: getpid(),
            server,
            control: Some(control),
            signals,
            random: open_random()?,
            null: Rc::new(File::open("/dev/null")?),
            children: ChildrenList::open()?,
            cgroups: None,
            log: LogOutput::open(),
            table: LiveTable::of(1, &table.starts)?,
            previous: None,
            coming: None,
            workers: BTreeMap::new(),
            programs: BTreeMap::new(),
            next_serial: 1,
            suspects: Vec::new(),
            look_at_ms: None,
            killed_orphans: Vec::new(),
            end: End::No,
            buffer: vec![0; RECORD_MAX_BYTES],
            stack: SharedStack::new()?,
        };
        if let Some(tree) = cgroups {
            event_loop.use_cgroups(tree);
        }
        event_loop.reply_control(ControlReply::Ready);
        event_loop.notice_end_of_server();
        Ok(event_loop)
    }

    fn use_cgroups(&mut self, tree: &CgroupTree) {
        let opened = Cgroups::open(tree.path());
        match opened.and_then(|cgroups| cgroups.after_trial(try_clone_into)) {
            Ok(cgroups) => self.cgroups = Some(cgroups),
            Err(error) => {
                let now_ms = self.now_ms();
                let text = format!("spawner: cannot start programs in cgroups: {error}");
                self.log.notice(now_ms, &text);
            }
        }
    }

    fn run(&mut self) -> ! {
        let mut ready = Vec::new();
        while !self.is_done() {
            self.wait(&mut ready);
            for source in ready.drain(..) {
                match source {
                    EventSource::Control => self.read_control(),
                    EventSource::Signals => self.on_signals(),
                    EventSource::Worker(serial) => self.on_worker(serial),
                    EventSource::Failure(serial) => self.on_execution(serial),
                    EventSource::Stderr(serial) => self.on_stderr(serial),
                }
            }
            self.expire();
        }
        if let Some(cgroups) = &mut self.cgroups {
            cgroups.remove();
        }
        exit(0)
    }

    /// Returns the time since the start of the spawner in milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn wait(&self, ready: &mut Vec<EventSource>) {
        let mut polled = Vec::new();
        let mut sources = Vec::new();
        let mut add = |source, socket, flags| {
            sources.push(source);
            polled.push(PollFd::from_borrowed_fd(socket, flags));
        };
        if let Some(control) = &self.control {
            add(EventSource::Control, control.as_fd(), PollFlags::IN);
        }
        for (serial, program) in &self.programs {
            if let Some(pipe) = &program.failure {
                add(EventSource::Failure(*serial), pipe.as_fd(), PollFlags::IN);
            }
            add(EventSource::Stderr(*serial), program.stderr.as_fd(), PollFlags::IN);
        }
        // Signals come after the pipes, so that the output that a program has written before its
        // end is read before the end is handled.
        add(EventSource::Signals, self.signals.as_fd(), PollFlags::IN);
        for (serial, worker) in &self.workers {
            let (socket, flags) = worker.awaited();
            add(EventSource::Worker(*serial), socket, flags);
        }
        let timeout = self.timeout_ms().map(timespec);
        // An error is an interruption, which does not occur with all signals blocked, or a lack of
        // memory, which may be over at the next attempt.
        if poll(&mut polled, timeout.as_ref()).is_ok() {
            let is_ready = |polled: &PollFd<'_>| !polled.revents().is_empty();
            let found = polled.iter().zip(sources).filter(|(polled, _)| is_ready(polled));
            ready.extend(found.map(|(_, source)| source));
        }
    }

    fn timeout_ms(&self) -> Option<u64> {
        let of_program = |program: &SpawnedProgram| match program.state {
            ProgramState::Stopping { kill_at_ms } => Some(kill_at_ms),
            _ => None,
        };
        let now_ms = self.now_ms();
        let of_end = match self.end {
            End::Killing { until_ms } => Some(until_ms),
            _ => None,
        };
        let deadlines = self.programs.values().filter_map(of_program);
        let deadlines = deadlines.chain(self.look_at_ms).chain(of_end);
        // If a program stops flooding the log, the number of lines left out is logged within a
        // second.
        let has_left_out = self.programs.values().any(|program| program.lines.has_left_out());
        let report = has_left_out.then_some(now_ms + 1000);
        deadlines.chain(report).min().map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// Handles expired deadlines: kills programs after their grace period, checks orphans again,
    /// and reports lines that were left out.
    fn expire(&mut self) {
        let now_ms = self.now_ms();
        let log = &mut self.log;
        for program in self.programs.values_mut() {
            if let ProgramState::Stopping { kill_at_ms } = program.state
                && kill_at_ms <= now_ms
            {
                program.kill();
                let (name, pid) = (&program.name, program.pid.as_raw_nonzero());
                let grace_ms = program.grace_ms;
                log.notice(
                    now_ms,
                    &format!("{name}[{pid}]: killed, it has not stopped in {grace_ms} ms"),
                );
            }
            if program.lines.has_left_out() && program.lines.is_quiet(now_ms) {
                program.lines.report_left_out(&mut |line| log.write_line(line));
            }
        }
        if self.look_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.look_at_ms = None;
            self.kill_orphans();
        }
        if self.end == End::Stopping && self.programs.is_empty() {
            self.kill_everything();
        }
    }

    fn is_done(&mut self) -> bool {
        let End::Killing { until_ms } = self.end else { return false };
        let has_children = !self.children.read().unwrap_or_default().is_empty();
        !has_children || until_ms <= self.now_ms()
    }

    fn on_signals(&mut self) {
        drain_signals(&self.signals);
        self.notice_end_of_server();
        self.reap();
    }

    /// Kills everything at once if the server has died, in which case the kernel sends SIGTERM. A
    /// SIGTERM of a person has no effect, because the spawner ends with the server.
    pub(crate) fn notice_end_of_server(&mut self) {
        if getppid() != Some(self.server) && !matches!(self.end, End::Killing { .. }) {
            self.control = None;
            self.workers.clear();
            self.kill_everything();
        }
    }

    /// Sends SIGKILL to all processes. The spawner ends when all of them have ended.
    fn kill_everything(&mut self) {
        self.end = End::Killing { until_ms: self.now_ms() + KILL_WAIT_MS };
        for program in self.programs.values_mut() {
            program.kill();
        }
        self.kill_orphans();
    }

    /// Sends all programs their stop signals. The spawner ends when all of them have ended.
    pub(crate) fn stop_everything(&mut self) {
        if self.end == End::No {
            self.end = End::Stopping;
            let now_ms = self.now_ms();
            self.programs.values_mut().for_each(|program| program.stop(now_ms));
        }
    }

    fn on_stderr(&mut self, serial: u64) {
        let now_ms = self.now_ms();
        let (log, buffer) = (&mut self.log, &mut self.buffer);
        if let Some(program) = self.programs.get_mut(&serial) {
            program.read_stderr(now_ms, buffer, &mut |line| log.write_line(line));
        }
    }

    pub(crate) fn serial(&mut self) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        serial
    }
}

impl LiveTable {
    fn of(generation: u32, starts: &[ProgramStart]) -> io::Result<Self> {
        let starts: Option<Vec<_>> = starts.iter().map(LiveStart::of).collect();
        let starts = starts.ok_or_else(|| io::Error::other("a program has a NUL byte"))?;
        Ok(Self { generation, starts })
    }
}

impl LiveStart {
    /// Prepares a row. Returns `None` if a text has a NUL byte, which the check of the row
    /// excludes.
    pub(crate) fn of(start: &ProgramStart) -> Option<Rc<Self>> {
        Some(Rc::new(Self {
            name: Rc::from(&*start.name),
            kind: start.kind,
            encoded_bytes: encoded_bytes(start),
            allows_arguments: start.allows_arguments,
            stop_signal: start.stop_signal,
            grace_ms: start.grace_ms,
            cgi_script: start.cgi_script.clone(),
            cgi_variables: start.cgi_variables.clone(),
            prepared: PreparedStart::of(start)?,
        }))
    }

    /// Returns whether a worker may start the script with this path.
    pub(crate) fn allows_script(&self, path: &[u8]) -> bool {
        self.cgi_script.as_ref().is_none_or(|only| only.as_bytes() == path)
    }

    /// Returns whether a worker may set all of these variables.
    pub(crate) fn allows_variables(&self, block: &[u8]) -> bool {
        variables(block).all(|(name, _)| {
            is_cgi_variable(name) || self.cgi_variables.iter().any(|own| own.as_bytes() == name)
        })
    }
}

fn timespec(ms: u64) -> Timespec {
    let nanoseconds = ms % 1000 * 1_000_000;
    Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        // The value is below 10^9, so it fits into the type on every machine.
        tv_nsec: nanoseconds.try_into().unwrap_or(0),
    }
}
