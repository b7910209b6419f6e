//! A long path between two network namespaces, `tests/src/long_path.py`.

use crate::workspace_paths;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

/// The address of the server's side.
pub(super) const SERVER: &str = "10.9.0.1";

/// A program that is ended with the value.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The path and the namespaces at both ends; it ends with the value.
pub(super) struct LongPath {
    _relay: Ended,
    /// The path ends when this input is closed.
    _open: Option<ChildStdin>,
    /// The file of the server's namespace.
    pub(super) server: String,
    /// That of the client's.
    pub(super) client: String,
}

impl LongPath {
    /// Starts one with arguments of the script.
    pub(super) fn start(arguments: &[&str]) -> Result<Self> {
        let script = workspace_paths::root().join("tests/src/long_path.py");
        let mut python = Command::new("python3");
        python.arg(script).args(arguments);
        let mut relay = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let open = relay.stdin.take();
        let line = line(relay.stdout.take(), |_| true)?;
        let (server, client) = line.split_once(' ').context("two network namespaces")?;
        let (server, client) = (server.to_owned(), client.to_owned());
        Ok(Self { _relay: Ended(relay), _open: open, server, client })
    }
}

/// Returns the first line of a program that is `wanted`.
pub(super) fn line(
    output: Option<impl std::io::Read>,
    wanted: impl Fn(&str) -> bool,
) -> Result<String> {
    let output = BufReader::new(output.context("its output")?);
    let mut lines = output.lines().map_while(Result::ok);
    lines.find(|line| wanted(line)).context("the program ended without a word")
}

/// Returns a command on one side of the path.
pub(super) fn on(namespace: &str, program: impl AsRef<OsStr>) -> Command {
    let mut nsenter = Command::new("nsenter");
    nsenter.arg(format!("--net={namespace}")).arg(program);
    nsenter
}
