//! A cryptographic session of QUIC without cryptography, for the simulator alone: it is compiled
//! with the feature `sim`, and no program has it.
//!
//! The handshake has the messages of TLS 1.3 (RFC 9001 §4) at their encryption levels, so that the
//! state machine of quinn-proto runs as it does with TLS. A message is a type, a length and a
//! payload:
//!
//! | Message | Level | Payload |
//! |---|---|---|
//! | `ClientHello` | Initial | ALPN, transport parameters, padding |
//! | `ServerHello` | Initial | nothing |
//! | `ServerFlight` | Handshake | transport parameters, padding in place of a certificate |
//! | `Finished` | Handshake | nothing |
//!
//! Packets are not encrypted. A tag of [`TAG_BYTES`] shows that a packet is intact, and that both
//! sides use the same keys: it depends on the level, the direction, the generation of the key and
//! the packet number.

use std::any::Any;
use std::hash::Hasher as _;
use std::io::Cursor;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
    ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use siphasher::sip::SipHasher13;

/// Bytes of the tag after each packet, and bytes that are sampled for the protection of a header
/// (RFC 9001 §5.3, §5.4.2). They decide how short a packet may be, so there are as many as with
/// TLS.
const TAG_BYTES: usize = 16;
const SAMPLE_BYTES: usize = 16;
/// Bytes of the integrity tag of a Retry packet (RFC 9001 §5.8).
const RETRY_TAG_BYTES: usize = 16;
/// Packets that one key may protect, and forged packets after which a connection ends: those of
/// AES-128-GCM (RFC 9001 §6.6).
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
const INTEGRITY_LIMIT: u64 = 1 << 52;
/// The version of QUIC that is used (RFC 9000 §15).
const VERSION: u32 = 1;
/// The ALPN of HTTP/3 (RFC 9114 §3.1).
const ALPN: &[u8] = b"h3";
/// The alerts for messages that are out of order, for a client that offers another protocol, and
/// for messages that cannot be read (RFC 8446 §6).
const UNEXPECTED_MESSAGE: u8 = 10;
const NO_APPLICATION_PROTOCOL: u8 = 120;
const DECODE_ERROR: u8 = 50;
/// Bytes of the type and the length of a message.
const MESSAGE_HEADER_BYTES: usize = 4;

/// Types of messages.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const SERVER_FLIGHT: u8 = 8;
const FINISHED: u8 = 20;

/// The null session of servers.
pub(super) struct NullServer {
    /// Bytes of the first flight in place of a certificate.
    pub(super) flight_bytes: usize,
}

/// The null session of clients.
pub(super) struct NullClient {
    /// Bytes of padding in the first message, as long key exchanges have them.
    pub(super) hello_bytes: usize,
    /// The offered protocol (ALPN).
    pub(super) alpn: Vec<u8>,
}

impl ServerConfig for NullServer {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        (version == VERSION).then(|| initial_keys(id, Side::Server)).ok_or(UnsupportedVersion)
    }

    fn retry_tag(&self, _: u32, id: &ConnectionId, packet: &[u8]) -> [u8; RETRY_TAG_BYTES] {
        retry_tag(id, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, own: &TransportParameters) -> Box<dyn Session> {
        let outgoing = Outgoing { parameters: *own, padding_bytes: self.flight_bytes };
        Box::new(NullSession::new(Side::Server, outgoing, Vec::new()))
    }
}

impl ClientConfig for NullClient {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _server_name: &str,
        own: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let outgoing = Outgoing { parameters: *own, padding_bytes: self.hello_bytes };
        Ok(Box::new(NullSession::new(Side::Client, outgoing, self.alpn.clone())))
    }
}

/// The content of the first message of a side.
struct Outgoing {
    parameters: TransportParameters,
    padding_bytes: usize,
}

/// The next step of a handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandshakeStep {
    /// The client has to send its first message, or the server waits for it.
    Begin,
    /// The client waits for `ServerHello`, or the server has to send it.
    Hello,
    /// The keys of the Handshake level are to be used next.
    HandshakeKeys,
    /// The client waits for the flight of the server, or the server has to send it.
    Flight,
    /// The client has to send `Finished`, or the server waits for it.
    Finish,
    Done,
}

/// A session of either side, without cryptography.
struct NullSession {
    side: Side,
    step: HandshakeStep,
    outgoing: Outgoing,
    alpn: Vec<u8>,
    /// The beginning of an incomplete message.
    input: Vec<u8>,
    peer: Option<TransportParameters>,
    /// The generation of the last 1-RTT keys (RFC 9001 §6).
    generation: u64,
}

impl NullSession {
    fn new(side: Side, outgoing: Outgoing, alpn: Vec<u8>) -> Self {
        let (step, input) = (HandshakeStep::Begin, Vec::new());
        Self { side, step, outgoing, alpn, input, peer: None, generation: 0 }
    }

    /// Takes a complete message, and returns whether the data of the handshake are known now.
    fn message(&mut self, kind: u8, mut payload: &[u8]) -> Result<bool, TransportError> {
        match (self.side, self.step, kind) {
            (Side::Server, HandshakeStep::Begin, CLIENT_HELLO) => {
                let (length, rest) = payload.split_first().ok_or_else(|| alert(DECODE_ERROR))?;
                let alpn = rest.get(..usize::from(*length)).ok_or_else(|| alert(DECODE_ERROR))?;
                if alpn != ALPN {
                    return Err(alert(NO_APPLICATION_PROTOCOL));
                }
                payload = &rest[alpn.len()..];
                self.alpn = alpn.to_vec();
                self.peer = Some(self.parameters(payload)?);
                self.step = HandshakeStep::Hello;
                Ok(true)
            }
            (Side::Client, HandshakeStep::Hello, SERVER_HELLO) => {
                self.step = HandshakeStep::HandshakeKeys;
                Ok(false)
            }
            (Side::Client, HandshakeStep::Flight, SERVER_FLIGHT) => {
                self.peer = Some(self.parameters(payload)?);
                self.step = HandshakeStep::Finish;
                Ok(true)
            }
            (Side::Server, HandshakeStep::Finish, FINISHED) => {
                self.step = HandshakeStep::Done;
                Ok(false)
            }
            _ => Err(alert(UNEXPECTED_MESSAGE)),
        }
    }

    /// Reads the transport parameters of the peer: their length, then the parameters.
    fn parameters(&self, payload: &[u8]) -> Result<TransportParameters, TransportError> {
        let (length, rest) = payload.split_first_chunk().ok_or_else(|| alert(DECODE_ERROR))?;
        let length = usize::from(u16::from_be_bytes(*length));
        let encoded = rest.get(..length).ok_or_else(|| alert(DECODE_ERROR))?;
        Ok(TransportParameters::read(self.side, &mut Cursor::new(encoded))?)
    }

    /// Appends the transport parameters of this side and its padding.
    fn write_parameters(&self, payload: &mut Vec<u8>) {
        let mut encoded = Vec::new();
        self.outgoing.parameters.write(&mut encoded);
        payload.extend_from_slice(&(encoded.len() as u16).to_be_bytes());
        payload.extend_from_slice(&encoded);
        payload.resize(payload.len() + self.outgoing.padding_bytes, 0);
    }

    fn keys(&self, level: EncryptionLevel) -> Keys {
        keys(level, 0, 0, self.side)
    }
}

impl Session for NullSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.peer.is_some().then(|| Box::new(self.alpn.clone()) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.step != HandshakeStep::Done
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        let mut has_data = false;
        while let Some((&[kind, a, b, c], behind)) = rest.split_first_chunk() {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let Some(payload) = behind.get(..length) else { break };
            has_data |= self.message(kind, payload)?;
            rest = &behind[length..];
            // The client replies to each message before it reads the next: its keys change between.
            if self.step == HandshakeStep::HandshakeKeys {
                break;
            }
        }
        self.input = rest.to_vec();
        Ok(has_data)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        match (self.side, self.step) {
            (Side::Client, HandshakeStep::Begin) => {
                let mut payload = vec![self.alpn.len() as u8];
                payload.extend_from_slice(&self.alpn);
                self.write_parameters(&mut payload);
                write_message(out, CLIENT_HELLO, &payload);
                self.step = HandshakeStep::Hello;
                None
            }
            (Side::Client, HandshakeStep::HandshakeKeys) => {
                self.step = HandshakeStep::Flight;
                Some(self.keys(EncryptionLevel::Handshake))
            }
            (Side::Client, HandshakeStep::Finish) => {
                write_message(out, FINISHED, &[]);
                self.step = HandshakeStep::Done;
                Some(self.keys(EncryptionLevel::Data))
            }
            (Side::Server, HandshakeStep::Hello) => {
                write_message(out, SERVER_HELLO, &[]);
                self.step = HandshakeStep::Flight;
                Some(self.keys(EncryptionLevel::Handshake))
            }
            (Side::Server, HandshakeStep::Flight) => {
                let mut payload = Vec::new();
                self.write_parameters(&mut payload);
                write_message(out, SERVER_FLIGHT, &payload);
                self.step = HandshakeStep::Finish;
                Some(self.keys(EncryptionLevel::Data))
            }
            _ => None,
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.generation += 1;
        Some(keys(EncryptionLevel::Data, 0, self.generation, self.side).packet)
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((payload, tag)) = payload.split_last_chunk::<RETRY_TAG_BYTES>() else {
            return false;
        };
        retry_tag(id, &[header, payload].concat()) == *tag
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// Returns the error of a handshake that ends with a TLS alert.
fn alert(code: u8) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(code),
        frame: None,
        reason: "the null session cannot use a message".to_owned(),
    }
}

fn write_message(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    out.reserve(MESSAGE_HEADER_BYTES + payload.len());
    out.push(kind);
    out.extend_from_slice(&length);
    out.extend_from_slice(payload);
}

/// The encryption levels (RFC 9001 §2.1).
#[derive(Clone, Copy)]
enum EncryptionLevel {
    Initial,
    Handshake,
    Data,
}

fn initial_keys(id: &ConnectionId, side: Side) -> Keys {
    let mut hasher = SipHasher13::new();
    hasher.write(id);
    keys(EncryptionLevel::Initial, hasher.finish(), 0, side)
}

fn keys(level: EncryptionLevel, secret: u64, generation: u64, side: Side) -> Keys {
    let key = |sender: Side| -> Box<dyn PacketKey> {
        let direction = u64::from(sender == Side::Server);
        let kind = (level as u64) << 1 | direction;
        Box::new(NullPacketKey(SipHasher13::new_with_keys(secret ^ generation, kind)))
    };
    let header = || -> Box<dyn HeaderKey> { Box::new(NullHeaderKey) };
    Keys {
        header: KeyPair { local: header(), remote: header() },
        packet: KeyPair { local: key(side), remote: key(!side) },
    }
}

fn retry_tag(id: &ConnectionId, packet: &[u8]) -> [u8; RETRY_TAG_BYTES] {
    let mut hasher = SipHasher13::new();
    hasher.write(id);
    hasher.write(packet);
    u128::from(hasher.finish()).to_be_bytes()
}

/// A key that tags packets without encrypting them.
struct NullPacketKey(SipHasher13);

impl NullPacketKey {
    fn tag(&self, packet: u64, header: &[u8], payload: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = self.0;
        hasher.write(&packet.to_be_bytes());
        hasher.write(header);
        hasher.write(payload);
        u128::from(hasher.finish()).to_be_bytes()
    }
}

impl PacketKey for NullPacketKey {
    fn encrypt(&self, packet: u64, bytes: &mut [u8], header_bytes: usize) {
        let (header, rest) = bytes.split_at_mut(header_bytes);
        let (payload, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        tag.copy_from_slice(&self.tag(packet, header, payload));
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let (content, tag) = payload.split_last_chunk::<TAG_BYTES>().ok_or(CryptoError)?;
        if self.tag(packet, header, content) != *tag {
            return Err(CryptoError);
        }
        let content_bytes = content.len();
        payload.truncate(content_bytes);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        CONFIDENTIALITY_LIMIT
    }

    fn integrity_limit(&self) -> u64 {
        INTEGRITY_LIMIT
    }
}

/// A key that leaves headers unchanged.
struct NullHeaderKey;

impl HeaderKey for NullHeaderKey {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        SAMPLE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use quinn_proto::{
        Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event,
        TransportConfig,
    };

    use super::super::config::QuicConfig;
    use super::super::simulated_sockets::SimulatedClient;
    use super::*;
    use crate::backend::sim::{Faults, Network};

    const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 1000);
    const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 443);
    /// The number of turns after which a handshake is over.
    const TURNS_MAX: usize = 20;

    /// One side: its endpoint, and its connection once there is one.
    struct Side {
        endpoint: Endpoint,
        connection: Option<(ConnectionHandle, Connection)>,
        at: SocketAddr,
    }

    impl Side {
        /// Returns the datagrams that it sends now.
        fn datagrams(&mut self, now: Instant) -> Vec<Vec<u8>> {
            let Some((handle, connection)) = &mut self.connection else { return Vec::new() };
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            let mut datagrams = Vec::new();
            let mut bytes = Vec::new();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut bytes) {
                datagrams.push(bytes[..transmit.size].to_vec());
                bytes.clear();
            }
            datagrams
        }

        /// Handles a datagram of the other side.
        fn take(&mut self, datagram: &[u8], from: SocketAddr, now: Instant) {
            let bytes = BytesMut::from(datagram);
            let mut out = Vec::new();
            match self.endpoint.handle(now, from, None, None, bytes, &mut out) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    let (_, connection) = self.connection.as_mut().expect("it is connected");
                    connection.handle_event(event);
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.connection = self.endpoint.accept(incoming, now, &mut out, None).ok();
                }
                Some(DatagramEvent::Response(_)) | None => {}
            }
        }
    }

    /// A client and a server after the turns of a handshake, each of whose datagrams was changed by
    /// `change`.
    fn after_handshake(alpn: &[u8], change: impl Fn(&mut Vec<u8>)) -> [Side; 2] {
        let network = Network::new(1, Faults::default(), 0);
        let mut now = network.instant();
        let server = QuicConfig::simulated(7, 60_000, 3000, network.shared_clock());
        let client = SimulatedClient { seed: 8, hello_bytes: 1500, alpn: alpn.to_vec() };
        let (client_at, server_at) = (SocketAddr::from(CLIENT), SocketAddr::from(SERVER));
        let mut endpoint = Endpoint::new(client.endpoint(), None, false, None);
        let config = client.connection(TransportConfig::default());
        let connected = endpoint.connect(now, config, server_at, "sim").expect("begun");
        let server = Endpoint::new(server.endpoint(0), Some(server.server()), false, None);
        let mut sides = [
            Side { endpoint, connection: Some(connected), at: client_at },
            Side { endpoint: server, connection: None, at: server_at },
        ];
        for _ in 0..TURNS_MAX {
            for sender in [0, 1] {
                let from = sides[sender].at;
                for mut datagram in sides[sender].datagrams(now) {
                    change(&mut datagram);
                    sides[1 - sender].take(&datagram, from, now);
                }
            }
            now += Duration::from_millis(1);
        }
        sides
    }

    fn events(side: &mut Side) -> Vec<Event> {
        let (_, connection) = side.connection.as_mut().expect("a connection");
        std::iter::from_fn(|| connection.poll()).collect()
    }

    #[test]
    fn a_handshake_connects_both_sides_and_gives_each_the_parameters_of_the_other() {
        let mut sides = after_handshake(ALPN, |_| {});
        for side in &mut sides {
            assert!(events(side).iter().any(|event| matches!(event, Event::Connected)));
            let (_, connection) = side.connection.as_mut().expect("a connection");
            assert!(!connection.is_handshaking());
            assert!(connection.streams().open(Dir::Uni).is_some(), "the other side permits it");
        }
    }

    #[test]
    fn a_client_of_another_protocol_is_refused() {
        let mut sides = after_handshake(b"h2", |_| {});
        let refused = TransportErrorCode::crypto(NO_APPLICATION_PROTOCOL);
        assert!(events(&mut sides[0]).iter().any(|event| matches!(
            event,
            Event::ConnectionLost { reason: ConnectionError::ConnectionClosed(close) }
                if close.error_code == refused
        )));
    }

    #[test]
    fn a_packet_that_was_changed_is_not_used() {
        let last_bit = |datagram: &mut Vec<u8>| *datagram.last_mut().expect("bytes") ^= 1;
        let sides = after_handshake(ALPN, last_bit);
        assert!(sides[1].connection.is_none(), "no first packet is intact");
    }
}
