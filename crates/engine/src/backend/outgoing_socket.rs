//! Sockets for connections that are opened to other servers.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use crate::outgoing_connect::RemoteAddress;
use crate::socket_options::limit_unsent;

/// Creates a socket for a connection to `remote`, with `flags` and close-on-exec; returns it with
/// the address in the form of the system.
///
/// # Errors
/// Fails if the system has no descriptor, or no sockets of this kind, or the path is too long for
/// one.
pub(super) fn socket_for(
    remote: &RemoteAddress,
    flags: SocketFlags,
) -> Result<(OwnedFd, SocketAddrAny), Errno> {
    let (family, address) = match remote {
        RemoteAddress::Tcp(address) if address.is_ipv4() => {
            (AddressFamily::INET, SocketAddrAny::from(*address))
        }
        RemoteAddress::Tcp(address) => (AddressFamily::INET6, SocketAddrAny::from(*address)),
        RemoteAddress::Unix(path) => {
            let address = match path.as_os_str().as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddrUnix::new_abstract_name(name)?,
                None => SocketAddrUnix::new(&**path)?,
            };
            (AddressFamily::UNIX, SocketAddrAny::from(address))
        }
    };
    let flags = flags | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    if let RemoteAddress::Tcp(_) = remote {
        sockopt::set_tcp_nodelay(&socket, true)?;
        // It only saves memory.
        let _best_effort = limit_unsent(&socket);
    }
    Ok((socket, address))
}
