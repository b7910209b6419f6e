//! Programs to which the kernel refuses some system calls or executable memory, as in most
//! containers and under units of systemd.

use crate::external_programs::{output, program};
use rustix::io::Errno;
use std::process::Command;

/// The program that refuses calls; its head describes it.
const REFUSE_CALLS: &str = include_str!("refuse_calls.py");

/// The calls of io_uring: set up a ring, enter it, register resources. They have the same numbers
/// on all architectures.
pub const IO_URING: [u32; 3] = [425, 426, 427];

/// Returns a command that executes its further arguments in its own process. There, and in all
/// processes started from there, these calls fail with `error`.
///
/// # Panics
/// Panics if Python is not installed.
#[track_caller]
pub fn refusing(error: Errno, calls: &[u32]) -> Command {
    let calls: Vec<String> = calls.iter().map(u32::to_string).collect();
    let mut python = program("python3", "python3");
    python.args(["-c", REFUSE_CALLS, &error.raw_os_error().to_string(), &calls.join(",")]);
    python
}

/// The program that denies executable memory; its head describes it.
const DENY_EXECUTE: &str = include_str!("deny_execute.py");

/// The method by which the kernel refuses executable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// `PR_SET_MDWE`, since Linux 6.3.
    Prctl,
    /// A filter of system calls, which systemd uses on older kernels.
    Seccomp,
}

impl Denial {
    /// Returns the methods that this kernel supports: before Linux 6.3 systemd only has the filter.
    ///
    /// # Panics
    /// Panics if Python is not installed.
    pub fn known() -> Vec<Denial> {
        let is_known = |denial: &Denial| {
            let [python, rest @ ..] = denial.words();
            let tried = output(program(python, "python3").args(rest).arg("true"));
            let said = String::from_utf8_lossy(&tried.stderr);
            assert!(tried.status.success() || said.contains("Invalid argument"), "{said}");
            tried.status.success()
        };
        let known: Vec<Denial> =
            [Denial::Prctl, Denial::Seccomp].into_iter().filter(is_known).collect();
        assert!(known.contains(&Denial::Seccomp), "every kernel has filters");
        known
    }

    /// Returns the words of a command that executes its further arguments in its own process, where
    /// memory cannot be made executable.
    pub fn words(self) -> [&'static str; 4] {
        let way = match self {
            Denial::Prctl => "prctl",
            Denial::Seccomp => "seccomp",
        };
        ["python3", "-c", DENY_EXECUTE, way]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external_programs::stdout;

    #[test]
    fn written_memory_cannot_be_executed() {
        let try_it = "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | \
                      mmap.PROT_EXEC); print('mapped')";
        for denial in Denial::known() {
            let [python, rest @ ..] = denial.words();
            let mut command = program(python, "python3");
            let failed = output(command.args(rest).args(["python3", "-c", try_it]));
            let said = String::from_utf8_lossy(&failed.stderr);
            assert!(said.contains("ermission denied") || said.contains("not permitted"), "{said}");
        }
    }

    #[test]
    fn refused_system_calls_fail_and_others_work() {
        /// `pidfd_open`, for which Python has a function.
        const PIDFD_OPEN: u32 = 434;
        let try_it = ["python3", "-c", "import os; os.pidfd_open(os.getpid()); print('opened')"];
        let failed = output(refusing(Errno::NOSYS, &[1000, PIDFD_OPEN]).args(try_it));
        let said = String::from_utf8_lossy(&failed.stderr);
        assert!(said.contains("Function not implemented"), "{said}");
        assert_eq!(stdout(refusing(Errno::NOSYS, &IO_URING).args(try_it)), b"opened\n");
    }
}
