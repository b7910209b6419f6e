//! The simulator's replacement of the outside world of QUIC: sockets on the simulated network, and
//! clients. All values that are random elsewhere come from a seed. It is compiled with the feature
//! `sim` alone.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use quinn_proto::{
    ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig, InvalidCid, NoneTokenStore,
    TimeSource, Transmit, TransportConfig,
};

use super::null_session::NullClient;
use super::socket::{DatagramSocket, Inlet};
use crate::backend::sim::{Network, Random, SharedClock};
use crate::limits::DATAGRAM_BATCH;

/// Bytes of the connection IDs of clients.
const ID_BYTES: usize = 8;
/// Bytes of the ID that a client chooses for the server (RFC 9000 §7.2).
const FIRST_ID_BYTES: usize = 18;

/// A QUIC client, determined by its seed.
#[derive(Debug, Clone)]
pub struct SimulatedClient {
    /// The seed of connection IDs and everything else that is random in QUIC.
    pub seed: u64,
    /// Bytes by which its first message is longer than it needs to be, as with long key exchanges.
    pub hello_bytes: usize,
    /// The protocol that it offers (ALPN).
    pub alpn: Vec<u8>,
}

impl SimulatedClient {
    /// Returns the settings of its endpoint.
    #[must_use]
    pub fn endpoint(&self) -> Arc<EndpointConfig> {
        let mut random = Random::new(self.seed);
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &random.bytes::<64>());
        let mut config = EndpointConfig::new(Arc::new(reset));
        config.rng_seed(Some(random.bytes()));
        config.cid_generator(move || Box::new(SeededIds(random.clone())));
        Arc::new(config)
    }

    /// Returns the settings of its connections, with these settings of the transport.
    #[must_use]
    pub fn connection(&self, transport: TransportConfig) -> ClientConfig {
        let session = NullClient { hello_bytes: self.hello_bytes, alpn: self.alpn.clone() };
        let mut config = ClientConfig::new(Arc::new(session));
        let first_id: [u8; FIRST_ID_BYTES] = Random::new(!self.seed).bytes();
        config
            .transport_config(Arc::new(transport))
            .token_store(Arc::new(NoneTokenStore))
            .initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&first_id)));
        config
    }
}

/// The generator of a client's connection IDs.
struct SeededIds(Random);

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.bytes::<ID_BYTES>())
    }

    fn validate(&self, _: &ConnectionId) -> Result<(), InvalidCid> {
        Ok(())
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The time source of the tokens in Retry packets (RFC 9000 §8.1.2).
impl TimeSource for SharedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.monotonic_ms())
    }
}

/// A socket of the server on the simulated network.
pub(crate) struct SimulatedSocket {
    network: Network,
    number: usize,
    segments_max: usize,
}

impl SimulatedSocket {
    /// Opens a socket, one send of which may be cut into so many datagrams. The first socket has
    /// number 0, as the first endpoint of a worker has, and so on.
    pub(crate) fn open(network: &Network, segments_max: usize) -> Self {
        Self { network: network.clone(), number: network.open_datagram_socket(), segments_max }
    }
}

impl DatagramSocket for SimulatedSocket {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn receive(&self, inlet: &mut Inlet) -> bool {
        let runs = self.network.receive_runs(self.number, DATAGRAM_BATCH);
        inlet.fill(&runs, self.network.server_address().ip());
        runs.len() == DATAGRAM_BATCH
    }

    fn send(&self, transmit: &Transmit, contents: &[u8]) -> bool {
        let stride = transmit.segment_size.unwrap_or(contents.len());
        self.network.send_from_server(transmit.destination, transmit.ecn, stride, contents)
    }

    fn segments_max(&self) -> usize {
        self.segments_max
    }

    fn may_fragment(&self) -> bool {
        false
    }
}
