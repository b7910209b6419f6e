//! Handles the ends of processes: reports the end of a program, and kills all processes that it has
//! left behind.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, waitid};

use crate::cgroups::ProgramCgroup;
use crate::descendants::{ProcessOrigin, RunningProgram, is_zombie, origin, process_name};
use crate::event_loop::EventLoop;
use crate::limits::ORPHAN_LOOK_MS;
use crate::process_state::ended_child;
use crate::program::{ProgramState, SpawnedProgram};
use crate::reply::{SpawnerReply, signal_name};

impl EventLoop {
    /// Reaps all children that have ended. If one was a program, or an orphan that was killed, its
    /// own children are children of the spawner now, so this function searches for orphans.
    pub(crate) fn reap(&mut self) {
        let (mut has_ended, mut has_reaped_killed) = (false, false);
        let has_children = loop {
            let pid = match ended_child() {
                Ok(Some(pid)) => pid,
                Ok(None) => break true,
                Err(_) => break false,
            };
            let serial = self.programs.iter().find(|(_, program)| program.pid == pid);
            match serial.map(|(serial, _)| *serial) {
                Some(serial) => {
                    self.end_program(serial);
                    has_ended = true;
                }
                None => {
                    reap_one(pid);
                    has_reaped_killed |= self.killed_orphans.contains(&pid);
                    self.suspects.retain(|suspect| *suspect != pid);
                    self.killed_orphans.retain(|killed| *killed != pid);
                }
            }
        };
        if !has_children {
            self.suspects.clear();
        } else if has_ended || has_reaped_killed {
            self.kill_orphans();
        }
    }

    /// Ends a program whose main process is a zombie. All its processes are killed before the
    /// zombie is reaped, because until then the kernel does not reuse the number of its process
    /// group.
    fn end_program(&mut self, serial: u64) {
        self.on_execution(serial);
        let Some(mut program) = self.programs.remove(&serial) else { return };
        program.kill_group();
        let status = reap_one(program.pid);
        self.finish_stderr(&mut program);
        if let (Some(cgroup), Some(cgroups)) = (program.cgroup.take(), &mut self.cgroups) {
            cgroups.put_back(cgroup);
        }
        let (id, exit_status) = (program.id, status.as_ref().and_then(WaitIdStatus::exit_status));
        let signal = status.as_ref().and_then(WaitIdStatus::terminating_signal);
        if program.state == ProgramState::Failed {
            return;
        }
        let reply = match (exit_status, signal) {
            (Some(status), _) => SpawnerReply::Exited { id, status: low_byte(status) },
            (None, Some(signal)) => {
                self.log_signal(&program, signal);
                SpawnerReply::Signaled { id, signal: low_byte(signal) }
            }
            // The zombie was seen and is a child, so its status can always be read and this case
            // does not occur.
            (None, None) => SpawnerReply::Signaled { id, signal: low_byte(Signal::KILL.as_raw()) },
        };
        let worker = program.worker;
        // A worker that has received this reply may rely on it that the pipes of the program are
        // closed.
        drop(program);
        if let Some(worker) = worker {
            self.reply(worker, reply);
        }
    }

    fn log_signal(&mut self, program: &SpawnedProgram, signal: i32) {
        if program.logs_signal() {
            let now_ms = self.now_ms();
            let (name, pid) = (&program.name, program.pid.as_raw_nonzero());
            let signal = signal_name(signal);
            self.log.notice(now_ms, &format!("{name}[{pid}]: ended by {signal}"));
        }
    }

    /// Writes the bytes that remain in the pipe of standard error of a program. At most the
    /// capacity of a pipe is read, even if a process that is being killed still writes.
    fn finish_stderr(&mut self, program: &mut SpawnedProgram) {
        let now_ms = self.now_ms();
        let (log, buffer) = (&mut self.log, &mut self.buffer);
        program.read_stderr(now_ms, buffer, &mut |line| log.write_line(line));
        program.lines.finish(now_ms, &mut |line| log.write_line(line));
    }

    /// Kills the children of the spawner that belong to no running program. When these are reaped,
    /// their own children become children of the spawner, and are examined then.
    pub(crate) fn kill_orphans(&mut self) {
        // The list was opened at the start, so reading it fails only without memory. It is read
        // again at the next end of a process.
        let Ok(children) = self.children.read() else { return };
        let running = |program: &SpawnedProgram| RunningProgram {
            pid: program.pid,
            marker: program.marker,
            cgroup: program.cgroup.as_ref().map(ProgramCgroup::number),
        };
        let running: Vec<RunningProgram> = self.programs.values().map(running).collect();
        let suspects = std::mem::take(&mut self.suspects);
        for child in children {
            if running.iter().any(|program| program.pid == child) {
                continue;
            }
            let origin = if running.is_empty() {
                ProcessOrigin::Unclaimed
            } else {
                origin(child, &running, self.cgroups.as_ref())
            };
            match origin {
                ProcessOrigin::Claimed => {}
                ProcessOrigin::Unclaimed => self.kill_orphan(child),
                ProcessOrigin::Unknown if suspects.contains(&child) => self.kill_orphan(child),
                // This child ended after the list was read, so its own children are not in the
                // list.
                ProcessOrigin::Executing | ProcessOrigin::Unknown if is_zombie(child) => {
                    self.killed_orphans.push(child);
                }
                ProcessOrigin::Executing | ProcessOrigin::Unknown => {
                    if origin == ProcessOrigin::Unknown {
                        self.suspects.push(child);
                    }
                    self.look_at_ms = Some(self.now_ms() + ORPHAN_LOOK_MS);
                }
            }
        }
    }

    fn kill_orphan(&mut self, orphan: Pid) {
        if self.killed_orphans.contains(&orphan) {
            return;
        }
        let (name, has_ended) = (process_name(orphan), is_zombie(orphan));
        if kill_process(orphan, Signal::KILL).is_err() {
            return;
        }
        // The orphan is remembered until it is reaped, because its children are examined then.
        self.killed_orphans.push(orphan);
        if !has_ended {
            let now_ms = self.now_ms();
            let pid = orphan.as_raw_nonzero();
            let text = format!("spawner: killed {name}[{pid}], which a program has left");
            self.log.notice(now_ms, &text);
        }
    }
}

/// Reaps a child that has ended.
fn reap_one(pid: Pid) -> Option<WaitIdStatus> {
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok().flatten()
}

/// Converts an exit status or a signal, which have eight bits, to a byte.
fn low_byte(number: i32) -> u8 {
    number.to_le_bytes()[0]
}
