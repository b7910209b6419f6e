//! A service manager's end of a notify socket (sd_notify(3)): it receives the reports of a server.

use crate::PATIENCE;
use crate::external_programs::program;
use crate::temporary_folder::Folder;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest message that a service manager takes (`NOTIFY_BUFFER_MAX` of systemd).
const MESSAGE_MAX_BYTES: usize = 4096;

/// A bound socket.
#[derive(Debug)]
pub struct NotifySocket {
    socket: UnixDatagram,
    /// The name in `NOTIFY_SOCKET`.
    name: String,
    /// The folder of the socket, if it has a path.
    _folder: Option<Folder>,
}

impl NotifySocket {
    /// Makes a socket with a path.
    pub fn at_path() -> NotifySocket {
        let folder = Folder::new("notify");
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        NotifySocket::new(socket, path.display().to_string(), Some(folder))
    }

    /// Makes a socket with an abstract name, which no file has (unix(7)).
    pub fn with_abstract_name() -> NotifySocket {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = format!("pinion-test-{process}-{count}");
        let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        NotifySocket::new(socket, format!("@{name}"), None)
    }

    fn new(socket: UnixDatagram, name: String, folder: Option<Folder>) -> NotifySocket {
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        NotifySocket { socket, name, _folder: folder }
    }

    /// Its name, as `NOTIFY_SOCKET` has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that executes its further arguments in its own process, for this manager.
    #[track_caller]
    pub fn runner(&self) -> Command {
        let mut env = program("env", "coreutils");
        env.arg(format!("NOTIFY_SOCKET={}", self.name));
        env
    }

    /// Returns a command like [`Self::runner`], with a time limit after which the manager would
    /// restart the server.
    #[track_caller]
    pub fn runner_with_watchdog(&self, limit_us: u32) -> Command {
        let mut shell = program("sh", "dash");
        shell.args(["-c", "WATCHDOG_PID=$$ exec \"$@\"", "sh", "env"]);
        shell.arg(format!("NOTIFY_SOCKET={}", self.name));
        shell.arg(format!("WATCHDOG_USEC={limit_us}"));
        shell
    }

    /// Returns the lines of the next message.
    ///
    /// # Panics
    /// Panics if no message comes.
    #[track_caller]
    pub fn message(&self) -> Vec<String> {
        let mut buffer = [0; MESSAGE_MAX_BYTES];
        let bytes = self.socket.recv(&mut buffer).expect("a message to the service manager");
        let text = std::str::from_utf8(&buffer[..bytes]).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    /// Waits for a message with a line that `matches`, and returns its lines.
    #[track_caller]
    pub fn wait_for(&self, matches: impl Fn(&str) -> bool) -> Vec<String> {
        loop {
            let message = self.message();
            if message.iter().any(|line| matches(line)) {
                return message;
            }
        }
    }
}
