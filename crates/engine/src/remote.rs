//! Connections that the server opens: where to, and why none came about.

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

/// What a connection of the server's own is made of.
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
    /// Where to.
    pub remote: RemoteAddress,
    /// How it is encrypted, if it is.
    pub tls: Option<ConnectTls>,
    /// Milliseconds within which it must be open, with its handshake.
    pub timeout_ms: u64,
    /// What the application calls the connection: [`RawStream::tag`](crate::raw::RawStream::tag)
    /// returns it.
    pub tag: u64,
}

/// How a connection is encrypted that is opened.
#[derive(Debug, Clone)]
pub struct ConnectTls {
    /// Whom to trust, what to offer.
    pub config: Arc<rustls::ClientConfig>,
    /// Whose certificate the server must have.
    pub name: ServerName<'static>,
}

/// Why no connection is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// The server has opened as many connections as it may
    /// ([`WorkerSettings::outgoing`](crate::settings::Settings)).
    TooMany,
    /// There is no memory for one more.
    NoMemory,
}

/// Why a connection that was to be opened did not come about.
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
    /// The queue of new connections of the Unix socket is full.
    Busy,
    /// The system has no descriptor, port or memory for it.
    Exhausted,
    /// The handshake of TLS failed: [`RawStream::tls_error`](crate::raw::RawStream::tls_error) says
    /// why, as long as `Gone` is told.
    Tls,
    /// The connection ended while it was opened, or the system cannot open one of this kind.
    Failed,
}

impl From<Errno> for NotConnected {
    /// What an error of connect(2) or socket(2) means.
    fn from(error: Errno) -> Self {
        match error {
            Errno::CONNREFUSED => Self::Refused,
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
                Self::Unreachable
            }
            Errno::TIMEDOUT => Self::TimedOut,
            Errno::NOENT | Errno::NOTDIR => Self::NoSuchSocket,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            // connect(2): a TCP socket without a free port says EADDRNOTAVAIL.
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
