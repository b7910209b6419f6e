//! Connections that the server opens: their addresses, and the reasons of failures.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::pki_types::ServerName;

/// The address of a server that a connection is opened to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RemoteAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket, by its path, or by `@` and an abstract name.
    Unix(PathBuf),
}

impl fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The origin of a connection that the server opens.
#[derive(Debug)]
pub(crate) enum RemoteOrigin {
    /// It is opened to an address.
    Remote(RemoteAddress),
    /// A socket that is connected already; `None` once the backend has it.
    Socket(Option<OwnedFd>),
}

/// A connection to be opened.
#[derive(Debug, Clone)]
pub struct Connect {
    /// The address.
    pub remote: RemoteAddress,
    /// The TLS settings, if it is encrypted.
    pub tls: Option<ConnectTls>,
    /// Milliseconds within which it must be open, with its handshake.
    pub timeout_ms: u64,
    /// The application's tag of the connection, which
    /// [`ByteStreamHandle::tag`](crate::byte_stream_handle::ByteStreamHandle::tag) returns.
    pub tag: u64,
}

/// The TLS settings of a connection that is opened.
#[derive(Debug, Clone)]
pub struct ConnectTls {
    /// The trusted authorities, and the offered versions, suites and protocols.
    pub config: Arc<rustls::ClientConfig>,
    /// The name that the server's certificate must have.
    pub name: ServerName<'static>,
}

/// The reason why no connection is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// The server has opened as many connections as it may
    /// ([`WorkerSettings::outgoing`](crate::settings::WorkerSettings)).
    TooMany,
    /// There is no memory for one more.
    NoMemory,
}

/// The reason why a connection was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotConnected {
    /// Nothing listens at the address, or a firewall refuses it.
    Refused,
    /// No path leads to the address.
    Unreachable,
    /// The peer did not respond in time.
    TimedOut,
    /// There is no such Unix socket.
    NoSuchSocket,
    /// The system does not allow it.
    Denied,
    /// The accept queue of the Unix socket is full.
    Busy,
    /// The system has no descriptor, port or memory for it.
    Exhausted,
    /// The TLS handshake failed:
    /// [`ByteStreamHandle::tls_error`](crate::byte_stream_handle::ByteStreamHandle::tls_error)
    /// returns the reason, during the event `Gone`.
    Tls,
    /// The connection ended while it was opened, or the system cannot open one of this kind.
    Failed,
}

impl From<Errno> for NotConnected {
    /// Returns the meaning of an error of connect(2) or socket(2).
    fn from(error: Errno) -> Self {
        match error {
            Errno::CONNREFUSED => Self::Refused,
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
                Self::Unreachable
            }
            Errno::TIMEDOUT => Self::TimedOut,
            Errno::NOENT | Errno::NOTDIR => Self::NoSuchSocket,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            // connect(2): a TCP socket without a free port fails with EADDRNOTAVAIL.
            Errno::AGAIN => Self::Busy,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::ADDRNOTAVAIL => {
                Self::Exhausted
            }
            _ => Self::Failed,
        }
    }
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Unreachable => "no route to the address",
            Self::TimedOut => "no response in time",
            Self::NoSuchSocket => "no such socket",
            Self::Denied => "not permitted",
            Self::Busy => "the queue of the socket is full",
            Self::Exhausted => "the system has no descriptor, port or memory for a connection",
            Self::Tls => "the TLS handshake failed",
            Self::Failed => "the connection failed",
        })
    }
}
