//! Finds the processes that a program has left behind. The spawner is a child subreaper
//! (`PR_SET_CHILD_SUBREAPER`, prctl(2)): a process whose parent has ended becomes a child of the
//! spawner, however it was started. So every process that a program leaves behind becomes a child
//! of the spawner sooner or later.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::process::{Pid, getpgid, getpid, getsid};

use crate::cgroups::Cgroups;
use crate::exec_plan::marker_variable;
use crate::limits::ENVIRONMENT_READ_MAX_BYTES;

/// The list of the children of this process, which has one thread.
#[derive(Debug)]
pub(crate) struct ChildrenList {
    file: File,
}

impl ChildrenList {
    /// Opens the list.
    ///
    /// # Errors
    /// `/proc` is not mounted, or the kernel was built without `CONFIG_PROC_CHILDREN`.
    pub(crate) fn open() -> io::Result<Self> {
        let pid = getpid().as_raw_nonzero();
        let list = Self { file: File::open(format!("/proc/self/task/{pid}/children"))? };
        list.read()?;
        Ok(list)
    }

    /// Returns all children, including zombies. Children that begin or end during the call may be
    /// missing.
    ///
    /// # Errors
    /// The list cannot be read.
    pub(crate) fn read(&self) -> io::Result<Vec<Pid>> {
        let (mut children, mut offset, mut number) = (Vec::new(), 0, 0);
        let mut buffer = [0; 512];
        loop {
            let bytes = self.file.read_at(&mut buffer, offset)?;
            if bytes == 0 {
                return Ok(children);
            }
            offset += bytes as u64;
            add_numbers(&buffer[..bytes], &mut number, &mut children);
        }
    }
}

/// Adds the process IDs of a part of a list, each of which ends with a space. `number` is the
/// beginning of one that goes on in the next part.
fn add_numbers(text: &[u8], number: &mut i32, children: &mut Vec<Pid>) {
    for byte in text {
        if byte.is_ascii_digit() {
            *number = number.saturating_mul(10).saturating_add(i32::from(byte - b'0'));
        } else {
            children.extend(Pid::from_raw(std::mem::take(number)));
        }
    }
}

/// Returns the children of all threads of this process.
///
/// # Errors
/// `/proc` is not mounted, or the kernel was built without `CONFIG_PROC_CHILDREN`.
pub(crate) fn children_of_all_threads() -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        match std::fs::read(thread?.path().join("children")) {
            Ok(list) => add_numbers(&list, &mut 0, &mut children),
            // The thread has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

/// The origin of a process, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessOrigin {
    /// The process belongs to a running program.
    Claimed,
    /// The process belongs to no running program.
    Unclaimed,
    /// The process is in execve(2) at this moment. It has no environment until the call is done,
    /// which may take some time on a busy system.
    Executing,
    /// The process has no environment, or one that this process may not read, and no other evidence
    /// exists.
    Unknown,
}

/// The properties by which the processes of a running program are recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningProgram {
    /// The main process of the program.
    pub(crate) pid: Pid,
    /// The value of [`MARKER`](crate::start_table::MARKER) in the environment of its processes.
    pub(crate) marker: u64,
    /// The number of the cgroup of the program, if it has one.
    pub(crate) cgroup: Option<u64>,
}

/// Determines whether one of the running programs has started a process: such a process is in the
/// session or the process group of the program, or has its marker in the environment with which it
/// was executed. If this process may not read the environment, [`origin_without_environment`]
/// decides.
pub(crate) fn origin(
    process: Pid,
    running: &[RunningProgram],
    cgroups: Option<&Cgroups>,
) -> ProcessOrigin {
    let is_running = |pid: Pid| running.iter().any(|program| program.pid == pid);
    if getsid(Some(process)).is_ok_and(is_running) || getpgid(Some(process)).is_ok_and(is_running) {
        return ProcessOrigin::Claimed;
    }
    let mut environment = read_environment(process);
    if environment.as_ref().is_ok_and(Vec::is_empty) {
        if is_executing(process) {
            return ProcessOrigin::Executing;
        }
        // The execution may have ended between the read and the check, so the environment is read
        // again.
        environment = read_environment(process);
    }
    let environment = match environment {
        Ok(environment) if environment.is_empty() => return ProcessOrigin::Unknown,
        Ok(environment) => environment,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return origin_without_environment(process, running, cgroups);
        }
        Err(_) => return ProcessOrigin::Unknown,
    };
    let marker = |program: &RunningProgram| marker_variable(program.marker);
    let markers: Vec<String> = running.iter().map(marker).collect();
    let is_marker = |variable: &[u8]| markers.iter().any(|marker| marker.as_bytes() == variable);
    let is_claimed = environment.split(|byte| *byte == 0).any(is_marker);
    if is_claimed { ProcessOrigin::Claimed } else { ProcessOrigin::Unclaimed }
}

/// Determines the origin of a process whose environment this process may not read, because another
/// user runs it and this process lacks the capabilities for that. The cgroup of the process
/// decides. Without a cgroup, the process is kept as long as a program of the same user runs that
/// was started before it: to keep a helper for too long does less harm than to kill one that a
/// program needs.
fn origin_without_environment(
    process: Pid,
    running: &[RunningProgram],
    cgroups: Option<&Cgroups>,
) -> ProcessOrigin {
    if is_zombie(process) {
        return ProcessOrigin::Unknown;
    }
    if let Some(number) = cgroups.and_then(|cgroups| cgroups.number_of(process)) {
        let is_claimed = running.iter().any(|program| program.cgroup == Some(number));
        return if is_claimed { ProcessOrigin::Claimed } else { ProcessOrigin::Unclaimed };
    }
    let (user, started) = (user_of(process), start_time(process));
    let is_claimed = running.iter().any(|program| {
        user.is_some() && user_of(program.pid) == user && start_time(program.pid) <= started
    });
    if is_claimed { ProcessOrigin::Claimed } else { ProcessOrigin::Unknown }
}

/// Returns the effective user of a process.
fn user_of(process: Pid) -> Option<u32> {
    let path = format!("/proc/{}", process.as_raw_nonzero());
    std::fs::metadata(path).ok().map(|found| found.uid())
}

/// Returns the start time of a process, in clock ticks since the boot of the system.
fn start_time(process: Pid) -> Option<u64> {
    /// The position of `starttime` behind the name of the program (proc_pid_stat(5)).
    const START_TIME: usize = 19;
    read_stat(process).get(START_TIME)?.parse().ok()
}

/// Returns the environment with which a process was executed.
///
/// # Errors
/// The process has ended, or this process may not read its environment.
fn read_environment(process: Pid) -> io::Result<Vec<u8>> {
    let mut environment = Vec::new();
    let file = File::open(format!("/proc/{}/environ", process.as_raw_nonzero()))?;
    // After an error, the bytes read so far may contain the marker.
    let _ = file.take(ENVIRONMENT_READ_MAX_BYTES).read_to_end(&mut environment);
    Ok(environment)
}

/// Returns whether a process is a zombie: it has ended and was not reaped.
pub(crate) fn is_zombie(process: Pid) -> bool {
    let state = read_stat(process);
    state.first().and_then(|state| state.bytes().next()).is_none_or(|state| b"ZX".contains(&state))
}

/// Returns whether a process is in execve(2). Such a process has new memory that the kernel has not
/// filled yet: `start_code` of `/proc/PID/stat` is 0. For a process that this one may not inspect,
/// `start_code` is 1.
fn is_executing(process: Pid) -> bool {
    /// The position of `start_code` behind the name of the program (proc_pid_stat(5)).
    const START_CODE: usize = 23;
    read_stat(process).get(START_CODE).is_some_and(|address| address == "0")
}

/// Returns the fields of `/proc/PID/stat` behind the name of the program, which may have spaces;
/// none if there is no such process.
fn read_stat(process: Pid) -> Vec<String> {
    let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero()));
    let stat = stat.unwrap_or_default();
    let Some(name_end) = stat.iter().rposition(|byte| *byte == b')') else { return Vec::new() };
    let fields = String::from_utf8_lossy(&stat[name_end + 1..]);
    fields.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Returns the name of a process for the log.
pub(crate) fn process_name(process: Pid) -> String {
    let name = std::fs::read(format!("/proc/{}/comm", process.as_raw_nonzero()));
    String::from_utf8_lossy(name.unwrap_or_default().trim_ascii_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_of_process_ids_is_parsed_in_any_pieces(
            pids in prop::collection::vec(1..i32::MAX, 0..50),
            size in 1usize..30,
        ) {
            let text: String = pids.iter().map(|pid| format!("{pid} ")).collect();
            let (mut number, mut children) = (0, Vec::new());
            for piece in text.as_bytes().chunks(size) {
                add_numbers(piece, &mut number, &mut children);
            }
            let read: Vec<i32> = children.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
            prop_assert_eq!(read, pids);
        }
    }
}
