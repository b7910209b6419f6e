//! Reads the output of a program that is run to answer a question: a version, settings.

use anyhow::anyhow;
use std::io::Read as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The interval of checks whether a program has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a program without input to its end, and returns its status and at most `max_bytes` of its
/// standard output. It prints less than a pipe holds, and is killed when it takes longer than
/// `timeout`.
///
/// # Errors
/// It cannot be started, or takes too long.
pub(super) fn program_output(
    command: &mut Command,
    timeout: Duration,
    max_bytes: u64,
) -> anyhow::Result<(ExitStatus, String)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let ended = wait(&mut child, timeout);
    if ended.is_err() {
        let _ended = child.kill();
        let _status = child.wait();
    }
    let status = ended?;
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(max_bytes).read_to_end(&mut printed)?;
    }
    Ok((status, String::from_utf8_lossy(&printed).into_owned()))
}

fn wait(child: &mut Child, timeout: Duration) -> anyhow::Result<ExitStatus> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begin.elapsed() > timeout {
            return Err(anyhow!("it has not ended within {} seconds", timeout.as_secs()));
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(script: &str, timeout: Duration) -> anyhow::Result<(ExitStatus, String)> {
        program_output(Command::new("sh").args(["-c", script]), timeout, 4)
    }

    #[test]
    fn output_has_a_limit_and_a_status() {
        let (status, text) = output("printf abcdef; exit 3", Duration::MAX).expect("it has ended");
        assert_eq!((status.code(), &*text), (Some(3), "abcd"));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let error = output("exec sleep 600", Duration::ZERO).expect_err("it has not ended");
        assert_eq!(error.to_string(), "it has not ended within 0 seconds");
    }
}
