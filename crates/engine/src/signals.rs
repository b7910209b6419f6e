//! Signals as values: blocked in every thread, taken by one that waits for them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// A signal the server acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: reload the archive and reopen the logs.
    Reload,
    /// SIGUSR1: reopen the logs and nothing else.
    ReopenLogs,
    /// SIGTERM: drain and stop.
    Terminate,
    /// SIGINT: drain and stop, from a terminal.
    Interrupt,
}

/// The blocked set; holding it proves that the signals were blocked.
pub struct Signals {
    set: libc::sigset_t,
}

/// Blocks the signals in this thread and in all that it starts later: call it before the first
/// thread. Other signals that would end the process for no good reason are ignored.
///
/// # Errors
/// Returns the error of `pthread_sigmask`.
pub fn block() -> io::Result<Signals> {
    // A write beyond a limit on the size of files fails with EFBIG instead, as on a full disk.
    ignore(libc::SIGXFSZ);
    // Operators of other servers know it as the signal of an upgrade.
    ignore(libc::SIGUSR2);
    block_these(set_of([libc::SIGHUP, libc::SIGUSR1, libc::SIGTERM, libc::SIGINT]))
}

/// Blocks the signals that end a subcommand, as [`block`] does: SIGHUP, SIGTERM and SIGINT.
///
/// # Errors
/// Returns the error of `pthread_sigmask`.
pub fn block_ends() -> io::Result<Signals> {
    block_these(set_of([libc::SIGHUP, libc::SIGTERM, libc::SIGINT]))
}

/// Blocks SIGTERM alone, as [`block`] does: the others have their default actions. A write beyond a
/// limit on the size of files fails here too.
///
/// # Errors
/// Returns the error of `pthread_sigmask`.
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
    // SAFETY: reads a valid set; the old mask is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(Signals { set }),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

impl Signals {
    /// Waits for the next signal and returns it.
    pub fn wait(&self) -> Signal {
        loop {
            let mut signal = 0;
            // SAFETY: waits on a valid set and writes to a local.
            let outcome = unsafe { libc::sigwait(&raw const self.set, &raw mut signal) };
            if let Some(signal) = Signal::of_number(signal).filter(|_| outcome == 0) {
                return signal;
            }
        }
    }

    /// Returns the signals as a descriptor that can be polled with others.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub fn queue(&self) -> io::Result<SignalQueue> {
        signal_descriptor(&self.set, libc::SFD_NONBLOCK).map(SignalQueue)
    }

    /// Waits until SIGTERM or SIGINT has come, or the writing end of the pipe `over` is closed;
    /// returns true for a signal. It takes no signal: the next [`Signals::wait`] returns it.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub fn wait_for_end(&self, over: BorrowedFd<'_>) -> io::Result<bool> {
        let set = set_of([libc::SIGTERM, libc::SIGINT]);
        let pending = signal_descriptor(&set, 0)?;
        let mut either = [
            PollFd::new(&pending, PollFlags::IN),
            // A closed end is reported without a request.
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

/// A queue of signals: its descriptor is for polling, and [`SignalQueue::next`] takes a signal.
pub struct SignalQueue(OwnedFd);

impl SignalQueue {
    /// Takes the next signal, if one has come. It never waits.
    pub fn next(&self) -> Option<Signal> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        loop {
            match rustix::io::read(&self.0, &mut record) {
                // The number comes first, in the byte order of the machine (signalfd(2)).
                Ok(bytes) if bytes == record.len() => {
                    let number = record.first_chunk().map(|first| u32::from_ne_bytes(*first));
                    let number = number.and_then(|number| number.try_into().ok());
                    if let Some(signal) = number.and_then(Signal::of_number) {
                        return Some(signal);
                    }
                }
                Err(Errno::INTR) => {}
                _ => return None,
            }
        }
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Signal {
    fn of_number(number: libc::c_int) -> Option<Self> {
        Some(match number {
            libc::SIGHUP => Self::Reload,
            libc::SIGUSR1 => Self::ReopenLogs,
            libc::SIGTERM => Self::Terminate,
            libc::SIGINT => Self::Interrupt,
            _ => return None,
        })
    }
}

/// Returns a descriptor that is readable while one of the signals is pending.
fn signal_descriptor(set: &libc::sigset_t, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: reads a valid set and makes a descriptor.
    let descriptor = unsafe { libc::signalfd(-1, set, libc::SFD_CLOEXEC | flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was made just now, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
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
