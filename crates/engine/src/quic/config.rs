//! What the connections of a QUIC listener have in common.

use std::sync::Arc;

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};

use super::ids::{IdKey, Ids, Place};
use super::suites::BySuites;
use crate::limits::{
    QUIC_CONNECTION_WINDOW_BYTES, QUIC_DATAGRAM_MAX_BYTES, QUIC_INCOMING_MAX_BYTES,
    QUIC_SEND_WINDOW_BYTES, QUIC_STREAM_WINDOW_BYTES, QUIC_STREAMS, QUIC_UNI_STREAMS,
};
use crate::tls::TlsConfig;

/// The keys of a server's QUIC, as values: whoever takes its connections over needs them.
#[derive(Clone)]
pub struct QuicKeys {
    /// Of connection ids.
    pub ids: [u8; 16],
    /// Of stateless resets (RFC 9000 §10.3).
    pub reset: [u8; 64],
    /// Of the tokens of Retry and NEW_TOKEN (RFC 9000 §8.1).
    pub tokens: [u8; 64],
    /// Which process made a connection, in its ids.
    pub epoch: u16,
}

impl QuicKeys {
    /// Fresh keys.
    pub fn random() -> Self {
        let mut keys = Self { ids: [0; 16], reset: [0; 64], tokens: [0; 64], epoch: 0 };
        let mut epoch = [0; 2];
        for bytes in [&mut keys.ids[..], &mut keys.reset, &mut keys.tokens, &mut epoch] {
            crate::tls::fill_random(bytes);
        }
        keys.epoch = u16::from_ne_bytes(epoch);
        keys
    }
}

/// QUIC as a listener speaks it.
#[derive(Clone)]
pub struct QuicConfig {
    server: Arc<ServerConfig>,
    keys: QuicKeys,
}

impl QuicConfig {
    /// With the certificates and tickets of `tls`, which must offer TLS 1.3 and the ALPN of HTTP/3.
    /// `idle_ms` is how long a connection may be silent.
    ///
    /// `None` when `tls` has no cipher suite that QUIC can use.
    pub fn new(tls: &TlsConfig, keys: QuicKeys, idle_ms: u64) -> Option<Self> {
        let crypto = BySuites::new(tls)?;
        let tokens = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&keys.tokens);
        let mut server = ServerConfig::new(Arc::new(crypto), Arc::new(tokens));
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(QUIC_STREAMS.into()))
            .max_concurrent_uni_streams(VarInt::from_u32(QUIC_UNI_STREAMS))
            .stream_receive_window(VarInt::from_u32(QUIC_STREAM_WINDOW_BYTES))
            .receive_window(VarInt::from_u32(QUIC_CONNECTION_WINDOW_BYTES))
            .send_window(QUIC_SEND_WINDOW_BYTES)
            // Turns are given before: see `http3/pump.rs`.
            .send_fairness(false)
            .datagram_receive_buffer_size(None)
            .max_idle_timeout(
                IdleTimeout::try_from(std::time::Duration::from_millis(idle_ms)).ok(),
            );
        server
            .transport_config(Arc::new(transport))
            .incoming_buffer_size(QUIC_INCOMING_MAX_BYTES)
            .incoming_buffer_size_total(16 * QUIC_INCOMING_MAX_BYTES);
        Some(Self { server: Arc::new(server), keys })
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    pub(super) fn id_key(&self) -> IdKey {
        IdKey::new(&self.keys.ids)
    }

    pub(super) fn place(&self, worker: u16) -> Place {
        Place { worker, epoch: self.keys.epoch }
    }

    pub(super) fn endpoint(&self, worker: u16) -> Arc<EndpointConfig> {
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &self.keys.reset);
        let mut config = EndpointConfig::new(Arc::new(reset));
        let (key, place) = (self.id_key(), self.place(worker));
        let is_advertised = config.max_udp_payload_size(QUIC_DATAGRAM_MAX_BYTES).is_ok();
        debug_assert!(is_advertised, "RFC 9000 §18.2: at least 1200 bytes");
        config.cid_generator(move || Box::new(Ids { key: key.clone(), place }));
        Arc::new(config)
    }
}

impl std::fmt::Debug for QuicConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys are nobody's business.
        f.debug_struct("QuicConfig").finish_non_exhaustive()
    }
}
