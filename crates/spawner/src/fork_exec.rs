//! New processes: the fork of the spawner, and that of a program with all steps until it is
//! executed.
//!
//! It has `unsafe` code because fork(2), clone3(2) and execve(2) have only interfaces of C. Between
//! the fork of a program and its execution nothing is allocated and no lock is taken: the new
//! process is a copy in which only system calls are certain to work (fork(2)).
#![allow(unsafe_code, reason = "processes are created by interfaces of C")]

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, chdir, chroot, getppid, set_parent_process_death_signal, setpriority_process,
    setrlimit, setsid,
};
use rustix::thread::{
    clear_ambient_capability_set, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::answer::Stage;
use crate::exec_plan::{ExecPlan, PreparedIdentity};
use crate::process_state::{threads, unblock_signals};

/// Exit status of a process that could not execute its program, as a shell has it.
const NOT_EXECUTED: libc::c_int = 127;

/// Exit status of a spawner that has panicked, as a Rust program has it.
const PANICKED: libc::c_int = 101;

/// The flag of clone3(2); `libc` has it with a type that is too narrow.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Size of the report of a failure: the stage, and the error number.
pub(crate) const FAILURE_BYTES: usize = 5;

/// Forks a process that runs `main` and ends with it. Returns its process ID.
///
/// # Errors
/// This process has other threads: one of them may hold a lock that the new process would wait for
/// without end. Or the system allows no further process.
pub(crate) fn fork_main(main: impl FnOnce() -> Infallible) -> io::Result<Pid> {
    if threads()? != 1 {
        return Err(io::Error::other("the process has other threads already"));
    }
    // SAFETY: this process has one thread, as was checked, so the new process is a complete copy of
    // it, in which all code works as it did before.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let end = catch_unwind(AssertUnwindSafe(main));
            let status = match end {
                Ok(never) => match never {},
                Err(_) => PANICKED,
            };
            // SAFETY: the call has no conditions. It runs no destructors, which belong to the
            // parent.
            unsafe { libc::_exit(status) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork(2) has returned no child")),
    }
}

/// Ends this process without running destructors.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: the call has no conditions.
    unsafe { libc::_exit(status) }
}

/// Creates a process that executes a program, in a cgroup if one is given. Returns its process ID. If a step fails, the new
/// process writes the failure to the pipe of the plan and exits.
///
/// # Errors
/// The system allows no further process, or does not allow it in the cgroup.
pub(crate) fn spawn(plan: &ExecPlan<'_>, cgroup: Option<BorrowedFd<'_>>) -> Result<Pid, Errno> {
    let pid = match cgroup {
        Some(cgroup) => clone_into(cgroup),
        // SAFETY: the new process only executes the plan below, which calls the system and
        // nothing else.
        None => i64::from(unsafe { libc::fork() }),
    };
    match pid {
        -1 => Err(last_error()),
        0 => {
            let failure = match execute(plan) {
                Ok(never) => match never {},
                Err(failure) => failure,
            };
            report_failure(plan.failure, failure)
        }
        pid => i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL),
    }
}

/// Creates a process in a cgroup (`CLONE_INTO_CGROUP`, since Linux 5.7), otherwise as fork(2).
/// Returns 0 in the new process, and -1 on failure with the error in `errno`.
fn clone_into(cgroup: BorrowedFd<'_>) -> i64 {
    // SAFETY: `clone_args` consists of numbers, for which zero means that they are not used.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
    // SAFETY: without `CLONE_VM` and with no stack the new process is a copy of this one, as after
    // fork(2). The C library does not know of it, which matters to nothing that it calls: it
    // executes its plan with system calls only.
    unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) }
}

/// Executes the plan in the new process. The order matters: limits, nice value and root directory
/// need privileges that the change of the user drops, the working directory is entered as the
/// user, and the parent-death signal is cleared by a change of the user (prctl(2)).
fn execute(plan: &ExecPlan<'_>) -> Result<Infallible, (Stage, Errno)> {
    let start = plan.start;
    let step = |stage: Stage, result: Result<(), Errno>| result.map_err(|error| (stage, error));
    step(Stage::Session, setsid().map(drop))?;
    step(Stage::Descriptors, standard_descriptors(plan))?;
    for (resource, limit) in &start.resource_limits {
        step(Stage::ResourceLimits, setrlimit(*resource, *limit))?;
    }
    if let Some(nice) = start.nice {
        step(Stage::Nice, setpriority_process(None, nice))?;
    }
    if let Some(root) = &start.chroot {
        step(Stage::Chroot, chroot(root.as_c_str()).and_then(|()| chdir(c"/")))?;
    }
    if let Some(identity) = &start.identity {
        set_identity(identity)?;
    }
    step(Stage::Capabilities, clear_ambient_capability_set())?;
    step(Stage::WorkingDirectory, chdir(start.working_directory.as_c_str()))?;
    step(Stage::NoNewPrivileges, set_no_new_privs(true))?;
    step(Stage::ParentDeathSignal, set_parent_process_death_signal(Some(Signal::KILL)))?;
    if getppid() != Some(plan.spawner) {
        return Err((Stage::ParentDeathSignal, Errno::SRCH));
    }
    if unblock_signals().is_err() {
        return Err((Stage::Exec, last_error()));
    }
    let (argv, envp) = (plan.vectors.argv(), plan.vectors.envp());
    // SAFETY: both lists end with a null pointer, and their other pointers are to texts that end
    // with NUL, as `ExecVectors` makes them; it lives as long as the plan.
    unsafe { libc::execve(start.program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    Err((Stage::Exec, last_error()))
}

/// Makes the descriptors of the plan standard input, output and error, and lets the kernel close
/// all others on execution. The descriptors of the plan are above 2, because the spawner keeps its
/// own standard descriptors open.
fn standard_descriptors(plan: &ExecPlan<'_>) -> Result<(), Errno> {
    let wanted = [
        (plan.stdin, libc::STDIN_FILENO),
        (plan.stdout, libc::STDOUT_FILENO),
        (plan.stderr, libc::STDERR_FILENO),
    ];
    for (open, number) in wanted {
        // SAFETY: the call takes numbers. Nothing in the new process uses the file that the
        // number had.
        if unsafe { libc::dup2(open.as_raw_fd(), number) } == -1 {
            return Err(last_error());
        }
    }
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call marks descriptors, it closes none.
    let marked = unsafe {
        let flags = libc::CLOSE_RANGE_CLOEXEC;
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags)
    };
    if marked == 0 { Ok(()) } else { Err(last_error()) }
}

/// Changes groups, group and user, in this order: the change of the user drops the privilege for
/// the others. All of real, effective and saved IDs change, so there is no way back.
fn set_identity(identity: &PreparedIdentity) -> Result<(), (Stage, Errno)> {
    let PreparedIdentity { uid, gid, groups } = identity;
    set_thread_groups(groups).map_err(|error| (Stage::Groups, error))?;
    set_thread_res_gid(*gid, *gid, *gid).map_err(|error| (Stage::Group, error))?;
    set_thread_res_uid(*uid, *uid, *uid).map_err(|error| (Stage::User, error))
}

/// Writes a failure to the pipe and ends the new process.
fn report_failure(pipe: BorrowedFd<'_>, (stage, error): (Stage, Errno)) -> ! {
    let [e0, e1, e2, e3] = error.raw_os_error().to_le_bytes();
    // If the spawner is gone, there is nothing to report to.
    let _ = rustix::io::write(pipe, &[stage as u8, e0, e1, e2, e3]);
    exit(NOT_EXECUTED)
}

/// Decodes what [`spawn`]'s process has written to the pipe. Returns `None` if it has written
/// nothing, which means that the program was executed.
pub(crate) fn decode_failure(bytes: &[u8]) -> Option<(Stage, i32)> {
    let [stage, errno @ ..] = bytes.first_chunk::<FAILURE_BYTES>()?;
    Some((Stage::from_byte(*stage)?, i32::from_le_bytes(*errno)))
}

/// Returns the error of the last call of the C library.
fn last_error() -> Errno {
    // SAFETY: the C library returns the address of the error number of this thread.
    let number: RawFd = unsafe { *libc::__errno_location() };
    Errno::from_raw_os_error(number)
}
