//! Listening sockets. They are bound once, on the main thread, before any worker starts, or passed
//! by a service manager; workers share them.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::umask;

use crate::limits::BACKLOG_CONNECTIONS;
use crate::quic::config::QuicConfig;
use crate::settings::ListenerSettings;
use crate::socket_options::limit_unsent;

/// A listening socket and the protocol of its connections.
pub struct Listener {
    /// The socket: bound, listening, non-blocking.
    pub socket: Arc<OwnedFd>,
    /// The common settings of its connections.
    pub settings: ListenerSettings,
}

/// Binds and listens on a TCP address. An IPv6 wildcard accepts IPv4 connections too.
///
/// Options of connections are set here once, because accepted sockets inherit them. `SO_REUSEPORT`
/// is not set, so a second server on the port is an error.
///
/// # Errors
/// Returns the error of the system, `AddrInUse` above all.
pub fn bind_tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    limit_unsent(&socket)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG_CONNECTIONS)?;
    Ok(socket)
}

/// Binds and listens on a Unix socket. A socket file without a listening process is replaced; any
/// other file is left alone. The call never waits, regardless of the state of the existing socket.
///
/// Everybody who can reach the file may connect (mode 0666): a proxy in front mostly runs as
/// another user, and the permissions of the folder restrict access. The mode is right from the
/// first moment because the process's umask is changed meanwhile: call this before there are
/// threads that create files.
///
/// # Errors
/// Returns the error of the system; `AddrInUse` if a process listens there or the file is no
/// socket.
pub fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    bind_unix_with(path, bind_for_all)
}

/// Binds a Unix socket as [`bind_unix`] does, for this user and root alone: its file has mode 0600.
///
/// # Errors
/// Returns the errors of [`bind_unix`].
pub fn bind_unix_private(path: &Path) -> io::Result<OwnedFd> {
    bind_unix_with(path, |socket, address| {
        // The file gets the mode that the socket has (unix_bind in net/unix/af_unix.c of Linux), so
        // that it is never open to others.
        rustix::fs::fchmod(socket, Mode::RUSR | Mode::WUSR)?;
        net::bind(socket, address)
    })
}

fn bind_unix_with(
    path: &Path,
    bind: impl Fn(&OwnedFd, &SocketAddrUnix) -> rustix::io::Result<()>,
) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    if let Err(error) = bind(&socket, &address) {
        if error != Errno::ADDRINUSE || !is_abandoned(path, &address) {
            return Err(error.into());
        }
        std::fs::remove_file(path)?;
        bind(&socket, &address)?;
    }
    net::listen(&socket, BACKLOG_CONNECTIONS)?;
    Ok(socket)
}

/// A listening address of QUIC.
pub struct QuicListener {
    /// A socket for each worker, or for fewer: bound, non-blocking. A worker without a socket gets
    /// no connections.
    pub sockets: Vec<Arc<OwnedFd>>,
    /// The common settings of its connections.
    pub settings: ListenerSettings,
    /// The settings of QUIC.
    pub config: QuicConfig,
}

/// Binds a UDP address, once for each worker. The kernel delivers all datagrams of one client to
/// the same socket. A bind without `SO_REUSEPORT` comes first and proves that the port is free.
///
/// # Errors
/// Returns the error of the system, `AddrInUse` above all.
pub fn bind_udp(address: SocketAddr, workers: usize) -> io::Result<Vec<OwnedFd>> {
    let proof = udp_socket(address, false)?;
    let address = local_address(&proof).unwrap_or(address);
    drop(proof);
    (0..workers).map(|_| udp_socket(address, true)).collect()
}

fn udp_socket(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
    }
    if shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// Returns the local address of a TCP listener, which is useful if its port was 0.
pub fn local_address(socket: &OwnedFd) -> Option<SocketAddr> {
    net::getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok())
}

/// The kind of a descriptor that was passed to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassedSocket {
    /// A TCP socket that listens, at this address.
    Tcp(SocketAddr),
    /// A Unix socket that listens, at this path, or with `@` and an abstract name.
    Unix(PathBuf),
    /// A UDP socket, at this address.
    Udp(SocketAddr),
    /// A stream socket that does not listen, such as a connection.
    NotListening,
    /// Something else.
    Other,
}

impl PassedSocket {
    /// Returns the kind of a descriptor.
    pub fn of(socket: &OwnedFd) -> Self {
        let Ok(kind) = sockopt::socket_type(socket) else { return Self::Other };
        let Ok(address) = net::getsockname(socket) else { return Self::Other };
        let is_listening = sockopt::socket_acceptconn(socket).unwrap_or(false);
        let ip = SocketAddr::try_from(address.clone()).ok();
        match (kind, ip) {
            (SocketType::DGRAM, Some(ip)) => Self::Udp(ip),
            (SocketType::STREAM, _) if !is_listening => Self::NotListening,
            (SocketType::STREAM, Some(ip)) => Self::Tcp(ip),
            (SocketType::STREAM, None) => SocketAddrUnix::try_from(address)
                .map_or(Self::Other, |unix| Self::Unix(name(&unix))),
            _ => Self::Other,
        }
    }
}

/// Returns the path of a Unix socket, or `@` and its abstract name.
fn name(address: &SocketAddrUnix) -> PathBuf {
    let path = address.path_bytes().unwrap_or_default();
    let name = match address.abstract_name() {
        Some(name) => [b"@", name].concat(),
        None => path.to_vec(),
    };
    OsString::from_vec(name).into()
}

/// Sets the options of [`bind_tcp`] on a socket that another process has bound. Without them
/// everything works, with more delay and memory.
pub fn prepare_passed_tcp(socket: &OwnedFd) {
    let _best_effort = sockopt::set_tcp_nodelay(socket, true);
    let _best_effort = limit_unsent(socket);
}

/// Makes a UDP socket that another process has bound non-blocking, as those of [`bind_udp`] are.
///
/// # Errors
/// Returns the error of the system.
pub fn prepare_passed_udp(socket: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(socket, true)?)
}

/// Binds a socket; the new file has mode 0777 less the umask (unix(7)).
fn bind_for_all(socket: &OwnedFd, address: &SocketAddrUnix) -> rustix::io::Result<()> {
    /// Serializes the calls: of two at the same time, each would restore the other's umask.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = umask(Mode::XUSR | Mode::XGRP | Mode::XOTH);
    let bound = net::bind(socket, address);
    umask(before);
    bound
}

/// Returns whether a file is that of a Unix socket on which no process listens any more. A socket
/// that is bound and does not listen yet counts as such, so a lock must exclude others that bind.
#[must_use]
pub fn is_stale_unix(path: &Path) -> bool {
    SocketAddrUnix::new(path).is_ok_and(|address| is_abandoned(path, &address))
}

/// Returns whether a socket file has no listener: it refuses connections then. One whose accept
/// queue is full lets clients wait, so the attempt must not wait.
fn is_abandoned(path: &Path, address: &SocketAddrUnix) -> bool {
    if !path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket()) {
        return false;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .is_ok_and(|probe| net::connect(&probe, address) == Err(Errno::CONNREFUSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener, UnixStream};

    #[test]
    fn passed_descriptors_are_recognised_by_their_type() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
        let udp = UdpSocket::bind("[::1]:0").expect("bound");
        let (tcp_address, udp_address) = (tcp.local_addr(), udp.local_addr());
        let name = format!("pinion-listener-{}", std::process::id());
        let address = UnixAddress::from_abstract_name(name.as_bytes()).expect("a name");
        let unix = UnixListener::bind_addr(&address).expect("bound");
        let (connection, _other) = UnixStream::pair().expect("a pair");
        let datagrams = UnixDatagram::unbound().expect("a socket");
        let pipe = io::pipe().expect("a pipe").0;
        for (socket, expected) in [
            (tcp.into(), PassedSocket::Tcp(tcp_address.expect("an address"))),
            (udp.into(), PassedSocket::Udp(udp_address.expect("an address"))),
            (unix.into(), PassedSocket::Unix(format!("@{name}").into())),
            (connection.into(), PassedSocket::NotListening),
            (datagrams.into(), PassedSocket::Other),
            (pipe.into(), PassedSocket::Other),
        ] {
            assert_eq!(PassedSocket::of(&socket), expected);
        }
    }
}
