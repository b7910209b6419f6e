//! A separate redis-server for the tests, on a Unix socket in a temporary folder.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::generator::Request;
use crate::resp_reply::RespReply;

/// A running server; it ends when this is dropped.
pub(crate) struct RedisServer {
    process: Child,
    folder: PathBuf,
    connection: UnixStream,
}

/// The time that a server may need to start, or to reply.
const PATIENCE: Duration = Duration::from_secs(20);

impl RedisServer {
    /// Starts a server without any files and connects to it.
    ///
    /// # Panics
    /// Panics if it is not installed, or does not start.
    pub(crate) fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("pinion-redis-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).expect("a temporary folder");
        let socket = folder.join("socket");
        let process = Command::new(program())
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .args(["--unixsocket".as_ref(), socket.as_os_str()])
            .args(["--dir".as_ref(), folder.as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server cannot be started");
        let started = Instant::now();
        let connection = loop {
            match UnixStream::connect(&socket) {
                Ok(connection) => break connection,
                Err(_) if started.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("redis-server has not opened its socket: {error}"),
            }
        };
        connection.set_read_timeout(Some(PATIENCE)).expect("a timeout is no zero");
        Self { process, folder, connection }
    }

    /// Sends requests together. Returns their replies.
    pub(crate) fn replies(&mut self, requests: &[Request]) -> Vec<RespReply> {
        self.connection.write_all(&encode(requests)).expect("redis-server reads");
        let mut received = Vec::new();
        let mut parsed_bytes = 0;
        let mut replies = Vec::new();
        while replies.len() < requests.len() {
            match RespReply::parse(&received[parsed_bytes..]) {
                Some((reply, bytes)) => {
                    replies.push(reply);
                    parsed_bytes += bytes;
                }
                None => {
                    let mut buffer = [0; 16 * 1024];
                    let count = self.connection.read(&mut buffer).expect("redis-server replies");
                    assert!(count > 0, "redis-server has closed the connection");
                    received.extend_from_slice(&buffer[..count]);
                }
            }
        }
        replies
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // A process that has ended and a missing folder need no action.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns requests as a client sends them.
pub(crate) fn encode(requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend_from_slice(format!("*{}\r\n", request.arguments.len()).as_bytes());
        for argument in &request.arguments {
            bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            bytes.extend_from_slice(argument);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

/// Returns the path of redis-server.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([Path::new("/usr/bin").to_owned()]);
    let mut programs = folders.map(|folder| folder.join("redis-server"));
    programs.find(|program| program.is_file()).expect(
        "redis-server is not installed; install the package redis-server, or run \
         `cargo xtask test --only needs`",
    )
}
