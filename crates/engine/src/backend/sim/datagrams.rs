//! Datagrams on their way between the sockets of the server and their peers, which are the QUIC
//! clients. A path delays, reorders, loses, duplicates, marks and damages datagrams, as the faults
//! of the network say, and drops those that are longer than it carries.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use quinn_proto::EcnCodepoint;

use super::SENT_PER_PASS_MAX_BYTES;
use super::faults::Fallible;
use super::network::{Network, State};

/// The address of all sockets of the server; its port is that of HTTPS.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);
/// The first port of a peer; each change of its address gives it the next one.
const FIRST_PORT: u16 = 1024;

/// The handle of a QUIC client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimPeer(usize);

/// A datagram that a peer has received.
#[derive(Debug)]
pub struct PeerDatagram {
    /// The ECN mark of congestion.
    pub ecn: Option<EcnCodepoint>,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// One or more datagrams of one peer, put together as a kernel does (GRO): all of `stride` bytes
/// but the last, which may be shorter.
pub(crate) struct DatagramRun {
    pub(crate) from: SocketAddr,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) stride: usize,
    pub(crate) bytes: Vec<u8>,
}

struct Packet {
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    bytes: Vec<u8>,
}

/// Datagrams by the time in milliseconds at which they arrive, and in the order of sending.
type Arrivals = BTreeMap<(u64, u64), Packet>;

struct PeerState {
    port: u16,
    /// Whether none of its datagrams is lost or damaged.
    protected: bool,
    is_bound: bool,
    arrivals: Arrivals,
}

/// All datagrams of a network.
#[derive(Default)]
pub(super) struct Datagrams {
    /// The datagrams for the server, by the number of its socket.
    sockets: Vec<Arrivals>,
    peers: Vec<PeerState>,
    /// Datagrams sent so far.
    sent: u64,
    /// Bytes that the server has sent to each address since it last waited.
    sent_in_pass: HashMap<SocketAddr, usize>,
}

impl Datagrams {
    /// Notes that the server waits, so its pass is over.
    pub(super) fn begin_wait(&mut self) {
        self.sent_in_pass.clear();
    }

    /// Returns when the next datagram arrives at a socket of the server, in milliseconds.
    pub(super) fn next_arrival_ms(&self, socket: usize) -> Option<u64> {
        let ((at_ms, _), _) = self.sockets.get(socket)?.first_key_value()?;
        Some(*at_ms)
    }

    fn address(&self, peer: SimPeer) -> SocketAddr {
        let [.., a, b] = (peer.0 as u32).to_be_bytes();
        (Ipv4Addr::new(10, 0, a, b), self.peers[peer.0].port).into()
    }

    /// Returns the peer that has this address now.
    fn peer_at(&self, address: SocketAddr) -> Option<SimPeer> {
        let IpAddr::V4(ip) = address.ip() else { return None };
        let [.., a, b] = ip.octets();
        let peer = SimPeer(usize::from(u16::from_be_bytes([a, b])));
        let is_there = self.peers.get(peer.0).is_some_and(|state| state.is_bound);
        (is_there && self.address(peer) == address).then_some(peer)
    }
}

/// The destination of a datagram.
#[derive(Debug, Clone, Copy)]
enum To {
    Socket(usize),
    Peer(SimPeer),
}

impl State {
    /// Puts a datagram on its way, unless it is lost.
    fn dispatch(&mut self, to: To, peer: SimPeer, mut packet: Packet) {
        let protected = self.datagrams.peers[peer.0].protected;
        let (bytes, digest) = (packet.bytes.len(), digest(&packet.bytes));
        self.note(format_args!("{peer:?} {to:?}: {bytes} bytes, {digest:x}, {:?}", packet.ecn));
        let faults = self.dice.faults.clone();
        let is_lost = self.datagram_is_lost(protected);
        if is_lost || bytes > faults.path_bytes {
            self.note(format_args!("… is lost"));
            return;
        }
        let copies = if self.random.chance(faults.duplicate) { 2 } else { 1 };
        if !protected && self.random.chance(faults.damage) {
            let at = self.random.below(bytes.max(1) as u64) as usize;
            packet.bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
        }
        if packet.ecn.is_some() && self.random.chance(faults.congested) {
            packet.ecn = Some(EcnCodepoint::Ce);
        }
        for _ in 0..copies {
            let delay_ms = faults.path_ms + self.random.below(faults.jitter_ms + 1);
            let at_ms = self.now.monotonic_ms + delay_ms;
            self.datagrams.sent += 1;
            let order = self.datagrams.sent;
            let Packet { from, ecn, ref bytes } = packet;
            let copy = Packet { from, ecn, bytes: bytes.clone() };
            let arrivals = match to {
                To::Socket(socket) => &mut self.datagrams.sockets[socket],
                To::Peer(peer) => &mut self.datagrams.peers[peer.0].arrivals,
            };
            arrivals.insert((at_ms, order), copy);
        }
    }

    fn datagram_is_lost(&mut self, protected: bool) -> bool {
        self.dice.roll(&mut self.random, Fallible::Datagram, protected).is_some()
    }
}

impl Network {
    /// Opens a socket of the server, and returns its number.
    pub(crate) fn open_datagram_socket(&self) -> usize {
        let sockets = &mut self.0.borrow_mut().datagrams.sockets;
        sockets.push(Arrivals::new());
        sockets.len() - 1
    }

    /// Receives the datagrams that have arrived at a socket of the server, in at most `runs_max`
    /// runs.
    pub(crate) fn receive_runs(&self, socket: usize, runs_max: usize) -> Vec<DatagramRun> {
        let mut state = self.0.borrow_mut();
        let now_ms = state.now.monotonic_ms;
        let mut runs: Vec<DatagramRun> = Vec::new();
        while let Some((&(at_ms, order), packet)) =
            state.datagrams.sockets[socket].first_key_value()
        {
            if at_ms > now_ms {
                break;
            }
            let fits = runs.last().is_some_and(|run| run.takes(packet));
            let is_joined = fits && state.random.chance(500);
            if !is_joined && runs.len() == runs_max {
                break;
            }
            let taken = state.datagrams.sockets[socket].remove(&(at_ms, order));
            let Some(Packet { from, ecn, bytes }) = taken else { break };
            match runs.last_mut() {
                Some(run) if is_joined => run.bytes.extend_from_slice(&bytes),
                _ => runs.push(DatagramRun { from, ecn, stride: bytes.len(), bytes }),
            }
        }
        runs
    }

    /// Sends datagrams of `stride` bytes from a socket of the server, and returns false if there is
    /// no room at the moment.
    pub(crate) fn send_from_server(
        &self,
        to: SocketAddr,
        ecn: Option<EcnCodepoint>,
        stride: usize,
        contents: &[u8],
    ) -> bool {
        let mut state = self.0.borrow_mut();
        state.news = true;
        let full = state.dice.faults.full;
        if state.random.chance(full) {
            state.note(format_args!("there is no room for {} bytes to {to}", contents.len()));
            return false;
        }
        let in_pass = state.datagrams.sent_in_pass.entry(to).or_default();
        *in_pass += contents.len();
        assert!(*in_pass <= SENT_PER_PASS_MAX_BYTES, "{to} keeps the others waiting");
        if let Some(peer) = state.datagrams.peer_at(to) {
            for bytes in contents.chunks(stride.max(1)) {
                let packet = Packet { from: SERVER, ecn, bytes: bytes.to_vec() };
                state.dispatch(To::Peer(peer), peer, packet);
            }
        }
        true
    }

    /// Returns the address of the server for QUIC clients.
    pub fn server_address(&self) -> SocketAddr {
        SERVER
    }

    /// Opens the socket of a peer; no datagram of a `protected` one is lost or damaged.
    pub fn bind(&self, protected: bool) -> SimPeer {
        let peers = &mut self.0.borrow_mut().datagrams.peers;
        let arrivals = Arrivals::new();
        peers.push(PeerState { port: FIRST_PORT, protected, is_bound: true, arrivals });
        SimPeer(peers.len() - 1)
    }

    /// Returns the address of a peer.
    pub fn address(&self, peer: SimPeer) -> SocketAddr {
        self.0.borrow().datagrams.address(peer)
    }

    /// Gives a peer another address, as a router does that has forgotten it. Datagrams on their way
    /// to the old one are lost, but those that were sent from there arrive.
    pub fn rebind(&self, peer: SimPeer) {
        let mut state = self.0.borrow_mut();
        let peer_state = &mut state.datagrams.peers[peer.0];
        peer_state.port += 1;
        peer_state.arrivals.clear();
        state.note(format_args!("{peer:?} has another address"));
    }

    /// Closes the socket of a peer. Datagrams that are sent to it vanish.
    pub fn unbind(&self, peer: SimPeer) {
        let mut state = self.0.borrow_mut();
        let peer_state = &mut state.datagrams.peers[peer.0];
        peer_state.is_bound = false;
        peer_state.arrivals.clear();
        state.note(format_args!("{peer:?} is gone"));
    }

    /// Sends a datagram from a peer to a socket of the server.
    pub fn send_datagram(&self, peer: SimPeer, ecn: Option<EcnCodepoint>, bytes: &[u8]) {
        let mut state = self.0.borrow_mut();
        let packet = Packet { from: state.datagrams.address(peer), ecn, bytes: bytes.to_vec() };
        state.dispatch(To::Socket(0), peer, packet);
    }

    /// Receives the next datagram that has arrived at a peer.
    pub fn receive_datagram(&self, peer: SimPeer) -> Option<PeerDatagram> {
        let mut state = self.0.borrow_mut();
        let now_ms = state.now.monotonic_ms;
        let entry = state.datagrams.peers[peer.0].arrivals.first_entry()?;
        let (at_ms, _) = *entry.key();
        (at_ms <= now_ms).then(|| entry.remove()).map(|Packet { ecn, bytes, .. }| {
            let (count, digest) = (bytes.len(), digest(&bytes));
            state.note(format_args!("{peer:?} receives {count} bytes, {digest:x}"));
            PeerDatagram { ecn, bytes }
        })
    }

    /// Returns when the next datagram arrives at a peer, in milliseconds.
    pub fn next_arrival_ms(&self, peer: SimPeer) -> Option<u64> {
        let state = self.0.borrow();
        let ((at_ms, _), _) = state.datagrams.peers[peer.0].arrivals.first_key_value()?;
        Some(*at_ms)
    }
}

impl DatagramRun {
    /// Returns whether a kernel may coalesce this datagram with the others.
    fn takes(&self, packet: &Packet) -> bool {
        let is_open = self.bytes.len().is_multiple_of(self.stride);
        let fits = packet.bytes.len() <= self.stride && !packet.bytes.is_empty();
        let room = usize::from(u16::MAX).saturating_sub(self.bytes.len());
        let is_alike = self.from == packet.from && self.ecn == packet.ecn;
        is_open && fits && is_alike && packet.bytes.len() <= room
    }
}

/// Digests the bytes of a datagram, so that the record shows whether two runs are equal.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
