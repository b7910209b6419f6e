//! The worker's side of its connection to the spawner.
//!
//! Requests are sent at once and never wait. Answers are read as a stream of bytes: the engine
//! reads the descriptor that [`SpawnerConnection::reader`] returns, and [`ReplyReader`] makes
//! answers of the bytes. When all descriptors of the connection are closed, the spawner stops the
//! programs that it has started.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::seqpacket_socket::send_record;
use crate::worker_request::{SpawnerRequest, StartRequest};

pub use crate::reply::{ReplyReader, SpawnerReply};

/// The connection of one worker to the spawner.
#[derive(Debug)]
pub struct SpawnerConnection {
    socket: OwnedFd,
}

/// The reason why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request exceeds a limit, has a NUL byte, or has an invalid signal number.
    #[error("the request exceeds a limit or has a NUL byte")]
    Invalid,
    /// The spawner has not read earlier requests yet. Try again later.
    #[error("the spawner is busy")]
    Busy,
    /// The spawner has ended, or has closed the connection.
    #[error("the spawner is gone")]
    Gone,
}

impl SpawnerConnection {
    /// Creates a connection from the worker's end of its pair of sockets.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&socket, OFlags::NONBLOCK)?;
        Ok(Self { socket })
    }

    /// Requests the start of a program. Its standard input is `stdin`. Its standard output is
    /// `stdout` or, if that is `None`, `stdin` as well. Both are sockets, and the caller closes its
    /// descriptors afterwards.
    ///
    /// # Errors
    /// The request was not sent.
    pub fn start(
        &self,
        request: StartRequest<'_>,
        stdin: BorrowedFd<'_>,
        stdout: Option<BorrowedFd<'_>>,
    ) -> Result<(), RequestError> {
        let descriptors = [Some(stdin), stdout];
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.into_iter().flatten().collect();
        self.send(&SpawnerRequest::Start(request), &descriptors)
    }

    /// Requests the start of a supervised program. The first descriptor, if any, is a socket that
    /// becomes standard input; the second one, if any, is a file that becomes descriptor 3.
    ///
    /// # Errors
    /// The request was not sent.
    pub fn start_supervised(
        &self,
        request: StartRequest<'_>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), RequestError> {
        self.send(&SpawnerRequest::Start(request), descriptors)
    }

    /// Requests that a signal, 1 to 31, is sent to the main process of a program.
    ///
    /// # Errors
    /// The request was not sent.
    pub fn signal(&self, id: u64, signal: u8) -> Result<(), RequestError> {
        self.send(&SpawnerRequest::Signal { id, signal }, &[])
    }

    /// Requests the end of a program: the spawner sends its stop signal, and SIGKILL after its
    /// grace period.
    ///
    /// # Errors
    /// The request was not sent.
    pub fn stop(&self, id: u64) -> Result<(), RequestError> {
        self.send(&SpawnerRequest::Stop { id }, &[])
    }

    /// Returns another descriptor of the connection, from which answers are read. A read returns
    /// one reply, so its buffer has at least [`REPLY_BYTES`](crate::reply::REPLY_BYTES).
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn reader(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    fn send(
        &self,
        request: &SpawnerRequest<'_>,
        sockets: &[BorrowedFd<'_>],
    ) -> Result<(), RequestError> {
        let bytes = request.encode().ok_or(RequestError::Invalid)?;
        match send_record(&self.socket, &bytes, sockets) {
            Ok(()) => Ok(()),
            // ETOOMANYREFS means that too many descriptors are in flight (unix(7)).
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR | Errno::TOOMANYREFS) => {
                Err(RequestError::Busy)
            }
            Err(_) => Err(RequestError::Gone),
        }
    }
}

impl AsFd for SpawnerConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns two connected sockets for a stream of a program: the first for the worker, which never
/// waits on it, the second for the program.
///
/// # Errors
/// There are too many descriptors.
pub fn stream_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let (worker, program) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    ioctl_fionbio(&worker, true)?;
    Ok((worker, program))
}
