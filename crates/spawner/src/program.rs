//! A running program.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::io::{Errno, read};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::cgroups::ProgramCgroup;
use crate::fork_exec::{FAILURE_BYTES, Failure, decode_failure};
use crate::limits::STDERR_TURN_BYTES;
use crate::start_table::ProgramKind;
use crate::stderr_lines::{LineOutput, StderrLines};

/// A program from its fork until its main process was reaped.
#[derive(Debug)]
pub(crate) struct SpawnedProgram {
    /// The connection that has started the program; `None` once the connection is closed.
    pub(crate) worker: Option<u64>,
    /// The number of the program, which the worker has chosen.
    pub(crate) id: u64,
    pub(crate) name: Rc<str>,
    pub(crate) kind: ProgramKind,
    /// The main process, which was not reaped yet. The kernel does not reuse the ID of a process
    /// before it is reaped, so a signal always reaches the right process.
    pub(crate) pid: Pid,
    /// The number by which the descendants of the program are recognised.
    pub(crate) marker: u64,
    pub(crate) state: ProgramState,
    /// The pipe on which the new process reports a failure, until it has executed the program.
    pub(crate) failure: Option<OwnedFd>,
    /// The pipe of standard error, and of standard output if that is logged too.
    pub(crate) stderr: OwnedFd,
    /// The program's side of that pipe. As long as it is open, the end of the program wakes the
    /// spawner only once.
    pub(crate) _program_stderr: OwnedFd,
    pub(crate) lines: StderrLines,
    pub(crate) cgroup: Option<ProgramCgroup>,
    pub(crate) stop_signal: Signal,
    pub(crate) grace_ms: u32,
}

/// The requested state of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramState {
    Running,
    /// The program was sent its stop signal, and will be sent SIGKILL at this time.
    Stopping {
        kill_at_ms: u64,
    },
    /// The program was sent SIGKILL.
    Killed,
    /// The program could not be executed, and its process exits.
    Failed,
}

/// The result of executing a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execution {
    Pending,
    Executed,
    Failed(Failure),
}

impl SpawnedProgram {
    /// Reads the pipe on which the new process reports a failure.
    pub(crate) fn read_execution(&mut self) -> Execution {
        let Some(pipe) = &self.failure else { return Execution::Pending };
        let mut report = [0; FAILURE_BYTES];
        match read(pipe, &mut report) {
            Err(Errno::AGAIN | Errno::INTR) => return Execution::Pending,
            Ok(bytes) if bytes > 0 => {
                self.failure = None;
                // The report is shorter than `PIPE_BUF`, so it arrives whole.
                if let Some(failure) = decode_failure(&report[..bytes]) {
                    return Execution::Failed(failure);
                }
            }
            _ => self.failure = None,
        }
        Execution::Executed
    }

    /// Reads standard error of the program, up to the limit of a turn. The previous content of
    /// `buffer` is ignored.
    pub(crate) fn read_stderr(&mut self, now_ms: u64, buffer: &mut [u8], output: LineOutput<'_>) {
        let mut turn_bytes = 0;
        while turn_bytes < STDERR_TURN_BYTES {
            // The pipe does not end as long as both of its sides are open, so an error means that
            // it is empty.
            let Ok(bytes @ 1..) = read(&self.stderr, &mut *buffer) else { return };
            self.lines.feed(&buffer[..bytes], now_ms, output);
            turn_bytes += bytes;
            // A short read has emptied the pipe.
            if bytes < buffer.len() {
                return;
            }
        }
    }

    /// Sends the stop signal to the main process, which stops its own processes as it needs to.
    pub(crate) fn stop(&mut self, now_ms: u64) {
        if self.state == ProgramState::Running {
            self.signal(self.stop_signal);
            let kill_at_ms = now_ms.saturating_add(u64::from(self.grace_ms));
            self.state = ProgramState::Stopping { kill_at_ms };
        }
    }

    /// Sends a signal to the main process.
    pub(crate) fn signal(&self, signal: Signal) {
        // The process is not reaped, so it exists. The call fails for a program of another user
        // without CAP_KILL, which the check of the table excludes.
        let _ = kill_process(self.pid, signal);
    }

    /// Sends SIGKILL to all processes of the program that can be reached at once: its cgroup, or
    /// else its process group. Other descendants become children of the spawner when their
    /// parents end.
    pub(crate) fn kill(&mut self) {
        let is_killed = self.cgroup.as_mut().is_some_and(|cgroup| cgroup.kill().is_ok());
        if !is_killed {
            self.kill_group();
            self.signal(Signal::KILL);
        }
        if self.state != ProgramState::Failed {
            self.state = ProgramState::Killed;
        }
    }

    /// Sends SIGKILL to the process group, also when the main process has ended and was not reaped.
    pub(crate) fn kill_group(&self) {
        // The call fails if the process has not created its session yet.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    /// Returns whether the spawner logs a signal that has ended the program. It does if the end was
    /// not requested, and if neither the server nor the worker logs it.
    pub(crate) fn logs_signal(&self) -> bool {
        let is_stopping =
            matches!(self.state, ProgramState::Stopping { .. } | ProgramState::Killed);
        !is_stopping && self.kind == ProgramKind::OnDemand
    }
}
