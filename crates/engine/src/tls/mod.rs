//! TLS 1.2 and 1.3 (RFC 8446) on rustls and aws-lc-rs.
//!
//! | file | contents |
//! |---|---|
//! | [`certificate`] | PEM → a certificate with its key, its names, its time |
//! | [`certificate_resolver`] | the choice of a certificate; all are replaced at once |
//! | [`tickets`] | session tickets: keys, their rotation, the sealed data |
//! | [`config`] | the common settings of a listener's connections |
//! | `client_hello` | the cipher suites that suit a client |
//! | `invalid_server_name` | names that the library cannot parse |
//! | `tls_session` | one connection, on either side |
//! | `server_session` | a connection of a client |
//! | `client_session` | a connection that the server has opened |
//!
//! The module works on bytes; the caller reads files.

pub mod certificate;
pub mod certificate_resolver;
pub mod config;
pub mod tickets;

mod client_hello;
mod client_session;
mod invalid_server_name;
mod server_session;
#[cfg(test)]
mod tests;
mod tls_session;

use std::sync::Arc;

pub(crate) use client_hello::{Choice, bare_choice};
pub(crate) use invalid_server_name::HiddenName;
pub(crate) use server_session::{Brought, Inside};
pub(crate) use tls_session::TlsSession;

/// Fills `bytes` with randomness of the system.
///
/// # Panics
/// Panics if the system has none: there is no security without it.
#[expect(clippy::expect_used, reason = "there is nothing to go on with")]
pub(crate) fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has no randomness");
}

/// The common settings of a TLS listener's connections: certificates, protocols, tickets.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// The settings for clients whose order of cipher suites is followed.
    pub(crate) by_client: Arc<rustls::ServerConfig>,
    /// The settings for clients that put AES first; they differ only in the order of suites.
    pub(crate) aes_first: Arc<rustls::ServerConfig>,
    /// The settings for clients that request a name which is no DNS name, and is hidden from the
    /// library.
    pub(crate) hidden_name: Arc<rustls::ServerConfig>,
}
