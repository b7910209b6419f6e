//! A start can take long: a large folder is built, a slow disk is read, a name is looked up. A
//! signal that asks for the end does not wait for that.

use super::socket_files::SocketFiles;
use crate::failure::Failure;
use anyhow::Context as _;
use pinion_engine::signals::Signals;
use pinion_engine::stderr;
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::AsFd as _;
use std::process;
use std::thread;

/// Does `start`. SIGTERM and SIGINT end the process meanwhile, at once: no client is served yet,
/// and only `files` are left outside of its memory. SIGHUP waits until there is a site to load
/// again. The thread that hears them is gone when this returns.
///
/// # Errors
/// The errors of `start`; there is no thread.
pub(crate) fn endable<T>(
    signals: &Signals,
    files: &SocketFiles,
    start: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (over, until_over) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    thread::scope(|scope| {
        let ears = || {
            // Without a descriptor to hear by, signals wait for the end of the start.
            if signals.wait_for_end(over.as_fd()).unwrap_or(false) {
                files.remove();
                stderr::line(format_args!("stopped; nothing was served yet"));
                process::exit(0);
            }
        };
        let spawned = thread::Builder::new().name("signals".to_owned()).spawn_scoped(scope, ears);
        spawned.context("cannot start the thread for signals")?;
        let started = start();
        drop(until_over);
        started
    })
}
