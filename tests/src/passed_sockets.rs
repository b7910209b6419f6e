//! Sockets that are passed to a server as a service manager does it (sd_listen_fds(3)).

use crate::peers::program;
use std::process::Command;

/// What `pass_sockets.py` says at its top.
const PASS_SOCKETS: &str = include_str!("pass_sockets.py");

/// A command that runs what its further arguments say, in its own process, with these sockets. Each
/// is a name, `=` and a kind, as `pass_sockets.py` lists them.
///
/// # Panics
/// When Python is not installed.
#[track_caller]
pub fn passing<S: AsRef<str>>(sockets: &[S]) -> Command {
    let mut python = program("python3", "python3");
    python.args(["-c", PASS_SOCKETS]).args(sockets.iter().map(AsRef::as_ref)).arg("--");
    python
}
