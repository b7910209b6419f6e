//! Sockets that are passed to a server as a service manager does it (sd_listen_fds(3)).

use crate::external_programs::program;
use std::process::Command;

/// The program that passes the sockets; its head describes it.
const PASS_SOCKETS: &str = include_str!("pass_sockets.py");

/// Returns a command that executes its further arguments in its own process, with these sockets.
/// Each is a name, `=` and a kind, as `pass_sockets.py` lists them.
///
/// # Panics
/// Panics if Python is not installed.
#[track_caller]
pub fn passing<S: AsRef<str>>(sockets: &[S]) -> Command {
    let mut python = program("python3", "python3");
    python.args(["-c", PASS_SOCKETS]).args(sockets.iter().map(AsRef::as_ref)).arg("--");
    python
}
