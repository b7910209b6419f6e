//! A server that is being measured: one process on a core of its own, on a free loopback port.

use super::cpu_time::{self, Reading};
use crate::workspace_paths;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The core of all servers, of which one is busy at a time.
pub(crate) const SERVER_CORE: u32 = 0;
/// The core of the clients.
pub(crate) const CLIENT_CORE: u32 = 1;

/// The time that a server may need until it accepts connections.
const START: Duration = Duration::from_secs(60);

/// The time that a server may need for its end after the request to stop.
const END: Duration = Duration::from_secs(2);

/// Raises the descriptor limit to its maximum: 16 384 connections need it on both sides.
const WITH_DESCRIPTORS: &str = r#"ulimit -n "$(ulimit -Hn)"; exec taskset -c "$0" "$@""#;

/// A running server; it ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts the command that `command` returns for a free port, and waits until it accepts
    /// connections. Its output is written to `log`.
    pub(crate) fn start(log: &Path, command: impl FnOnce(u16) -> Result<Command>) -> Result<Self> {
        let port = free_port()?;
        let mut command = command(port)?;
        let said = File::create(log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        let child = command.spawn().with_context(|| crate::process::shown(&command))?;
        let mut server = Self { child, port };
        server.wait_for_accept().with_context(|| {
            let said = fs::read_to_string(log).unwrap_or_default();
            format!("{}\n{}", crate::process::shown(&command), said.trim_end())
        })?;
        Ok(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn cpu(&self) -> Result<Reading> {
        Reading::of(self.child.id())
    }

    /// Returns the process of the server and all of its descendants.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        cpu_time::family(self.child.id())
    }

    fn wait_for_accept(&mut self) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status} before it accepted");
            }
            if began.elapsed() > START {
                bail!("did not accept within {} s", START.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    /// Sends the request to end, so that its processes end with it, and waits for a limited time.
    fn drop(&mut self) {
        let _asked = Command::new("kill").arg(self.child.id().to_string()).status();
        let began = Instant::now();
        while began.elapsed() < END && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command that runs `program` on one core with all the descriptors it may have.
pub(crate) fn on_core(core: u32, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", WITH_DESCRIPTORS, &core.to_string()]).arg(program);
    command
}

/// Returns the path of a configuration that values are put into ([`configuration`]).
pub(crate) fn template(name: &str) -> PathBuf {
    workspace_paths::root().join("bench/load/peers").join(name)
}

/// Writes a configuration of a peer with the values filled in, and returns its path: `@NAME@`
/// becomes the value of `NAME`.
pub(crate) fn configuration(
    template: &Path,
    values: &[(&str, String)],
    state: &Path,
) -> Result<PathBuf> {
    let mut text = fs::read_to_string(template).with_context(|| template.display().to_string())?;
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    let file = state.join(template.file_name().context("a template has a name")?);
    fs::write(&file, text)?;
    Ok(file)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
