//! Signals as values: blocked in every thread, taken by one that waits for them.

use std::io;

/// A signal the server acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: take up the archive anew, reopen the logs.
    Reload,
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
///
/// # Errors
/// What `pthread_sigmask` reports.
pub fn block() -> io::Result<Signals> {
    // SAFETY: a zeroed set is a valid value for sigemptyset to fill; the pointers are to locals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGINT] {
            libc::sigaddset(&raw mut set, signal);
        }
        match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) {
            0 => Ok(Signals { set }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
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
                libc::SIGTERM => return Signal::Terminate,
                libc::SIGINT => return Signal::Interrupt,
                _ => {}
            }
        }
    }
}
