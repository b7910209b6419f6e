//! Ports that stay with a test while nothing listens on them.

use rustix::fd::OwnedFd;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A port of 127.0.0.1 that the kernel chooses for nothing else as long as this value lives: a
/// socket is bound to it and does not listen. Connections are refused until a server listens on the
/// port, which one with `SO_REUSEADDR` can.
#[derive(Debug)]
pub struct HeldPort {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl HeldPort {
    /// Takes one.
    ///
    /// # Panics
    /// Panics if there is none.
    #[track_caller]
    pub fn take() -> HeldPort {
        let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
        let socket = socket_with(family, SocketType::STREAM, flags, None).expect("a socket");
        set_socket_reuseaddr(&socket, true).expect("set");
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = getsockname(&socket).expect("an address");
        HeldPort { address: address.try_into().expect("an address of IPv4"), _socket: socket }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    /// Binds a socket without `SO_REUSEADDR`.
    fn bind_alone(address: SocketAddr) -> rustix::io::Result<()> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &address)
    }

    #[test]
    fn a_held_port_refuses_connections_until_a_server_listens() {
        let held = HeldPort::take();
        assert_eq!(bind_alone(held.address()), Err(rustix::io::Errno::ADDRINUSE));
        for _ in 0..3 {
            let refused = TcpStream::connect(held.address()).expect_err("nothing listens");
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let listener = TcpListener::bind(held.address()).expect("a server may listen");
            TcpStream::connect(held.address()).expect("a connection");
            drop(listener);
        }
    }
}
