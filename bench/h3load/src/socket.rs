//! The UDP socket of one connection: each client has a port of its own, as servers see it in
//! practice.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags, poll};

/// The most bytes of datagrams that the kernel may have joined.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Requested size of the kernel's buffers in bytes; the system limits it.
const BUFFER_BYTES: usize = 4 << 20;

/// Most segments of one send: together they must fit in the longest datagram, and requests are
/// short.
const SEGMENTS_MAX: usize = 16;

/// The UDP socket of one connection.
pub(crate) struct Socket {
    socket: std::net::UdpSocket,
    state: UdpSocketState,
}

/// The buffer for received datagrams.
pub(crate) struct Inlet {
    bytes: Vec<u8>,
    meta: RecvMeta,
}

impl Inlet {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; RECEIVE_BYTES], meta: RecvMeta::default() }
    }

    /// Returns the datagrams of the last [`Socket::receive`], and their congestion mark.
    pub(crate) fn datagrams(&self) -> (impl Iterator<Item = &[u8]>, Option<EcnCodepoint>) {
        let ecn = self.meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        (self.bytes[..self.meta.len].chunks(self.meta.stride.max(1)), ecn)
    }
}

impl Socket {
    pub(crate) fn open(server: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = std::net::UdpSocket::bind(any)?;
        let state = UdpSocketState::new((&socket).into())?;
        let _as_far_as_allowed = state.set_recv_buffer_size((&socket).into(), BUFFER_BYTES);
        let _as_far_as_allowed = state.set_send_buffer_size((&socket).into(), BUFFER_BYTES);
        Ok(Self { socket, state })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the most datagrams into which one send may be split.
    pub(crate) fn segments_max(&self) -> usize {
        self.state.max_gso_segments().min(SEGMENTS_MAX)
    }

    /// Receives available datagrams; returns false if there are none.
    pub(crate) fn receive(&self, inlet: &mut Inlet) -> bool {
        let mut buffers = [IoSliceMut::new(&mut inlet.bytes)];
        let metas = std::slice::from_mut(&mut inlet.meta);
        // An error belongs to a sent datagram that was refused: the server is not running, and the
        // connection will time out.
        self.state.recv((&self.socket).into(), &mut buffers, metas).is_ok_and(|count| count > 0)
    }

    /// Sends; waits while the buffer of the kernel is full.
    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        let datagrams = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        loop {
            match self.state.try_send((&self.socket).into(), &datagrams) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], None)?;
                }
                // The server is not running; see `receive`.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
                other => return other,
            }
        }
    }
}
