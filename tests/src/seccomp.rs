//! Programs to which the kernel refuses some system calls, as it does in most containers.

use crate::peers::program;
use rustix::io::Errno;
use std::process::Command;

/// What `refuse_calls.py` says at its top.
const REFUSE_CALLS: &str = include_str!("refuse_calls.py");

/// The calls of io_uring: set a ring up, enter it, register things. Numbered alike on all machines.
pub const IO_URING: [u32; 3] = [425, 426, 427];

/// A command that runs what its further arguments say, in its own process. There, and in all that
/// is started from there, these calls fail with `error`.
///
/// # Panics
/// When Python is not installed.
#[track_caller]
pub fn refusing(error: Errno, calls: &[u32]) -> Command {
    let calls: Vec<String> = calls.iter().map(u32::to_string).collect();
    let mut python = program("python3", "python3");
    python.args(["-c", REFUSE_CALLS, &error.raw_os_error().to_string(), &calls.join(",")]);
    python
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{output, stdout};

    #[test]
    fn what_is_refused_fails_and_the_rest_works() {
        /// `pidfd_open`, which Python has a function for.
        const PIDFD_OPEN: u32 = 434;
        let try_it = ["python3", "-c", "import os; os.pidfd_open(os.getpid()); print('opened')"];
        let failed = output(refusing(Errno::NOSYS, &[1000, PIDFD_OPEN]).args(try_it));
        let said = String::from_utf8_lossy(&failed.stderr);
        assert!(said.contains("Function not implemented"), "{said}");
        assert_eq!(stdout(refusing(Errno::NOSYS, &IO_URING).args(try_it)), b"opened\n");
    }
}
