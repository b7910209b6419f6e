//! The endpoint of a QUIC listener on one worker: datagrams of its socket, of other workers and of
//! a take-over enter by one function, and reach their connection.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{
    Connection, ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointEvent, Incoming, Transmit,
};

use super::config::QuicConfig;
use super::connection_ids::{ConnectionHome, ID_BYTES, IdKey};
use super::process_liveness::Predecessors;
use super::socket::{DatagramSocket, Inlet};
use crate::backend::Slot;
use crate::limits::{QUIC_DATAGRAM_MAX_BYTES, TURN_BYTES};

/// A datagram of any origin.
#[derive(Debug)]
pub(crate) struct Datagram<B> {
    pub(crate) from: SocketAddr,
    /// The address to which it was sent.
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: B,
}

/// Bytes of a kept datagram, besides its content.
pub(crate) const DATAGRAM_BYTES: usize = size_of::<Datagram<Vec<u8>>>();

/// The result of a received datagram.
pub(crate) enum Received {
    /// There is nothing to act upon, or a reply was sent already.
    Nothing,
    /// It is for a connection of this worker.
    For(Slot, ConnectionEvent),
    /// It is for a connection of another worker of this process.
    Elsewhere(u16),
    /// A client wants to connect.
    Newcomer(Incoming),
}

/// The state of a connection's output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendProgress {
    /// It has no more output now.
    All,
    /// Other connections have their turn.
    Turn,
    /// The kernel has no room at the moment.
    Blocked,
}

/// The maximum number of bytes of a send, however it is to be cut: those of the longest datagram,
/// over IPv4.
const UDP_PAYLOAD_MAX_BYTES: usize = 65_507;

/// The value in place of the slot of a connection that no longer exists.
const NOBODY: Slot = Slot::MAX;

/// The QUIC endpoint of one listener on one worker.
pub(crate) struct ListenerEndpoint {
    socket: Box<dyn DatagramSocket>,
    endpoint: Endpoint,
    key: IdKey,
    place: ConnectionHome,
    predecessors: Predecessors,
    /// The slots of the connections, by handle.
    slots: Vec<Slot>,
    /// The index of the listener.
    pub(crate) listener: u16,
    /// The buffer of the next output; kept for its memory.
    outlet: Vec<u8>,
    /// Output for which the kernel had no room: it is sent before anything else, while its
    /// connection is known.
    blocked: Option<(ConnectionHandle, Transmit, Vec<u8>)>,
}

impl ListenerEndpoint {
    /// Creates the endpoint of `worker` for a listener, over a bound, non-blocking socket.
    pub(crate) fn new(
        socket: Box<dyn DatagramSocket>,
        config: &QuicConfig,
        worker: u16,
        listener: u16,
    ) -> Self {
        let endpoint = Endpoint::new(
            config.endpoint(worker),
            Some(config.server()),
            !socket.may_fragment(),
            None,
        );
        Self {
            socket,
            endpoint,
            key: config.id_key(),
            place: config.place(worker),
            predecessors: Predecessors::new(config.has_ended()),
            slots: Vec::new(),
            listener,
            outlet: Vec::new(),
            blocked: None,
        }
    }

    /// Returns the file descriptor of its socket; see [`DatagramSocket::fd`].
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.fd()
    }

    /// Receives the datagrams that wait in the socket, up to a batch. Returns false if no more
    /// wait.
    pub(crate) fn receive(&self, inlet: &mut Inlet) -> bool {
        self.socket.receive(inlet)
    }

    /// Processes a datagram. Replies of the endpoint itself (version negotiation, a stateless
    /// reset) are sent.
    pub(crate) fn enter(&mut self, datagram: &Datagram<&[u8]>, now: Instant) -> Received {
        match self.place_of(datagram.bytes) {
            // It belongs to another process with these keys. While that lives, nothing is sent: a
            // stateless reset would end the connection there. Afterwards the client gets one (RFC
            // 9000 §10.3).
            Some(place) if place.epoch != self.place.epoch => {
                if !self.predecessors.have_ended(place.epoch, now) {
                    return Received::Nothing;
                }
            }
            // The other worker keeps it for a while; no served client sends longer ones.
            Some(place) if place.worker != self.place.worker => {
                let is_too_long = datagram.bytes.len() > usize::from(QUIC_DATAGRAM_MAX_BYTES);
                let elsewhere = Received::Elsewhere(place.worker);
                return if is_too_long { Received::Nothing } else { elsewhere };
            }
            Some(_) | None => {}
        }
        let Datagram { from, to, ecn, bytes } = *datagram;
        self.outlet.clear();
        let event =
            self.endpoint.handle(now, from, to, ecn, BytesMut::from(bytes), &mut self.outlet);
        match event {
            None => Received::Nothing,
            Some(DatagramEvent::Response(transmit)) => {
                self.send(&transmit);
                Received::Nothing
            }
            Some(DatagramEvent::NewConnection(incoming)) => Received::Newcomer(incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => match self.slots.get(handle.0) {
                None | Some(&NOBODY) => Received::Nothing,
                Some(&slot) => Received::For(slot, event),
            },
        }
    }

    /// Returns the home of the connection of a datagram with a short header (RFC 9000 §17.3). Long
    /// headers come before the client has seen a connection ID of ours, or from the address that it
    /// began with, which the kernel delivers to the same worker.
    fn place_of(&self, bytes: &[u8]) -> Option<ConnectionHome> {
        const LONG_HEADER: u8 = 0x80;
        let (first, rest) = bytes.split_first()?;
        if first & LONG_HEADER != 0 {
            return None;
        }
        self.key.place(rest.get(..ID_BYTES)?)
    }

    /// Accepts a newcomer, which gets `slot`.
    pub(crate) fn accept(
        &mut self,
        incoming: Incoming,
        slot: Slot,
        now: Instant,
    ) -> Option<(ConnectionHandle, Connection)> {
        self.outlet.clear();
        match self.endpoint.accept(incoming, now, &mut self.outlet, None) {
            Ok((handle, connection)) => {
                if handle.0 >= self.slots.len() {
                    self.slots.resize(handle.0 + 1, NOBODY);
                }
                self.slots[handle.0] = slot;
                Some((handle, connection))
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.send(&transmit);
                }
                None
            }
        }
    }

    /// Makes a newcomer prove its address first (RFC 9000 §8.1.2), if that was not requested
    /// before.
    pub(crate) fn retry(&mut self, incoming: Incoming) {
        self.outlet.clear();
        match self.endpoint.retry(incoming, &mut self.outlet) {
            Ok(transmit) => self.send(&transmit),
            Err(error) => self.endpoint.ignore(error.into_incoming()),
        }
    }

    /// Refuses a newcomer.
    pub(crate) fn refuse(&mut self, incoming: Incoming) {
        self.outlet.clear();
        let transmit = self.endpoint.refuse(incoming, &mut self.outlet);
        self.send(&transmit);
    }

    /// Passes an event of a connection to its endpoint, and returns the reply.
    pub(crate) fn handle_event(
        &mut self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        self.endpoint.handle_event(handle, event)
    }

    /// Forgets a connection.
    pub(crate) fn forget(&mut self, handle: ConnectionHandle, is_drained: bool) {
        if let Some(slot) = self.slots.get_mut(handle.0) {
            *slot = NOBODY;
        }
        // It would not be sent again.
        self.blocked.take_if(|(blocked, ..)| *blocked == handle);
        if !is_drained {
            let _no_response = self.endpoint.handle_event(handle, EndpointEvent::drained());
        }
    }

    /// Returns how many connections its endpoint knows, and the datagrams that wait for room.
    #[cfg(feature = "sim")]
    pub(super) fn holdings(&self) -> usize {
        self.endpoint.open_connections() + usize::from(self.blocked.is_some())
    }

    /// Sends the output of a connection, in this turn.
    pub(crate) fn transmit(
        &mut self,
        handle: ConnectionHandle,
        connection: &mut Connection,
        now: Instant,
    ) -> SendProgress {
        if let Some((_, transmit, bytes)) = &self.blocked
            && !self.socket.send(transmit, bytes)
        {
            return SendProgress::Blocked;
        }
        self.blocked = None;
        let mut turn_bytes = 0;
        while turn_bytes < TURN_BYTES {
            self.outlet.clear();
            let segments_max = self.segments_max(connection.current_mtu());
            let next = connection.poll_transmit(now, segments_max, &mut self.outlet);
            let Some(transmit) = next else { return SendProgress::All };
            self.outlet.truncate(transmit.size);
            turn_bytes += transmit.size;
            if !self.socket.send(&transmit, &self.outlet) {
                self.blocked = Some((handle, transmit, std::mem::take(&mut self.outlet)));
                return SendProgress::Blocked;
            }
        }
        SendProgress::Turn
    }

    /// Returns the number of datagrams in one send. It is computed each time: their size grows, and
    /// a system that cannot segment a send may show that later.
    fn segments_max(&self, datagram_bytes: u16) -> usize {
        let fitting = UDP_PAYLOAD_MAX_BYTES / usize::from(datagram_bytes.max(1));
        self.socket.segments_max().min(fitting).max(1)
    }

    fn send(&self, transmit: &Transmit) {
        // The peer requests lost data again.
        let _sent = self.socket.send(transmit, &self.outlet[..transmit.size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{bind_udp, local_address};
    use crate::quic::config::{HasEnded, QuicKeys};
    use crate::quic::congestion::CongestionControl;
    use crate::quic::socket::UdpSocket;
    use quinn_proto::ConnectionIdGenerator as _;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::connection_ids::{Ids, RandomSource};
    use super::super::made_settings;

    fn config() -> QuicConfig {
        let (tls, _) = made_settings();
        QuicConfig::new(&tls, QuicKeys::random(), 1000, CongestionControl::Cubic)
            .expect("a cipher suite")
    }

    /// Creates the endpoint of worker 0 over a bound socket.
    fn endpoint(socket: OwnedFd, config: &QuicConfig) -> ListenerEndpoint {
        let socket = UdpSocket::new(Arc::new(socket)).expect("a socket");
        ListenerEndpoint::new(Box::new(socket), config, 0, 0)
    }

    /// Returns a client's datagram for a connection that lives in `place` and is unknown here.
    fn unknown(config: &QuicConfig, place: ConnectionHome, length: usize) -> Vec<u8> {
        let mut bytes = vec![0x40; length];
        let id = Ids { key: config.id_key(), place, random: RandomSource::System }.generate_cid();
        bytes[1..=ID_BYTES].copy_from_slice(&id);
        bytes
    }

    /// A client that gets a stateless reset closes its connection (RFC 9000 §10.3).
    #[test]
    fn connections_of_another_process_with_the_same_keys_are_reset_when_it_has_ended() {
        let keys = QuicKeys::random();
        let ended = keys.epoch.wrapping_add(2);
        let has_ended: HasEnded = Arc::new(move |epoch| epoch == ended);
        let successor = QuicKeys { epoch: keys.epoch.wrapping_add(1), has_ended, ..keys.clone() };
        let (tls, _) = made_settings();
        let of = |keys| {
            QuicConfig::new(&tls, keys, 1000, CongestionControl::Cubic).expect("a cipher suite")
        };
        let (before, now) = (of(keys), of(successor));
        let local = ([127, 0, 0, 1], 0).into();
        let socket = bind_udp(local, 1).expect("bind").remove(0);
        let client = std::net::UdpSocket::bind(local).expect("bind");
        client.set_nonblocking(true).expect("a socket");
        let from = client.local_addr().expect("an address");
        let mut endpoint = endpoint(socket, &now);
        let mut buffer = [0; 1500];
        for worker in [0, 1] {
            let bytes = unknown(&now, before.place(worker), 100);
            let datagram = Datagram { from, to: None, ecn: None, bytes: &bytes[..] };
            let came = endpoint.enter(&datagram, Instant::now());
            assert!(matches!(came, Received::Nothing), "of worker {worker}");
            let nothing = client.recv(&mut buffer).map_err(|error| error.kind());
            assert_eq!(nothing, Err(io::ErrorKind::WouldBlock), "of worker {worker}");
        }
        // The endpoint resets unknown connections of its own process, and all those of a process
        // that has ended, whichever of its workers had them.
        let of_ended = |worker| ConnectionHome { worker, epoch: ended };
        let places = [now.place(0), of_ended(0), of_ended(1), of_ended(u16::MAX)];
        for (seconds, place) in (1..).zip(places) {
            // The endpoint sends only a few resets in a short time.
            let at = Instant::now() + Duration::from_secs(seconds);
            let bytes = unknown(&now, place, 100);
            let datagram = Datagram { from, to: None, ecn: None, bytes: &bytes[..] };
            assert!(matches!(endpoint.enter(&datagram, at), Received::Nothing));
            let reset = client.recv(&mut buffer);
            assert!(reset.is_ok_and(|bytes| bytes >= 21), "a stateless reset for {place:?}");
        }
    }

    #[test]
    fn oversized_datagrams_are_not_forwarded_to_other_workers() {
        let socket = bind_udp(([127, 0, 0, 1], 0).into(), 1).expect("bind").remove(0);
        let from = local_address(&socket).expect("an address");
        let config = config();
        let mut endpoint = endpoint(socket, &config);
        let longest = usize::from(QUIC_DATAGRAM_MAX_BYTES);
        for (length, is_handed_on) in [(100, true), (longest, true), (longest + 1, false)] {
            let bytes = unknown(&config, config.place(1), length);
            let datagram = Datagram { from, to: None, ecn: None, bytes: &bytes[..] };
            let came = endpoint.enter(&datagram, Instant::now());
            assert_eq!(matches!(came, Received::Elsewhere(1)), is_handed_on, "{length}");
            assert!(is_handed_on || matches!(came, Received::Nothing));
        }
    }
}
