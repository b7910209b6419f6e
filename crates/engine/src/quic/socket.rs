//! The sockets of QUIC: the interface that an endpoint needs, and UDP sockets of the kernel, which
//! take many datagrams in one call (GSO, GRO), with marks of congestion (ECN) and the destination
//! address of a datagram.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};

#[cfg(feature = "sim")]
use crate::backend::sim::DatagramRun;
use crate::limits::{DATAGRAM_BATCH, DATAGRAM_MAX_BYTES, UDP_BUFFER_BYTES};
use crate::socket_options::set_integer;

/// A socket for datagrams. It is called once for each batch of received datagrams and once for each
/// send, so that dynamic dispatch costs nothing compared with the system calls.
pub(crate) trait DatagramSocket {
    /// Returns the file descriptor by which a backend watches the socket, or `None` for a simulated
    /// socket, which the simulated backend watches by its number.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Receives the datagrams that have arrived, up to a batch, and returns whether more may have
    /// arrived.
    fn receive(&self, inlet: &mut Inlet) -> bool;

    /// Sends datagrams and returns false if the kernel has no room at the moment. Datagrams that
    /// cannot be sent for another reason are lost, and QUIC sends their content again.
    fn send(&self, transmit: &Transmit, contents: &[u8]) -> bool;

    /// Returns the largest number of datagrams that one send may be cut into.
    fn segments_max(&self) -> usize;

    /// Returns whether datagrams may be fragmented on their way, so that the largest datagram that
    /// the path carries cannot be found.
    fn may_fragment(&self) -> bool;
}

/// A UDP socket of the kernel.
pub(crate) struct UdpSocket {
    fd: Arc<OwnedFd>,
    state: UdpSocketState,
}

/// One or more datagrams of one peer, all of `stride` bytes but the last, which may be shorter.
pub(crate) struct Arrived<'b> {
    pub(crate) from: SocketAddr,
    /// The address to which they were sent.
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: &'b [u8],
    pub(crate) stride: usize,
}

/// The receive buffers for datagrams: one for each of a batch, each large enough for the most that
/// the kernel may have coalesced.
pub(crate) struct Inlet {
    bytes: Box<[u8]>,
    metas: [RecvMeta; DATAGRAM_BATCH],
    filled: usize,
}

const _: () = assert!(DATAGRAM_BATCH <= BATCH_SIZE);

impl Default for Inlet {
    /// Creates an inlet without buffers, in place of the one that is lent.
    fn default() -> Self {
        Self { bytes: Box::default(), metas: [RecvMeta::default(); DATAGRAM_BATCH], filled: 0 }
    }
}

impl Inlet {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; DATAGRAM_BATCH * DATAGRAM_MAX_BYTES].into_boxed_slice(),
            metas: [RecvMeta::default(); DATAGRAM_BATCH],
            filled: 0,
        }
    }

    /// Holds these runs of datagrams, at most a batch, which were sent to this address.
    #[cfg(feature = "sim")]
    pub(crate) fn fill(&mut self, runs: &[DatagramRun], to: IpAddr) {
        let buffers = self.bytes.chunks_mut(DATAGRAM_MAX_BYTES);
        for ((run, buffer), meta) in runs.iter().zip(buffers).zip(&mut self.metas) {
            buffer[..run.bytes.len()].copy_from_slice(&run.bytes);
            (meta.addr, meta.dst_ip) = (run.from, Some(to));
            (meta.len, meta.stride) = (run.bytes.len(), run.stride);
            meta.ecn = run.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
        }
        self.filled = runs.len();
    }

    /// Returns the datagrams of the last [`DatagramSocket::receive`].
    pub(crate) fn arrived(&self) -> impl Iterator<Item = Arrived<'_>> {
        let buffers = self.bytes.chunks(DATAGRAM_MAX_BYTES);
        self.metas[..self.filled].iter().zip(buffers).map(|(meta, buffer)| Arrived {
            from: meta.addr,
            to: meta.dst_ip,
            ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            bytes: &buffer[..meta.len.min(buffer.len())],
            stride: meta.stride.max(1),
        })
    }
}

impl UdpSocket {
    /// Wraps a bound socket and sets the options that QUIC wants, as far as the system has them.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(crate) fn new(fd: Arc<OwnedFd>) -> io::Result<Self> {
        let state = UdpSocketState::new((&fd).into())?;
        // The library requests timestamps that are not read, and then lacks room for all control
        // messages of a run of datagrams: the mark of congestion was cut off.
        let _off = set_integer(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0);
        // Larger than the default, which loses datagrams; the system caps it.
        let _as_far_as_allowed = state.set_recv_buffer_size((&fd).into(), UDP_BUFFER_BYTES);
        let _as_far_as_allowed = state.set_send_buffer_size((&fd).into(), UDP_BUFFER_BYTES);
        Ok(Self { fd, state })
    }
}

impl DatagramSocket for UdpSocket {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn receive(&self, inlet: &mut Inlet) -> bool {
        let Inlet { bytes, metas, filled } = inlet;
        let mut chunks = bytes.chunks_mut(DATAGRAM_MAX_BYTES);
        let mut buffers: [IoSliceMut<'_>; DATAGRAM_BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        // An error belongs to one sent datagram that was refused: there is nothing to act upon.
        *filled = self.state.recv((&self.fd).into(), &mut buffers, metas).unwrap_or(0);
        *filled == DATAGRAM_BATCH
    }

    fn send(&self, transmit: &Transmit, contents: &[u8]) -> bool {
        let datagrams = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents,
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        match self.state.try_send((&self.fd).into(), &datagrams) {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(()) => true,
        }
    }

    fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{bind_udp, local_address};
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// One send, cut by the kernel (GSO), and one receive, put together by it (GRO); with the mark
    /// of congestion (RFC 9000 §13.4) and where it was sent to.
    #[test]
    fn a_batch_of_datagrams_needs_one_send_and_one_receive() {
        const STRIDE: usize = 1200;
        let contents: Vec<u8> = (0..3 * STRIDE + 100).map(|at| (at / STRIDE) as u8).collect();
        for host in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let [(client, from), (server, to)] = [(); 2].map(|()| {
                let fd = bind_udp((host, 0).into(), 1).expect("bind").remove(0);
                let address = local_address(&fd).expect("an address");
                (UdpSocket::new(Arc::new(fd)).expect("a socket"), address)
            });
            let run = Transmit {
                destination: to,
                ecn: Some(EcnCodepoint::Ce),
                size: contents.len(),
                segment_size: Some(STRIDE),
                src_ip: None,
            };
            assert!(client.segments_max() > 3, "the kernel cuts");
            assert!(client.send(&run, &contents));
            let mut inlet = Inlet::new();
            server.receive(&mut inlet);
            let arrived: Vec<_> = inlet.arrived().collect();
            let [only] = &arrived[..] else { panic!("{} came", arrived.len()) };
            assert_eq!((only.bytes, only.stride), (&contents[..], STRIDE));
            assert_eq!((only.from, only.to), (from, Some(host)));
            assert_eq!(only.ecn, Some(EcnCodepoint::Ce), "{host}");
        }
    }
}
