//! The state of the spawner's process: signals, title, descriptors.
//!
//! It has `unsafe` code because the calls for signals take structures of C, the title is written
//! over the arguments of the process, and descriptors are closed by number.
#![allow(unsafe_code, reason = "signals, the title and descriptors have only interfaces of C")]

use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::{fs, io, ptr};

use rustix::process::Pid;

/// The title of the process in `ps` and `top`, also the name of its thread, which has at most 15
/// bytes.
const TITLE: &str = "pinion: spawner";

/// The highest number of a signal.
const SIGNAL_MAX: libc::c_int = 64;

/// The descriptor of the control connection: the first one after standard error.
pub(crate) const CONTROL: RawFd = 3;

/// Sets every signal to its default action and blocks all of them. Returns a descriptor from which
/// `signals` are read.
///
/// With SIGPIPE blocked a write to a closed pipe returns `EPIPE`; the signal stays pending and is
/// not inherited by children.
///
/// # Errors
/// The process has too many open descriptors.
pub(crate) fn take_signals(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    for signal in 1..=SIGNAL_MAX {
        // The C library refuses to reset the signals that it reserves for itself, so this calls the
        // kernel directly. The kernel refuses SIGKILL and SIGSTOP, which always have their default
        // action.
        let default = [0_u64; 5];
        // SAFETY: the structure of the kernel is not larger, and all zeros are the default action
        // (`SIG_DFL`) without flags and with an empty mask. The old one is not asked for.
        unsafe {
            let none = ptr::null::<libc::c_void>();
            let (action, mask_bytes) = (default.as_ptr(), size_of::<u64>());
            libc::syscall(libc::SYS_rt_sigaction, signal, action, none, mask_bytes)
        };
    }
    let mut all = MaybeUninit::uninit();
    let mut read = MaybeUninit::uninit();
    // SAFETY: `sigfillset` and `sigemptyset` initialise the sets, which are used only afterwards.
    // `signalfd` returns a new descriptor, or -1, which is not made an `OwnedFd`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigemptyset(read.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(read.as_mut_ptr(), *signal);
        }
        if libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        match libc::signalfd(-1, read.as_ptr(), flags) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Unblocks all signals. A new process does so before it executes its program.
///
/// # Errors
/// The call fails only for an invalid set, so no error is expected.
pub(crate) fn unblock_signals() -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set before it is read.
    let failed = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes all descriptors except standard input, output, error and `control`. Returns `control`
/// with another number. Standard input and output become `/dev/null`.
///
/// Values that own the other descriptors must not be dropped afterwards: their numbers are used
/// again. The spawner never returns to the code that has them.
///
/// # Errors
/// `/dev/null` cannot be opened.
pub(crate) fn keep_only(control: OwnedFd) -> io::Result<OwnedFd> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    duplicate(null.as_raw_fd(), libc::STDIN_FILENO, 0)?;
    duplicate(null.as_raw_fd(), libc::STDOUT_FILENO, 0)?;
    if control.as_raw_fd() != CONTROL {
        duplicate(control.as_raw_fd(), CONTROL, libc::O_CLOEXEC)?;
    }
    // The numbers of these descriptors are closed below.
    std::mem::forget((null, control));
    let first = CONTROL.unsigned_abs() + 1;
    // SAFETY: no value of this process is used any more that owns one of these descriptors; see
    // the contract of this function.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(CONTROL))
    }
}

/// Makes `new` the same open file as `old` (dup3(2)).
fn duplicate(old: RawFd, new: RawFd, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes numbers only. The previous file of `new` is not used any more: `new`
    // is a standard descriptor or one that the caller closes.
    match unsafe { libc::dup3(old, new, flags) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sets the title of the process. If the system does not allow a part of the change, that part
/// keeps its old value: the title is only for people.
pub(crate) fn set_title() {
    let mut name = [0; 16];
    name[..TITLE.len()].copy_from_slice(TITLE.as_bytes());
    if let Ok(name) = std::ffi::CStr::from_bytes_until_nul(&name) {
        let _ = rustix::thread::set_name(name);
    }
    let Some((start, end)) = argument_area() else { return };
    let title = TITLE.bytes().chain(std::iter::repeat(0));
    for (address, byte) in (start..end).zip(title) {
        // SAFETY: the kernel says that the arguments of this process lie from `start` to `end`, on
        // its stack, which is writable. Only `std::env::args` reads them, and the spawner does
        // not call it.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(byte) };
    }
}

/// Returns where the arguments of this process are in its memory: `arg_start` and `arg_end` of
/// `/proc/self/stat` (proc_pid_stat(5)).
fn argument_area() -> Option<(usize, usize)> {
    /// The position of both fields behind the name of the program, which may have spaces.
    const FIELDS_BEFORE: usize = 45;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace().skip(FIELDS_BEFORE);
    let (start, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (start != 0 && start < end).then_some((start, end))
}

/// Returns a child of this process that has ended and was not reaped yet. It stays a zombie, so its
/// process ID and its process group are not used again.
///
/// # Errors
/// There are no children at all (`ECHILD`).
pub(crate) fn ended_child() -> io::Result<Option<Pid>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` has space for the structure, and all zeros are a valid value of it. The kernel
    // sets the process ID if it returns success, to zero if no child has ended.
    let pid = unsafe {
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) != 0 {
            return Err(io::Error::last_os_error());
        }
        info.assume_init().si_pid()
    };
    Ok(Pid::from_raw(pid))
}

/// Reads and discards all pending signals.
pub(crate) fn drain_signals(signals: &OwnedFd) {
    let mut buffer = [0; 8 * size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|bytes| bytes == buffer.len()) {}
}

/// Returns the number of threads of this process.
///
/// # Errors
/// `/proc` is not mounted.
pub(crate) fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Opens the source of numbers that no other process can guess.
///
/// # Errors
/// There is no `/dev/urandom`.
pub(crate) fn open_random() -> io::Result<File> {
    let file = File::open("/dev/urandom")?;
    random_number(&file)?;
    Ok(file)
}

/// Reads a number from the file that [`open_random`] has opened.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn random_number(mut random: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    random.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
