//! A path with a long delay between a server and its clients: two network namespaces, between which
//! packets travel in turns, so that a test counts round trips and measures no time.

use crate::external_programs::program;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The program of the path; its head describes it.
const LONG_PATH: &str = include_str!("long_path.py");

/// The address of the server's side.
pub const SERVER: &str = "10.9.0.1";

/// A path with its two ends, which is removed when the value is dropped.
#[derive(Debug)]
pub struct LongPath {
    relay: Child,
    requests: Option<ChildStdin>,
    counts: BufReader<ChildStdout>,
    server: String,
    client: String,
}

impl LongPath {
    /// Creates a path without loss.
    ///
    /// # Panics
    /// Panics if the system does not allow network namespaces, with its message.
    #[track_caller]
    pub fn new() -> LongPath {
        LongPath::with(&[])
    }

    /// Creates a path with flags of `long_path.py`, which for example delay packets and lose some.
    ///
    /// # Panics
    /// Panics if the system does not allow network namespaces, with its message.
    #[track_caller]
    pub fn with(flags: &[&str]) -> LongPath {
        let mut python = program("python3", "python3");
        python.args(["-c", LONG_PATH]).args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut relay = python.spawn().expect("python starts");
        let requests = relay.stdin.take();
        let mut counts = BufReader::new(relay.stdout.take().expect("piped"));
        let mut line = String::new();
        counts.read_line(&mut line).expect("a line");
        let (server, client) = line.trim().split_once(' ').expect("two network namespaces");
        let (server, client) = (server.to_owned(), client.to_owned());
        LongPath { relay, requests, counts, server, client }
    }

    /// Returns a command that executes its further arguments on the server's side.
    #[track_caller]
    pub fn on_server(&self) -> Command {
        enter(&self.server)
    }

    /// Returns a command that executes its further arguments on the client's side.
    #[track_caller]
    pub fn on_client(&self) -> Command {
        enter(&self.client)
    }

    /// Returns the number of round trips in which clients sent data since the last call.
    ///
    /// # Panics
    /// Panics if the path has ended.
    #[track_caller]
    pub fn round_trips(&mut self) -> u32 {
        self.requests.as_mut().expect("open").write_all(b"\n").expect("written");
        let mut line = String::new();
        self.counts.read_line(&mut line).expect("a line");
        let trips = line.split(' ').next().and_then(|trips| trips.parse().ok());
        trips.unwrap_or_else(|| panic!("no number of round trips: {line:?}"))
    }
}

impl Default for LongPath {
    fn default() -> LongPath {
        LongPath::new()
    }
}

impl Drop for LongPath {
    fn drop(&mut self) {
        self.requests = None;
        let _ended = self.relay.wait();
    }
}

#[track_caller]
fn enter(namespace: &str) -> Command {
    let mut nsenter = program("nsenter", "util-linux");
    nsenter.arg(format!("--net={namespace}"));
    nsenter
}
