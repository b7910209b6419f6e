//! Waits until processes have loaded their application.

use super::limits::{START_PAUSE, START_TIMEOUT};
use super::running_app::NewProcess;
use anyhow::anyhow;
use pinion_http::h1::client::limits::ResponseLimits;
use pinion_http::h1::head_parser::HeadStorage;
use pinion_http::python::child_frame::ChildFrame;
use pinion_http::python::frame_reader::ChildFrameReader;
use pinion_programs::supervisor::{ProgramEnd, ProgramPhase, ProgramStatus};
use pinion_spawner::reply::StartStage;
use rustix::process::geteuid;
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The outcome of a wait for processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartOutcome {
    /// All of them have loaded their application.
    Ready,
    /// The server ends.
    Ending,
}

/// Waits until processes have loaded their application. `status_of` returns the status of a
/// program, `is_ending` whether the server ends.
///
/// # Errors
/// One of them has ended, or takes too long.
pub(crate) fn wait_until_ready(
    processes: &[NewProcess],
    status_of: impl Fn(&str) -> Option<ProgramStatus>,
    is_ending: impl Fn() -> bool,
) -> anyhow::Result<StartOutcome> {
    let begin = Instant::now();
    for process in processes {
        let mut connection = None;
        while !is_ready(&mut connection, process) {
            if is_ending() {
                return Ok(StartOutcome::Ending);
            }
            if let Some(end) = status_of(&process.name).and_then(|status| end_of(&status)) {
                return Err(failed(process, end));
            }
            if begin.elapsed() >= START_TIMEOUT {
                return Err(anyhow!(
                    "the Python application {} was not loaded within {} seconds",
                    process.app.name,
                    START_TIMEOUT.as_secs()
                ));
            }
        }
    }
    Ok(StartOutcome::Ready)
}

/// Returns how a program has ended, if it has.
fn end_of(status: &ProgramStatus) -> Option<ProgramEnd> {
    match status.phase {
        ProgramPhase::Waiting { .. } | ProgramPhase::Stopped => status.last_end,
        // It was started again meanwhile.
        _ if status.restarts > 0 => status.last_end,
        _ => None,
    }
}

fn failed(process: &NewProcess, end: ProgramEnd) -> anyhow::Error {
    let (name, application) = (&process.name, &process.app.name);
    let interpreter = process.interpreter.display();
    match end {
        ProgramEnd::NotStarted(StartStage::Exec, libc::EACCES) => {
            let uid = process.uid.unwrap_or_else(|| geteuid().as_raw());
            anyhow!(
                "the Python application {application} cannot be started: user {uid} may not \
                 execute {interpreter}, or not enter a folder above it or above the file that it \
                 is a link to; name another interpreter with the key python"
            )
        }
        ProgramEnd::Exited(_) | ProgramEnd::Signaled(_) => anyhow!(
            "the Python application {application} cannot be loaded: {name} {end}; what it has \
             written is in the log of the server"
        ),
        _ => {
            anyhow!("the Python application {application} cannot be started: {interpreter}: {end}")
        }
    }
}

/// Waits for a moment, and returns whether the process has loaded its application. `connection` is
/// the one on which it says so, kept until the next call.
fn is_ready(connection: &mut Option<(UnixStream, ChildFrameReader)>, process: &NewProcess) -> bool {
    let known = match connection.take() {
        Some(known) => Ok(known),
        None => UnixStream::connect(&process.socket).and_then(|stream| {
            stream.set_read_timeout(Some(START_PAUSE))?;
            Ok((stream, ChildFrameReader::new(&ResponseLimits::default())))
        }),
    };
    let Ok((mut stream, mut reader)) = known else {
        std::thread::sleep(START_PAUSE);
        return false;
    };
    let mut buffer = [0; 1024];
    match stream.read(&mut buffer) {
        Ok(bytes) if bytes > 0 => {
            let input = buffer.get(..bytes).unwrap_or_default();
            match reader.step(input, &mut HeadStorage::new()) {
                Ok(step) => {
                    if let Some(ChildFrame::Ready(text)) = step.frame {
                        process.app.learn_interface(text);
                        return true;
                    }
                    *connection = Some((stream, reader));
                }
                Err(_) => std::thread::sleep(START_PAUSE),
            }
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            *connection = Some((stream, reader));
        }
        // The process has ended after the connection was made, and another one is started.
        Ok(_) | Err(_) => std::thread::sleep(START_PAUSE),
    }
    false
}
