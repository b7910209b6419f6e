//! A QUIC connection (RFC 9000) with quinn: streams for the client of HTTP/3, and for cases about
//! the bytes on them.

use super::byte_stream::Peer;
use crate::PATIENCE;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, IdleTimeout, Runtime as _,
    TokioRuntime, TransportConfig, UdpPoller, VarInt,
};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The receive windows of a stream and of the connection: small, so that every large response has
/// to wait for them.
const WINDOW_BYTES: u32 = 65_535;

/// The interval of keep-alive packets: well below the idle timeout of QUIC.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Drives the connections of all tests of a process, even while no test waits for one of them.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().expect("a runtime")
});

/// A connection on a socket of its own. It is closed with `H3_NO_ERROR` when it is dropped.
#[derive(Debug)]
pub struct Quic {
    endpoint: Endpoint,
    socket: Arc<Socket>,
    connection: Connection,
}

impl Quic {
    /// Connects and completes the handshake.
    ///
    /// # Errors
    /// Returns the errors of QUIC or of TLS.
    pub fn open(peer: &Peer) -> io::Result<Quic> {
        let config = peer.quic().ok_or_else(|| io::Error::other("no peer of QUIC"))?;
        let _context = RUNTIME.enter();
        let socket = TokioRuntime.wrap_udp_socket(UdpSocket::bind(own_address(peer))?)?;
        let socket = Arc::new(Socket { socket, most_at_once: AtomicUsize::new(0) });
        let runtime = Arc::new(TokioRuntime);
        let own = EndpointConfig::default();
        let endpoint = Endpoint::new_with_abstract_socket(own, None, socket.clone(), runtime)?;
        let connecting = endpoint.connect_with(config.clone(), peer.address(), peer.asked_for());
        let connection = wait(connecting.map_err(io::Error::other)?)?;
        Ok(Quic { endpoint, socket, connection: connection? })
    }

    /// Returns the connection, for operations beyond HTTP/3.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the most datagrams that arrived in one piece because they were sent so; `None` if
    /// the kernel would not show it.
    pub fn most_at_once(&self) -> Option<usize> {
        let can_show = self.socket.max_receive_segments() > 1;
        can_show.then(|| self.socket.most_at_once.load(Ordering::Relaxed))
    }

    /// Returns the client's own port.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn local_port(&self) -> u16 {
        self.endpoint.local_addr().expect("a socket").port()
    }

    /// Continues from another port.
    ///
    /// # Errors
    /// Returns the errors of the socket.
    pub fn move_on(&self) -> io::Result<()> {
        let _context = RUNTIME.enter();
        self.endpoint.rebind(UdpSocket::bind(any_port(self.connection.remote_address()))?)
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(0x100), b"");
    }
}

/// A socket that counts received datagrams. On the loopback interface the kernel delivers the
/// datagrams of one call (GSO) together, if the receiver can split them (GRO).
#[derive(Debug)]
struct Socket {
    socket: Arc<dyn AsyncUdpSocket>,
    most_at_once: AtomicUsize,
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = ready!(self.socket.poll_recv(context, buffers, metas))?;
        for meta in &metas[..received] {
            self.most_at_once.fetch_max(meta.len.div_ceil(meta.stride.max(1)), Ordering::Relaxed);
        }
        Poll::Ready(Ok(received))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// Returns any port of the address that clients of the peer connect from.
fn own_address(peer: &Peer) -> SocketAddr {
    peer.source().map_or(any_port(peer.address()), |source| (source, 0).into())
}

/// Returns any port of this host from which the address can be reached.
fn any_port(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 0).into(),
    }
}

/// Returns the configuration of QUIC in addition to TLS.
pub(super) fn config(tls: &Arc<rustls::ClientConfig>) -> ClientConfig {
    let crypto = QuicClientConfig::try_from(Arc::clone(tls)).expect("a cipher suite for QUIC");
    with_windows(&ClientConfig::new(Arc::new(crypto)), [WINDOW_BYTES; 2])
}

/// Returns the same configuration with other windows of a stream and of the connection.
pub(super) fn with_windows(config: &ClientConfig, bytes: [u32; 2]) -> ClientConfig {
    with_transport(config, bytes, None)
}

/// Returns the same configuration with keep-alive packets, so that QUIC itself never ends the
/// connection as idle (RFC 9000 §10.1.2).
pub(super) fn kept_alive(config: &ClientConfig) -> ClientConfig {
    with_transport(config, [WINDOW_BYTES; 2], Some(KEEP_ALIVE))
}

fn with_transport(
    config: &ClientConfig,
    bytes: [u32; 2],
    ping_every: Option<Duration>,
) -> ClientConfig {
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(ping_every);
    let patience = IdleTimeout::try_from(PATIENCE).expect("not too long");
    transport.max_idle_timeout(Some(patience));
    let [stream, connection] = bytes.map(VarInt::from_u32);
    transport.stream_receive_window(stream).receive_window(connection);
    let mut config = config.clone();
    config.transport_config(Arc::new(transport));
    config
}

/// Waits for the result of a future.
///
/// # Errors
/// Returns an error if it takes too long.
pub fn wait<F: Future>(future: F) -> io::Result<F::Output> {
    let patient = async { tokio::time::timeout(PATIENCE, future).await };
    RUNTIME.block_on(patient).map_err(|_| io::ErrorKind::TimedOut.into())
}

/// Runs a future on the thread that drives connections: data that it sends without waiting is sent
/// together. A future that takes too long is dropped.
///
/// # Errors
/// Returns an error if it takes too long.
pub fn at_once<F>(future: F) -> io::Result<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let task = RUNTIME.spawn(future);
    let own = task.abort_handle();
    let done = wait(task).inspect_err(|_| own.abort());
    done.map(|done| done.expect("no panic"))
}

/// Returns the first datagram of a client.
///
/// # Panics
/// Panics if the client sends none.
pub fn first_datagram(peer: &Peer) -> Vec<u8> {
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    sink.set_read_timeout(Some(PATIENCE)).expect("set");
    let peer = peer.at(sink.local_addr().expect("an address"));
    let _context = RUNTIME.enter();
    let endpoint = Endpoint::client(any_port(peer.address())).expect("a port");
    let config = peer.quic().expect("a peer of QUIC").clone();
    let _connecting = endpoint.connect_with(config, peer.address(), "localhost").expect("begun");
    let mut bytes = vec![0; 2000];
    let count = sink.recv(&mut bytes).expect("a datagram");
    bytes.truncate(count);
    bytes
}

/// Runs a future on its own.
pub fn leave_alone(future: impl Future<Output = ()> + Send + 'static) {
    RUNTIME.spawn(future);
}

/// Encodes an integer of variable length (§16), in as few bytes as possible.
///
/// # Panics
/// Panics if it has more than 62 bits.
pub fn integer(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let (skipped, form) = match value {
        0..0x40 => (7, 0),
        0x40..0x4000 => (6, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        0x4000_0000..0x4000_0000_0000_0000 => (0, 0xc0),
        _ => panic!("{value} has more than 62 bits"),
    };
    let mut bytes = bytes[skipped..].to_vec();
    bytes[0] |= form;
    bytes
}

/// Removes such an integer from the front; returns `None` if it is incomplete.
pub fn take_integer(rest: &mut &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    let (bytes, behind) = rest.split_at_checked(1 << (first >> 6))?;
    *rest = behind;
    let front = u64::from(first & 0x3f);
    Some(bytes[1..].iter().fold(front, |value, &byte| value << 8 | u64::from(byte)))
}

/// Returns a frame of HTTP/3 (RFC 9114 §7.1).
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&integer(kind)[..], &integer(payload.len() as u64), payload].concat()
}

/// Removes a frame from the front; returns its type and its payload, or `None` if it is incomplete.
pub fn take_frame(held: &mut Vec<u8>) -> Option<(u64, Vec<u8>)> {
    let mut rest = held.as_slice();
    let kind = take_integer(&mut rest)?;
    let bytes = usize::try_from(take_integer(&mut rest)?).ok()?;
    let payload = rest.get(..bytes)?.to_vec();
    let used = held.len() - rest.len() + bytes;
    held.drain(..used);
    Some((kind, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_length_integers_match_the_standard() {
        // RFC 9000 §A.1.
        for (value, bytes) in [
            (151_288_809_941_952_652, &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..]),
            (494_878_333, &[0x9d, 0x7f, 0x3e, 0x7d]),
            (15_293, &[0x7b, 0xbd]),
            (37, &[0x25]),
        ] {
            assert_eq!(integer(value), bytes);
            assert_eq!(take_integer(&mut &*bytes), Some(value));
        }
        assert_eq!(take_integer(&mut &b"\x40\x25"[..]), Some(37));
        assert_eq!(take_integer(&mut &b"\x40"[..]), None);
    }

    #[test]
    fn only_a_complete_frame_is_taken() {
        let mut held = frame(0x4242, b"payload");
        held.pop();
        assert_eq!(take_frame(&mut held), None);
        held.extend_from_slice(b"d!");
        assert_eq!(take_frame(&mut held), Some((0x4242, b"payload".to_vec())));
        assert_eq!(held, b"!");
    }
}
