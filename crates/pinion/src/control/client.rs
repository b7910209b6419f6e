//! The side of a command: it finds a server, asks, and reads the response.

use super::connection::REQUEST_MAX_BYTES;
use super::protocol::{CommandRequest, Response, ServerCommand, VERSION};
use super::socket;
use crate::failure::{Failure, without_number};
use anyhow::{Context as _, anyhow};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time that a server has for a response that it can give at once; it is busy with one command
/// at a time.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a response: the status of a hundred thousand sites has less.
const RESPONSE_MAX_BYTES: u64 = 64 << 20;

/// A server that a command is connected to.
pub(crate) struct ConnectedServer {
    pub(crate) socket: PathBuf,
    stream: BufReader<UnixStream>,
}

/// Connects to all servers that this user can reach, or to that of one socket.
///
/// # Errors
/// [`Failure::Failed`]: there is no server, with the advice.
pub(crate) fn servers(socket: Option<&Path>) -> Result<Vec<ConnectedServer>, Failure> {
    if let Some(path) = socket {
        let server = ConnectedServer::connect(path);
        let shown = path.display();
        return match server {
            Ok(server) => Ok(vec![server]),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    anyhow!("no server listens on {shown}; `pinion status` lists those that run")
                }
                io::ErrorKind::PermissionDenied => {
                    anyhow!("{shown} is for the user of the server and root; use sudo")
                }
                _ => anyhow!("cannot connect to {shown}: {}", without_number(&error.to_string())),
            }
            .into()),
        };
    }
    let (mut servers, mut denied) = (Vec::new(), None);
    let folders = socket::folders();
    for folder in &folders {
        match socket::sockets(folder) {
            // A socket without a listener was left behind by a server that was killed.
            Ok(sockets) => {
                servers.extend(sockets.iter().filter_map(|s| ConnectedServer::connect(s).ok()));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = Some(folder),
            // A folder that another program has made, or none.
            Err(_) => {}
        }
    }
    match (servers.is_empty(), denied) {
        (false, _) => Ok(servers),
        (true, Some(folder)) => {
            Err(anyhow!("{} is for the user of the server and root; use sudo", folder.display())
                .into())
        }
        (true, None) => {
            let folders: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
            Err(anyhow!(
                "no running server found in {}; for one with --control PATH, give --socket PATH",
                folders.join(", ")
            )
            .into())
        }
    }
}

/// Connects to the only server, or to that of a socket.
///
/// # Errors
/// [`Failure::Failed`]: there is none; [`Failure::Usage`]: there are several.
pub(crate) fn server(socket: Option<&Path>) -> Result<ConnectedServer, Failure> {
    let mut servers = servers(socket)?;
    match servers.pop() {
        Some(server) if servers.is_empty() => Ok(server),
        last => {
            let all = servers.iter().chain(&last);
            let sockets: Vec<_> = all.map(|server| server.socket.display().to_string()).collect();
            Err(Failure::usage(format!(
                "{} servers run; choose one with --socket: {}",
                sockets.len(),
                sockets.join(", ")
            )))
        }
    }
}

impl ConnectedServer {
    fn connect(path: &Path) -> io::Result<Self> {
        let stream = BufReader::new(UnixStream::connect(path)?);
        Ok(Self { socket: path.to_owned(), stream })
    }

    /// Asks, and waits for the response: as long as it takes for a command that may take long.
    ///
    /// # Errors
    /// The server does not respond.
    pub(crate) fn ask(&mut self, request: &CommandRequest) -> anyhow::Result<Response> {
        let shown = self.socket.display().to_string();
        self.try_ask(request).with_context(|| format!("the server at {shown}"))
    }

    fn try_ask(&mut self, request: &CommandRequest) -> anyhow::Result<Response> {
        let takes_long = matches!(request.command, ServerCommand::Reload | ServerCommand::Why);
        let timeout = (!takes_long).then_some(RESPONSE_TIMEOUT);
        self.stream.get_ref().set_read_timeout(timeout)?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        if line.len() > REQUEST_MAX_BYTES {
            return Err(anyhow!(
                "takes requests of at most {REQUEST_MAX_BYTES} bytes, and this one has {}",
                line.len()
            ));
        }
        // One that refuses all clients has closed the connection and left its reason in it.
        let written = self.stream.get_mut().write_all(&line);
        let mut response = Vec::new();
        let read = self.stream.by_ref().take(RESPONSE_MAX_BYTES).read_until(b'\n', &mut response);
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(anyhow!("did not answer within {} s", RESPONSE_TIMEOUT.as_secs()));
            }
            read => read?,
        };
        if response.is_empty() {
            written?;
            return Err(anyhow!("closed the connection without a response"));
        }
        let response: Response =
            serde_json::from_slice(&response).context("gave a response that cannot be read")?;
        if response.version != VERSION && response.error.is_none() {
            return Err(anyhow!("has version {} of the control protocol", response.version));
        }
        Ok(response)
    }

    /// Waits until the server has ended.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn wait_for_end(&mut self) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(None)?;
        let mut end = [0; 64];
        while self.stream.read(&mut end)? > 0 {}
        Ok(())
    }
}
