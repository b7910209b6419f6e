//! New processes: the fork of the spawner, and that of a program with all steps until it is
//! executed.
//!
//! It has `unsafe` code because fork(2), clone3(2) and execve(2) have only interfaces of C. Between
//! the fork of a program and its execution nothing is allocated and no lock is taken: the new
//! process is a copy in which only system calls are certain to work (fork(2)).
#![allow(unsafe_code, reason = "processes are created by interfaces of C")]

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, chdir, chroot, getppid, set_parent_process_death_signal,
    setpriority_process, setrlimit, setsid, waitid,
};
use rustix::thread::{
    Timespec, clear_ambient_capability_set, nanosleep, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::exec_plan::{ExecPlan, PreparedIdentity, PreparedScript};
use crate::limits::{AUTOGROUP_ATTEMPTS_MAX, AUTOGROUP_PAUSE_NANOS};
use crate::process_state::{CONTROL, threads, unblock_signals};
use crate::program::Execution;
use crate::reply::StartStage;
use crate::script_lookup::enter_script_folder;

/// Exit status of a process that could not execute its program, the same as in a shell.
const NOT_EXECUTED: libc::c_int = 127;

/// Exit status of a spawner that has panicked, the same as of any Rust program.
const PANICKED: libc::c_int = 101;

/// The flag `CLONE_INTO_CGROUP` of clone3(2). The constant in `libc` has a type that is too narrow.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Size of the report of a failure: the stage, and the error number.
pub(crate) const FAILURE_BYTES: usize = 5;

/// Forks a process that runs `main` and exits when `main` ends. Returns its process ID.
///
/// # Errors
/// This process has other threads, one of which may hold a lock that the new process would wait for
/// forever. Or the system allows no further process.
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

/// The stack on which a new process runs that shares the memory of the spawner. It is never freed,
/// as the spawner ends with it.
#[derive(Debug)]
pub(crate) struct SharedStack(NonNull<libc::c_void>);

impl SharedStack {
    /// Size of the stack in bytes: far more than the calls of [`execute`] need, even without
    /// optimisation. Pages that no call has reached use no memory.
    const BYTES: usize = 64 * 1024;
    /// Size of the guard area below the stack in bytes. It can be neither read nor written.
    const GUARD_BYTES: usize = 64 * 1024;

    /// Maps a stack.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new() -> Result<Self, Errno> {
        let bytes = Self::GUARD_BYTES + Self::BYTES;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the mapping is a new one, and the guard is a part of it.
        unsafe {
            let start = mmap_anonymous(ptr::null_mut(), bytes, access, flags)?;
            mprotect(start, Self::GUARD_BYTES, MprotectFlags::empty())?;
            NonNull::new(start.byte_add(Self::GUARD_BYTES)).map(Self).ok_or(Errno::NOMEM)
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn bottom(&mut self) -> *mut libc::c_void {
        self.0.as_ptr()
    }

    fn top(&mut self) -> *mut libc::c_void {
        // SAFETY: it is the end of the mapping.
        unsafe { self.0.as_ptr().byte_add(Self::BYTES) }
    }
}

/// A step that has failed in a new process.
pub(crate) type Failure = (StartStage, Errno);

/// A process that executes a program.
#[derive(Debug)]
pub(crate) struct NewProcess {
    pub(crate) pid: Pid,
    pub(crate) execution: NewExecution,
}

/// The progress of an execution in a new process.
#[derive(Debug)]
pub(crate) enum NewExecution {
    /// The process has executed the program, or was killed before that.
    Executed,
    /// A step has failed, and the process exits.
    Failed(Failure),
    /// The execution is not complete. The pipe delivers a failure if there is one; if the pipe ends
    /// without one, the program was executed.
    Pending(OwnedFd),
}

impl NewExecution {
    /// Returns the state that is known by now, and the pipe if the execution is pending.
    pub(crate) fn with_pipe(self) -> (Execution, Option<OwnedFd>) {
        match self {
            Self::Executed => (Execution::Executed, None),
            Self::Failed(failure) => (Execution::Failed(failure), None),
            Self::Pending(pipe) => (Execution::Pending, Some(pipe)),
        }
    }
}

/// The plan that a new process executes, and the pipe or cell where it reports a failure.
#[derive(Debug)]
struct ProcessPlan<'a> {
    plan: &'a ExecPlan<'a>,
    pipe: Option<&'a OwnedFd>,
    /// The cell for a failure if there is no pipe. The spawner can read it because the process
    /// shares its memory.
    failure: Cell<Option<Failure>>,
}

/// Creates a process that executes a program, in a cgroup if one is given.
///
/// A process that keeps its user and its nice value shares the memory of the spawner until it
/// executes the program, and the spawner waits until then, as in posix_spawn(3): this costs less
/// than a copy of the memory (`examples/spawn_cost.rs` measures a run). A process that changes its
/// user must not share the memory: other processes of that user could stop it, and the spawner with
/// it. Nor must a process that changes its nice value: the spawner would wait for a process to
/// which the scheduler prefers others.
///
/// # Errors
/// The system allows no further process or no pipe, or no process in the cgroup.
pub(crate) fn spawn(
    plan: &ExecPlan<'_>,
    cgroup: Option<BorrowedFd<'_>>,
    stack: &mut SharedStack,
) -> Result<NewProcess, Failure> {
    let not_created = |error| (StartStage::Fork, error);
    let can_share = cgroup.is_none() || cfg!(target_arch = "x86_64");
    let is_sharing = can_share && plan.start.identity.is_none() && plan.start.nice.is_none();
    let (pipe, program_pipe) = if plan.is_awaited || !is_sharing {
        let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        Some(pipe.map_err(|error| (StartStage::Pipes, error))?).unzip()
    } else {
        (None, None)
    };
    let execution = ProcessPlan { plan, pipe: program_pipe.as_ref(), failure: Cell::new(None) };
    let pid = match cgroup {
        Some(cgroup) if is_sharing => clone_sharing_into(cgroup, &execution, stack),
        Some(cgroup) => clone_into(cgroup),
        None if is_sharing => clone_sharing(&execution, stack),
        // SAFETY: the new process only executes the plan below, which calls the system and
        // nothing else.
        None => result(i64::from(unsafe { libc::fork() })),
    };
    let pid = match pid.map_err(not_created)? {
        0 => execution.execute_or_exit(),
        pid => process_id(pid).map_err(not_created)?,
    };
    let execution = match (pipe, execution.failure.get()) {
        (Some(pipe), _) => NewExecution::Pending(pipe),
        (None, Some(failure)) => NewExecution::Failed(failure),
        (None, None) => NewExecution::Executed,
    };
    Ok(NewProcess { pid, execution })
}

fn process_id(pid: i64) -> Result<Pid, Errno> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)
}

/// Creates a process that shares the memory of this one and runs on another stack. This process
/// waits until it executes the plan or exits (`CLONE_VFORK`).
fn clone_sharing(process: &ProcessPlan<'_>, stack: &mut SharedStack) -> Result<i64, Errno> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let top = stack.top();
    let process = (&raw const *process).cast_mut().cast();
    // SAFETY: the stack is aligned to 16 bytes, grows down from its end, and is used by one process
    // at a time, because this one waits. The shared data lives longer than that. The new process
    // reads it, and writes to its cell, to its stack and to `errno`; all signals are blocked, so
    // that no handler of this process runs there.
    result(i64::from(unsafe { libc::clone(execute_sharing, top, flags, process) }))
}

/// Creates a process as [`clone_sharing`], in a cgroup. The C library has no function for it.
#[cfg(target_arch = "x86_64")]
fn clone_sharing_into(
    cgroup: BorrowedFd<'_>,
    process: &ProcessPlan<'_>,
    stack: &mut SharedStack,
) -> Result<i64, Errno> {
    let mut arguments = clone_arguments(cgroup);
    arguments.flags |= (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    arguments.stack = stack.bottom().expose_provenance() as u64;
    arguments.stack_size = SharedStack::BYTES as u64;
    let pid: i64;
    // SAFETY: as in `clone_sharing`. The new process begins behind the system call with the end of
    // its stack, which is aligned to 16 bytes, as stack pointer; it calls `execute_sharing`, which
    // does not return. This process goes on at the label with all its registers but those that a
    // system call changes.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => pid,
            in("rdi") &raw const arguments,
            in("rsi") size_of_val(&arguments),
            in("r12") &raw const *process,
            in("r13") execute_sharing as extern "C" fn(*mut libc::c_void) -> libc::c_int,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if pid > 0 {
        return Ok(pid);
    }
    Err(Errno::from_raw_os_error(i32::try_from(-pid).unwrap_or(libc::EINVAL)))
}

/// Creates a process in a cgroup, without sharing memory, as [`clone_into`] does.
#[cfg(not(target_arch = "x86_64"))]
fn clone_sharing_into(
    cgroup: BorrowedFd<'_>,
    _: &ProcessPlan<'_>,
    _: &mut SharedStack,
) -> Result<i64, Errno> {
    clone_into(cgroup)
}

/// Executes the plan that `clone_sharing` has passed.
extern "C" fn execute_sharing(process: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the pointer is to a value of `clone_sharing`, which waits for this process.
    unsafe { &*process.cast::<ProcessPlan<'_>>() }.execute_or_exit()
}

/// Creates a process in a cgroup, otherwise as fork(2). Returns 0 in the new process.
fn clone_into(cgroup: BorrowedFd<'_>) -> Result<i64, Errno> {
    let arguments = clone_arguments(cgroup);
    // SAFETY: without `CLONE_VM` and with no stack the new process is a copy of this one, as after
    // fork(2). The C library does not know of the new process. This is harmless, because the
    // process executes its plan with system calls only.
    result(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments))
    })
}

/// Creates a process in a cgroup that exits at once, as a test of whether the kernel kills
/// processes of this cgroup.
///
/// # Errors
/// The system does not allow it, or has killed the process (`ECANCELED`).
pub(crate) fn try_clone_into(cgroup: BorrowedFd<'_>) -> Result<(), Errno> {
    let pid = match clone_into(cgroup)? {
        0 => exit(0),
        pid => process_id(pid)?,
    };
    let status = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)?;
    let has_exited = status.is_some_and(|status| status.exit_status() == Some(0));
    if has_exited { Ok(()) } else { Err(Errno::CANCELED) }
}

/// Returns the arguments of clone3(2) for a child in a cgroup (`CLONE_INTO_CGROUP`, since Linux
/// 5.7).
fn clone_arguments(cgroup: BorrowedFd<'_>) -> libc::clone_args {
    // SAFETY: `clone_args` consists of numbers, for which zero means that they are not used.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
    arguments
}

/// Returns the error of a call of the C library that has returned -1.
fn result(returned: i64) -> Result<i64, Errno> {
    if returned == -1 { Err(last_error()) } else { Ok(returned) }
}

impl ProcessPlan<'_> {
    /// Executes the plan in the new process. If a step fails, reports the failure and exits.
    fn execute_or_exit(&self) -> ! {
        match execute(self.plan) {
            Ok(never) => match never {},
            Err(failure) => self.report(failure),
        }
        exit(NOT_EXECUTED)
    }

    fn report(&self, (stage, error): Failure) {
        let Some(pipe) = self.pipe else { return self.failure.set(Some((stage, error))) };
        let [e0, e1, e2, e3] = error.raw_os_error().to_le_bytes();
        // The write fails only if the spawner has ended, and then no report is needed.
        let _ = rustix::io::write(pipe, &[stage as u8, e0, e1, e2, e3]);
    }
}

/// Executes the plan in the new process. The order matters: limits, nice value and root directory
/// need privileges that the change of the user drops, the working directory is entered and a script
/// is looked up as the user, and the parent-death signal is cleared by a change of the user
/// (prctl(2)).
fn execute(plan: &ExecPlan<'_>) -> Result<Infallible, Failure> {
    let start = plan.start;
    let step =
        |stage: StartStage, result: Result<(), Errno>| result.map_err(|error| (stage, error));
    step(StartStage::Session, setsid().map(drop))?;
    step(StartStage::Descriptors, standard_descriptors(plan))?;
    for (resource, limit) in &start.resource_limits {
        step(StartStage::ResourceLimits, setrlimit(*resource, *limit))?;
    }
    if let Some(nice) = &start.nice {
        step(StartStage::Nice, setpriority_process(None, nice.value))?;
        set_autogroup_nice(nice.text.as_bytes());
    }
    if let Some(root) = &start.chroot {
        step(StartStage::Chroot, chroot(root.as_c_str()).and_then(|()| chdir(c"/")))?;
    }
    if let Some(identity) = &start.identity {
        set_identity(identity)?;
    }
    step(StartStage::Capabilities, clear_ambient_capability_set())?;
    if plan.script.is_none() {
        step(StartStage::WorkingDirectory, chdir(start.working_directory.as_c_str()))?;
    }
    step(StartStage::NoNewPrivileges, set_no_new_privs(true))?;
    step(StartStage::ParentDeathSignal, set_parent_process_death_signal(Some(Signal::KILL)))?;
    if getppid() != Some(plan.spawner) {
        return Err((StartStage::ParentDeathSignal, Errno::SRCH));
    }
    if let Some(script) = plan.script {
        enter_script_folder(&start.program, script)?;
    }
    if unblock_signals().is_err() {
        return Err((StartStage::Exec, last_error()));
    }
    let program = plan.script.map_or(start.program.as_c_str(), PreparedScript::path);
    let (argv, envp) = (plan.vectors.argv(), plan.vectors.envp());
    // SAFETY: both lists end with a null pointer, and their other pointers are to texts that end
    // with NUL, as `ExecVectors` makes them; it lives as long as the plan.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    match last_error() {
        // The script itself was found just before, so its interpreter or loader is missing.
        error @ (Errno::NOENT | Errno::NOTDIR) if plan.script.is_some() => {
            Err((StartStage::Interpreter, error))
        }
        error => Err((StartStage::Exec, error)),
    }
}

/// Sets the nice value of the autogroup of this process, which has just begun a session. A kernel
/// with autogroups shares a core out among sessions first: there the nice value of a process counts
/// only against those of its own session, and would have no effect for a program that is alone in
/// one (sched(7), "The autogroup feature").
///
/// The kernel allows one change each 100 ms to all processes without `CAP_SYS_ADMIN` together. If
/// other processes use this up, if there are no autogroups, or if this process may not write to its
/// own, the program starts with the nice value of the process alone.
fn set_autogroup_nice(nice: &[u8]) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let Ok(file) = open(c"/proc/self/autogroup", flags, Mode::empty()) else { return };
    for _ in 0..AUTOGROUP_ATTEMPTS_MAX {
        if rustix::io::write(&file, nice) != Err(Errno::AGAIN) {
            return;
        }
        // An interruption of the sleep only makes the next attempt come earlier.
        let _slept = nanosleep(&Timespec { tv_sec: 0, tv_nsec: AUTOGROUP_PAUSE_NANOS });
    }
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
        // SAFETY: the call takes numbers. The new process does not use the file that had this
        // number before.
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
    if marked != 0 {
        return Err(last_error());
    }
    let Some(file) = plan.file else { return Ok(()) };
    // SAFETY: as above. In the spawner this number is the control connection, which no program
    // gets.
    match unsafe { libc::dup2(file.as_raw_fd(), CONTROL) } {
        -1 => Err(last_error()),
        _ => Ok(()),
    }
}

/// Changes groups, group and user, in this order: the change of the user drops the privilege for
/// the others. All of real, effective and saved IDs change, so there is no way back.
fn set_identity(identity: &PreparedIdentity) -> Result<(), Failure> {
    let PreparedIdentity { uid, gid, groups } = identity;
    set_thread_groups(groups).map_err(|error| (StartStage::Groups, error))?;
    set_thread_res_gid(*gid, *gid, *gid).map_err(|error| (StartStage::Group, error))?;
    set_thread_res_uid(*uid, *uid, *uid).map_err(|error| (StartStage::User, error))
}

/// Decodes the report that the process of [`NewExecution::Pending`] has written to the pipe.
/// Returns `None` if the report is empty, which means that the program was executed.
pub(crate) fn decode_failure(bytes: &[u8]) -> Option<Failure> {
    let [stage, errno @ ..] = bytes.first_chunk::<FAILURE_BYTES>()?;
    let errno = Errno::from_raw_os_error(i32::from_le_bytes(*errno));
    Some((StartStage::from_byte(*stage)?, errno))
}

/// Returns the error of the last call of the C library.
fn last_error() -> Errno {
    // SAFETY: the C library returns the address of the error number of this thread.
    let number: RawFd = unsafe { *libc::__errno_location() };
    Errno::from_raw_os_error(number)
}
