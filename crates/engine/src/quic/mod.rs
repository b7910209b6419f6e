//! QUIC (RFC 9000) on quinn-proto: datagrams in, streams out, and back.
//!
//! | Module | Contents |
//! |---|---|
//! | [`config`] | the common settings of a listener's connections; keys |
//! | [`congestion`] | how much a connection may have on its way |
//! | `connection_ids` | connection IDs that name the worker of the connection |
//! | `process_liveness` | earlier processes with the same keys: their connections are reset |
//! | [`stream_priority`] | which data of a connection goes first |
//! | `cipher_suite_choice` | TLS inside QUIC, by the cipher that suits the client's machine |
//! | `socket` | the socket of an endpoint |
//! | `simulated_sockets` | sockets and clients of the simulator (feature `sim`) |
//! | `null_session` | the simulator's replacement of TLS (feature `sim`) |
//! | `driver` | the work of a worker on QUIC |
//! | `worker_endpoints` | the endpoints of one worker, and the timers of connections |
//! | `endpoint` | a listener of one worker: its socket and its endpoint |

mod cipher_suite_choice;
pub mod config;
pub mod congestion;
mod connection_ids;
pub(crate) mod driver;
pub(crate) mod endpoint;
#[cfg(feature = "sim")]
mod null_session;
mod process_liveness;
#[cfg(feature = "sim")]
pub mod simulated_sockets;
mod socket;
pub(crate) mod stream_priority;
#[cfg(test)]
mod tests;
pub(crate) mod worker_endpoints;

/// Settings for tests, and the certificate that clients have to trust.
#[cfg(test)]
pub(crate) fn made_settings() -> (crate::tls::TlsConfig, Vec<u8>) {
    use crate::tls::TlsConfig;
    use crate::tls::certificate::Certificate;
    use crate::tls::certificate_resolver::CertificateStore;
    use crate::tls::tickets::Tickets;
    use std::sync::Arc;

    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = Certificate::from_pem(chain.as_bytes(), key.as_bytes()).expect("a pair");
    let store = Arc::new(CertificateStore::new(&[pair]));
    let tickets = Arc::new(Tickets::new(Vec::new()).expect("random bytes"));
    let tls = TlsConfig::for_quic(&store, &tickets, None).expect("settings");
    (tls, made.cert.der().to_vec())
}
