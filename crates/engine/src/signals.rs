//! Signals as values: blocked in every thread, taken by one that waits for them.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// A signal the server acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: take up the archive anew, reopen the logs.
    Reload,
    /// SIGUSR1: reopen the logs and nothing else.
    ReopenLogs,
    /// SIGTERM: drain and stop.
    Terminate,
    /// SIGINT: the same, from a terminal.
    Interrupt,
}

/// The blocked set; holding it proves that the signals were blocked.
pub struct Signals {
    set: libc::sigset_t,
}

/// Blocks the signals in this thread and in all it starts later: call it before the first thread.
/// Others that would end the process for no good reason are ignored.
///
/// # Errors
/// What `pthread_sigmask` reports.
pub fn block() -> io::Result<Signals> {
    // A write beyond a limit on the size of files fails with EFBIG instead, as on a full disk.
    ignore(libc::SIGXFSZ);
    // Operators of other servers know it as the signal of an upgrade.
    ignore(libc::SIGUSR2);
    block_these(set_of([libc::SIGHUP, libc::SIGUSR1, libc::SIGTERM, libc::SIGINT]))
}

/// Blocks the signals that end a verb, as [`block`] does: SIGHUP, SIGTERM and SIGINT.
///
/// # Errors
/// What `pthread_sigmask` reports.
pub fn block_ends() -> io::Result<Signals> {
    block_these(set_of([libc::SIGHUP, libc::SIGTERM, libc::SIGINT]))
}

/// Blocks SIGTERM alone, as [`block`] does: the others do what they do to any program. A write
/// beyond a limit on the size of files fails here too.
///
/// # Errors
/// What `pthread_sigmask` reports.
pub fn block_terminate() -> io::Result<Signals> {
    ignore(libc::SIGXFSZ);
    block_these(set_of([libc::SIGTERM]))
}

fn ignore(signal: libc::c_int) {
    // SAFETY: no handler is installed, so nothing of this program runs when the signal comes. It
    // fails only for numbers that are no signals.
    unsafe {
        libc::signal(signal, libc::SIG_IGN);
    }
}

fn block_these(set: libc::sigset_t) -> io::Result<Signals> {
    // SAFETY: reads a valid set; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(Signals { set }),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

impl Signals {
    /// Waits for the next one.
    pub fn wait(&self) -> Signal {
        loop {
            let mut signal = 0;
            // SAFETY: waits on a valid set and writes to a local.
            let outcome = unsafe { libc::sigwait(&raw const self.set, &raw mut signal) };
            match signal {
                _ if outcome != 0 => {}
                libc::SIGHUP => return Signal::Reload,
                libc::SIGUSR1 => return Signal::ReopenLogs,
                libc::SIGTERM => return Signal::Terminate,
                libc::SIGINT => return Signal::Interrupt,
                _ => {}
            }
        }
    }
    /// Waits until SIGTERM or SIGINT has come, or the writing end of the pipe `over` is closed;
    /// true for a signal. It takes no signal: the next [`Signals::wait`] returns it.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn wait_for_end(&self, over: BorrowedFd<'_>) -> io::Result<bool> {
        let set = set_of([libc::SIGTERM, libc::SIGINT]);
        // SAFETY: reads a valid set and makes a descriptor.
        let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was made just now, and nobody else knows it.
        let pending = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let mut either = [
            PollFd::new(&pending, PollFlags::IN),
            // A closed end is told without being asked for.
            PollFd::from_borrowed_fd(over, PollFlags::empty()),
        ];
        loop {
            match poll(&mut either, None) {
                Ok(_) => return Ok(!either[0].revents().is_empty()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn set_of<const COUNT: usize>(signals: [libc::c_int; COUNT]) -> libc::sigset_t {
    // SAFETY: a zeroed set is a valid value for sigemptyset to fill; the pointers are to a local.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}
