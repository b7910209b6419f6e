//! A flood during a load: `pinion-flood`, the attackers of the tests.
//!
//! There are two cores, and one of them is the server's, so attackers share the other one with the
//! measured client. They run as `SCHED_IDLE`: whenever the client has work to do, it gets the core
//! at once, and it waits for nothing but the server.

use super::load_generators::Ends;
use super::measured_server::{self, CLIENT_CORE};
use crate::process;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The work of attackers.
#[derive(Debug, Clone)]
pub(crate) struct Attack {
    pub(crate) program: PathBuf,
    /// The name of the flood in `pinion-flood --list`.
    pub(crate) flood: &'static str,
    pub(crate) server: SocketAddr,
    pub(crate) certificate: PathBuf,
    /// The duration of the load that runs at the same time.
    pub(crate) seconds: u32,
}

/// The additional time of a flood after the load: the time that the load may need to begin and to
/// end. The flood ends on its own, so that its connections are closed before the next load.
const MARGIN_SECONDS: u32 = 2;

/// A running flood.
pub(crate) struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Attack {
    /// Sees that there is such a flood.
    pub(crate) fn check(&self) -> Result<()> {
        let list = process::output(Command::new(&self.program).arg("--list"))?;
        ensure!(list.lines().any(|name| name == self.flood), "no flood {}:\n{list}", self.flood);
        Ok(())
    }

    /// Begins the flood, and returns when the server has accepted the attackers.
    pub(crate) fn start(&self) -> Result<Running> {
        let mut command = measured_server::on_core(CLIENT_CORE, "chrt");
        command.args(["--idle", "0"]).arg(&self.program);
        command.arg(self.flood).arg(self.server.to_string());
        command.arg((self.seconds + MARGIN_SECONDS).to_string()).arg(&self.certificate);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let said = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut running = Running { child, said };
        let mut line = String::new();
        running.said.read_line(&mut line)?;
        ensure!(line == "flooding\n", "{} did not begin: {line}", process::shown(&command));
        Ok(running)
    }
}

impl Running {
    /// Waits for the end of the flood, before which the simultaneous load has ended; returns the
    /// ends of the flood's connections.
    pub(crate) fn end(mut self) -> Result<Ends> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the flood ended before the load beside it: {status}");
        }
        let mut text = String::new();
        self.said.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the flood ended with {status}\n{text}");
        ends(&text).with_context(|| format!("the flood did not report:\n{text}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ends(text: &str) -> Option<Ends> {
    let data: Value = serde_json::from_str(text).ok()?;
    let count = |name: &str| data[name].as_u64();
    Some(Ends {
        connections: count("connections")?,
        calm: count("calm")?,
        other: count("other")?,
        cut: count("cut")?,
        hung: count("hung")?,
        left: count("left")?,
    })
}
