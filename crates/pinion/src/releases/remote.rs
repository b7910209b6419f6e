//! The verbs about release folders at the other end of ssh: the system's own `ssh` runs `pinion`
//! there with `--json`, and an archive goes through its stdin. Keys, passwords, jump hosts and
//! names of hosts are ssh's, and stay in its own configuration.

use crate::failure::Failure;
use crate::progress::Bar;
use anyhow::{Context as _, anyhow};
use pinion_engine::stderr;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;

/// Bytes that are sent between two states of the bar.
const STEP_BYTES: u64 = 1 << 20;

/// Bytes of a response: the list of a thousand releases has a third of it.
const RESPONSE_MAX_BYTES: u64 = 1 << 20;

/// The exit code of a shell when there is no such program, and when the file is not one.
const NOT_FOUND: i32 = 127;
const NOT_RUN: i32 = 126;
/// The exit code of an error of ssh itself.
const SSH_FAILED: i32 = 255;

/// A release folder of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// The text as written.
    pub(super) url: String,
    /// The argument for ssh: `host` or `user@host`.
    pub(super) destination: String,
    /// ssh's own choice without.
    pub(super) port: Option<u16>,
    /// The folder there; begins with `/` or `./`.
    pub(super) folder: String,
}

/// The archive that is sent to the other end.
pub(crate) struct Load<'a> {
    /// Its bytes.
    pub(crate) file: &'a File,
    /// Their number, if it is known.
    pub(crate) bytes: Option<u64>,
}

impl Remote {
    /// Runs `program` there with these arguments, the folder, and the argument `behind` it; returns
    /// its response.
    ///
    /// # Errors
    /// ssh is missing or fails, there is no such program, or its response reports a failure.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        program: &str,
        before: &[&str],
        behind: Option<&str>,
        load: Option<&Load<'_>>,
        bar: &Bar,
    ) -> Result<T, Failure> {
        let before = std::iter::once(program).chain(before.iter().copied());
        let words = before.chain([&*self.folder]).chain(behind);
        let line: Vec<String> = words.map(quoted).collect();
        let mut ssh = Command::new("ssh");
        if let Some(port) = self.port {
            ssh.arg("-p").arg(port.to_string());
        }
        ssh.arg("--").arg(&self.destination).arg(line.join(" "));
        ssh.stdin(if load.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut ssh = match ssh.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(ssh) => ssh,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(anyhow!("there is no ssh on this machine; install it").into());
            }
            Err(error) => return Err(anyhow!(error).context("cannot start ssh").into()),
        };
        let said = ssh.stderr.take().map(|stderr| thread::spawn(move || pass_on(stderr)));
        let sent = load.map_or(Ok(()), |load| send(load, &mut ssh, bar));
        let mut response = String::new();
        if let Some(stdout) = ssh.stdout.take() {
            let read = stdout.take(RESPONSE_MAX_BYTES).read_to_string(&mut response);
            read.context("cannot read what ssh says")?;
        }
        let status = ssh.wait().context("cannot wait for ssh")?;
        bar.clear();
        let held_back = said.and_then(|said| said.join().ok()).flatten();
        if status.success() {
            sent?;
            return self.response(&response);
        }
        Err(self.failure(status.code(), &response, held_back))
    }

    /// Reads the document in the last line: earlier lines come from the shell's own start.
    fn response<T: DeserializeOwned>(&self, response: &str) -> Result<T, Failure> {
        let last = response.lines().last().unwrap_or_default();
        let read = serde_json::from_str(last);
        let describe = || {
            let host = &self.destination;
            format!("cannot read the answer from {host}; the pinion there is of another version")
        };
        Ok(read.with_context(describe)?)
    }

    fn failure(&self, code: Option<i32>, response: &str, held_back: Option<String>) -> Failure {
        let host = &self.destination;
        let document: Option<Value> =
            response.lines().last().and_then(|line| serde_json::from_str(line).ok());
        if let Some(error) = document.as_ref().and_then(|document| document["error"].as_str()) {
            let other = ["unknown command", "unknown verb", "unknown flag"];
            let other = other.iter().any(|begin| error.starts_with(begin));
            let other = if other { "; the pinion there is of another version" } else { "" };
            return anyhow!("on {host}: {error}{other}").into();
        }
        if let Some(line) = held_back {
            stderr::line(format_args!("{line}"));
        }
        match code {
            Some(SSH_FAILED) => anyhow!("ssh to {host} failed, it says why itself"),
            Some(NOT_FOUND) => anyhow!(
                "there is no pinion on {host} where its shell looks; say where with --remote-pinion"
            ),
            Some(NOT_RUN) => anyhow!("the pinion on {host} cannot be run"),
            Some(code) => anyhow!("the pinion on {host} ended with {code} and no answer"),
            None => anyhow!("ssh to {host} was ended by a signal"),
        }
        .into()
    }
}

/// Sends all of it. If the other end does not want more, its response says why.
fn send(load: &Load<'_>, ssh: &mut Child, bar: &Bar) -> Result<(), Failure> {
    let Some(mut stdin) = ssh.stdin.take() else { return Ok(()) };
    let (mut file, mut done) = (load.file, 0);
    loop {
        match io::copy(&mut file.take(STEP_BYTES), &mut stdin) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(anyhow!(error).context("cannot send the archive").into()),
        }
        bar.set(done, load.bytes.unwrap_or(done).max(done), "sent");
        file = load.file;
    }
    // The other end waits for the end of its input.
    let _gone = stdin.flush();
    drop(stdin);
    Ok(())
}

/// Passes on the output of ssh and of the other end as it comes; but the line with which a pinion
/// reports its failure, which its response has too, is held back and returned.
fn pass_on(stderr: ChildStderr) -> Option<String> {
    let mut held_back: Option<String> = None;
    for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let next = line.starts_with("pinion: ");
        if let Some(line) = held_back.take() {
            stderr::line(format_args!("{line}"));
        }
        if next { held_back = Some(line) } else { stderr::line(format_args!("{line}")) }
    }
    held_back
}

/// Returns a word that the shell at the other end takes as it is (POSIX, 2.2.2).
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_round_trip_through_a_shell() {
        let words = ["plain", "", "a b", "it's", "$(x) `y` \"z\" \\ \n ; & | > *", "''", "-n"];
        for word in words {
            let script = format!("printf %s {}", quoted(word));
            let printed = Command::new("sh").arg("-c").arg(script).output().expect("a shell");
            assert_eq!(String::from_utf8(printed.stdout).expect("text"), word);
        }
    }
}
