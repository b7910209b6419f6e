//! Carries out start requests: checks a request, and creates the pipes, the process and the cgroup
//! of the program.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{FileType, OFlags, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::cgroups::{Cgroups, ProgramCgroup};
use crate::event_loop::{End, EventLoop, LiveStart, LiveTable};
use crate::exec_plan::{ExecPlan, ExecVectors, PreparedScript};
use crate::fork_exec::{Failure, NewProcess, spawn};
use crate::limits::RUNNING_MAX;
use crate::process_state::random_number;
use crate::program::{Execution, ProgramState, SpawnedProgram};
use crate::reply::{Reason, SpawnerReply, StartStage};
use crate::start_table::ProgramKind;
use crate::stderr_lines::StderrLines;
use crate::worker_request::StartRequest;

impl EventLoop {
    /// Starts a program for a worker. `descriptors` came with the request; the flag is true if the
    /// request had more descriptors than that.
    pub(crate) fn start(
        &mut self,
        worker: u64,
        request: &StartRequest<'_>,
        descriptors: (Vec<OwnedFd>, bool),
    ) {
        let id = request.id;
        let (descriptors, has_lost) = descriptors;
        let started = match self.rejection(worker, request, &descriptors, has_lost) {
            Some(reason) => Err(SpawnerReply::Rejected { id, reason }),
            None => self.spawn_program(worker, request, &descriptors).map_err(|(stage, error)| {
                SpawnerReply::Failed { id, stage, errno: error.raw_os_error() }
            }),
        };
        // The new process has copies of the descriptors. A worker may rely on it that they are
        // closed here once it has the report that the program runs.
        drop(descriptors);
        let reply = match started {
            Ok(()) => return,
            Err(reply) => reply,
        };
        if let (SpawnerReply::Failed { stage, errno, .. }, Some(start)) =
            (reply, self.live_start(request))
        {
            self.log_failure((&start.name, start.kind), stage, errno);
        }
        self.reply(worker, reply);
    }

    /// Handles the end of an execution: the program runs, or a step has failed.
    pub(crate) fn on_execution(&mut self, serial: u64) {
        let Some(program) = self.programs.get_mut(&serial) else { return };
        let execution = program.read_execution();
        self.after_execution(serial, execution);
    }

    fn after_execution(&mut self, serial: u64, execution: Execution) {
        let Some(program) = self.programs.get_mut(&serial) else { return };
        let (id, name, kind) = (program.id, Rc::clone(&program.name), program.kind);
        let reply = match execution {
            Execution::Executed if kind.is_answered_at_start() => {
                SpawnerReply::Started { id, pid: program.pid.as_raw_nonzero().get().unsigned_abs() }
            }
            Execution::Pending | Execution::Executed => return,
            Execution::Failed((stage, errno)) => {
                program.state = ProgramState::Failed;
                SpawnerReply::Failed { id, stage, errno: errno.raw_os_error() }
            }
        };
        let worker = program.worker;
        if let SpawnerReply::Failed { stage, errno, .. } = reply {
            self.log_failure((&name, kind), stage, errno);
        }
        if let Some(worker) = worker {
            self.reply(worker, reply);
        }
    }

    fn rejection(
        &self,
        worker: u64,
        request: &StartRequest<'_>,
        descriptors: &[OwnedFd],
        has_lost: bool,
    ) -> Option<Reason> {
        if self.end != End::No {
            return Some(Reason::Stopping);
        }
        if self.live_table(request.generation).is_none() {
            return Some(Reason::StaleTable);
        }
        let Some(start) = self.live_start(request) else { return Some(Reason::UnknownStart) };
        let is_cgi = start.kind == ProgramKind::Cgi;
        // Programs interpret arguments as options, so a client must not choose the arguments of a
        // script.
        if (is_cgi || !start.allows_arguments) && !request.arguments.is_empty() {
            return Some(Reason::Arguments);
        }
        let is_allowed = request.script.is_none_or(|script| start.allows_script(script.path));
        if is_cgi != request.script.is_some() || !is_allowed {
            return Some(Reason::Script);
        }
        if request.script.is_some_and(|script| !start.allows_variables(script.variables)) {
            return Some(Reason::Variable);
        }
        let is_of_type = |descriptor: &OwnedFd, expected: FileType| {
            fstat(descriptor).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == expected)
        };
        let is_socket = |descriptor| is_of_type(descriptor, FileType::Socket);
        let has_sockets = match (start.kind, descriptors) {
            (ProgramKind::Supervised, []) => true,
            (ProgramKind::Supervised, [listener, file @ ..]) => {
                is_socket(listener)
                    && file.iter().all(|file| is_of_type(file, FileType::RegularFile))
            }
            (_, descriptors) => {
                matches!(descriptors.len(), 1 | 2) && descriptors.iter().all(is_socket)
            }
        };
        if has_lost || !has_sockets {
            return Some(Reason::Descriptors);
        }
        let has_id =
            |program: &SpawnedProgram| (program.worker, program.id) == (Some(worker), request.id);
        if self.programs.values().any(has_id) {
            return Some(Reason::DuplicateId);
        }
        (!self.has_room(start.kind)).then_some(Reason::TooManyRunning)
    }

    /// Returns whether the limit allows one more program of a kind. Each supervised row has a
    /// reserved place that programs of workers do not use.
    fn has_room(&self, kind: ProgramKind) -> bool {
        let reserved = match kind {
            ProgramKind::Supervised => 0,
            ProgramKind::OnDemand | ProgramKind::Cgi => {
                let rows = self.table.starts.iter();
                let supervised = rows.filter(|row| row.kind == ProgramKind::Supervised).count();
                let running = self.programs.values();
                let running = running.filter(|program| program.kind == ProgramKind::Supervised);
                supervised.saturating_sub(running.count())
            }
        };
        self.programs.len() + reserved < RUNNING_MAX
    }

    /// Returns the table with this generation, if it is the current or the previous one.
    pub(crate) fn live_table(&self, generation: u32) -> Option<&LiveTable> {
        let tables = [Some(&self.table), self.previous.as_ref()].into_iter().flatten();
        tables.into_iter().find(|table| table.generation == generation)
    }

    fn live_start(&self, request: &StartRequest<'_>) -> Option<Rc<LiveStart>> {
        self.live_table(request.generation)?.starts.get(usize::from(request.start)).cloned()
    }

    /// Creates the process of a program. The caller has checked the request.
    fn spawn_program(
        &mut self,
        worker: u64,
        request: &StartRequest<'_>,
        descriptors: &[OwnedFd],
    ) -> Result<(), Failure> {
        let before = |error: Errno| (StartStage::Pipes, error);
        let start = self.live_start(request).ok_or(before(Errno::INVAL))?;
        let marker = random_number(&self.random).map_err(|_| before(Errno::IO))?;
        let (stderr, program_stderr) = stderr_pipe().map_err(before)?;
        let vectors = ExecVectors::new(&start.prepared, &request.arguments, marker);
        let mut vectors = vectors.ok_or(before(Errno::INVAL))?;
        let script = match &request.script {
            Some(script) => {
                let prepared = PreparedScript::new(&start.prepared, script.path);
                Some(prepared.ok_or(before(Errno::INVAL))?)
            }
            None => None,
        };
        if let (Some(prepared), Some(script)) = (&script, &request.script) {
            vectors.set_script(&start.prepared, prepared, script.variables);
        }
        let null = Rc::clone(&self.null);
        let is_supervised = start.kind == ProgramKind::Supervised;
        let (stdin, stdout) = match (start.kind, descriptors) {
            (ProgramKind::Supervised, []) => (null.as_fd(), program_stderr.as_fd()),
            (ProgramKind::Supervised, [socket, ..]) => (socket.as_fd(), program_stderr.as_fd()),
            // A script may close its output and go on. So the output socket must not be its input
            // as well, which would keep the socket open.
            (ProgramKind::Cgi, [output]) => (null.as_fd(), output.as_fd()),
            (_, [first, .., last]) => (first.as_fd(), last.as_fd()),
            (_, [both]) => (both.as_fd(), both.as_fd()),
            (_, []) => return Err(before(Errno::BADF)),
        };
        let plan = ExecPlan {
            start: &start.prepared,
            script: script.as_ref(),
            vectors: &vectors,
            stdin,
            stdout,
            stderr: program_stderr.as_fd(),
            file: descriptors.get(1).filter(|_| is_supervised).map(AsFd::as_fd),
            is_awaited: start.kind.is_answered_at_start(),
            spawner: self.pid,
        };
        let (process, cgroup) = self.spawn_in_cgroup(&plan)?;
        let pid = process.pid;
        let (execution, failure) = process.execution.with_pipe();
        let serial = self.serial();
        let program = SpawnedProgram {
            worker: Some(worker),
            id: request.id,
            name: Rc::clone(&start.name),
            kind: start.kind,
            pid,
            marker,
            state: ProgramState::Running,
            failure,
            stderr,
            _program_stderr: program_stderr,
            lines: StderrLines::new(&start.name, pid.as_raw_nonzero().get()),
            cgroup,
            stop_signal: start.stop_signal,
            grace_ms: start.grace_ms,
        };
        self.programs.insert(serial, program);
        self.after_execution(serial, execution);
        Ok(())
    }

    /// Creates a process in a cgroup, or without one if the system does not allow that.
    fn spawn_in_cgroup(
        &mut self,
        plan: &ExecPlan<'_>,
    ) -> Result<(NewProcess, Option<ProgramCgroup>), Failure> {
        let Some(cgroup) = self.cgroups.as_mut().and_then(Cgroups::take) else {
            return Ok((spawn(plan, None, &mut self.stack)?, None));
        };
        let failure = match spawn(plan, Some(cgroup.as_fd()), &mut self.stack) {
            Ok(process) => return Ok((process, Some(cgroup))),
            Err(failure) => failure,
        };
        if let Some(cgroups) = &mut self.cgroups {
            cgroups.put_back(cgroup);
        }
        // These errors are not caused by the cgroup.
        if matches!(failure, (StartStage::Pipes, _) | (_, Errno::AGAIN | Errno::NOMEM)) {
            return Err(failure);
        }
        let process = spawn(plan, None, &mut self.stack)?;
        if let Some(cgroups) = &mut self.cgroups {
            cgroups.stop_using();
        }
        let now_ms = self.now_ms();
        self.log
            .notice(now_ms, &format!("spawner: cannot start programs in cgroups: {}", failure.1));
        Ok((process, None))
    }

    /// Logs why a program was not executed, unless the server or the worker does so.
    fn log_failure(&mut self, (name, kind): (&str, ProgramKind), stage: StartStage, errno: i32) {
        if kind != ProgramKind::OnDemand {
            return;
        }
        let now_ms = self.now_ms();
        let error = io::Error::from_raw_os_error(errno);
        self.log.notice(now_ms, &format!("{name}: cannot {stage}: {error}"));
    }
}

/// Opens the pipe of standard error of a program. Returns the non-blocking side of the spawner, and
/// the side of the program, which blocks as programs expect.
fn stderr_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (stderr, program_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&stderr, OFlags::NONBLOCK)?;
    Ok((stderr, program_stderr))
}
