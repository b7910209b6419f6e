//! Connections that only agree on keys, and connections that do nothing: `bench/load/tls.py`.

use super::load_generators::Measured;
use super::measured_server::{self, CLIENT_CORE};
use crate::{process, workspace_paths};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Clients that make one handshake after the other.
#[derive(Debug, Clone)]
pub(crate) struct Handshakes {
    pub(crate) port: u16,
    pub(crate) clients: u32,
    pub(crate) seconds: u32,
    /// They resume an older session.
    pub(crate) resumed: bool,
}

/// Runs one load to its end.
pub(crate) fn run(load: &Handshakes) -> Result<Measured> {
    let mut command = script();
    command.arg("handshakes");
    command
        .args([u32::from(load.port), load.clients, load.seconds].map(|figure| figure.to_string()));
    command.arg(if load.resumed { "resumed" } else { "full" });
    Measured::from_line(&process::output(&mut command)?)
}

/// Connections that have sent one request each and stay open until this is dropped.
pub(crate) struct Held(Child);

impl Held {
    pub(crate) fn open(port: u16, count: u32) -> Result<Self> {
        let (held, line) = Self::run("hold", port, count)?;
        if line != format!("held {count}") {
            bail!("the client did not open {count} connections: {line}");
        }
        Ok(held)
    }

    /// Connections of HTTP/2 with heads that take more memory than bytes: how many the server has
    /// kept, and how many bytes they have sent.
    pub(crate) fn with_heads(port: u16, count: u32) -> Result<(Self, u64, u64)> {
        let (held, line) = Self::run("heads", port, count)?;
        let mut figures = line.split(' ').filter_map(|word| word.parse().ok());
        match (figures.next(), figures.next()) {
            (Some(connections), Some(bytes)) => Ok((held, connections, bytes)),
            _ => bail!("the client did not say what it has sent: {line}"),
        }
    }

    /// Starts the client; returns the line that it prints as well.
    fn run(verb: &str, port: u16, count: u32) -> Result<(Self, String)> {
        let mut command = script();
        command.args([verb, &port.to_string(), &count.to_string()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut held = Self(child);
        let said = held.0.stdout.take().context("the output is ours")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        Ok((held, line.trim().to_owned()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn script() -> Command {
    let mut command = measured_server::on_core(CLIENT_CORE, "python3");
    command.arg(workspace_paths::root().join("bench/load/tls.py"));
    command
}
